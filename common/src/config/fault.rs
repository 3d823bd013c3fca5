//! What is wrong with a configuration, and what is merely surprising, as data.

use jsonc_parser::common::Range;

use super::source::{Position, Source};

/// More faults than this are counted, not kept: each holds its line.
const MAX_FAULTS: usize = 1000;

/// Where a fault or a warning belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    At { file: String, position: Position },
    /// A file as a whole: it cannot be read, or there is nothing in it.
    File { file: String },
    /// The command line, or a default that it brings into play.
    CommandLine,
}

/// One thing that keeps the program from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: Place,
    /// Such as `consumer_groups[0].timeout`; `$` is the whole file; a flag by its name.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// One thing that is accepted, but may not be what its author meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub place: Place,
    pub path: String,
    pub message: String,
}

impl Fault {
    /// A file as a whole.
    pub(super) fn of_file(file: &str, message: String) -> Self {
        Self { place: Place::File { file: file.to_owned() }, path: "$".to_owned(), message }
    }
}

/// Every fault of a configuration, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(pub Vec<Fault>);

/// Where a value stands, or would stand if it had been given.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) path: String,
    pub(super) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Origin {
    /// The value's own place.
    Given(Range),
    /// Not given; the place of what should hold it.
    Within(Range),
    Flag,
}

impl Spot {
    pub(super) fn is_given(&self) -> bool {
        !matches!(self.origin, Origin::Within(_))
    }

    pub(super) fn is_flag(&self) -> bool {
        self.origin == Origin::Flag
    }

    pub(super) fn flag(name: &str) -> Self {
        Self { path: name.to_owned(), origin: Origin::Flag }
    }
}

/// Collects faults and warnings while a configuration is read.
#[derive(Debug)]
pub(super) struct Report<'a> {
    /// `None`: there is no file, only flags.
    source: Option<&'a Source<'a>>,
    faults: Vec<(usize, Fault)>,
    warnings: Vec<(usize, Warning)>,
    secrets: Vec<Position>,
    omitted: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(source: Option<&'a Source<'a>>) -> Self {
        Self { source, faults: Vec::new(), warnings: Vec::new(), secrets: Vec::new(), omitted: 0 }
    }

    pub(super) fn fault(&mut self, range: Range, path: &str, message: impl Into<String>) {
        self.fault_at(&Spot { path: path.to_owned(), origin: Origin::Given(range) }, message);
    }

    pub(super) fn fault_at(&mut self, spot: &Spot, message: impl Into<String>) {
        if self.faults.len() == MAX_FAULTS {
            self.omitted += 1;
            return;
        }
        let (order, place) = self.place(spot.origin);
        self.faults.push((order, Fault { place, path: spot.path.clone(), message: message.into() }));
    }

    /// What stands there is a secret: no line that is shown shows it.
    pub(super) fn hide(&mut self, range: Range) {
        self.secrets.extend(self.source.map(|source| source.position(range)));
    }

    pub(super) fn warning(&mut self, range: Range, path: &str, message: impl Into<String>) {
        self.warning_at(&Spot { path: path.to_owned(), origin: Origin::Given(range) }, message);
    }

    pub(super) fn warning_at(&mut self, spot: &Spot, message: impl Into<String>) {
        if self.warnings.len() == MAX_FAULTS {
            return;
        }
        let (order, place) = self.place(spot.origin);
        self.warnings.push((order, Warning { place, path: spot.path.clone(), message: message.into() }));
    }

    /// `line 7`, for a message about another place.
    pub(super) fn mention(&self, spot: &Spot) -> String {
        match self.place(spot.origin).1 {
            Place::At { position, .. } => format!("line {}", position.line),
            Place::File { .. } | Place::CommandLine => spot.path.clone(),
        }
    }

    pub(super) fn has_file(&self) -> bool {
        self.source.is_some()
    }

    /// The verdict, each list in the order of the file.
    pub(super) fn finish(mut self) -> Result<Vec<Warning>, Faults> {
        let faults = self.faults.iter_mut().map(|(_, fault)| &mut fault.place);
        for place in faults.chain(self.warnings.iter_mut().map(|(_, warning)| &mut warning.place)) {
            if let Place::At { position, .. } = place {
                self.secrets.iter().for_each(|secret| position.redact(secret));
            }
        }
        if let (1.., Some(source)) = (self.omitted, self.source) {
            self.faults.push((usize::MAX, Fault::of_file(source.name, format!("and {} more faults, which are not shown", self.omitted))));
        }
        self.faults.sort_by_key(|(order, _)| *order);
        self.warnings.sort_by_key(|(order, _)| *order);
        match self.faults.is_empty() {
            true => Ok(self.warnings.into_iter().map(|(_, warning)| warning).collect()),
            false => Err(Faults(self.faults.into_iter().map(|(_, fault)| fault).collect())),
        }
    }

    fn place(&self, origin: Origin) -> (usize, Place) {
        match (self.source, origin) {
            (Some(source), Origin::Given(range) | Origin::Within(range)) => {
                // What holds a missing value is pointed at by its first character alone.
                let range = if matches!(origin, Origin::Within(_)) { Range::new(range.start, range.start + 1) } else { range };
                (range.start, Place::At { file: source.name.to_owned(), position: source.position(range) })
            }
            (None, _) | (_, Origin::Flag) => (usize::MAX, Place::CommandLine),
        }
    }
}
