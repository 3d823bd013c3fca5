//! How much of the newest records stays in memory, over all partitions.

use std::collections::VecDeque;
use std::sync::Arc;

use super::log::Log;
use super::options::RECENT_BYTES;

/// What a record in memory costs beside its bytes.
const PER_RECORD_BYTES: usize = 128;

/// What was published, oldest first: what is to be forgotten next.
#[derive(Default)]
pub(super) struct Recent {
    published: VecDeque<(Arc<Log>, usize, usize)>,
    bytes: usize,
}

impl Recent {
    pub(super) fn add(&mut self, log: &Arc<Log>, records: usize, bytes: usize) {
        let bytes = bytes + records * PER_RECORD_BYTES;
        self.published.push_back((Arc::clone(log), records, bytes));
        self.bytes += bytes;
        while self.bytes > RECENT_BYTES {
            let Some((log, records, bytes)) = self.published.pop_front() else { break };
            log.forget_recent(records);
            self.bytes -= bytes;
        }
    }
}
