//! Secrets: a text, or where to find one.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::{Kind, Leaf};
use crate::config::Secret;
use crate::config::fault::{Report, Spot};

/// Files longer than this hold no secret.
const MAX_SECRET_BYTES: usize = 4096;

pub(in crate::config) struct SecretText;

impl Leaf for SecretText {
    type Value = Secret;

    fn read(&self, value: &Value<'_>, path: &str, report: &mut Report<'_>) -> Option<Secret> {
        if !matches!(value, Value::StringLit(text) if is_elsewhere(&text.value)) {
            report.hide(value.range());
        }
        let Value::StringLit(text) = value else {
            // Not even a number that might be one is repeated.
            report.fault(value.range(), path, "expected a text, \"env:NAME\" or \"file:PATH\"");
            return None;
        };
        let found = find(&text.value).and_then(|secret| check(&secret).map(|()| Secret::new(secret)));
        found.map_err(|why| report.fault(value.range(), path, why)).ok()
    }

    fn absent(&self, _: &Spot) -> Option<Secret> {
        None
    }

    fn kind(&self) -> Kind {
        Kind::Secret
    }

    fn default_text(&self) -> Option<String> {
        None
    }
}

/// Whether it says where the text is found, and is not the text itself.
pub(super) fn is_elsewhere(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

pub(super) fn find(text: &str) -> Result<String, String> {
    if let Some(name) = text.strip_prefix("env:") {
        std::env::var(name).map_err(|_| format!("the environment has no variable {name:?} (or it is not UTF-8)"))
    } else if let Some(path) = text.strip_prefix("file:") {
        let secret = std::fs::read_to_string(path).map_err(|error| format!("{path:?} cannot be read: {error}"))?;
        // Editors and `echo` end a file with a line break that nobody means.
        let secret = secret.strip_suffix('\n').unwrap_or(&secret);
        Ok(secret.strip_suffix('\r').unwrap_or(secret).to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// It travels in an `Authorization` header, so it must be able to.
fn check(secret: &str) -> Result<(), String> {
    match secret {
        "" => Err("a secret must not be empty".to_owned()),
        _ if secret.len() > MAX_SECRET_BYTES => Err(format!("a secret of {} bytes; at most {MAX_SECRET_BYTES}", secret.len())),
        _ if secret.bytes().all(|b| b.is_ascii_graphic()) => Ok(()),
        _ => Err("a secret must be printable ASCII without blanks".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_last_line_break_is_not_part_of_the_secret() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\r\n").unwrap();
        assert_eq!(find(&format!("file:{}", file.path().display())).unwrap(), "s3cret");
    }

    #[test]
    fn a_secret_is_found_in_the_environment() {
        assert_eq!(find("env:CARGO_PKG_NAME").unwrap(), "common");
        assert!(find("env:MQGATE_NO_SUCH_NAME").unwrap_err().contains("MQGATE_NO_SUCH_NAME"));
    }

    #[test]
    fn what_no_header_can_carry_is_no_secret() {
        assert!(check("").is_err());
        assert!(check("two words").is_err());
        assert!(check("geheimnisvoll-ü").is_err());
        assert!(check("0123456789abcdef").is_ok());
    }
}
