//! One batch from its first line to its last.

use std::sync::Arc;

use bytes::Bytes;
use common::clock;
use common::problem::{Kind, Problem};
use common::queue::Ack;
use common::record::Message;
use futures_util::FutureExt;
use http::StatusCode;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::report::{Gone, Report};
use super::tally::Tally;
use super::window::{Settled, Window};
use crate::admission::{BytesPermit, Full, Permit};
use crate::context::Context;
use crate::decode::batch::Plan;
use crate::decode::lines::{Line, LineSplitter, Overrun};
use crate::metrics::Metrics;
use crate::refusal;
use crate::upload::{self, UploadError};

pub(super) struct Run {
    context: Arc<Context>,
    plan: Plan,
    splitter: LineSplitter,
    window: Window,
    tally: Tally,
    report: Option<Report>,
    /// Of the request, and of the bytes of the line that is coming.
    permit: Permit,
}

/// What a run waits for.
enum Event {
    Piece(Option<Bytes>),
    Broken(UploadError),
    Settled(Settled),
}

/// Why a run did not come to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    BrokenUpload,
    Gone,
}

impl From<Gone> for Stopped {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

impl Run {
    pub(super) fn new(context: Arc<Context>, plan: Plan, permit: Permit) -> Self {
        let splitter = LineSplitter::new(plan.max_line_bytes(context.max_message_bytes));
        let window = Window::new(Arc::clone(&context.metrics), context.produce_timeout);
        Self { context, plan, splitter, window, tally: Tally::default(), report: None, permit }
    }

    pub(super) fn report_to(&mut self, report: Report) {
        self.report = Some(report);
    }

    pub(super) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.context.metrics)
    }

    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }

    /// Sends the summary, and says its status.
    pub(super) async fn finish_report(self) -> StatusCode {
        if let Some(report) = self.report {
            // Without a reader there is nobody to miss it.
            let _ = report.last_line(&self.tally.last_line()).await;
        }
        self.tally.status()
    }

    /// Until every line is settled. Each line has `body_timeout` to come.
    pub(super) async fn drive(&mut self, body: &mut Incoming, first: Option<Bytes>) -> Result<(), Stopped> {
        self.splitter.push(first.unwrap_or_default());
        let mut deadline = self.hand_over_lines().await?;
        loop {
            match self.event(body, deadline).await? {
                Event::Settled(settled) => self.settled(settled).await?,
                Event::Piece(Some(piece)) => {
                    let lines_before = self.splitter.number();
                    self.splitter.push(piece);
                    let renewed = self.hand_over_lines().await?;
                    if self.splitter.number() != lines_before {
                        deadline = renewed;
                    }
                }
                Event::Piece(None) => break,
                Event::Broken(error) => {
                    self.settle_all().await?;
                    if error.is_broken() {
                        self.context.metrics.aborted_uploads.inc();
                    }
                    self.tally.broken_at(self.splitter.number(), &refusal::of_line_upload(&error));
                    return Err(Stopped::BrokenUpload);
                }
            }
        }
        if let Some(line) = self.splitter.last() {
            self.hand_over(line, Instant::now(), clock::now_ms()).await?;
        }
        Ok(self.settle_all().await?)
    }

    /// Every line that is whole. Says until when the next one has to be.
    async fn hand_over_lines(&mut self) -> Result<Instant, Gone> {
        let (now, now_ms) = (Instant::now(), clock::now_ms());
        while let Some(line) = self.splitter.next() {
            self.hand_over(line, now, now_ms).await?;
        }
        if self.permit.bytes().resize(self.splitter.carried_bytes()).is_err() {
            self.splitter.give_up_line(Overrun::NoRoom);
        }
        Ok(Instant::now() + self.context.body_timeout)
    }

    async fn hand_over(&mut self, line: Line, now: Instant, now_ms: i64) -> Result<(), Gone> {
        let number = line.number;
        match self.message(line, now_ms) {
            Ok(None) => {}
            Ok(Some((message, bytes))) => match self.room(bytes).await? {
                Ok(held) => {
                    let produce = self.context.queue.produce(message, Ack::All);
                    self.window.handed_over(number, produce, bytes, held, now);
                }
                Err(full) => self.window.refused(number, refusal::of_full(full)),
            },
            Err(problem) => {
                while !self.window.has_room_for(0) {
                    self.settle_one().await?;
                }
                self.window.refused(number, problem);
            }
        }
        Ok(())
    }

    /// With the bytes that it holds.
    fn message(&self, line: Line, now_ms: i64) -> Result<Option<(Message, usize)>, Problem> {
        let content = line.content.map_err(|overrun| match overrun {
            Overrun::TooLong => {
                let max_bytes = self.plan.max_line_bytes(self.context.max_message_bytes);
                Problem::new(
                    Kind::TooLarge,
                    format!("the line is over {max_bytes} bytes, more than a message of max_message_bytes can need"),
                )
            }
            Overrun::NoRoom => refusal::of_full(Full::Bytes),
        })?;
        let Some(message) = self.plan.message(line.number, &content, now_ms, &self.context.ids)? else { return Ok(None) };
        let bytes = message.payload.size_bytes();
        if bytes > self.context.max_message_bytes {
            return Err(refusal::message_too_large(bytes, self.context.max_message_bytes));
        }
        Ok(Some((message, bytes.max(content.len()))))
    }

    /// Waits for lines of its own; only with none of them left it is others who fill the process.
    async fn room(&mut self, bytes: usize) -> Result<Result<BytesPermit, Full>, Gone> {
        loop {
            if self.window.has_room_for(bytes) {
                let mut held = self.context.admission.no_bytes();
                match held.grow(bytes) {
                    Ok(()) => return Ok(Ok(held)),
                    Err(full) if self.window.is_empty() => return Ok(Err(full)),
                    Err(_) => {}
                }
            }
            self.settle_one().await?;
        }
    }

    async fn settle_one(&mut self) -> Result<(), Gone> {
        let settled = self.window.settle().await;
        self.settled(settled).await
    }

    async fn settle_all(&mut self) -> Result<(), Gone> {
        while !self.window.is_empty() {
            self.settle_one().await?;
        }
        Ok(())
    }

    async fn settled(&mut self, (line, result): Settled) -> Result<(), Gone> {
        self.tally.count(line, &result);
        match &mut self.report {
            Some(report) => report.result(line, &result).await,
            None => Ok(()),
        }
    }

    /// What happens next. Results that are known go out before anything is waited for: their reader
    /// may be who writes the next line.
    async fn event(&mut self, body: &mut Incoming, deadline: Instant) -> Result<Event, Gone> {
        if let Some(event) = next_event(&mut self.window, body, deadline).now_or_never() {
            return Ok(event);
        }
        if let Some(report) = &mut self.report {
            report.flush().await?;
        }
        Ok(next_event(&mut self.window, body, deadline).await)
    }
}

async fn next_event(window: &mut Window, body: &mut Incoming, deadline: Instant) -> Event {
    tokio::select! {
        biased;
        settled = window.settle() => Event::Settled(settled),
        piece = upload::piece(body, deadline) => match piece {
            Ok(piece) => Event::Piece(piece),
            Err(error) => Event::Broken(error),
        },
    }
}
