//! The beginning of a receiver's answer, made fit for logs and record headers.

/// Of the answer's body, in bytes; more is read and dropped.
pub(super) const MAX_KEPT_BYTES: usize = 512;

/// At most this long, in characters.
const MAX_CHARS: usize = 200;

/// One line of printable text: runs of blanks, control characters and whatever is no UTF-8 become
/// one blank.
pub(super) fn clean(bytes: &[u8]) -> String {
    let kept = &bytes[..bytes.len().min(MAX_KEPT_BYTES)];
    let text = String::from_utf8_lossy(kept);
    let blank = |c: char| c.is_whitespace() || c.is_control() || c == char::REPLACEMENT_CHARACTER;
    let words: Vec<&str> = text.split(blank).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_html_page_becomes_one_line() {
        assert_eq!(clean(b"<html>\r\n  <b>no\x00t\xff found</b>\n"), "<html> <b>no t found</b>");
        assert_eq!(clean(b""), "");
    }

    #[test]
    fn a_long_answer_is_cut_between_characters() {
        let cut = clean("é".repeat(1000).as_bytes());
        assert_eq!(cut, "é".repeat(200));
        assert_eq!(clean(&[b'a'; 1 << 20]).len(), 200);
    }

    proptest! {
        #[test]
        fn nothing_unprintable_is_left(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let cleaned = clean(&bytes);
            prop_assert!(cleaned.chars().count() <= 200);
            prop_assert!(!cleaned.contains(|c: char| c.is_control()));
        }
    }
}
