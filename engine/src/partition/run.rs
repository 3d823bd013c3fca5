//! The loop of one partition: the only owner of its state.
//!
//! It is one hand-written future. Each pass obeys its owner, collects what ended, reads what there
//! is room for, starts what may start and stores what moved, until a pass changes nothing.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use self::journal::Journal;
use super::alarm::Alarm;
use super::attempts::{Attempts, Finished, Start};
use super::commits::Commits;
use super::intake::Intake;
use super::watched::Watched;
use super::{Command, Control, Life, MAX_WAITING_COMMANDS, Order, PartitionHandle, Permission};
use crate::core::Core;
use crate::core::verdict::{End, Verdict};
use crate::ports::{CommitError, CursorSink, Decoder, Gate, Progress, Source};
use crate::restraint::Held;
use crate::slots::{Cover, Turns};
use crate::status::{Blocked, Ended, Status};
use crate::task::{Label, Shared};

mod journal;
mod read;
mod start;

/// After so many passes other tasks get their turn.
const PASSES_PER_POLL: usize = 16;
const RESULTS_PER_PASS: usize = 256;
/// Longer than anybody waits, and still a time that the clock can tell.
const MAX_GRACE: Duration = Duration::from_secs(365 * 86_400);

pub(crate) struct PartitionLoop<D: Decoder, S: Source, C, L, F> {
    shared: Arc<Shared<D>>,
    control: Arc<Control>,
    commands: mpsc::Receiver<Command>,
    life: watch::Sender<Life>,
    phase: Phase,
    /// As last obeyed.
    order: Order,
    gate: Watched,
    core: Core<D::Payload>,
    intake: Intake<D, S>,
    cover: Cover,
    turns: Turns,
    attempts: Attempts<L, F>,
    held: Held,
    commits: Commits<C>,
    alarm: Alarm,
    journal: Journal,
    blocked: Option<Blocked>,
}

enum Phase {
    Working,
    /// Until the open attempts have ended or time is up.
    Releasing {
        until: Instant,
        reply: oneshot::Sender<Progress>,
    },
    /// The ownership is over; only questions are answered.
    Over,
}

