//! Why a partition's loop stopped by itself: the engine carries a text, this carries the reason.

use std::sync::{Arc, OnceLock};

use common::coordinator::CommitError;
use common::queue::ReadError;

/// Written by the source or the sink of one epoch before it makes the loop end; the first wins.
#[derive(Clone, Default, Debug)]
pub(crate) struct Stop(Arc<OnceLock<Reason>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody else wrote the cursor: a replay, or a foreign set.
    Moved,
    /// Another owner, or none: nothing more may be written.
    EpochOver,
    /// The place that was to be read is not in the log.
    OutOfRange(String),
    TopicGone(String),
}

impl Stop {
    pub(crate) fn commit_refused(&self, error: &CommitError) {
        let reason = match error {
            CommitError::Moved => Reason::Moved,
            CommitError::EpochOver => Reason::EpochOver,
            CommitError::Coordinator(_) => return,
        };
        let _ = self.0.set(reason);
    }

    pub(crate) fn read_refused(&self, reason: Reason) {
        let _ = self.0.set(reason);
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        self.0.get().cloned()
    }
}

/// Whether a read may be tried again from the same place.
pub(crate) fn refusal(error: &ReadError) -> Option<Reason> {
    use common::queue::QueueError::{Storage, Unavailable, UnknownPartition, UnknownTopic};
    match error {
        ReadError::OutOfRange { .. } => Some(Reason::OutOfRange(error.to_string())),
        ReadError::Queue(UnknownTopic(_) | UnknownPartition(..)) => Some(Reason::TopicGone(error.to_string())),
        ReadError::Queue(Unavailable(_) | Storage(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use common::ids::{Offset, Partition, Topic};
    use common::queue::{QueueError, Watermarks};

    use super::*;

    #[test]
    fn only_what_is_not_there_ends_a_loop() {
        let topic = Topic::new("t").unwrap();
        let log = Watermarks { first: Offset(5), end: Offset(9) };
        let ends = |error: ReadError| refusal(&error);
        assert!(matches!(ends(ReadError::OutOfRange { asked: Offset(3), log }), Some(Reason::OutOfRange(text)) if text.contains("5..9")));
        assert!(matches!(ends(QueueError::UnknownTopic(topic.clone()).into()), Some(Reason::TopicGone(_))));
        assert!(matches!(ends(QueueError::UnknownPartition(topic, Partition(1)).into()), Some(Reason::TopicGone(_))));
        assert_eq!(ends(QueueError::Unavailable("x".into()).into()), None);
        assert_eq!(ends(QueueError::Storage("x".into()).into()), None);
    }

    #[test]
    fn the_first_reason_stands() {
        let stop = Stop::default();
        stop.commit_refused(&CommitError::Coordinator(common::coordinator::CoordinatorError::Unavailable("x".into())));
        assert_eq!(stop.reason(), None, "unknown is no reason to stop");
        stop.commit_refused(&CommitError::Moved);
        stop.read_refused(Reason::TopicGone("x".into()));
        assert_eq!(stop.reason(), Some(Reason::Moved));
    }
}
