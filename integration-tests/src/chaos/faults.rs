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

#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) deed: Deed,
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
        (self.say)(&format!("{:7.1} s  {kind} {whom}: {deed}", from.duration_since(self.began).as_secs_f64()));
        Open { journal: self, kind, deed, from }
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
    from: Instant,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Self { journal, kind, deed, from } = *self;
        journal.faults.lock().unwrap().push(Fault { kind, deed, from, to: Instant::now() });
    }
}
