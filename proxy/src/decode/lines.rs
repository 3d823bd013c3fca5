//! Cutting a body into lines as it comes, with one line's worth of memory at most.

use bytes::{Buf, Bytes, BytesMut};

/// Feed it with [`LineSplitter::push`] once [`LineSplitter::next`] has nothing more.
pub(crate) struct LineSplitter {
    chunk: Bytes,
    /// The beginning of a line whose end has not come.
    carry: BytesMut,
    overrun: Option<Overrun>,
    max_line_bytes: usize,
    /// Of the line that is looked for, from 1.
    number: u64,
}

/// A line without its `\n`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) content: Result<Bytes, Overrun>,
}

/// Why a line was thrown away while it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overrun {
    TooLong,
    /// The process has no memory to spare for it.
    NoRoom,
}

impl LineSplitter {
    pub(crate) fn new(max_line_bytes: usize) -> Self {
        Self { chunk: Bytes::new(), carry: BytesMut::new(), overrun: None, max_line_bytes, number: 1 }
    }

    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "lines of the last chunk are still there");
        self.chunk = chunk;
    }

    /// A line that is whole. Lines inside of a chunk are slices of it.
    pub(crate) fn next(&mut self) -> Option<Line> {
        match memchr::memchr(b'\n', &self.chunk) {
            Some(end) => {
                let last_part = self.chunk.split_to(end);
                self.chunk.advance(1);
                Some(self.complete(last_part))
            }
            None => {
                let part = std::mem::take(&mut self.chunk);
                self.keep(&part);
                None
            }
        }
    }

    /// What came after the last `\n`, once the body has ended.
    pub(crate) fn last(&mut self) -> Option<Line> {
        let nothing = self.carry.is_empty() && self.overrun.is_none();
        (!nothing).then(|| self.complete(Bytes::new()))
    }

    /// Memory held for a line whose end has not come.
    pub(crate) fn carried_bytes(&self) -> usize {
        self.carry.len()
    }

    /// Throws away what there is of the line that is coming, and what will come of it.
    pub(crate) fn give_up_line(&mut self, why: Overrun) {
        self.carry = BytesMut::new();
        self.overrun = Some(why);
    }

    /// Of the line that is looked for, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn complete(&mut self, last_part: Bytes) -> Line {
        let number = self.number;
        self.number += 1;
        if !self.carry.is_empty() || self.overrun.is_some() {
            self.keep(&last_part);
        }
        let content = match self.overrun.take() {
            Some(why) => Err(why),
            None if last_part.len() > self.max_line_bytes => Err(Overrun::TooLong),
            None if self.carry.is_empty() => Ok(last_part),
            None => Ok(self.carry.split().freeze()),
        };
        Line { number, content }
    }

    fn keep(&mut self, part: &[u8]) {
        if self.overrun.is_some() {
            return;
        }
        if self.carry.len() + part.len() > self.max_line_bytes {
            self.give_up_line(Overrun::TooLong);
        } else {
            self.carry.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Through the splitter, in pieces of these sizes, over and over.
    fn split(text: &[u8], pieces: &[usize], max_line_bytes: usize) -> Vec<Line> {
        let mut splitter = LineSplitter::new(max_line_bytes);
        let (mut lines, mut rest, mut sizes) = (Vec::new(), text, pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
            splitter.push(Bytes::copy_from_slice(piece));
            lines.extend(std::iter::from_fn(|| splitter.next()));
            assert!(splitter.carried_bytes() <= max_line_bytes);
            rest = later;
        }
        lines.extend(splitter.last());
        lines
    }

    fn line(number: u64, text: &'static str) -> Line {
        Line { number, content: Ok(Bytes::from_static(text.as_bytes())) }
    }

    #[test]
    fn the_last_line_needs_no_end_and_a_blank_one_is_no_line() {
        assert_eq!(split(b"a\nb", &[9], 10), [line(1, "a"), line(2, "b")]);
        assert_eq!(split(b"a\nb\n", &[9], 10), [line(1, "a"), line(2, "b")]);
        assert_eq!(split(b"a\n\nb\n", &[9], 10), [line(1, "a"), line(2, ""), line(3, "b")]);
        assert_eq!(split(b"", &[1], 10), []);
    }

    #[test]
    fn a_line_too_long_is_forgotten_and_its_neighbours_are_not() {
        let expected = [line(1, "ab"), Line { number: 2, content: Err(Overrun::TooLong) }, line(3, "cd")];
        for pieces in [&[1][..], &[2, 3], &[100]] {
            assert_eq!(split(b"ab\n0123456789x\ncd", pieces, 10), expected, "{pieces:?}");
        }
        assert_eq!(split(b"0123456789x", &[3], 10), [Line { number: 1, content: Err(Overrun::TooLong) }]);
        assert_eq!(split(b"0123456789\n", &[3], 10), [line(1, "0123456789")]);
    }

    #[test]
    fn a_line_given_up_ends_at_its_end() {
        let mut splitter = LineSplitter::new(100);
        splitter.push(Bytes::from_static(b"abc"));
        assert_eq!(splitter.next(), None);
        splitter.give_up_line(Overrun::NoRoom);
        assert_eq!(splitter.carried_bytes(), 0);
        splitter.push(Bytes::from_static(b"def\nghi\n"));
        assert_eq!(splitter.next(), Some(Line { number: 1, content: Err(Overrun::NoRoom) }));
        assert_eq!(splitter.next(), Some(line(2, "ghi")));
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_body_is_cut(text in "[ab\n]{0,60}", pieces in prop::collection::vec(1usize..20, 1..6)) {
            let whole: Vec<_> = text.strip_suffix('\n').unwrap_or(&text).split('\n').map(|l| l.as_bytes().to_vec()).collect();
            let whole = if text.is_empty() { Vec::new() } else { whole };
            let lines: Vec<_> = split(text.as_bytes(), &pieces, 1000).into_iter().map(|l| l.content.unwrap().to_vec()).collect();
            prop_assert_eq!(lines, whole);
        }
    }
}
