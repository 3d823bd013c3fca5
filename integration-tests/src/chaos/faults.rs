//! What was done to whom, and when.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::orders::{Pause, Replay};

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
    /// A pusher from all brokers.
    CutOffKafka,
    /// A ZooKeeper server from the others.
    CutOffPeers,
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
            Self::CutOffKafka => "cut off from Kafka",
            Self::CutOffPeers => "cut off from peers",
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

/// What was done in all.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) faults: Vec<Fault>,
    /// Asked for, and certainly not done: no fault.
    pub(super) refused: Vec<(Kind, Deed)>,
    /// Among the faults: nobody said whether it was done.
    pub(super) doubtful: Vec<(Kind, Deed)>,
    pub(super) replays: Vec<Replay>,
    pub(super) pauses: Vec<Pause>,
}

/// Written by every lane, read at the end.
#[derive(Clone)]
pub(super) struct Journal {
    done: Arc<Mutex<Done>>,
    began: Instant,
    say: fn(&str),
}

impl Journal {
    pub(super) fn new(began: Instant, say: fn(&str)) -> Self {
        Self { done: Arc::default(), began, say }
    }

    /// Says so; the entry is made when it is over.
    pub(super) fn begin(&self, kind: Kind, deed: Deed, whom: &str) -> Open<'_> {
        let from = Instant::now();
        self.note(&format!("{kind} {whom}: {deed}"));
        Open { journal: self, kind, deed, whom: whom.to_owned(), from, came: Came::Done }
    }

    /// With the time.
    pub(super) fn note(&self, text: &str) {
        (self.say)(&format!("{:7.1} s  {text}", self.began.elapsed().as_secs_f64()));
    }

    /// What the answer to a replay promises.
    pub(super) fn replayed(&self, replay: Replay) {
        self.done.lock().unwrap().replays.push(replay);
    }

    pub(super) fn paused(&self, pause: Pause) {
        self.done.lock().unwrap().pauses.push(pause);
    }

    pub(super) fn over(&self) -> usize {
        self.done.lock().unwrap().faults.len()
    }

    pub(super) fn done(&self) -> Done {
        self.done.lock().unwrap().clone()
    }
}

/// A fault under way; dropped, it is over.
pub(super) struct Open<'a> {
    journal: &'a Journal,
    kind: Kind,
    deed: Deed,
    whom: String,
    from: Instant,
    came: Came,
}

/// What came of what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Done,
    Refused,
    Unknown,
}

impl Open<'_> {
    pub(super) fn came(&mut self, came: Came) {
        self.came = came;
        match came {
            Came::Done => {}
            Came::Refused => self.journal.note(&format!("{} {}: {} refused", self.kind, self.whom, self.deed)),
            Came::Unknown => self.journal.note(&format!("{} {}: {}, and nobody says whether it was done", self.kind, self.whom, self.deed)),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let (kind, deed, whom) = (self.kind, self.deed, std::mem::take(&mut self.whom));
        let mut done = self.journal.done.lock().unwrap();
        match self.came {
            Came::Done => {}
            Came::Refused => return done.refused.push((kind, deed)),
            Came::Unknown => done.doubtful.push((kind, deed)),
        }
        done.faults.push(Fault { kind, deed, whom, from: self.from, to: Instant::now() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_no_fault_and_what_may_have_been_done_is_one() {
        let journal = Journal::new(Instant::now(), |_| {});
        for came in [Came::Done, Came::Refused, Came::Unknown] {
            journal.begin(Kind::Operator, Deed::Replay, "g").came(came);
        }
        let done = journal.done();
        assert_eq!((done.faults.len(), done.refused.len(), done.doubtful.len()), (2, 1, 1));
    }
}
