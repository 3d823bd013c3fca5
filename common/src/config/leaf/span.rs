//! Durations such as `"5s"`, `"500ms"` or `"1m30s"`.

use std::time::Duration;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::{Kind, Leaf, wrong_type};
use crate::config::fault::{Report, Spot};

/// Name and milliseconds, the largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Other names that people write, for hints only.
const OTHER_NAMES: [(&str, &[&str]); 5] = [
    ("d", &["day", "days"]),
    ("h", &["hr", "hrs", "hour", "hours"]),
    ("m", &["min", "mins", "minute", "minutes"]),
    ("s", &["sec", "secs", "second", "seconds"]),
    ("ms", &["msec", "millis", "millisecond", "milliseconds"]),
];

/// All three are texts as one would write them.
pub(in crate::config) struct Span {
    default: &'static str,
    min: &'static str,
    max: &'static str,
    zero: bool,
}

impl Span {
    pub(in crate::config) const fn new(default: &'static str, min: &'static str, max: &'static str) -> Self {
        Self { default, min, max, zero: false }
    }

    /// Zero has a meaning here, although it is less than the least.
    pub(in crate::config) const fn or_zero(self) -> Self {
        Self { zero: true, ..self }
    }

    fn check(&self, text: &str) -> Result<Duration, String> {
        let (least, most) = (own(self.min), own(self.max));
        match parse(text) {
            Ok(Duration::ZERO) if self.zero => Ok(Duration::ZERO),
            Ok(Duration::ZERO) => Err(format!("zero has no meaning here; at least {:?}", self.min)),
            Ok(span) if span < least => Err(format!("less than the least, {:?}", self.min)),
            Ok(span) if span <= most => Ok(span),
            Ok(_) | Err(Unreadable::TooLong) => Err(format!("more than the most, {:?}", self.max)),
            Err(why) => Err(why.to_string()),
        }
    }
}

impl Leaf for Span {
    type Value = Duration;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<Duration> {
        let text = match value {
            Value::StringLit(text) => &text.value,
            Value::NumberLit(number) => {
                let hint = format!("a bare number has no unit; write \"{0}s\" or \"{0}ms\"", number.value);
                return wrong_type("a duration", &hint, value, path, report);
            }
            _ => return wrong_type("a duration such as \"5s\"", "", value, path, report),
        };
        let shown: String = text.chars().take(40).collect();
        self.check(text).map_err(|why| report.fault(value.range(), path, format!("{shown:?}: {why}"))).ok()
    }

    fn absent(&self, _: &Spot) -> Option<Duration> {
        Some(own(self.default))
    }

    fn kind(&self) -> Kind {
        Kind::Duration { min: self.min, max: self.max, zero: self.zero }
    }

    fn default_text(&self) -> Option<String> {
        Some(format!("{:?}", self.default))
    }
}

fn own(text: &str) -> Duration {
    parse(text).expect("the program's own durations are readable")
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::config) enum Unreadable {
    #[error("empty; write it like \"5s\" or \"500ms\"")]
    Empty,
    #[error("a bare number has no unit; write \"{0}s\" or \"{0}ms\"")]
    NoUnit(String),
    #[error("a duration cannot be negative")]
    Negative,
    #[error("did you mean {0:?}?")]
    DidYouMean(String),
    #[error("{0:?} is no unit; units are d, h, m, s, ms")]
    Unit(String),
    #[error("write it like \"1m30s\": digits and a unit, without blanks")]
    Form,
    #[error("units go from large to small, each once, as in \"1m30s\"")]
    Order,
    #[error("finer than a millisecond")]
    TooFine,
    #[error("too long")]
    TooLong,
}

/// Reads numbers with units from large to small; a number may have decimals, as Go's durations
/// do, as long as the whole comes to milliseconds.
pub(in crate::config) fn parse(text: &str) -> Result<Duration, Unreadable> {
    match parse_exactly(text) {
        Err(why @ (Unreadable::Form | Unreadable::Unit(_))) => match tidy(text) {
            tidied if tidied != text && parse_exactly(&tidied).is_ok() => Err(Unreadable::DidYouMean(tidied)),
            _ => Err(why),
        },
        verdict => verdict,
    }
}

