//! What can happen.

use super::world::Flow;

/// How a history begins.
#[derive(Clone, Debug)]
pub struct Setup {
    pub processes: usize,
    /// Of each partition.
    pub ends: Vec<u64>,
    /// Cursors that the original left.
    pub inherited: Vec<Option<u64>>,
    /// Requests of a process that are served before it is another's turn.
    pub at_most: usize,
    /// What fails is given up, on record.
    pub bypass: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Append {
        partition: usize,
        records: u64,
    },
    Trim {
        partition: usize,
        records: u64,
    },
    RecreateTopic,
    AddPartition,
    Start(usize),
    Crash(usize),
    Leave(usize),
    Freeze(usize),
    Thaw(usize),
    /// Frozen for so many milliseconds, it writes once, and then its server is cut off.
    Waver(usize, u64),
    /// The log does not answer its claims any more.
    Disable(usize),
    Network(usize, Flow),
    Cut(usize),
    LoseReplies(usize, u32),
    FallBehind(usize),
    CatchUp(usize),
    /// So many of its next reads of the log are not answered.
    FailReads(usize, u32),
    /// Writes whose senders gave them up are executed.
    DeliverLate,
    RestartServers,
    Replay {
        slot: usize,
        partition: usize,
        to: u64,
    },
    Pause(usize, bool),
    ForeignSet {
        partition: usize,
        to: u64,
    },
    Delete {
        partition: usize,
        what: What,
    },
    DeleteMember(usize),
    /// Milliseconds.
    Pass(u64),
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    Cursor,
    Done,
    Owner,
}
