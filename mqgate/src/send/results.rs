//! The answer to a batch with `results=all`: a line for every message as it is settled, then the summary.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::http::Problem;

/// A longer line is not from mqgate.
const MAX_LINE_BYTES: usize = 4 << 20;

#[derive(Deserialize, Debug)]
#[serde(untagged)]
pub(super) enum Line {
    Settled(Settled),
    Summary(Summary),
}

/// In the order of the lines that were sent.
#[derive(Deserialize, Debug)]
pub(super) struct Settled {
    pub(super) line: u64,
    status: u16,
    #[serde(default)]
    code: String,
    #[serde(default)]
    detail: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct Summary {
    pub(super) accepted: u64,
    pub(super) failed: u64,
    #[serde(default)]
    pub(super) errors: Vec<Settled>,
    /// The answer itself.
    #[serde(skip)]
    pub(super) text: String,
}

impl Settled {
    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// `line 2: 400 Bad Request (malformed): …`
    pub(super) fn sentence(&self) -> String {
        let problem = Problem { title: String::new(), detail: self.detail.clone(), code: self.code.clone() };
        format!("line {}: {}", self.line, problem.sentence(self.status()))
    }
}

/// Cuts what comes into lines.
#[derive(Default)]
pub(super) struct Lines {
    gathered: Vec<u8>,
    taken: usize,
}

impl Lines {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.gathered.drain(..std::mem::take(&mut self.taken));
        self.gathered.extend_from_slice(chunk);
    }

    /// The last line may lack its end.
    pub(super) fn end(&mut self) {
        self.push(b"\n");
    }

    /// The next line that is whole.
    pub(super) fn next(&mut self) -> Option<Result<Line, String>> {
        loop {
            let rest = &self.gathered[self.taken..];
            let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                return (rest.len() > MAX_LINE_BYTES).then(|| Err(format!("a line of it is over {MAX_LINE_BYTES} bytes")));
            };
            self.taken += length + 1;
            let line = rest[..length].trim_ascii();
            if !line.is_empty() {
                return Some(read(line));
            }
        }
    }
}

fn read(line: &[u8]) -> Result<Line, String> {
    let mut read = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if let Line::Summary(summary) = &mut read {
        summary.text = String::from_utf8_lossy(line).into_owned();
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_come() {
        let answer = "{\"line\":1,\"status\":200}\n{\"line\":17,\"status\":413,\"code\":\"too_large\",\"detail\":\"2 MB\"}\n{\"accepted\":1,\"failed\":1}";
        for size in [1, 7, 1_000] {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for chunk in answer.as_bytes().chunks(size) {
                lines.push(chunk);
                seen.extend(std::iter::from_fn(|| lines.next()));
            }
            lines.end();
            seen.extend(std::iter::from_fn(|| lines.next()));
            let [Ok(Line::Settled(first)), Ok(Line::Settled(second)), Ok(Line::Summary(last))] = &seen[..] else { panic!("{seen:?}") };
            assert_eq!((first.line, first.status()), (1, StatusCode::OK));
            assert_eq!(second.sentence(), "line 17: 413 Payload Too Large (too_large): 2 MB");
            assert_eq!((last.accepted, last.failed, last.text.as_str()), (1, 1, "{\"accepted\":1,\"failed\":1}"));
        }
    }

    #[test]
    fn a_page_of_another_server_is_no_line() {
        let mut lines = Lines::default();
        lines.push(b"<html>\n");
        assert!(lines.next().unwrap().is_err());
        lines.push(&vec![b'x'; MAX_LINE_BYTES + 1]);
        assert!(lines.next().unwrap().is_err());
    }
}
