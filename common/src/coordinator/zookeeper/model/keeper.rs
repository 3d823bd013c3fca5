//! The least that keeps one partition: claims, attempts, commits, adopts, releases.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::process::Pusher;
use super::truth::{at, key};
use super::wire::Broken;
use super::world::{SESSION, Shared};
use crate::coordinator::{Claim, ClaimError, Commit, CommitError, Coordinator, CoordinatorError, DoneSet, Lease, Log, Progress};
use crate::ids::{Epoch, Offset};

const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
const DRAIN: Duration = Duration::from_secs(2);
/// Of a process that leaves, for what cannot be stored.
const GIVE_UP: Duration = Duration::from_secs(4);
/// New records are looked for so often.
const LOOK: Duration = Duration::from_millis(250);

pub(super) struct Kept {
    pub(super) let_go: CancellationToken,
    /// The epoch whose cursor somebody else moved.
    pub(super) moved: watch::Sender<u64>,
    serving: watch::Receiver<Option<u64>>,
}

impl Kept {
    pub(super) fn epoch(&self) -> Option<u64> {
        *self.serving.borrow()
    }
}

pub(super) struct Keeper {
    pusher: Arc<Pusher>,
    partition: usize,
    let_go: CancellationToken,
    moved: watch::Receiver<u64>,
    serving: watch::Sender<Option<u64>>,
}

/// Why an epoch ended.
#[derive(PartialEq, Eq)]
enum Why {
    LetGo,
    Moved,
    Over,
    /// One of the process's sessions is: what is owned under the others is given up, too.
    SessionOver,
    TopicGone,
}

impl Keeper {
    pub(super) fn new(pusher: Arc<Pusher>, partition: usize) -> (Kept, Self) {
        let (let_go, moved) = (CancellationToken::new(), watch::Sender::new(0));
        let (serving, served) = watch::channel(None);
        let keeper = Self { pusher, partition, let_go: let_go.clone(), moved: moved.subscribe(), serving };
        (Kept { let_go, moved, serving: served }, keeper)
    }

    pub(super) async fn keep(mut self) -> usize {
        while !self.let_go.is_cancelled() {
            let sessions = self.pusher.coordinator.lease().losses().sessions;
            match self.try_claim(None).await {
                Ok((claim, log)) => self.serve(claim, log, sessions).await,
                Err(ClaimError::NotBorn) => drop(self.pusher.born().await),
                Err(_) => self.rest().await,
            }
        }
        self.partition
    }

    /// What stands past the end that was read may have been written since it was read.
    async fn try_claim(&self, former: Option<Epoch>) -> Result<(Claim, Log), ClaimError> {
        let (coordinator, at) = (&self.pusher.coordinator, at(self.partition));
        if former.is_none() && self.pusher.is_unable() {
            return Err(CoordinatorError::Unavailable("the log does not answer".into()).into());
        }
        let mut past_end = None;
        loop {
            let log = Log { past_end, ..self.pusher.log(self.partition) };
            let claimed = match former {
                None => coordinator.claim(&at, log).await,
                Some(epoch) => coordinator.adopt(&at, epoch, log).await,
            };
            match claimed {
                Err(ClaimError::PastEnd(highest)) => past_end = Some(highest),
                claimed => return claimed.map(|claim| (claim, log)),
            }
        }
    }

