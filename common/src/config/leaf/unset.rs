//! Texts that may be empty, which is as if they were not given.

use jsonc_parser::ast::Value;

use super::{Kind, Leaf};
use crate::config::fault::{Report, Spot};

/// A field that may be absent, `null` or empty, which is the same, as it was to the original.
pub(in crate::config) struct Unset<L>(pub(in crate::config) L, pub(in crate::config) &'static str);

impl<L: Leaf> Leaf for Unset<L> {
    type Value = Option<L::Value>;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<Self::Value> {
        match value {
            Value::NullKeyword(_) => Some(None),
            Value::StringLit(text) if text.value.is_empty() => Some(None),
            _ => self.0.read(value, path, report).map(Some),
        }
    }

    fn absent(&self, _: &Spot) -> Option<Self::Value> {
        Some(None)
    }

    fn kind(&self) -> Kind {
        Kind::Unset(Box::new(self.0.kind()))
    }

    fn default_text(&self) -> Option<String> {
        Some(self.1.to_owned())
    }
}
