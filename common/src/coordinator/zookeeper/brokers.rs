//! Where Kafka's brokers say that they are: `<chroot>/brokers/ids/*`, of a Kafka that keeps its
//! metadata in ZooKeeper.

use std::time::Duration;

use zookeeper_client::{Client, Error, SessionState};

use self::registration::Endpoint;
use super::Ensemble;
use super::wire::digest;

mod registration;

/// For everything, the connection included.
const PATIENCE: Duration = Duration::from_secs(10);
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// Until the session that was only for this is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);
/// Of what there is instead of what was looked for.
const MAX_NAMED: usize = 20;

/// Why no broker is known. All but `NoPath` and `NoEndpoint` can pass by themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokersError {
    #[error("Kafka's brokers cannot be asked for at ZooKeeper {ensemble}: {reason}")]
    Unavailable { ensemble: Ensemble, reason: String },
    #[error(
        "{path} is missing in ZooKeeper {ensemble}: no Kafka has registered there ({nearest} has {children}). Correct zk_path, or list the brokers"
    )]
    NoPath { ensemble: Ensemble, path: String, nearest: String, children: String },
    #[error("no Kafka broker is registered at {path} in ZooKeeper {ensemble} at the moment")]
    NoBroker { ensemble: Ensemble, path: String },
    #[error(
        "no Kafka broker in ZooKeeper {ensemble} has an endpoint for {protocol}; there is {offered}. Set security.protocol in queue.kafka.properties to one of these, or list the brokers"
    )]
    NoEndpoint { ensemble: Ensemble, protocol: String, offered: String },
    #[error("{path} in ZooKeeper {ensemble} cannot be read as a Kafka broker: {reason}")]
    Unreadable { ensemble: Ensemble, path: String, reason: String },
}

/// The `host:port` of each broker that is registered now, by broker id: its endpoint for
/// `protocol`, which is a value of Kafka's `security.protocol` in any case. On a connection of its
/// own, which is closed when this returns; within 10 s. Nothing is written.
///
/// `digest` is `user:password`. Where a broker has several listeners of the protocol, it is the one
/// of that name, else the first.
pub async fn registered_brokers(ensemble: &Ensemble, digest: Option<&str>, protocol: &str) -> Result<Vec<String>, BrokersError> {
    let unavailable = |reason: String| BrokersError::Unavailable { ensemble: ensemble.clone(), reason };
    let read = tokio::time::timeout(PATIENCE, registrations(ensemble, digest)).await;
    let nodes = match read.map_err(|_| unavailable(format!("no answer for {PATIENCE:?}")))?? {
        Registrations::There(nodes) => nodes,
        Registrations::Missing { nearest, mut children } => {
            children.sort_unstable();
            let (path, children) = (path(ensemble), named(children));
            return Err(BrokersError::NoPath { ensemble: ensemble.clone(), path, nearest, children });
        }
    };
    choose(ensemble, nodes, protocol)
}

enum Registrations {
    /// Name and content of each.
    There(Vec<(String, Vec<u8>)>),
    Missing {
        nearest: String,
        children: Vec<String>,
    },
}

fn path(ensemble: &Ensemble) -> String {
    format!("{}/brokers/ids", ensemble.chroot())
}

fn named(all: Vec<String>) -> String {
    let (count, some) = (all.len(), all.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join(", "));
    match count {
        0 => "nothing".to_owned(),
        1..=MAX_NAMED => some,
        _ => format!("{some}, …"),
    }
}

async fn registrations(ensemble: &Ensemble, credentials: Option<&str>) -> Result<Registrations, BrokersError> {
    let unavailable = |error: Error| BrokersError::Unavailable { ensemble: ensemble.clone(), reason: error.to_string() };
    let mut connector = Client::connector().with_session_timeout(SESSION_TIMEOUT);
    if let Some(credentials) = credentials {
        let (scheme, auth) = digest(credentials);
        connector = connector.with_auth(scheme, auth);
    }
    let client = connector.connect(&ensemble.servers()).await.map_err(unavailable)?;
    let read = read(&client, &path(ensemble)).await.map_err(unavailable);
    close(client).await;
    read
}

