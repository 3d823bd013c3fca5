//! A cursor as text: the next offset in decimal digits, as Kafka's own tools of the 0.8 era wrote it.

use crate::ids::Offset;

/// Old tools read a cursor as a signed 64-bit number.
const MAX: u64 = i64::MAX as u64;

pub fn encode(cursor: Offset) -> String {
    cursor.to_string()
}

/// Digits and nothing else, or the text as it reads, for the complaint: no default is safe.
pub fn decode(node: &[u8]) -> Result<Offset, String> {
    let digits = str::from_utf8(node).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok()).filter(|number| *number <= MAX);
    number.map(Offset).ok_or_else(|| shown(node))
}

/// Cut, since what is no cursor may be anything.
fn shown(node: &[u8]) -> String {
    const MAX_BYTES: usize = 64;
    let text = String::from_utf8_lossy(&node[..node.len().min(MAX_BYTES)]).into_owned();
    if node.len() > MAX_BYTES { text + "…" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_decimal_digits() {
        for (text, offset) in [("0", 0), ("17", 17), ("007", 7), ("9223372036854775807", MAX)] {
            assert_eq!(decode(text.as_bytes()), Ok(Offset(offset)));
        }
        assert_eq!(encode(Offset(17)), "17");
    }

    #[test]
    fn anything_else_is_shown_and_never_guessed_at() {
        for text in ["", "-1", "+1", " 1", "1\n", "1.5", "0x10", "9223372036854775808", "99999999999999999999", "١"] {
            assert_eq!(decode(text.as_bytes()), Err(text.to_owned()));
        }
        assert_eq!(decode(&[0xff, b'1']), Err("\u{fffd}1".to_owned()));
        assert_eq!(decode("x".repeat(5000).as_bytes()).unwrap_err().chars().count(), 65);
    }
}
