//! From the source to the core: batches are read one at a time and decoded one record at a time,
//! as there is room. What is read and not admitted is bounded by the size of a batch.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;

use crate::event::Event;
use crate::ids::Offset;
use crate::options::EventTypes;
use crate::ports::{Batch, Decoded, Decoder, Source, SourceError};

/// Batches are asked for in sizes between these, by what is free.
pub(super) const MIN_BATCH_BYTES: usize = 64 << 10;
pub(super) const MAX_BATCH_BYTES: usize = 1 << 20;

type Fetched<S> = (S, Result<Batch<<S as Source>::Record>, SourceError>);

pub(super) struct Intake<D: Decoder, S: Source> {
    reading: Reading<S>,
    rest: std::vec::IntoIter<D::Record>,
    /// The position after the batch whose rest this is.
    next_offset: Option<Offset>,
    /// Decoded, but there was no room.
    held_back: Option<Event<D::Payload>>,
}

enum Reading<S: Source> {
    Idle(S),
    Fetching(Pin<Box<dyn Future<Output = Fetched<S>> + Send>>),
    Over,
}

/// The next thing to be had without waiting.
pub(super) enum Taken<P> {
    Record(Decoded<P>),
    /// The batch is used up; everything below was read.
    BatchEnd(Offset),
    Nothing,
    DecoderPanicked,
}

impl<D: Decoder, S: Source<Record = D::Record>> Intake<D, S> {
    pub(super) fn new(source: S) -> Self {
        Self { reading: Reading::Idle(source), rest: Vec::new().into_iter(), next_offset: None, held_back: None }
    }

    pub(super) fn take(&mut self, decoder: &D, types: &EventTypes) -> Taken<D::Payload> {
        if let Some(event) = self.held_back.take() {
            return Taken::Record(Decoded::Event(event));
        }
        if let Some(record) = self.rest.next() {
            return match catch_unwind(AssertUnwindSafe(|| decoder.decode(record, types))) {
                Ok(decoded) => Taken::Record(decoded),
                Err(_) => Taken::DecoderPanicked,
            };
        }
        self.rest = Vec::new().into_iter();
        self.next_offset.take().map_or(Taken::Nothing, Taken::BatchEnd)
    }

    /// There was no room for it: it comes first when there is.
    pub(super) fn hold_back(&mut self, event: Event<D::Payload>) {
        self.held_back = Some(event);
    }

    /// Asks the source for the next batch; the former must be used up. `true`: it has come.
    pub(super) fn poll_fetch(&mut self, max_bytes: usize, cx: &mut Context<'_>) -> Result<bool, SourceError> {
        self.reading = match std::mem::replace(&mut self.reading, Reading::Over) {
            Reading::Idle(source) => Reading::Fetching(Box::pin(fetch(source, max_bytes))),
            reading => reading,
        };
        let Reading::Fetching(fetching) = &mut self.reading else { return Ok(false) };
        let Poll::Ready((source, fetched)) = fetching.as_mut().poll(cx) else { return Ok(false) };
        self.reading = Reading::Over;
        let batch = fetched?;
        self.reading = Reading::Idle(source);
        self.rest = batch.records.into_iter();
        self.next_offset = Some(batch.next_offset);
        Ok(true)
    }

    /// Drops the source and what was read and not admitted.
    pub(super) fn close(&mut self) {
        *self = Self { reading: Reading::Over, rest: Vec::new().into_iter(), next_offset: None, held_back: None };
    }
}

async fn fetch<S: Source>(mut source: S, max_bytes: usize) -> Fetched<S> {
    let fetched = AssertUnwindSafe(source.next(max_bytes)).catch_unwind().await;
    let fetched = fetched.unwrap_or_else(|_| Err(SourceError::Failed("the source panicked".into())));
    (source, fetched)
}