fn parse_exactly(text: &str) -> Result<Duration, Unreadable> {
    match text.as_bytes() {
        [] => return Err(Unreadable::Empty),
        [b'-', ..] => return Err(Unreadable::Negative),
        _ => {}
    }
    let (mut rest, mut total_ms, mut units) = (text, 0_u64, UNITS.as_slice());
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, char::is_alphabetic);
        if number.is_empty() {
            return Err(Unreadable::Form);
        }
        if unit.is_empty() {
            return Err(if after.is_empty() && rest == text { Unreadable::NoUnit(number.to_owned()) } else { Unreadable::Form });
        }
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(Unreadable::Unit(unit.to_owned()));
        }
        let at = units.iter().position(|(name, _)| *name == unit).ok_or(Unreadable::Order)?;
        let ms = times(number, units[at].1)?;
        total_ms = total_ms.checked_add(ms).ok_or(Unreadable::TooLong)?;
        (rest, units) = (after, &units[at + 1..]);
    }
    Ok(Duration::from_millis(total_ms))
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// `number`, which may have decimals, times `unit_ms`.
fn times(number: &str, unit_ms: u64) -> Result<u64, Unreadable> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let decimals = decimals.trim_end_matches('0');
    if whole.is_empty() || decimals.contains('.') || number.ends_with('.') {
        return Err(Unreadable::Form);
    }
    let whole: u64 = whole.parse().map_err(|_| Unreadable::TooLong)?;
    let places = u32::try_from(decimals.len()).ok().filter(|n| *n <= 8).ok_or(Unreadable::TooFine)?;
    let part = unit_ms * if decimals.is_empty() { 0 } else { decimals.parse().map_err(|_| Unreadable::Form)? };
    if !part.is_multiple_of(10_u64.pow(places)) {
        return Err(Unreadable::TooFine);
    }
    whole.checked_mul(unit_ms).and_then(|ms| ms.checked_add(part / 10_u64.pow(places))).ok_or(Unreadable::TooLong)
}

/// Without blanks, in lower case, with our names of units.
fn tidy(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect();
    let (mut rest, mut tidied) = (text.as_str(), String::new());
    while !rest.is_empty() {
        let (before, after) = split(rest, |c| !c.is_alphabetic());
        let (unit, after) = split(after, char::is_alphabetic);
        let ours = OTHER_NAMES.iter().find(|(_, others)| others.contains(&unit)).map_or(unit, |(ours, _)| ours);
        tidied.extend([before, ours]);
        rest = after;
    }
    tidied
}

/// The text that [`parse`] reads back to the same duration, to the millisecond.
pub(in crate::config) fn spell(span: Duration) -> String {
    let mut rest = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, ms) in UNITS {
        if rest >= ms {
            text.push_str(&format!("{}{unit}", rest / ms));
            rest %= ms;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// C69: the unit is never guessed.
    #[test]
    fn durations_need_their_unit() {
        let ms = |text| parse(text).map(|span| span.as_millis());
        assert_eq!(ms("10s"), Ok(10_000));
        assert_eq!(ms("1m30s"), Ok(90_000));
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("1.5s"), Ok(1_500));
        assert_eq!(ms("0s"), Ok(0));
        assert_eq!(ms("10"), Err(Unreadable::NoUnit("10".to_owned())));
        assert_eq!(ms("0"), Err(Unreadable::NoUnit("0".to_owned())));
        assert_eq!(ms("-5s"), Err(Unreadable::Negative));
        assert_eq!(ms("10 S"), Err(Unreadable::DidYouMean("10s".to_owned())));
        assert_eq!(ms("1e3s"), Err(Unreadable::Unit("e".to_owned())));
        assert_eq!(ms("99999999999s"), Ok(99_999_999_999_000));
        assert_eq!(ms("99999999999999999999s"), Err(Unreadable::TooLong));
        assert_eq!(ms(""), Err(Unreadable::Empty));
    }

    #[test]
    fn odd_durations_are_refused_precisely() {
        assert_eq!(parse("2 minutes"), Err(Unreadable::DidYouMean("2m".to_owned())));
        assert_eq!(parse("5sec"), Err(Unreadable::DidYouMean("5s".to_owned())));
        assert_eq!(parse("30s1m"), Err(Unreadable::Order));
        assert_eq!(parse("1s1s"), Err(Unreadable::Order));
        assert_eq!(parse("1m30"), Err(Unreadable::Form));
        assert_eq!(parse("0.5ms"), Err(Unreadable::TooFine));
        assert_eq!(parse("1..5s"), Err(Unreadable::Form));
        assert_eq!(parse(".5s"), Err(Unreadable::Form));
        assert_eq!(parse("+5s"), Err(Unreadable::Form));
        assert_eq!(parse("٣s"), Err(Unreadable::Form));
    }

    #[test]
    fn bounds_and_zero_belong_to_the_field() {
        let field = Span::new("1s", "100ms", "366d");
        assert!(field.check("99ms").unwrap_err().contains("\"100ms\""));
        assert!(field.check("367d").unwrap_err().contains("\"366d\""));
        assert!(field.check("99999999999999999999s").unwrap_err().contains("\"366d\""));
        assert!(field.check("0s").unwrap_err().contains("zero"));
        assert_eq!(field.or_zero().check("0s"), Ok(Duration::ZERO));
    }

    proptest! {
        #[test]
        fn a_spelt_duration_reads_back(ms in 0..u64::MAX / 2) {
            let span = Duration::from_millis(ms);
            prop_assert_eq!(parse(&spell(span)), Ok(span));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.smhdeE +-]{0,12}|.{0,8}") {
            let _ = parse(&text);
        }
    }
}