async fn read(client: &Client, path: &str) -> Result<Registrations, Error> {
    let ids = match client.list_children(path).await {
        Ok(ids) => ids,
        Err(Error::NoNode) => return nearest(client, path).await,
        Err(error) => return Err(error),
    };
    let nodes = ids.into_iter().map(|id| async move {
        match client.get_data(&format!("{path}/{id}")).await {
            Ok((data, _)) => Ok(Some((id, data))),
            // It has just gone.
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    });
    Ok(Registrations::There(futures_util::future::try_join_all(nodes).await?.into_iter().flatten().collect()))
}

/// The lowest node above `path` that exists.
async fn nearest(client: &Client, path: &str) -> Result<Registrations, Error> {
    let mut nearest = path;
    loop {
        nearest = super::paths::parent(nearest);
        let node = if nearest.is_empty() { "/" } else { nearest };
        match client.list_children(node).await {
            Ok(children) => return Ok(Registrations::Missing { nearest: node.to_owned(), children }),
            Err(Error::NoNode) if node != "/" => {}
            Err(error) => return Err(error),
        }
    }
}

async fn close(client: Client) {
    let mut states = client.state_watcher();
    drop(client);
    let over = async {
        loop {
            match states.changed().await {
                SessionState::Closed | SessionState::Expired | SessionState::AuthFailed => return,
                SessionState::Disconnected | SessionState::SyncConnected | SessionState::ConnectedReadOnly => {}
            }
        }
    };
    // Late, it is closed by the library in the background.
    let _ = tokio::time::timeout(CLOSED_WITHIN, over).await;
}

/// Brokers that cannot be read are named, and passed over if there are others.
fn choose(ensemble: &Ensemble, nodes: Vec<(String, Vec<u8>)>, protocol: &str) -> Result<Vec<String>, BrokersError> {
    if nodes.is_empty() {
        return Err(BrokersError::NoBroker { ensemble: ensemble.clone(), path: path(ensemble) });
    }
    let (mut brokers, mut offered, mut unreadable) = (Vec::new(), Vec::new(), None);
    for (id, node) in nodes {
        match registration::endpoints(&node) {
            Ok(endpoints) => {
                let chosen = registration::of_protocol(&endpoints, protocol);
                brokers.extend(chosen.map(|endpoint| (id.parse::<u64>().unwrap_or(u64::MAX), endpoint.address.clone())));
                offered.extend(endpoints.iter().map(Endpoint::to_string));
            }
            Err(reason) => {
                let error = BrokersError::Unreadable { ensemble: ensemble.clone(), path: format!("{}/{id}", path(ensemble)), reason };
                tracing::warn!(%error, "a broker is passed over");
                unreadable = Some(error);
            }
        }
    }
    match unreadable {
        Some(error) if offered.is_empty() => return Err(error),
        _ if brokers.is_empty() => {
            let (ensemble, protocol) = (ensemble.clone(), protocol.to_ascii_uppercase());
            offered.sort_unstable();
            return Err(BrokersError::NoEndpoint { ensemble, protocol, offered: named(offered) });
        }
        Some(_) | None => {}
    }
    brokers.sort_unstable();
    Ok(brokers.into_iter().map(|(_, address)| address).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(nodes: &[(&str, &str)], protocol: &str) -> Result<Vec<String>, BrokersError> {
        let nodes = nodes.iter().map(|(id, json)| ((*id).to_owned(), json.as_bytes().to_vec())).collect();
        choose(&Ensemble::parse("z:2181/kafka").unwrap(), nodes, protocol)
    }

    const TEN: &str = r#"{"endpoints":["PLAINTEXT://ten:9092","SSL://ten:9093"],"host":"ten","port":9092,"version":4}"#;
    const TWO: &str = r#"{"host":"two","port":9092,"version":1}"#;

    #[test]
    fn each_broker_is_named_once_in_the_order_of_its_number() {
        assert_eq!(chosen(&[("10", TEN), ("2", TWO)], "plaintext"), Ok(vec!["two:9092".into(), "ten:9092".into()]));
        assert_eq!(chosen(&[("10", TEN), ("2", TWO)], "ssl"), Ok(vec!["ten:9093".into()]));
    }

    #[test]
    fn who_finds_nothing_is_told_what_there_is() {
        let text = chosen(&[("10", TEN)], "sasl_ssl").unwrap_err().to_string();
        assert!(text.contains("no Kafka broker in ZooKeeper z:2181/kafka has an endpoint for SASL_SSL"), "{text}");
        assert!(text.contains("there is PLAINTEXT (PLAINTEXT://ten:9092), SSL (SSL://ten:9093)."), "{text}");
        let text = chosen(&[], "plaintext").unwrap_err().to_string();
        assert_eq!(text, "no Kafka broker is registered at /kafka/brokers/ids in ZooKeeper z:2181/kafka at the moment");
    }

    #[test]
    fn a_broker_that_cannot_be_read_is_passed_over_unless_it_is_the_only_one() {
        assert_eq!(chosen(&[("1", "garbage"), ("2", TWO)], "plaintext"), Ok(vec!["two:9092".into()]));
        let text = chosen(&[("1", "garbage")], "plaintext").unwrap_err().to_string();
        assert!(text.starts_with("/kafka/brokers/ids/1 in ZooKeeper z:2181/kafka cannot be read as a Kafka broker: "), "{text}");
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(named(vec![]), "nothing");
        assert!(named((0..30).map(|n| n.to_string()).collect()).ends_with("18, 19, …"));
    }
}
