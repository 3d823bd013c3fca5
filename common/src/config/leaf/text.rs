//! Texts that stand for something, such as a topic's name or an address.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::{Kind, Leaf, url, wrong_type};
use crate::config::fault::{Report, Spot};

pub(in crate::config) struct Text<T> {
    /// With its article, as in "expected a topic's name".
    pub(in crate::config) what: &'static str,
    /// `None`: the field must be given. It must be readable by `parse`.
    pub(in crate::config) default: Option<&'static str>,
    /// What the text stands for, or why it stands for nothing.
    pub(in crate::config) parse: fn(&str) -> Result<T, String>,
}

impl<T> Leaf for Text<T> {
    type Value = T;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<T> {
        let Value::StringLit(text) = value else {
            return wrong_type(self.what, "", value, path, report);
        };
        if url::has_user(&text.value) {
            report.hide(value.range());
        }
        (self.parse)(&text.value).map_err(|why| report.fault(value.range(), path, why)).ok()
    }

    fn absent(&self, _: &Spot) -> Option<T> {
        self.default.map(|text| (self.parse)(text).expect("the program's own default is readable"))
    }

    fn kind(&self) -> Kind {
        Kind::Text { what: self.what }
    }

    fn default_text(&self) -> Option<String> {
        self.default.map(|text| format!("{text:?}"))
    }
}
