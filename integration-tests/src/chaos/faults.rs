//! What was done to whom, and when.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Which kind of process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Broker,
    ZooKeeper,
    Proxy,
    Pusher,
    Receiver,
    Operator,
}

/// What was done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Deed {
    Kill,
    Terminate,
    Freeze,
    CutOff,
    Reset,
    Slow,
    Refuse,
    Add,
    Remove,
    GrowTopic,
    RecreateTopic,
    Replay,
    Pause,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Broker => "broker",
            Self::ZooKeeper => "ZooKeeper server",
            Self::Proxy => "proxy",
            Self::Pusher => "pusher",
            Self::Receiver => "receiver",
            Self::Operator => "operator",
        })
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill -9",
            Self::Terminate => "SIGTERM",
            Self::Freeze => "SIGSTOP",
            Self::CutOff => "cut off",
            Self::Reset => "connections reset",
            Self::Slow => "slowed down",
            Self::Refuse => "refuses",
            Self::Add => "added",
            Self::Remove => "removed",
            Self::GrowTopic => "partition added",
            Self::RecreateTopic => "topic re-created",
            Self::Replay => "replay",
            Self::Pause => "pause and resume",
        })
    }
}

#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) deed: Deed,
    /// Its number, or the group that it concerns.
    pub(super) whom: String,
    pub(super) from: Instant,
    /// When it was healed, or over.
    pub(super) to: Instant,
}

/// Written by every lane, read at the end.
#[derive(Clone)]
pub(super) struct Journal {
    faults: Arc<Mutex<Vec<Fault>>>,
    began: Instant,
    say: fn(&str),
}

impl Journal {
    pub(super) fn new(began: Instant, say: fn(&str)) -> Self {
        Self { faults: Arc::default(), began, say }
    }

    /// Says so; the entry is made when it is over.
    pub(super) fn begin(&self, kind: Kind, deed: Deed, whom: &str) -> Open<'_> {
        let from = Instant::now();
        self.note(&format!("{kind} {whom}: {deed}"));
        Open { journal: self, kind, deed, whom: whom.to_owned(), from }
    }

    /// With the time.
    pub(super) fn note(&self, text: &str) {
        (self.say)(&format!("{:7.1} s  {text}", self.began.elapsed().as_secs_f64()));
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        self.faults.lock().unwrap().clone()
    }
}

/// A fault under way; dropped, it is over.
pub(super) struct Open<'a> {
    journal: &'a Journal,
    kind: Kind,
    deed: Deed,
    whom: String,
    from: Instant,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let whom = std::mem::take(&mut self.whom);
        self.journal.faults.lock().unwrap().push(Fault { kind: self.kind, deed: self.deed, whom, from: self.from, to: Instant::now() });
    }
}
