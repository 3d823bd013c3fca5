//! Whole numbers within bounds.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::{Kind, Leaf, wrong_type};
use crate::config::fault::{Report, Spot};

pub(in crate::config) struct Count {
    pub(in crate::config) default: u64,
    pub(in crate::config) min: u64,
    pub(in crate::config) max: u64,
}

impl Leaf for Count {
    type Value = u64;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<u64> {
        let Value::NumberLit(number) = value else {
            let quoted = matches!(value, Value::StringLit(text) if text.value.parse::<u64>().is_ok());
            return wrong_type("a whole number", if quoted { "write it without quotes" } else { "" }, value, path, report);
        };
        let is_whole = number.value.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        match number.value.parse::<u64>() {
            Ok(count) if (self.min..=self.max).contains(&count) => Some(count),
            _ if is_whole => {
                report.fault(value.range(), path, format!("{} is out of bounds: {} to {}", number.value, self.min, self.max));
                None
            }
            _ => wrong_type("a whole number", "write digits only", value, path, report),
        }
    }

    fn absent(&self, _: &Spot) -> Option<u64> {
        Some(self.default)
    }

    fn kind(&self) -> Kind {
        Kind::Integer { min: self.min, max: self.max }
    }

    fn default_text(&self) -> Option<String> {
        Some(self.default.to_string())
    }
}
