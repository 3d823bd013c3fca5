//! `--failed`: a copy of what has to be sent again. Each line stands at its old place, since its number
//! makes its id; a line that was accepted is left empty, and empty lines are no messages.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::failure::Failure;

pub(super) struct Remainder {
    source: BufReader<File>,
    copy: BufWriter<File>,
    path: PathBuf,
    /// The number of the line that was copied or left empty last.
    passed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Copied,
    Emptied,
}

impl Remainder {
    /// Reads `source` a second time, in step with the answers; what stood in `path` is overwritten.
    pub(super) fn open(source: &Path, path: &Path) -> Result<Self, Failure> {
        let unreadable = || format!("{} cannot be read", source.display());
        let lines = File::open(source).with_context(unreadable)?;
        let about = lines.metadata().with_context(unreadable)?;
        if !about.is_file() {
            return Err(Failure::usage("--failed needs --file with a regular file: what fails is read from it a second time"));
        }
        if path.metadata().is_ok_and(|other| same(&about, &other)) {
            return Err(Failure::usage(format_args!("--failed {} is the file that is sent; give it another name", path.display())));
        }
        let copy = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(Self { source: BufReader::new(lines), copy: BufWriter::new(copy), path: path.to_owned(), passed: 0 })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// This line has to be sent again. Lines come in ascending order.
    pub(super) fn keep(&mut self, line: u64) -> io::Result<()> {
        self.empty_until(line.saturating_sub(1))?;
        self.pass(Pass::Copied).map(drop)
    }

    /// As does everything after this line.
    pub(super) fn keep_after(&mut self, line: u64) -> io::Result<()> {
        self.empty_until(line)?;
        while self.pass(Pass::Copied)? {}
        self.flush()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.copy.flush()
    }

    fn empty_until(&mut self, line: u64) -> io::Result<()> {
        while self.passed < line && self.pass(Pass::Emptied)? {}
        Ok(())
    }

    /// Of any length, in the reader's memory. `false` at the end.
    fn pass(&mut self, pass: Pass) -> io::Result<bool> {
        self.passed += 1;
        let mut any = false;
        loop {
            let piece = self.source.fill_buf()?;
            if piece.is_empty() {
                return Ok(any);
            }
            any = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let length = end.unwrap_or(piece.len());
            if pass == Pass::Copied {
                self.copy.write_all(&piece[..length])?;
            }
            self.source.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                self.copy.write_all(b"\n")?;
                return Ok(true);
            }
        }
    }
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remainder(source: &str, work: impl FnOnce(&mut Remainder)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, source).unwrap();
        let mut remainder = Remainder::open(&from, &to).unwrap();
        work(&mut remainder);
        remainder.flush().unwrap();
        std::fs::read_to_string(to).unwrap()
    }

    #[test]
    fn each_line_keeps_its_place_and_with_it_its_id() {
        let kept = remainder("a\nb\n\nd\ne", |r| {
            r.keep(2).unwrap();
            r.keep(5).unwrap();
        });
        assert_eq!(kept, "\nb\n\n\ne");
    }

    #[test]
    fn what_was_not_answered_is_kept_whole() {
        let long = "x".repeat(100_000);
        let kept = remainder(&format!("a\nb\n{long}\nd\n"), |r| {
            r.keep(1).unwrap();
            r.keep_after(2).unwrap();
        });
        assert_eq!(kept, format!("a\n\n{long}\nd\n"));
        assert_eq!(remainder("a\nb\n", |r| r.keep_after(2).unwrap()), "\n\n");
    }
}
