//! Label sets: fixed names, values that the operator or this code chose.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};

use crate::ports::CommitError;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Labels<const N: usize>(pub(crate) [(&'static str, Arc<str>); N]);

impl Labels<2> {
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Labels<3> {
        let [first, second] = self.0.clone();
        Labels([first, second, (name, value.into())])
    }
}

impl<const N: usize> EncodeLabelSet for Labels<N> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| (*name, value.as_ref()).encode(encoder.encode_label()))
    }
}

/// How a write of a cursor ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Stored = 0,
    Again = 1,
    Over = 2,
}

impl Outcome {
    pub(crate) const ALL: [Self; 3] = [Self::Stored, Self::Again, Self::Over];

    pub(crate) fn of(result: &Result<(), CommitError>) -> Self {
        match result {
            Ok(()) => Self::Stored,
            Err(CommitError::Again(_)) => Self::Again,
            Err(CommitError::Over(_)) => Self::Over,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Again => "again",
            Self::Over => "over",
        }
    }
}
