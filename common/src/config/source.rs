//! The text of a configuration file, and where in it something stands.

use jsonc_parser::common::Range;

/// Larger files are refused unread: no configuration is that long.
pub(super) const MAX_FILE_BYTES: usize = 16 << 20;

/// A file's text without its byte order mark, and what else its bytes said.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// As messages name it.
    pub(super) name: &'a str,
    pub(super) text: String,
    /// Where bytes that are not UTF-8 stood; each such sequence is one U+FFFD in `text`.
    pub(super) not_utf8: Vec<usize>,
    line_starts: Vec<usize>,
}

/// A place in the file as an editor shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// From 1. Lines end with `\n`, `\r\n` or a lone `\r`.
    pub line: usize,
    /// From 1, in characters; a byte order mark is none.
    pub column: usize,
    /// The line itself, without its end.
    pub source_line: String,
    /// How many characters of the line are meant, at least 1.
    pub width: usize,
}

impl Position {
    /// Puts asterisks for what is meant by `secret`, if that is in the same line.
    pub(super) fn redact(&mut self, secret: &Self) {
        if self.line == secret.line {
            let meant = secret.column..secret.column + secret.width;
            let line = self.source_line.chars().zip(1..).map(|(c, column)| if meant.contains(&column) { '*' } else { c });
            self.source_line = line.collect();
        }
    }
}

/// Why bytes are no text at all.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoText {
    #[error("the file is {0} bytes long, more than {MAX_FILE_BYTES}; this is no configuration")]
    TooLong(usize),
    #[error("the file is UTF-16 by its byte order mark; save it as UTF-8")]
    Utf16,
}

impl<'a> Source<'a> {
    pub(super) fn new(name: &'a str, bytes: &[u8]) -> Result<Self, NoText> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(NoText::TooLong(bytes.len()));
        }
        if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
            return Err(NoText::Utf16);
        }
        let (text, not_utf8) = decode(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes));
        let line_starts = line_starts(&text);
        Ok(Self { name, text, not_utf8, line_starts })
    }

    /// Line and column of a range; one that reaches over several lines is cut to its first.
    pub(super) fn position(&self, range: Range) -> Position {
        let start = floor_char(&self.text, range.start);
        let line = self.line_starts.partition_point(|begin| *begin <= start) - 1;
        let begin = self.line_starts[line];
        let next = self.line_starts.get(line + 1).copied().unwrap_or(self.text.len());
        let source_line = self.text[begin..next].trim_end_matches(['\r', '\n']);
        let stop = floor_char(&self.text, range.end).clamp(start, start.max(begin + source_line.len()));
        Position {
            line: line + 1,
            column: self.text[begin..start].chars().count() + 1,
            source_line: source_line.to_owned(),
            width: self.text[start..stop].chars().count().max(1),
        }
    }
}

/// Decodes as much as is UTF-8, and says at which offsets of the result the rest stood.
fn decode(bytes: &[u8]) -> (String, Vec<usize>) {
    let mut text = String::with_capacity(bytes.len());
    let mut not_utf8 = Vec::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            not_utf8.push(text.len());
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    (text, not_utf8)
}

fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = |at: usize| bytes[at] == b'\n' || bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
    std::iter::once(0).chain((0..bytes.len()).filter(|at| ends(*at)).map(|at| at + 1)).collect()
}

fn floor_char(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: &[u8], needle: &str) -> (usize, usize) {
        let source = Source::new("f", bytes).unwrap();
        let start = source.text.find(needle).unwrap();
        let position = source.position(Range::new(start, start + needle.len()));
        (position.line, position.column)
    }

    #[test]
    fn columns_count_characters_and_every_kind_of_line_end() {
        assert_eq!(at("a\r\n  x".as_bytes(), "x"), (2, 3));
        assert_eq!(at("a\rx".as_bytes(), "x"), (2, 1));
        assert_eq!(at("a\n\nx".as_bytes(), "x"), (3, 1));
        assert_eq!(at("消息x".as_bytes(), "x"), (1, 3));
    }

    #[test]
    fn a_byte_order_mark_is_no_column() {
        assert_eq!(at(b"\xEF\xBB\xBFx", "x"), (1, 1));
    }

    #[test]
    fn bytes_that_are_not_utf8_count_as_one_character() {
        assert_eq!(at(b"caf\xE9 x", "x"), (1, 6));
        assert_eq!(Source::new("f", b"caf\xE9 x").unwrap().not_utf8, [3]);
    }

    #[test]
    fn utf16_is_named_as_the_cause() {
        assert_eq!(Source::new("f", b"\xFF\xFE{\0}\0").unwrap_err(), NoText::Utf16);
    }

    #[test]
    fn a_place_past_the_end_is_the_end() {
        let source = Source::new("f", b"ab\n").unwrap();
        let position = source.position(Range::new(99, 120));
        assert_eq!((position.line, position.column, position.width), (2, 1, 1));
    }
}
