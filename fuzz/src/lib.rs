//! Inputs for the decoders' tests: real examples, edited. An input is kept as its edits, so that one that fails shrinks
//! to an example with one edit.
//!
//! Not guided by coverage: that takes a nightly compiler, or a build of everything for each engine. Examples and the words
//! of each format go deep enough, since a decoder here is shallow.

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Longer than anything that comes of single edits, so that what grows faster than its input is seen.
pub const MAX_BYTES: usize = 64 << 10;

/// Of each property; some seconds in all.
const CASES: u32 = 2_000;

/// As many as `PROPTEST_CASES` says, else few enough for every build.
pub fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if asked { ProptestConfig::default().cases } else { CASES };
    ProptestConfig { cases, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() }
}

#[derive(Debug, Clone)]
enum Edit {
    /// Other bytes in the place of some, or of none.
    Replace(Index, usize, Vec<u8>),
    /// A part of the input once more, elsewhere.
    Copy(Index, usize, Index),
    /// A part many times over: deep nesting, long numbers, long texts.
    Repeat(Index, usize, usize),
    Flip(Index, u8),
    End(Index),
}

/// Bytes near one of `examples`, with the `words` of its format put in.
pub fn near(examples: Vec<Vec<u8>>, words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    (select(examples), prop::collection::vec(edit(words), 0..6)).prop_map(|(example, edits)| edits.into_iter().fold(example, edited))
}

/// The same as text; what is no UTF-8 is replaced.
pub fn near_text(examples: &[&str], words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let examples = examples.iter().map(|example| example.as_bytes().to_vec()).collect();
    near(examples, words).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn edit(words: &'static [&'static str]) -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    let piece = prop_oneof![
        3 => select(words).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..5),
        1 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
    ];
    prop_oneof![
        8 => (at(), 0_usize..12, piece).prop_map(|(at, removed, piece)| Edit::Replace(at, removed, piece)),
        2 => (at(), 1_usize..60, at()).prop_map(|(from, length, to)| Edit::Copy(from, length, to)),
        1 => (at(), 1_usize..8, 2_usize..20_000).prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
        2 => (at(), 1_u8..).prop_map(|(at, bits)| Edit::Flip(at, bits)),
        1 => at().prop_map(Edit::End),
    ]
}

fn edited(mut bytes: Vec<u8>, edit: Edit) -> Vec<u8> {
    let place = |index: Index, bytes: &[u8]| index.index(bytes.len() + 1);
    let part = |at: usize, length: usize, bytes: &[u8]| bytes[at..bytes.len().min(at + length)].to_vec();
    match edit {
        Edit::Replace(at, removed, piece) => {
            let at = place(at, &bytes);
            let end = bytes.len().min(at + removed);
            bytes.splice(at..end, piece);
        }
        Edit::Copy(from, length, to) => {
            let copied = part(place(from, &bytes), length, &bytes);
            let to = place(to, &bytes);
            bytes.splice(to..to, copied);
        }
        Edit::Repeat(at, length, times) => {
            let at = place(at, &bytes);
            let part = part(at, length, &bytes);
            let room = MAX_BYTES.saturating_sub(bytes.len());
            bytes.splice(at..at, part.iter().copied().cycle().take((part.len() * times).min(room)));
        }
        Edit::Flip(at, bits) => {
            let at = place(at, &bytes);
            bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= bits);
        }
        Edit::End(at) => bytes.truncate(at.index(bytes.len() + 1)),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #[test]
        fn an_input_is_bounded(input in near(vec![b"{}".to_vec(), Vec::new()], &["[", "null"])) {
            prop_assert!(input.len() <= MAX_BYTES + 100);
        }
    }
}
