//! Percent-decoding that refuses what is no encoding: a `%ZZ` taken literally would be one thing
//! here and another in the next program.

use std::borrow::Cow;

/// What `+` stands for: itself in a path, a space in a form-encoded query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plus {
    Literal,
    Space,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"%\" at byte {at} is not followed by two hexadecimal digits")]
pub(super) struct BadPercent {
    at: usize,
}

pub(super) fn decode(text: &[u8], plus: Plus) -> Result<Cow<'_, [u8]>, BadPercent> {
    let special = |byte: &u8| *byte == b'%' || (*byte == b'+' && plus == Plus::Space);
    let Some(first) = text.iter().position(special) else { return Ok(Cow::Borrowed(text)) };
    let mut decoded = text[..first].to_vec();
    let mut at = first;
    while at < text.len() {
        match text[at] {
            b'%' => {
                decoded.push(hex_pair(text.get(at + 1..at + 3)).ok_or(BadPercent { at })?);
                at += 2;
            }
            b'+' if plus == Plus::Space => decoded.push(b' '),
            byte => decoded.push(byte),
        }
        at += 1;
    }
    Ok(Cow::Owned(decoded))
}

fn hex_pair(digits: Option<&[u8]>) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low] = *digits? else { return None };
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whatever_they_are() {
        assert_eq!(*decode(b"a%2Db%00%FF%c3%A9", Plus::Literal).unwrap(), *b"a-b\x00\xFF\xC3\xA9");
        assert!(matches!(decode(b"plain", Plus::Space), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn a_plus_is_a_space_in_forms_only() {
        assert_eq!(*decode(b"a+b%2B", Plus::Space).unwrap(), *b"a b+");
        assert_eq!(*decode(b"a+b%2B", Plus::Literal).unwrap(), *b"a+b+");
    }

    #[test]
    fn what_is_no_encoding_is_refused_with_its_place() {
        for (text, at) in [("%ZZ", 0), ("ab%", 2), ("ab%4", 2), ("%41%+1", 3)] {
            assert_eq!(decode(text.as_bytes(), Plus::Space), Err(BadPercent { at }), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn encoding_and_decoding_are_inverse(bytes: Vec<u8>) {
            let encoded = percent_encoding::percent_encode(&bytes, percent_encoding::NON_ALPHANUMERIC).to_string();
            proptest::prop_assert_eq!(&*decode(encoded.as_bytes(), Plus::Literal).unwrap(), &bytes[..]);
        }
    }
}