impl<D, S, C, L, F> PartitionLoop<D, S, C, L, F>
where
    D: Decoder,
    S: Source<Record = D::Record>,
    C: CursorSink,
    L: Fn(Start<D::Payload>) -> F + Send + 'static,
    F: Future<Output = Finished> + Send + 'static,
{
    pub(crate) fn spawn(
        shared: Arc<Shared<D>>,
        label: Label,
        core: Core<D::Payload>,
        source: S,
        sink: C,
        launch: L,
        gate: Box<dyn Gate>,
    ) -> PartitionHandle {
        let control = Arc::new(Control::new());
        let (sender, commands) = mpsc::channel(MAX_WAITING_COMMANDS);
        let (life, watched) = watch::channel(Life { ended: None, stored: core.progress() });
        let metrics = shared.metrics.for_partition(&label.topic, label.partition);
        let mut this = Self {
            control: Arc::clone(&control),
            commands,
            life,
            phase: Phase::Working,
            order: Order::default(),
            gate: Watched::new(gate),
            intake: Intake::new(source),
            cover: Cover::new(&shared.budget),
            turns: Turns::new(&shared.slots),
            attempts: Attempts::new(launch, shared.options.processing_timeout.is_some()),
            held: Held::default(),
            commits: Commits::new(sink, &shared.options, Instant::now()),
            alarm: Alarm::new(),
            journal: Journal::new(shared.group.clone(), label, metrics),
            blocked: None,
            core,
            shared,
        };
        tokio::spawn(poll_fn(move |cx| this.poll(cx)));
        PartitionHandle { control, commands: sender, life: watched }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.control.register(cx.waker());
        for _ in 0..PASSES_PER_POLL {
            let now = Instant::now();
            if self.obey(now, cx).is_break() {
                return Poll::Ready(());
            }
            let mut moved = self.collect(cx);
            moved |= self.read(now, cx);
            moved |= self.start(now, cx);
            moved |= self.store(now, cx);
            if self.let_go(now) {
                return Poll::Ready(());
            }
            if !moved {
                self.publish(now);
                let wakeup = self.next_wakeup();
                if !self.alarm.poll(wakeup, cx) {
                    return Poll::Pending;
                }
            }
        }
        self.publish(Instant::now());
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn publish(&mut self, now: Instant) {
        self.journal.publish(&self.core, self.blocked(), self.commits.effective_interval(), now);
    }

    /// Does what the owner wants. Breaks when there is no owner any more.
    fn obey(&mut self, now: Instant, cx: &mut Context<'_>) -> std::ops::ControlFlow<()> {
        while let Poll::Ready(command) = self.commands.poll_recv(cx) {
            match command {
                Some(Command::Status(reply)) => drop(reply.send(self.status())),
                Some(Command::Release { grace, reply }) => self.release(grace, reply, now),
                None => return std::ops::ControlFlow::Break(()),
            }
        }
        let order = self.control.order();
        let before = std::mem::replace(&mut self.order, order);
        if order.cuts != before.cuts {
            self.cut(now);
        }
        if order != before || self.gate.opened() {
            match order.permission {
                Permission::Run if matches!(self.phase, Phase::Working) => self.core.resume(now),
                Permission::Run | Permission::Pause | Permission::Cut => self.core.pause(now),
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    fn release(&mut self, grace: Duration, reply: oneshot::Sender<Progress>, now: Instant) {
        self.intake.close();
        self.held.clear();
        self.core.pause(now);
        let grace = if matches!(self.phase, Phase::Over) { Duration::ZERO } else { grace.min(MAX_GRACE) };
        let until = now + grace;
        self.phase = Phase::Releasing { until, reply };
    }

    /// Takes in what ended. Slots and bytes are free again afterwards.
    fn collect(&mut self, cx: &mut Context<'_>) -> bool {
        self.held.poll(cx);
        let mut collected = 0;
        while collected < RESULTS_PER_PASS
            && let Some(Finished { ticket, event_type, started, end, permits }) = self.attempts.poll_finished(cx)
        {
            let now = Instant::now();
            if let End::Attempt(_) = end {
                self.shared.metrics.process(event_type).observe((now - started).as_secs_f64());
            }
            let verdict = self.core.complete(ticket, self.gate.judge(end), now);
            match verdict {
                Verdict::Delivered => self.shared.restraint.succeeded(),
                Verdict::Retry | Verdict::RoundOver | Verdict::GivenUp => {
                    self.journal.failed(&self.core, ticket, &verdict, now);
                    self.shared.restraint.failed(permits, started, now, &mut self.held);
                }
                Verdict::Stale => {
                    self.shared.metrics.stale.inc();
                }
                Verdict::Bypassed { .. } | Verdict::BypassFailed { .. } | Verdict::Cut => {}
            }
            self.journal.verdict(ticket.offset, verdict, now);
            collected += 1;
        }
        if collected > 0 {
            self.cover.shrink_to(self.core.unfinished_bytes());
        }
        collected > 0
    }

    fn store(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        let answer = self.commits.poll_answer(now, cx);
        let answered = answer.is_some();
        if let Some((progress, result)) = answer {
            self.shared.metrics.written(&result);
            self.journal.committed(&result, progress.cursor, now);
            match result {
                Ok(()) => self.life.send_modify(|life| life.stored = progress),
                Err(CommitError::Again(_)) => {}
                Err(CommitError::Over(reason)) => self.ownership_over(reason, now),
            }
        }
        answered | (matches!(self.phase, Phase::Working) && self.commits.send_due(&self.core, now))
    }

    fn ownership_over(&mut self, reason: String, now: Instant) {
        self.intake.close();
        self.cut(now);
        if let Phase::Working = self.phase {
            self.phase = Phase::Over;
        }
        self.life.send_modify(|life| life.ended = Some(Ended::OwnershipOver(reason)));
    }

    fn cut(&mut self, now: Instant) {
        self.attempts.cut();
        self.core.pause(now);
        self.core.cut_all(now);
    }

    /// Ends a release that has nothing left to wait for.
    fn let_go(&mut self, now: Instant) -> bool {
        let Phase::Releasing { until, .. } = self.phase else { return false };
        if now >= until && !self.attempts.is_empty() {
            self.cut(now);
        }
        if !self.attempts.is_empty() || !self.commits.is_idle() {
            return false;
        }
        if let Phase::Releasing { reply, .. } = std::mem::replace(&mut self.phase, Phase::Over) {
            let _ = reply.send(self.core.progress());
        }
        true
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let (release, commit) = match self.phase {
            Phase::Working => (None, self.commits.due(&self.core)),
            Phase::Releasing { until, .. } => ((!self.attempts.is_empty()).then_some(until), None),
            Phase::Over => (None, None),
        };
        [release, commit, self.core.next_wakeup()].into_iter().flatten().min()
    }

    fn blocked(&self) -> Option<Blocked> {
        if self.commits.full(&self.core) { Some(Blocked::UnstoredCompletions) } else { self.blocked }
    }

    fn status(&self) -> Status {
        Status {
            progress: self.core.progress(),
            position: self.core.position(),
            in_flight: self.core.in_flight(),
            unfinished: self.core.unfinished(),
            unfinished_bytes: self.core.unfinished_bytes(),
            keys: self.core.keys(),
            pending_retries: self.core.pending_retries(),
            done_above_cursor: self.core.done_above_cursor(),
            unstored_completions: self.commits.unstored(&self.core),
            commit_error: self.commits.error().cloned(),
            oldest: self.core.oldest(),
            blocked: self.blocked(),
        }
    }
}
