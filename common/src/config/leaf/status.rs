//! Which answers of a receiver count as success.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::{Kind, Leaf, wrong_type};
use crate::config::SuccessStatus;
use crate::config::fault::{Report, Spot};

pub(in crate::config) struct Status;

impl Leaf for Status {
    type Value = SuccessStatus;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<SuccessStatus> {
        match value {
            Value::StringLit(text) if text.value == "2xx" => Some(SuccessStatus::Any2xx),
            Value::NumberLit(number) => match number.value.parse() {
                Ok(status @ 200..=299) => Some(SuccessStatus::Exactly(status)),
                _ => {
                    report.fault(value.range(), path, format!("{} is no status of success: 200 to 299, or \"2xx\"", number.value));
                    None
                }
            },
            _ => wrong_type("\"2xx\" or a status such as 200", "", value, path, report),
        }
    }

    fn absent(&self, _: &Spot) -> Option<SuccessStatus> {
        Some(SuccessStatus::Any2xx)
    }

    fn kind(&self) -> Kind {
        Kind::Status
    }

    fn default_text(&self) -> Option<String> {
        Some("\"2xx\"".to_owned())
    }
}
