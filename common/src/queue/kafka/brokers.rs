//! Where the brokers are: a list, or what is read where they register.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tracing::{info, warn};

use super::options::OptionsError;

/// Reads `host:port` of every broker that is registered; an error says what could not be read where, and why.
pub type ReadBrokers = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<String>, String>> + Send + Sync>;

const READ_WITHIN: Duration = Duration::from_secs(12);

/// How a cluster is found.
#[derive(Clone)]
pub enum BrokerSource {
    /// `host:port` each; one that answers is enough.
    Listed(Vec<String>),
    /// Read at the start, and again whenever none of the known ones answers. `what` names the
    /// place for people: `127.0.0.1:2181/kafka/brokers/ids`.
    Registered { what: String, read: ReadBrokers },
}

impl BrokerSource {
    /// Names the cluster in logs and metrics.
    pub fn name(&self) -> String {
        match self {
            Self::Listed(brokers) => brokers.join(","),
            Self::Registered { what, .. } => what.clone(),
        }
    }
}

impl fmt::Debug for BrokerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BrokerSource").field(&self.name()).finish()
    }
}

/// What is known of them.
pub(super) struct Brokers {
    source: BrokerSource,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// As librdkafka's `bootstrap.servers`.
    list: String,
    trouble: Option<String>,
}

impl Brokers {
    pub(super) fn new(source: BrokerSource) -> Result<Self, OptionsError> {
        let known = match &source {
            BrokerSource::Listed(brokers) if brokers.is_empty() => return Err(OptionsError::NoBroker),
            BrokerSource::Listed(brokers) => Known { list: brokers.join(","), trouble: None },
            BrokerSource::Registered { what, .. } => {
                Known { list: String::new(), trouble: Some(format!("Kafka's brokers have not been read at {what} yet")) }
            }
        };
        Ok(Self { source, known: Mutex::new(known) })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `host:port,host:port`; empty as long as none is known.
    pub(super) fn list(&self) -> String {
        self.known().list.clone()
    }

    pub(super) fn describe(&self) -> String {
        match self.known().list.as_str() {
            "" => format!("Kafka as registered at {}", self.source.name()),
            list => format!("Kafka at {list}"),
        }
    }

    /// Why they are not known, or not known afresh.
    pub(super) fn trouble(&self) -> Option<String> {
        self.known().trouble.clone()
    }

    pub(super) fn may_move(&self) -> bool {
        matches!(self.source, BrokerSource::Registered { .. })
    }

    /// Reads them again where they register. Within 12 s.
    pub(super) async fn look_up(&self) {
        let BrokerSource::Registered { what, read } = &self.source else { return };
        let found = match timeout(READ_WITHIN, read()).await {
            Ok(Ok(found)) if found.is_empty() => Err(format!("no Kafka broker is registered at {what}")),
            Ok(Ok(mut found)) => {
                found.sort();
                Ok(found.join(","))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(format!("Kafka's brokers cannot be read at {what}: no answer within {READ_WITHIN:?}")),
        };
        self.learn(found);
    }

    fn learn(&self, found: Result<String, String>) {
        let mut known = self.known();
        match found {
            Ok(list) => {
                if list != known.list {
                    info!(brokers = %list, before = %known.list, "Kafka's brokers, as registered at {}", self.source.name());
                }
                *known = Known { list, trouble: None };
            }
            Err(trouble) => {
                if known.trouble.as_ref() != Some(&trouble) {
                    warn!("{trouble}; it is tried again every second");
                }
                known.trouble = Some(trouble);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn registered(answers: Vec<Result<Vec<String>, String>>) -> Brokers {
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let read: ReadBrokers = Arc::new(move || {
            let answer = answers.lock().unwrap().next().unwrap();
            Box::pin(async move { answer })
        });
        Brokers::new(BrokerSource::Registered { what: "z:2181/brokers/ids".into(), read }).unwrap()
    }

    #[tokio::test]
    async fn what_was_read_last_stays_known_while_it_cannot_be_read_again() {
        let brokers = registered(vec![Err("gone".into()), Ok(vec!["b:2".into(), "a:1".into()]), Ok(vec![]), Ok(vec!["c:3".into()])]);
        assert_eq!((brokers.list(), brokers.describe()), (String::new(), "Kafka as registered at z:2181/brokers/ids".to_owned()));
        brokers.look_up().await;
        assert_eq!(brokers.trouble().unwrap(), "gone");
        brokers.look_up().await;
        assert_eq!((brokers.list(), brokers.trouble()), ("a:1,b:2".to_owned(), None));
        brokers.look_up().await;
        assert_eq!(brokers.list(), "a:1,b:2");
        assert_eq!(brokers.trouble().unwrap(), "no Kafka broker is registered at z:2181/brokers/ids");
        brokers.look_up().await;
        assert_eq!((brokers.describe(), brokers.trouble()), ("Kafka at c:3".to_owned(), None));
    }

    #[test]
    fn a_list_without_a_broker_is_refused() {
        assert_eq!(Brokers::new(BrokerSource::Listed(Vec::new())).err(), Some(OptionsError::NoBroker));
        assert!(!Brokers::new(BrokerSource::Listed(vec!["a:1".into()])).unwrap().may_move());
    }
}
