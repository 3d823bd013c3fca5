//! One received request as text.

use std::fmt::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use hyper::{Method, StatusCode, Uri, Version};
use jiff::ZonedDateTime;

use super::json;
use super::tap::Headers;
use crate::output::grouped;

/// What of a body is kept to be shown.
const MAX_SHOWN_BYTES: usize = 64 << 10;
/// What of a binary body is shown.
const MAX_HEX_BYTES: usize = 32;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const NAME: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));

pub(super) struct Received {
    pub(super) number: u64,
    pub(super) method: Method,
    pub(super) target: Uri,
    pub(super) version: Version,
    pub(super) headers: Headers,
    pub(super) body: Body,
}

/// A body's beginning, and its whole length.
#[derive(Default)]
pub(super) struct Body {
    shown: Vec<u8>,
    pub(super) total_bytes: u64,
}

impl Body {
    pub(super) fn take(&mut self, data: &[u8]) {
        let room = MAX_SHOWN_BYTES - self.shown.len();
        self.shown.extend_from_slice(&data[..data.len().min(room)]);
        self.total_bytes += data.len() as u64;
    }

    fn text(&self) -> String {
        let more = self.total_bytes - self.shown.len() as u64;
        let rest = if more == 0 { String::new() } else { format!("\n{DIM}({} more bytes){DIM:#}", grouped(more)) };
        match readable(&self.shown, more > 0) {
            Some("") => format!("{DIM}(empty body){DIM:#}"),
            Some(text) if more == 0 && json::is_valid(text) => json::indented(text),
            Some(text) => format!("{text}{rest}"),
            None => hex(&self.shown, self.total_bytes),
        }
    }
}

impl Received {
    pub(super) fn block(&self, at: &ZonedDateTime, status: StatusCode, delay: Duration) -> String {
        let mut text = format!("{DIM}#{} at {}{DIM:#}\n", self.number, at.strftime("%H:%M:%S%.3f"));
        let _ = writeln!(text, "{BOLD}{} {}{BOLD:#} {:?}", self.method, self.target, self.version);
        for (name, value) in &self.headers {
            let _ = writeln!(text, "{NAME}{name}{NAME:#}: {}", String::from_utf8_lossy(value).escape_debug());
        }
        let _ = writeln!(text, "\n{}", self.body.text());
        let _ = writeln!(text, "{DIM}answered {}{DIM:#}", verdict(status, delay));
        text
    }
}

/// `500 Internal Server Error after 2s`
pub(super) fn verdict(status: StatusCode, delay: Duration) -> String {
    if delay.is_zero() { status.to_string() } else { format!("{status} after {}", humantime::format_duration(delay)) }
}

/// Text that does no harm to a terminal. `cut`: the end may be half a character.
fn readable(bytes: &[u8], cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if cut && error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(harmless).then_some(text)
}

fn hex(bytes: &[u8], total_bytes: u64) -> String {
    let shown: Vec<String> = bytes.iter().take(MAX_HEX_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let dots = if total_bytes > MAX_HEX_BYTES as u64 { " …" } else { "" };
    format!("{DIM}({} bytes, binary){DIM:#} {}{dots}", grouped(total_bytes), shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(bytes: &[u8]) -> Body {
        let mut body = Body::default();
        body.take(bytes);
        body
    }

    fn plain(body: &Body) -> String {
        anstream::adapter::strip_str(&body.text()).to_string()
    }

    #[test]
    fn a_request_is_shown_whole() {
        let received = Received {
            number: 3,
            method: Method::POST,
            target: "/hook?a=1".parse().unwrap(),
            version: Version::HTTP_11,
            headers: vec![("X-Kmq-Topic".into(), b"orders".to_vec())],
            body: body(br#"{"n":1}"#),
        };
        let at: ZonedDateTime = "2026-11-29T15:04:05.678[UTC]".parse().unwrap();
        let block = received.block(&at, StatusCode::INTERNAL_SERVER_ERROR, Duration::from_secs(2));
        let expected = "#3 at 15:04:05.678\nPOST /hook?a=1 HTTP/1.1\nX-Kmq-Topic: orders\n\n{\n  \"n\": 1\n}\nanswered 500 Internal Server Error after 2s\n";
        assert_eq!(anstream::adapter::strip_str(&block).to_string(), expected);
    }

    #[test]
    fn binary_is_a_summary_and_never_reaches_the_terminal() {
        assert_eq!(plain(&body(&[0xff, 0x00])), "(2 bytes, binary) ff 00");
        assert_eq!(plain(&body(b"\x1b[2J")), "(4 bytes, binary) 1b 5b 32 4a");
        assert!(plain(&body(&[0xff; 1000])).ends_with("ff …"));
    }

    #[test]
    fn a_long_text_is_cut_even_in_the_middle_of_a_character() {
        let long = "é".repeat(MAX_SHOWN_BYTES);
        let text = plain(&body(&[b"a", long.as_bytes()].concat()));
        assert!(text.ends_with("\n(65,537 more bytes)"), "{}", &text[text.len() - 40..]);
    }

    #[test]
    fn an_empty_body_is_said_to_be_empty() {
        assert_eq!(plain(&Body::default()), "(empty body)");
    }
}
