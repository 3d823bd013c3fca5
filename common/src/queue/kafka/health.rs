//! Whether the cluster answers, and what the clients said last about why not.

use std::sync::{Mutex, PoisonError};

use rdkafka::error::RDKafkaErrorCode;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Unknown(String),
    Well,
    Trouble(String),
}

pub(super) struct Health {
    state: watch::Sender<State>,
    /// Of a connection that failed.
    heard: Mutex<Option<String>>,
    all_down: Notify,
}

impl Health {
    pub(super) fn unknown(cluster: &str) -> Self {
        let state = State::Unknown(format!("{cluster} has not answered yet"));
        Self { state: watch::Sender::new(state), heard: Mutex::default(), all_down: Notify::new() }
    }

    /// What is missing, if the cluster does not answer.
    pub(super) fn trouble(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Well => None,
            State::Trouble(trouble) => Some(trouble.clone()),
            State::Unknown(trouble) => Some(self.with_heard(trouble.clone())),
        }
    }

    /// What a client says of its connections.
    pub(super) fn hear(&self, code: RDKafkaErrorCode, reason: &str) {
        match code {
            RDKafkaErrorCode::AllBrokersDown => self.all_down.notify_one(),
            RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SSL
            | RDKafkaErrorCode::Resolve
            | RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::UnsupportedSASLMechanism => {
                *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
            }
            _ => {}
        }
    }

    /// With the client's own words, if there are any that are not in it yet.
    pub(super) fn with_heard(&self, trouble: String) -> String {
        match &*self.heard.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(heard) if !trouble.contains(heard.as_str()) => format!("{trouble}; the client says: {heard}"),
            _ => trouble,
        }
    }

    pub(super) fn is_well(&self) -> bool {
        *self.state.borrow() == State::Well
    }

    pub(super) fn answers(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if self.state.send_replace(State::Well) != State::Well {
            info!("Kafka answers");
        }
    }

    pub(super) fn fails(&self, trouble: String) {
        let trouble = self.with_heard(trouble);
        if let State::Unknown(_) | State::Well = self.state.send_replace(State::Trouble(trouble.clone())) {
            warn!("{trouble}; it is asked again every second");
        }
    }

    /// Waits until the cluster does not answer.
    pub(super) async fn in_trouble(&self) {
        // Ends only with the sender, which is ours.
        drop(self.state.subscribe().wait_for(|state| *state != State::Well).await);
    }

    /// Waits until a client has lost its last connection.
    pub(super) async fn all_down(&self) {
        self.all_down.notified().await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn trouble_has_the_clients_words_until_the_cluster_answers() {
        let health = Health::unknown("Kafka at a:1");
        assert_eq!(health.trouble().unwrap(), "Kafka at a:1 has not answered yet");
        health.hear(RDKafkaErrorCode::Authentication, "wrong password");
        health.hear(RDKafkaErrorCode::PartitionEOF, "the end");
        assert_eq!(health.trouble().unwrap(), "Kafka at a:1 has not answered yet; the client says: wrong password");
        health.fails("no answer".into());
        assert_eq!(health.trouble().unwrap(), "no answer; the client says: wrong password");
        health.answers();
        assert_eq!((health.trouble(), health.is_well()), (None, true));
        health.fails("no answer".into());
        assert_eq!(health.trouble().unwrap(), "no answer");
    }
}