    async fn rest(&self) {
        let mut hints = self.pusher.coordinator.hints();
        hints.mark_unchanged();
        tokio::select! {
            biased;
            () = self.let_go.cancelled() => {}
            Ok(()) = hints.changed() => tokio::time::sleep(Duration::from_millis(100)).await,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }

    /// `sessions`: that were over before the claim.
    async fn serve(&mut self, mut claim: Claim, mut log: Log, sessions: u64) {
        loop {
            self.serving.send_replace(Some(claim.epoch.0));
            let mut work = Work::new(&self.pusher, self.partition, &claim, log, sessions);
            let why = work.attend(&self.let_go, &mut self.moved).await;
            self.serving.send_replace(None);
            let last = work.commit();
            drop(work);
            match why {
                Why::Over => return,
                Why::LetGo | Why::SessionOver | Why::TopicGone => return self.release(last).await,
                Why::Moved => match self.adopt(claim.epoch).await {
                    Some(adopted) => (claim, log) = adopted,
                    None => return,
                },
            }
        }
    }

    async fn adopt(&self, epoch: Epoch) -> Option<(Claim, Log)> {
        loop {
            match self.try_claim(Some(epoch)).await {
                Ok(adopted) => return Some(adopted),
                Err(ClaimError::EpochOver) => return None,
                Err(_) => self.rest().await,
            }
        }
    }

    /// Until it is answered: nobody else can have the partition before. Who has to end gives in.
    async fn release(&self, last: Commit) {
        tokio::select! {
            biased;
            () = self.try_to_release(last) => {}
            () = self.out_of_time() => {}
        }
    }

    async fn out_of_time(&self) {
        self.pusher.leave.cancelled().await;
        tokio::time::sleep(GIVE_UP).await;
    }

    async fn try_to_release(&self, mut last: Commit) {
        loop {
            match self.pusher.coordinator.release(&last).await {
                Ok(()) | Err(CommitError::EpochOver) => return,
                Err(CommitError::Moved) => match self.adopt(last.epoch).await {
                    Some((claim, _)) => last = Commit { at: at(self.partition), epoch: claim.epoch, progress: claim.progress },
                    None => return,
                },
                Err(CommitError::Coordinator(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

type Storing<'a> = Pin<Box<dyn Future<Output = Result<(), CommitError>> + Send + 'a>>;
type Attempting = Pin<Box<dyn Future<Output = (u64, bool)> + Send>>;

/// One epoch.
struct Work<'a> {
    pusher: &'a Pusher,
    partition: usize,
    epoch: Epoch,
    log: Log,
    cursor: u64,
    done: BTreeSet<u64>,
    attempts: FuturesUnordered<Attempting>,
    in_flight: BTreeSet<u64>,
    lease: Lease,
    sessions: u64,
    stored: Progress,
}

impl<'a> Work<'a> {
    fn new(pusher: &'a Pusher, partition: usize, claim: &Claim, log: Log, sessions: u64) -> Self {
        let done = claim.progress.done.runs().iter().cloned().flatten().collect();
        let lease = pusher.coordinator.lease();
        let (cursor, stored) = (claim.progress.cursor.0, claim.progress.clone());
        let (attempts, in_flight) = (FuturesUnordered::new(), BTreeSet::new());
        Self { pusher, partition, epoch: claim.epoch, log, cursor, done, attempts, in_flight, lease, sessions, stored }
    }

    fn progress(&self) -> Progress {
        let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
        for offset in &self.done {
            match runs.last_mut() {
                Some(run) if run.end == *offset => run.end += 1,
                _ => runs.push(*offset..offset + 1),
            }
        }
        Progress { cursor: Offset(self.cursor), done: DoneSet::from_runs(runs).unwrap(), ..Progress::default() }
    }

    fn commit(&self) -> Commit {
        Commit { at: at(self.partition), epoch: self.epoch, progress: self.progress() }
    }

    /// Until there is a reason to end; every attempt has ended or is cut then.
    async fn attend(&mut self, let_go: &CancellationToken, moved: &mut watch::Receiver<u64>) -> Why {
        let mut paused = self.pusher.paused.subscribe();
        let mut storing: OptionFuture<Storing<'a>> = None.into();
        let mut sent = None;
        let mut commit_at = Instant::now() + COMMIT_INTERVAL;
        loop {
            if self.pusher.log(self.partition).topic_id != self.log.topic_id {
                return Why::TopicGone;
            }
            // A program that breaks a rule may not know.
            if self.lease.losses().sessions > self.sessions && self.pusher.broken.is_none() {
                return Why::SessionOver;
            }
            if !self.may_work() {
                self.cut();
            } else if !*paused.borrow_and_update() || self.pusher.broken == Some(Broken::PauseIgnored) {
                self.begin();
            }
            let mut lease = self.lease.clone();
            tokio::select! {
                biased;
                () = let_go.cancelled() => {
                    self.drain().await;
                    return Why::LetGo;
                }
                _ = lease.changed() => self.lease = lease,
                Ok(()) = moved.changed() => if *moved.borrow_and_update() == self.epoch.0 {
                    return Why::Moved;
                },
                Ok(()) = paused.changed() => {}
                Some((offset, done)) = self.attempts.next() => self.ended(offset, done),
                Some(stored) = &mut storing => {
                    storing = None.into();
                    let progress = sent.take();
                    match stored {
                        Ok(()) => self.stored = progress.unwrap_or_default(),
                        Err(CommitError::Moved) => return Why::Moved,
                        Err(CommitError::EpochOver) => return Why::Over,
                        Err(CommitError::Coordinator(_)) => {}
                    }
                }
                () = tokio::time::sleep_until(commit_at), if sent.is_none() && self.progress() != self.stored => {
                    commit_at = Instant::now() + COMMIT_INTERVAL;
                    let commit = self.commit();
                    sent = Some(commit.progress.clone());
                    let coordinator = &self.pusher.coordinator;
                    let store: Storing<'a> = Box::pin(async move { coordinator.commit(&[commit]).await.remove(0) });
                    storing = Some(store).into();
                }
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn may_work(&self) -> bool {
        // A lease of a later session is for what is claimed in it.
        let same_session = self.lease.losses().sessions == self.sessions;
        let world = self.pusher.world.lock();
        match self.pusher.broken {
            Some(Broken::LeaseByExpired) => !world.client_thinks_expired(self.pusher.peer),
            Some(Broken::LeaseUnsettled) => same_session && world.now < world.peers[self.pusher.peer].last_write + SESSION * 2 / 3,
            _ => same_session && self.lease.holds(),
        }
    }

    /// Of each key the first that is not done, if nothing of the key is under way.
    fn begin(&mut self) {
        let end = self.pusher.log(self.partition).end.0;
        for of in 0..2 {
            let busy = self.in_flight.iter().any(|offset| key(*offset) == of);
            let next = (self.cursor..end).find(|offset| key(*offset) == of && !self.done.contains(offset));
            if let Some(offset) = next.filter(|_| !busy) {
                self.in_flight.insert(offset);
                let attempt = Attempt::begin(&self.pusher.world, self.pusher.peer, (self.partition, self.epoch.0, offset));
                self.attempts.push(Box::pin(attempt.end(offset)));
            }
        }
    }

    fn ended(&mut self, offset: u64, done: bool) {
        self.in_flight.remove(&offset);
        if done {
            self.done.insert(offset);
            while self.done.remove(&self.cursor) {
                self.cursor += 1;
            }
        }
    }

    /// Cancelled is not failed.
    fn cut(&mut self) {
        self.attempts.clear();
        self.in_flight.clear();
    }

    async fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN;
        while !self.attempts.is_empty() && self.may_work() {
            let mut lease = self.lease.clone();
            tokio::select! {
                biased;
                _ = lease.changed() => self.lease = lease,
                Some((offset, done)) = self.attempts.next() => self.ended(offset, done),
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
        self.cut();
    }
}

/// Dropped before its end, it was cut.
struct Attempt {
    world: Shared,
    id: Option<u64>,
}

impl Attempt {
    fn begin(world: &Shared, peer: usize, what: (usize, u64, u64)) -> Self {
        let id = Some(world.lock().attempt(peer, what));
        Self { world: world.clone(), id }
    }

    /// Receivers take their time, by the number of the attempt, and refuse some.
    async fn end(mut self, offset: u64) -> (u64, bool) {
        let id = self.id.unwrap_or(0);
        let takes = [0, 50, 300, 0, 900, 4000, 0][usize::try_from(id % 7).unwrap()];
        tokio::time::sleep(Duration::from_millis(takes)).await;
        let done = id % 5 != 3;
        self.id = None;
        self.world.lock().truth.ended(id, done);
        (offset, done)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.world.lock().truth.ended(id, false);
        }
    }
}
