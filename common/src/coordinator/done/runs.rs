//! A done set as text: base64 of pairs of varints, the gap to the end of the run before (the first
//! gap: to the cursor) and the run's length.

use base64::prelude::{BASE64_STANDARD, Engine};

use super::DoneSet;
use crate::ids::Offset;

/// Why a text is no done set. A set that cannot be read counts as empty, which costs repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RunsError {
    #[error("it is not base64")]
    Base64,
    #[error("it ends within a number")]
    Truncated,
    #[error("a number is not in its shortest form, or has more than 64 bits")]
    Varint,
    #[error("runs touch, are empty, or pass the largest offset")]
    Runs,
}

/// At most `max_bytes` of text; the highest runs are left out where they do not fit.
pub fn encode(done: &DoneSet, cursor: Offset, max_bytes: usize) -> String {
    let max_binary = max_bytes / 4 * 3;
    let mut binary = Vec::new();
    let mut end = cursor.0;
    for run in done.runs().iter().filter(|run| run.start >= cursor.0) {
        let before = binary.len();
        put(&mut binary, run.start - end);
        put(&mut binary, run.end - run.start);
        if binary.len() > max_binary {
            binary.truncate(before);
            break;
        }
        end = run.end;
    }
    BASE64_STANDARD.encode(binary)
}

pub fn decode(text: &str, cursor: Offset) -> Result<DoneSet, RunsError> {
    let binary = BASE64_STANDARD.decode(text).map_err(|_| RunsError::Base64)?;
    let mut rest = binary.as_slice();
    let mut runs = Vec::new();
    let mut end = cursor.0;
    while !rest.is_empty() {
        let (gap, length) = (take(&mut rest)?, take(&mut rest)?);
        let start = end.checked_add(gap).ok_or(RunsError::Runs)?;
        end = start.checked_add(length).ok_or(RunsError::Runs)?;
        runs.push(start..end);
    }
    DoneSet::from_runs(runs).ok_or(RunsError::Runs)
}

/// How long the text would be.
pub fn text_bytes(done: &DoneSet, cursor: Offset, max_bytes: usize) -> usize {
    let mut end = cursor.0;
    let pairs = done.runs().iter().filter(|run| run.start >= cursor.0).map(|run| {
        let gap = run.start - end;
        end = run.end;
        varint_bytes(gap) + varint_bytes(run.end - run.start)
    });
    (pairs.sum::<usize>().div_ceil(3) * 4).min(max_bytes)
}

fn varint_bytes(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(7).max(1) as usize
}

/// LEB128: seven bits a byte, the lowest first.
fn put(binary: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        binary.push(number as u8 | 0x80);
        number >>= 7;
    }
    binary.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Result<u64, RunsError> {
    let mut number = 0;
    for (index, byte) in rest.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for the 64th bit only.
        if index > 9 || (index == 9 && bits > 1) {
            return Err(RunsError::Varint);
        }
        number |= bits << (7 * index);
        if byte & 0x80 == 0 {
            *rest = &rest[index + 1..];
            let shortest = *byte != 0 || index == 0;
            return if shortest { Ok(number) } else { Err(RunsError::Varint) };
        }
    }
    Err(RunsError::Truncated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_length_of_the_text_is_known_before((cursor, set) in sets()) {
            prop_assert_eq!(text_bytes(&set, cursor, usize::MAX), encode(&set, cursor, usize::MAX / 4).len());
        }
    }

    /// A cursor, and pairs of gap and length above it.
    fn sets() -> impl Strategy<Value = (Offset, DoneSet)> {
        let number = prop_oneof![1u64..4, 100u64..70_000, 1u64..(1 << 40)];
        (0u64..(1 << 50), prop::collection::vec((number.clone(), number), 0..200)).prop_map(|(cursor, pairs)| {
            let mut end = cursor;
            let runs = pairs.into_iter().map(|(gap, length)| {
                let start = end + gap;
                end = start + length;
                start..end
            });
            (Offset(cursor), DoneSet::from_runs(runs.collect()).unwrap())
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again((cursor, done) in sets()) {
            prop_assert_eq!(decode(&encode(&done, cursor, usize::MAX), cursor), Ok(done));
        }

        #[test]
        fn what_does_not_fit_is_the_highest((cursor, done) in sets(), max_bytes in 0usize..400) {
            let text = encode(&done, cursor, max_bytes);
            prop_assert!(text.len() <= max_bytes);
            let kept = decode(&text, cursor).unwrap();
            prop_assert_eq!(kept.runs(), &done.runs()[..kept.runs().len()]);
        }

        #[test]
        fn garbage_is_an_error_and_never_a_panic(text in ".{0,60}", binary in prop::collection::vec(any::<u8>(), 0..60), cursor: u64) {
            let _ = decode(&text, Offset(cursor));
            // What can be read at all is in the one form in which it would be written.
            let text = BASE64_STANDARD.encode(binary);
            if let Ok(done) = decode(&text, Offset(cursor)) {
                prop_assert_eq!(encode(&done, Offset(cursor), usize::MAX), text);
            }
        }
    }

    #[test]
    fn a_known_set_has_a_known_text() {
        let done = DoneSet::from_runs(vec![12..13, 300..1300]).unwrap();
        assert_eq!(encode(&done, Offset(10), 100), BASE64_STANDARD.encode([2, 1, 0x9f, 2, 0xe8, 7]));
        assert_eq!(encode(&DoneSet::default(), Offset(10), 100), "");
    }

    #[test]
    fn each_kind_of_garbage_has_its_name() {
        let read = |binary: &[u8]| decode(&BASE64_STANDARD.encode(binary), Offset(u64::MAX - 10));
        assert_eq!(decode("no base64!", Offset(0)), Err(RunsError::Base64));
        assert_eq!(read(&[1]), Err(RunsError::Truncated));
        assert_eq!(read(&[1, 0x80]), Err(RunsError::Truncated));
        assert_eq!(read(&[0x81, 0, 1]), Err(RunsError::Varint));
        assert_eq!(read(&[0xff; 11]), Err(RunsError::Varint));
        assert_eq!(read(&[1, 0]), Err(RunsError::Runs));
        assert_eq!(read(&[1, 1, 0, 1]), Err(RunsError::Runs));
        assert_eq!(read(&[9, 9]), Err(RunsError::Runs));
    }
}
