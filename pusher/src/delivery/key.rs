//! A record's key as a header value (`contract.md` §2).

use bytes::Bytes;
use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Everything but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyHeader {
    AsItIs(HeaderValue),
    Percent(HeaderValue),
}

/// Printable ASCII without blanks at its ends stays as it is; any other key is encoded whole.
pub(super) fn key_header(key: &Bytes) -> KeyHeader {
    let printable = key.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let trimmed = key.first() != Some(&b' ') && key.last() != Some(&b' ');
    match HeaderValue::from_maybe_shared(key.clone()) {
        Ok(value) if printable && trimmed => KeyHeader::AsItIs(value),
        _ => {
            let encoded: String = percent_encode(key, ENCODED).collect();
            KeyHeader::Percent(HeaderValue::from_maybe_shared(Bytes::from(encoded)).expect("percent encoding leaves printable ASCII"))
        }
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode;
    use proptest::prelude::*;

    use super::*;

    fn shown(key: &[u8]) -> KeyHeader {
        key_header(&Bytes::copy_from_slice(key))
    }

    #[test]
    fn a_plain_key_is_sent_as_it_is() {
        for key in ["", "order-42", "a b", "100%", "a%20b", "~", "null"] {
            assert_eq!(shown(key.as_bytes()), KeyHeader::AsItIs(HeaderValue::from_str(key).unwrap()));
        }
    }

    #[test]
    fn any_other_key_is_encoded_whole() {
        let cases: [(&[u8], &str); 6] = [
            (b" a", "%20a"),
            (b"a ", "a%20"),
            (b" ", "%20"),
            ("100% é".as_bytes(), "100%25%20%C3%A9"),
            (b"a\r\nX-Evil: 1", "a%0D%0AX-Evil%3A%201"),
            (b"\x00\xff", "%00%FF"),
        ];
        for (key, encoded) in cases {
            assert_eq!(shown(key), KeyHeader::Percent(HeaderValue::from_static(encoded)));
        }
    }

    proptest! {
        #[test]
        fn a_receiver_always_gets_the_key_back(key in proptest::collection::vec(any::<u8>(), 0..40)) {
            match shown(&key) {
                KeyHeader::AsItIs(value) => {
                    prop_assert_eq!(value.as_bytes(), &key[..]);
                    prop_assert_eq!(value.as_bytes().trim_ascii(), &key[..]);
                }
                KeyHeader::Percent(value) => {
                    prop_assert!(value.as_bytes().iter().all(u8::is_ascii_graphic));
                    prop_assert_eq!(percent_decode(value.as_bytes()).collect::<Vec<u8>>(), key);
                }
            }
        }
    }
}
