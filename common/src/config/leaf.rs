//! What one field may hold: a type for each kind of value, which reads it, says its default, and
//! describes itself for the schema and the reference.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

pub(super) use self::choice::Choice;
pub(super) use self::count::Count;
pub(super) use self::properties::PropertyList;
pub(super) use self::secret::SecretText;
pub(super) use self::size::Size;
pub(super) use self::span::Span;
pub(super) use self::status::Status;
pub(super) use self::text::Text;
pub(super) use self::unset::Unset;
use super::fault::{Report, Spot};
use super::section::{Field, Given, Retired};
use super::tree;

pub(super) mod address;
mod choice;
mod count;
mod properties;
mod secret;
pub(super) mod server;
pub(super) mod size;
pub(super) mod span;
mod status;
mod text;
mod unset;
pub(super) mod url;

pub(super) trait Leaf {
    type Value;

    /// The value that `value` stands for. `None`: it stands for none, and that is reported.
    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<Self::Value>;

    /// What holds when the field, whose place is `spot`, is absent. `None`: it must not be.
    fn absent(&self, spot: &Spot) -> Option<Self::Value>;

    fn kind(&self) -> Kind;

    /// The default as one would write it; for fields that must be given, nothing.
    fn default_text(&self) -> Option<String>;
}

/// A field's kind as the schema and the reference see it.
#[derive(Debug)]
pub(super) enum Kind {
    Flag,
    Integer {
        min: u64,
        max: u64,
    },
    Duration {
        min: &'static str,
        max: &'static str,
        zero: bool,
    },
    Size {
        min: u64,
        max: u64,
    },
    Text {
        what: &'static str,
    },
    Secret,
    Status,
    Choice(Vec<&'static str>),
    Properties,
    Nullable(Box<Kind>),
    /// As nullable, and the empty text is the same.
    Unset(Box<Kind>),
    List {
        of: Box<Kind>,
        least: usize,
    },
    Object {
        about: &'static str,
        fields: Vec<Field>,
        retired: &'static [(&'static str, Retired)],
    },
}

/// Reports a value of the wrong type, in the same words everywhere.
fn wrong_type<T>(wanted: &str, hint: &str, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<T> {
    let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
    report.fault(value.range(), path, format!("expected {wanted}, found {}{hint}", tree::spoken(value)));
    None
}

/// `true` or `false`.
pub(super) struct Flag(pub(super) bool);

impl Leaf for Flag {
    type Value = bool;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<bool> {
        match value {
            Value::BooleanLit(boolean) => Some(boolean.value),
            _ => wrong_type("`true` or `false`", "", value, path, report),
        }
    }

    fn absent(&self, _: &Spot) -> Option<bool> {
        Some(self.0)
    }

    fn kind(&self) -> Kind {
        Kind::Flag
    }

    fn default_text(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// A field that may be absent or `null`, which is the same. The text says what that means.
pub(super) struct Maybe<L>(pub(super) L, pub(super) &'static str);

impl<L: Leaf> Leaf for Maybe<L> {
    type Value = Option<L::Value>;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<Self::Value> {
        match value {
            Value::NullKeyword(_) => Some(None),
            _ => self.0.read(value, path, report).map(Some),
        }
    }

    fn absent(&self, _: &Spot) -> Option<Self::Value> {
        Some(None)
    }

    fn kind(&self) -> Kind {
        Kind::Nullable(Box::new(self.0.kind()))
    }

    fn default_text(&self) -> Option<String> {
        Some(self.1.to_owned())
    }
}

/// A list of elements, each with its own place.
pub(super) struct List<L> {
    pub(super) of: L,
    /// 0: the list may be absent.
    pub(super) least: usize,
}

impl<L: Leaf> Leaf for List<L> {
    type Value = Vec<Given<L::Value>>;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<Self::Value> {
        let Value::Array(array) = value else {
            return wrong_type("a list", "put it in [ ]", value, path, report);
        };
        if array.elements.len() < self.least {
            report.fault(array.range, path, format!("this list needs at least {} element", self.least));
        }
        let elements = array.elements.iter().enumerate();
        Some(elements.map(|(at, element)| Given::read(&self.of, element, tree::below(path, &format!("[{at}]")), report)).collect())
    }

    fn absent(&self, _: &Spot) -> Option<Self::Value> {
        (self.least == 0).then(Vec::new)
    }

    fn kind(&self) -> Kind {
        Kind::List { of: Box::new(self.of.kind()), least: self.least }
    }

    fn default_text(&self) -> Option<String> {
        (self.least == 0).then(|| "[]".to_owned())
    }
}
