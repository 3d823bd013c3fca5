//! Sizes in bytes: a whole number, or a text such as `"64MiB"`.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::{Kind, Leaf, wrong_type};
use crate::config::fault::{Report, Spot};

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

pub(in crate::config) struct Size {
    /// As it would be written.
    pub(in crate::config) default: &'static str,
    pub(in crate::config) min: u64,
    pub(in crate::config) max: u64,
}

impl Leaf for Size {
    type Value = u64;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<u64> {
        let size = match value {
            Value::StringLit(text) => parse(&text.value),
            Value::NumberLit(number) => parse_bytes(number.value),
            _ => return wrong_type("a size such as \"64MiB\", or a number of bytes", "", value, path, report),
        };
        let within = size.and_then(|bytes| match (self.min..=self.max).contains(&bytes) {
            true => Ok(bytes),
            false => Err(format!("out of bounds: {} to {}", spell(self.min), spell(self.max))),
        });
        within.map_err(|why| report.fault(value.range(), path, format!("{}: {why}", tree_text(value)))).ok()
    }

    fn absent(&self, _: &Spot) -> Option<u64> {
        Some(parse(self.default).or_else(|_| parse_bytes(self.default)).expect("the program's own default is readable"))
    }

    fn kind(&self) -> Kind {
        Kind::Size { min: self.min, max: self.max }
    }

    fn default_text(&self) -> Option<String> {
        let bare = self.default.bytes().all(|b| b.is_ascii_digit());
        Some(if bare { self.default.to_owned() } else { format!("{:?}", self.default) })
    }
}

fn tree_text(value: &Value<'_>) -> String {
    crate::config::tree::spoken(value)
}

fn parse_bytes(digits: &str) -> Result<u64, String> {
    digits.parse().map_err(|_| "a number of bytes is whole and not negative".to_owned())
}

/// A text of digits and a unit, such as `64MiB`. Powers of two are spelt with an `i`.
pub(in crate::config) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(explain(number, unit));
    };
    let number: u64 = number.parse().map_err(|_| format!("no number before {unit:?}; write it like \"64MiB\""))?;
    number.checked_mul(*factor).ok_or_else(|| "too large".to_owned())
}

fn explain(number: &str, unit: &str) -> String {
    let near = UNITS.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(unit.trim()));
    match near {
        _ if number.is_empty() => "write it like \"64MiB\"".to_owned(),
        Some(near) => format!("did you mean \"{number}{near}\"?"),
        None if unit.is_empty() => format!("no unit; write \"{number}B\", or {number} without quotes"),
        None => format!("{unit:?} is no unit; units are B, KiB, MiB, GiB, TiB (1024), KB, MB, GB, TB (1000)"),
    }
}

/// The shortest exact text, which [`parse`] reads back to the same size.
pub(in crate::config) fn spell(bytes: u64) -> String {
    let unit =
        UNITS.iter().take(8).filter(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor)).max_by_key(|(_, factor)| *factor);
    match unit {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_times_their_unit() {
        assert_eq!(parse("64MiB"), Ok(64 << 20));
        assert_eq!(parse("1KB"), Ok(1000));
        assert_eq!(parse("0B"), Ok(0));
    }

    #[test]
    fn a_wrong_unit_is_answered_with_the_right_one() {
        assert!(parse("64 mib").unwrap_err().contains("\"64MiB\""));
        assert!(parse("64").unwrap_err().contains("without quotes"));
        assert!(parse("64M").unwrap_err().contains("units are"));
        assert!(parse("-1B").is_err());
        assert!(parse("1.5GiB").is_err());
        assert_eq!(parse("99999999999TiB"), Err("too large".to_owned()));
    }

    #[test]
    fn a_spelt_size_reads_back() {
        for bytes in [0, 1, 999, 1000, 1024, 1536, 1_000_000, 64 << 20, u64::MAX, 3 << 40] {
            assert_eq!(parse(&spell(bytes)), Ok(bytes), "{}", spell(bytes));
        }
        assert_eq!(spell(64 << 20), "64MiB");
    }
}
