//! The messages that are sent: JSON of a given size that says which of which key it is.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What most figures are for.
pub(crate) const SIZE_BYTES: usize = 1024;

/// The `number`th message of a key, from 0 without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) key: u32,
    pub(crate) number: u32,
}

impl Label {
    pub(crate) fn body(self, size_bytes: usize) -> Bytes {
        let head = format!("{{\"key\":{},\"number\":{},\"pad\":\"", self.key, self.number);
        let pad = "x".repeat(size_bytes.saturating_sub(head.len() + 2));
        Bytes::from(format!("{head}{pad}\"}}"))
    }

    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }
}

/// As it is sent: all are equally long.
pub(crate) fn key_name(key: u32) -> String {
    format!("k{key:07}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_size_and_says_which_it_is() {
        let label = Label { key: 4_321, number: 7 };
        let body = label.body(SIZE_BYTES);
        assert_eq!(body.len(), SIZE_BYTES);
        assert_eq!(Label::read(&body), Some(label));
        assert_eq!(Label::read(b"something else"), None);
    }
}
