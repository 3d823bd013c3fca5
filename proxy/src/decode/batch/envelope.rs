//! The JSON around a message. Values are looked at where they stand, and a field given twice is
//! refused: another reader of the same line might take the other one.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::{did_you_mean, shown};

const FIELDS: [&str; 7] = ["key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp"];

#[derive(Default)]
pub(super) struct Envelope<'a> {
    pub(super) key: Option<&'a RawValue>,
    pub(super) key_base64: Option<&'a RawValue>,
    pub(super) value: Option<&'a RawValue>,
    pub(super) value_base64: Option<&'a RawValue>,
    pub(super) headers: Option<&'a RawValue>,
    pub(super) partition: Option<&'a RawValue>,
    pub(super) timestamp: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// By its place in [`FIELDS`].
    fn field(&mut self, place: usize) -> &mut Option<&'a RawValue> {
        match place {
            0 => &mut self.key,
            1 => &mut self.key_base64,
            2 => &mut self.value,
            3 => &mut self.value_base64,
            4 => &mut self.headers,
            5 => &mut self.partition,
            _ => &mut self.timestamp,
        }
    }
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with value or value_base64")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(FieldName(name)) = map.next_key()? {
            let place = name.map_err(A::Error::custom)?;
            let field = envelope.field(place);
            if field.is_some() {
                return Err(A::Error::custom(format_args!("duplicate field {}", FIELDS[place])));
            }
            *field = Some(map.next_value()?);
        }
        Ok(envelope)
    }
}

/// A field's place in [`FIELDS`], or what to say of one that has none.
struct FieldName(Result<usize, String>);

impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(FieldNameVisitor)
    }
}

struct FieldNameVisitor;

impl Visitor<'_> for FieldNameVisitor {
    type Value = FieldName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<FieldName, E> {
        let place = FIELDS.iter().position(|known| *known == name);
        Ok(FieldName(place.ok_or_else(|| format!("unknown field {:?}{}", shown(name), did_you_mean(name, &FIELDS)))))
    }
}

/// Headers in their order, names in lower case, each with one value or several.
pub(super) struct HeaderList(pub(super) Vec<(String, Vec<String>)>);

impl<'de> Deserialize<'de> for HeaderList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderListVisitor)
    }
}

struct HeaderListVisitor;

impl<'de> Visitor<'de> for HeaderListVisitor {
    type Value = HeaderList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderList, A::Error> {
        let mut list = Vec::with_capacity(map.size_hint().unwrap_or(4));
        while let Some(mut name) = map.next_key::<String>()? {
            name.make_ascii_lowercase();
            let OneOrMany(values) = map.next_value()?;
            list.push((name, values));
        }
        Ok(HeaderList(list))
    }
}

struct OneOrMany(Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor)
    }
}

struct OneOrManyVisitor;

impl<'de> Visitor<'de> for OneOrManyVisitor {
    type Value = OneOrMany;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<OneOrMany, E> {
        Ok(OneOrMany(vec![value.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(OneOrMany(values))
    }
}

/// serde's text in JSON's words, and without its line number, which is always 1 and would be taken for
/// the body's. `place` is what lies in the line before that which was read.
pub(super) fn reason(error: &serde_json::Error, place: usize) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let what = what.replace("invalid type: sequence", "it is a list").replace("invalid type: map", "it is an object");
    let what = what.replace("invalid type: ", "it is ").replace("EOF while parsing", "the line ends within");
    if error.column() > 0 { format!("{what} (character {})", place + error.column()) } else { what }
}
