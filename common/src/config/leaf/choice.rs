//! One of a few words.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::{Kind, Leaf, wrong_type};
use crate::config::fault::{Report, Spot};
use crate::config::nearest::{did_you_mean, list};

pub(in crate::config) struct Choice<T: 'static> {
    pub(in crate::config) default: &'static str,
    pub(in crate::config) values: &'static [(&'static str, T)],
}

impl<T: Clone> Choice<T> {
    fn find(&self, word: &str) -> Option<T> {
        self.values.iter().find(|(name, _)| *name == word).map(|(_, value)| value.clone())
    }

    fn names(&self) -> Vec<&'static str> {
        self.values.iter().map(|(name, _)| *name).collect()
    }
}

impl<T: Clone> Leaf for Choice<T> {
    type Value = T;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<T> {
        let names = self.names();
        let Value::StringLit(text) = value else {
            return wrong_type(&format!("one of {}", list(&names)), "", value, path, report);
        };
        let found = self.find(&text.value);
        if found.is_none() {
            let hint = did_you_mean(&text.value, names.iter().copied());
            report.fault(value.range(), path, format!("{:?} is none of {}{hint}", text.value, list(&names)));
        }
        found
    }

    fn absent(&self, _: &Spot) -> Option<T> {
        self.find(self.default)
    }

    fn kind(&self) -> Kind {
        Kind::Choice(self.names())
    }

    fn default_text(&self) -> Option<String> {
        Some(format!("{:?}", self.default))
    }
}
