//! What a broker says about itself: JSON, of one form until Kafka 0.8 and of another since.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;

const PLAINTEXT: &str = "PLAINTEXT";

/// Where a broker listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Endpoint {
    listener: String,
    /// In upper case.
    protocol: String,
    /// `host:port`, an IPv6 address in brackets.
    pub(super) address: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}://{})", self.protocol, self.listener, self.address)
    }
}

#[derive(Deserialize)]
struct Registration {
    endpoints: Option<Vec<String>>,
    listener_security_protocol_map: Option<HashMap<String, String>>,
    /// Since there are endpoints, that of the plain one; null and -1 where there is none.
    host: Option<String>,
    port: Option<i64>,
}

/// All of a broker; never none.
pub(super) fn endpoints(json: &[u8]) -> Result<Vec<Endpoint>, String> {
    let Registration { endpoints, listener_security_protocol_map, host, port } =
        serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let protocols = listener_security_protocol_map.unwrap_or_default();
    let endpoints: Vec<Endpoint> = match endpoints.filter(|endpoints| !endpoints.is_empty()) {
        Some(endpoints) => endpoints.iter().map(|text| endpoint(text, &protocols)).collect::<Result<_, _>>()?,
        None => {
            let address =
                address(&host.unwrap_or_default(), &port.unwrap_or(-1).to_string()).ok_or("it has neither endpoints nor host and port")?;
            vec![Endpoint { listener: PLAINTEXT.into(), protocol: PLAINTEXT.into(), address }]
        }
    };
    Ok(endpoints)
}

/// `LISTENER://host:port`. A listener that is in no map is named for its protocol.
fn endpoint(text: &str, protocols: &HashMap<String, String>) -> Result<Endpoint, String> {
    let parts = text.split_once("://").and_then(|(listener, rest)| Some((listener, rest.rsplit_once(':')?)));
    let read = parts.and_then(|(listener, (host, port))| Some((listener, address(host, port)?)));
    let (listener, address) = read.ok_or_else(|| format!("{text:?} is no endpoint"))?;
    let protocol = protocols.get(listener).map_or(listener, String::as_str).to_ascii_uppercase();
    Ok(Endpoint { listener: listener.to_owned(), protocol, address })
}

fn address(host: &str, port: &str) -> Option<String> {
    let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
    match host {
        "" => None,
        _ if host.contains(':') && !host.starts_with('[') => Some(format!("[{host}]:{port}")),
        _ => Some(format!("{host}:{port}")),
    }
}

/// Of several, the one whose listener is named for the protocol, else the first.
pub(super) fn of_protocol<'a>(endpoints: &'a [Endpoint], protocol: &str) -> Option<&'a Endpoint> {
    let fits = |endpoint: &&Endpoint| endpoint.protocol.eq_ignore_ascii_case(protocol);
    let named = endpoints.iter().filter(fits).find(|endpoint| endpoint.listener.eq_ignore_ascii_case(protocol));
    named.or_else(|| endpoints.iter().find(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Kafka 3.9 writes it.
    const NEW: &str = r#"{"features":{},"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT","PUBLIC":"SASL_SSL","SASL_SSL":"SASL_SSL","SIX":"SSL"},
        "endpoints":["INTERNAL://10.0.0.1:9092","PUBLIC://kafka.example:9094","SASL_SSL://10.0.0.1:9095","SIX://[fe80::1]:9096"],
        "jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"1795968574473"}"#;

    fn found(json: &str, protocol: &str) -> Option<String> {
        of_protocol(&endpoints(json.as_bytes()).unwrap(), protocol).map(|endpoint| endpoint.address.clone())
    }

    #[test]
    fn an_endpoint_is_found_by_its_protocol_whatever_its_listener_is_called() {
        assert_eq!(found(NEW, "plaintext").as_deref(), Some("10.0.0.1:9092"));
        assert_eq!(found(NEW, "SSL").as_deref(), Some("[fe80::1]:9096"));
        assert_eq!(found(NEW, "SASL_PLAINTEXT"), None);
    }

    #[test]
    fn of_several_the_listener_named_for_the_protocol_is_taken() {
        assert_eq!(found(NEW, "sasl_ssl").as_deref(), Some("10.0.0.1:9095"));
    }

    #[test]
    fn older_forms_are_read() {
        let of_0_9 = r#"{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://a:1","SSL://a:2"],"host":"a","version":2,"port":1}"#;
        assert_eq!((found(of_0_9, "PLAINTEXT"), found(of_0_9, "ssl")), (Some("a:1".into()), Some("a:2".into())));
        let of_0_8 = r#"{"jmx_port":-1,"timestamp":"1","host":"a","version":1,"port":9092}"#;
        assert_eq!((found(of_0_8, "PLAINTEXT"), found(of_0_8, "SSL")), (Some("a:9092".into()), None));
    }

    #[test]
    fn what_is_no_broker_is_an_error() {
        for json in [
            "",
            "[]",
            "{}",
            r#"{"host":"a","port":-1}"#,
            r#"{"host":null,"port":9092}"#,
            r#"{"endpoints":["SSL//a:1"]}"#,
            r#"{"endpoints":["SSL://:1"]}"#,
            r#"{"endpoints":["SSL://a:x"]}"#,
        ] {
            assert!(endpoints(json.as_bytes()).is_err(), "{json}");
        }
        let six = endpoints(br#"{"host":"::1","port":9092}"#).unwrap();
        assert_eq!(six[0].to_string(), "PLAINTEXT (PLAINTEXT://[::1]:9092)");
    }
}
