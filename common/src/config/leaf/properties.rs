//! Settings of the Kafka client, by their names there.

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;

use super::secret::{find, is_elsewhere};
use super::{Kind, Leaf, wrong_type};
use crate::config::Properties;
use crate::config::fault::{Report, Spot};
use crate::config::nearest::nearest;
use crate::config::tree;
use crate::queue::kafka::{PropertyError, check_property};

/// An object whose fields are texts, numbers or booleans, each of which the client takes by itself.
pub(in crate::config) struct PropertyList;

/// Of some 150, those that operators set: for hints only.
const COMMON: [&str; 32] = [
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "client.id",
    "client.rack",
    "linger.ms",
    "batch.size",
    "compression.level",
    "socket.timeout.ms",
    "socket.keepalive.enable",
    "broker.address.family",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "metadata.max.age.ms",
];

impl Leaf for PropertyList {
    type Value = Properties;

    /// Also without those that were refused.
    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<Properties> {
        let Value::Object(object) = value else {
            return wrong_type("an object", "put it in { }", value, path, report);
        };
        let mut properties = Properties::default();
        for property in &object.properties {
            read_one(property, &tree::below(path, property.name.as_str()), &mut properties, report);
        }
        Some(properties)
    }

    fn absent(&self, _: &Spot) -> Option<Properties> {
        Some(Properties::default())
    }

    fn kind(&self) -> Kind {
        Kind::Properties
    }

    fn default_text(&self) -> Option<String> {
        Some("{}".to_owned())
    }
}

fn read_one(property: &ObjectProp<'_>, path: &str, properties: &mut Properties, report: &mut Report<'_>) {
    let (name, range) = (property.name.as_str(), property.value.range());
    let is_hidden = is_secret(name) || matches!(&property.value, Value::StringLit(text) if is_elsewhere(&text.value));
    if is_secret(name) {
        report.hide(range);
    }
    let text = match &property.value {
        Value::StringLit(text) => find(&text.value).map_err(|why| report.fault(range, path, why)).ok(),
        Value::NumberLit(number) => Some(number.value.to_owned()),
        Value::BooleanLit(boolean) => Some(boolean.value.to_string()),
        // Not even a wrong value is repeated where it may be a password.
        _ if is_hidden => {
            report.fault(range, path, "expected a text, \"env:NAME\" or \"file:PATH\"");
            None
        }
        other => wrong_type("a text, a number or a boolean", "", other, path, report),
    };
    let Some(text) = text else { return };
    match check_property(name, &text) {
        Ok(()) if is_hidden => properties.insert_hidden(name.to_owned(), text),
        Ok(()) => properties.insert(name.to_owned(), text),
        Err(why @ PropertyError::Fixed(_)) => report.fault(property.name.range(), path, format!("`{name}` {why}")),
        Err(PropertyError::Unknown) => {
            let near = nearest(name, COMMON.into_iter());
            if near.is_some_and(is_secret) {
                report.hide(range);
            }
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let shown: String = name.chars().take(60).collect();
            report.fault(property.name.range(), path, format!("the Kafka client has no property `{shown}`{hint}"));
        }
        Err(PropertyError::Value(_)) if is_hidden => report.fault(range, path, "the Kafka client does not take this value"),
        Err(PropertyError::Value(why)) => report.fault(range, path, format!("the Kafka client does not take this: {why}")),
    }
}

/// By its name: what lets somebody in, or opens what does.
fn is_secret(name: &str) -> bool {
    let words = ["password", "passphrase", "secret", "key.pem", "private.key"];
    words.iter().any(|word| name.contains(word)) || name == "sasl.oauthbearer.config"
}
