//! Servers by name: Kafka's brokers, `ZooKeeper`'s ensemble and the path in it.

use crate::coordinator::zookeeper::{Ensemble, EnsembleError};

/// `host:port,host:port`; a port left out is 2181. The path of the ensemble has a field of its own.
pub(in crate::config) fn zookeepers(text: &str) -> Result<Vec<String>, String> {
    match Ensemble::parse(text) {
        Ok(ensemble) if ensemble.chroot().is_empty() => Ok(hosts(&ensemble)),
        Ok(ensemble) => {
            Err(format!("{text:?}: the path stands by itself, once for all servers; write \"zk_path\": {:?}", ensemble.chroot()))
        }
        Err(EnsembleError::ChrootPerHost(_)) => Err(format!("{text:?}: one path is for all servers, and stands by itself, in `zk_path`")),
        Err(error) => Err(error.to_string()),
    }
}

/// A whole connect string, `host:port,host:port/path`.
pub(in crate::config) fn ensemble(text: &str) -> Result<Ensemble, String> {
    Ensemble::parse(text).map_err(|error| error.to_string())
}

/// What [`zookeepers`] and [`chroot`] read, of all servers: sorted, so that who names them in
/// another order means the same ensemble.
pub(in crate::config) fn assembled(hosts: &[String], chroot: &str) -> Ensemble {
    let text = format!("{}{chroot}", sorted(hosts).join(","));
    Ensemble::parse(&text).expect("its parts have been parsed")
}

/// Each once, in one order.
pub(in crate::config) fn sorted(hosts: &[String]) -> Vec<String> {
    let mut hosts = hosts.to_vec();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// `host:port` each.
pub(in crate::config) fn hosts(ensemble: &Ensemble) -> Vec<String> {
    let text = ensemble.to_string();
    let hosts = text.strip_suffix(ensemble.chroot()).unwrap_or(&text);
    hosts.split(',').map(str::to_owned).collect()
}

/// `/a/b` without a slash at its end; empty for the root.
pub(in crate::config) fn chroot(text: &str) -> Result<String, String> {
    match text {
        "" => Ok(String::new()),
        _ if !text.starts_with('/') => Err(format!("{text:?}: a path in ZooKeeper begins with a slash; did you mean \"/{text}\"?")),
        _ if text.contains(',') => Err(format!("{text:?}: a comma cannot stand in a path; servers are listed in `zookeepers`")),
        _ => Ensemble::parse(&format!("localhost{text}")).map(|ensemble| ensemble.chroot().to_owned()).map_err(|error| error.to_string()),
    }
}

/// `host:port,host:port`. Kafka names no port that would go without saying.
pub(in crate::config) fn brokers(text: &str) -> Result<Vec<String>, String> {
    if text.contains("://") {
        return Err(format!("{text:?}: write host:port alone; the protocol is `security.protocol` in `queue.kafka.properties`"));
    }
    if text.contains('/') {
        return Err(format!("{text:?}: a broker is host:port, without a path"));
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return Err(format!("{text:?} names no broker; write it like \"127.0.0.1:9092\""));
    }
    parts.into_iter().map(broker).collect()
}

fn broker(text: &str) -> Result<String, String> {
    let after_host = text.rfind(']').map_or(text, |end| &text[end..]);
    if !after_host.contains(':') {
        return Err(format!("{text:?}: the port is missing; write \"{text}:9092\""));
    }
    // The same rules as for a server of ZooKeeper, once its own default port cannot come in.
    Ensemble::parse(text).map(|server| server.to_string()).map_err(|error| match error {
        EnsembleError::Host(_) => error.to_string(),
        _ => format!("{text:?} is no host:port"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C63, as the file spells it.
    #[test]
    fn a_path_is_said_once_for_all_servers() {
        assert_eq!(zookeepers("z1:2181"), Ok(vec!["z1:2181".to_owned()]));
        assert_eq!(zookeepers(" z1:2181 , z2, "), Ok(vec!["z1:2181".to_owned(), "z2:2181".to_owned()]));
        assert_eq!(zookeepers("[::1]:2181/"), Ok(vec!["[::1]:2181".to_owned()]));
        assert!(zookeepers("z1:2181/a/b").unwrap_err().ends_with("write \"zk_path\": \"/a/b\""));
        assert!(zookeepers("z1:2181/a,z2:2181/a").unwrap_err().contains("one path is for all servers"));
        assert!(zookeepers("").is_err());
    }

    #[test]
    fn a_path_is_absolute_and_tidy() {
        for (text, path) in [("", ""), ("/", ""), ("/kafka", "/kafka"), ("//a/b/", "/a/b")] {
            assert_eq!(chroot(text), Ok(path.to_owned()), "{text}");
        }
        assert!(chroot("kafka").unwrap_err().contains("did you mean \"/kafka\"?"));
        assert!(chroot("/a,b").is_err() && chroot("/a/../b").is_err());
    }

    #[test]
    fn one_ensemble_has_one_spelling() {
        let named = |hosts: &[&str]| assembled(&hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>(), "/k");
        assert_eq!(named(&["b:1", "a:1", "b:1"]), named(&["a:1", "b:1"]));
        assert_eq!(hosts(&named(&["b:1", "a:1"])), ["a:1", "b:1"]);
    }

    #[test]
    fn a_broker_is_a_host_and_a_port() {
        assert_eq!(brokers("k1:9092, [::1]:9093,"), Ok(vec!["k1:9092".to_owned(), "[::1]:9093".to_owned()]));
        assert!(brokers("k1").unwrap_err().contains("write \"k1:9092\""));
        assert!(brokers("[::1]").unwrap_err().contains("write \"[::1]:9092\""));
        assert!(brokers("SSL://k1:9093").unwrap_err().contains("security.protocol"));
        for bad in ["", ",", "k1:0", "k1:", ":9092", "k1:99999", "k1:9092/x", "k 1:9092"] {
            assert!(brokers(bad).is_err(), "{bad}");
        }
    }
}
