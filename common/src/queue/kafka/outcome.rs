//! What a failed message means for its producer.

use rdkafka::error::RDKafkaErrorCode;

use super::native::Persisted;
use crate::ids::Topic;
use crate::queue::{NotWritten, ProduceError};

/// What is to be done about a message that Kafka, or the client, did not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Tell,
    /// Its batch was refused, perhaps because of others in it: once more, by itself.
    Alone,
    /// The client knows of no such topic or partition, which is not always so.
    AskForTopic,
    TooLarge,
}

pub(super) fn verdict(code: RDKafkaErrorCode, was_alone: bool) -> Verdict {
    match code {
        RDKafkaErrorCode::MessageSizeTooLarge if was_alone => Verdict::TooLarge,
        RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidDifferentRecord if !was_alone => Verdict::Alone,
        // Without a word about which record of the batch is meant, it may be another one.
        RDKafkaErrorCode::InvalidRecord if !was_alone => Verdict::Alone,
        RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownPartition => {
            Verdict::AskForTopic
        }
        _ => Verdict::Tell,
    }
}

pub(super) fn of(code: RDKafkaErrorCode, persisted: Persisted, topic: &Topic) -> ProduceError {
    let reason = code.to_string();
    match code {
        RDKafkaErrorCode::InvalidRecord => ProduceError::RecordRefused(format!("{reason}; does topic {topic} want a key?")),
        RDKafkaErrorCode::InvalidTimestamp | RDKafkaErrorCode::PolicyViolation | RDKafkaErrorCode::UnsupportedForMessageFormat => {
            ProduceError::RecordRefused(reason)
        }
        RDKafkaErrorCode::QueueFull => {
            ProduceError::NotWritten(NotWritten::LocalQueueFull, "as many messages wait for Kafka as the local queue holds".to_owned())
        }
        RDKafkaErrorCode::PurgeQueue => ProduceError::NotWritten(NotWritten::ShuttingDown, reason),
        _ if persisted == Persisted::No => ProduceError::NotWritten(NotWritten::Unavailable, format!("Kafka, topic {topic}: {reason}")),
        _ => ProduceError::MaybeWritten(format!("Kafka, topic {topic}: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_may_have_been_written_is_never_called_unwritten() {
        let topic = Topic::new("t").unwrap();
        let of = |code, persisted| of(code, persisted, &topic);
        assert!(matches!(of(RDKafkaErrorCode::MessageTimedOut, Persisted::Maybe), ProduceError::MaybeWritten(_)));
        assert!(matches!(of(RDKafkaErrorCode::MessageTimedOut, Persisted::No), ProduceError::NotWritten(NotWritten::Unavailable, _)));
        assert!(matches!(of(RDKafkaErrorCode::NotEnoughReplicas, Persisted::No), ProduceError::NotWritten(NotWritten::Unavailable, _)));
        assert!(matches!(of(RDKafkaErrorCode::NotEnoughReplicasAfterAppend, Persisted::Maybe), ProduceError::MaybeWritten(_)));
        assert!(matches!(of(RDKafkaErrorCode::InvalidRecord, Persisted::No), ProduceError::RecordRefused(_)));
    }

    #[test]
    fn a_refused_batch_says_nothing_of_its_records() {
        for code in [RDKafkaErrorCode::MessageSizeTooLarge, RDKafkaErrorCode::InvalidDifferentRecord, RDKafkaErrorCode::InvalidRecord] {
            assert_eq!(verdict(code, false), Verdict::Alone);
        }
        assert_eq!(verdict(RDKafkaErrorCode::MessageSizeTooLarge, true), Verdict::TooLarge);
        assert_eq!(verdict(RDKafkaErrorCode::InvalidRecord, true), Verdict::Tell);
    }
}
