//! What has become of the lines so far. Of the failures, as many are kept as are shown.

use std::path::{Path, PathBuf};

use reqwest::StatusCode;

use super::remainder::Remainder;
use super::results::Settled;

/// Failures that are shown one by one.
const MAX_TOLD: usize = 100;

pub(super) struct Tally {
    pub(super) accepted: u64,
    pub(super) failed: u64,
    /// The last line that was answered; those before it are, too.
    pub(super) answered_up_to: u64,
    pub(super) told: Vec<String>,
    pub(super) kinds: Kinds,
    copy: Copy,
}

/// What the failures ask for.
#[derive(Default)]
pub(super) struct Kinds {
    /// 504: a copy may be there.
    pub(super) may_be_written: u64,
    /// The line itself is at fault, and would fail again.
    pub(super) at_fault: u64,
}

enum Copy {
    NotWanted,
    Kept(Remainder),
    Failed(PathBuf, std::io::Error),
}

impl Tally {
    pub(super) fn new(remainder: Option<Remainder>) -> Self {
        let copy = remainder.map_or(Copy::NotWanted, Copy::Kept);
        Self { accepted: 0, failed: 0, answered_up_to: 0, told: Vec::new(), kinds: Kinds::default(), copy }
    }

    pub(super) fn settled(&mut self, settled: &Settled) {
        self.answered_up_to = settled.line;
        if settled.status().is_success() {
            self.accepted += 1;
            return;
        }
        self.fail(settled);
        self.copy(|remainder| remainder.keep(settled.line));
    }

    /// What only the summary says: from some line on the upload did not arrive.
    pub(super) fn cut_off(&mut self, errors: &[Settled]) {
        let answered = self.answered_up_to;
        for error in errors.iter().filter(|error| error.line > answered) {
            self.fail(error);
        }
        self.keep_the_rest();
    }

    fn fail(&mut self, settled: &Settled) {
        self.failed += 1;
        match settled.status() {
            StatusCode::GATEWAY_TIMEOUT => self.kinds.may_be_written += 1,
            status if status.is_client_error() && !matches!(status.as_u16(), 408 | 429) => self.kinds.at_fault += 1,
            _ => {}
        }
        if self.told.len() < MAX_TOLD {
            self.told.push(settled.sentence());
        }
    }

    /// Everything that was not answered has to be sent again.
    pub(super) fn keep_the_rest(&mut self) {
        let answered = self.answered_up_to;
        self.copy(|remainder| remainder.keep_after(answered));
    }

    /// Where the lines are that have to be sent again; why they are not there, if that was asked for.
    pub(super) fn remainder(&mut self) -> Result<Option<&Path>, String> {
        self.copy(Remainder::flush);
        match &self.copy {
            Copy::NotWanted => Ok(None),
            Copy::Kept(remainder) => Ok(Some(remainder.path())),
            Copy::Failed(path, error) => Err(format!("{} could not be written ({error}) and is not complete", path.display())),
        }
    }

    /// A full disk here is no reason to break off what is sent.
    fn copy(&mut self, write: impl FnOnce(&mut Remainder) -> std::io::Result<()>) {
        if let Copy::Kept(remainder) = &mut self.copy
            && let Err(error) = write(remainder)
        {
            self.copy = Copy::Failed(remainder.path().to_owned(), error);
        }
    }
}
