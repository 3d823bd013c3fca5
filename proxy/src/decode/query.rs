//! Query parameters, by name.

use std::borrow::Cow;

use bytes::Bytes;
use common::problem::Problem;

use super::percent::{self, Plus};
use super::{did_you_mean, malformed, shown};

/// What is done with a parameter that no route knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    Refused,
    /// As the original did.
    Ignored,
}

/// The parameters named `NAMES`, form-decoded, in that order. One given twice is refused: nobody
/// could tell which of them counts.
pub(super) fn parameters<'a, const N: usize>(
    query: Option<&'a str>,
    names: [&'static str; N],
    unknown: Unknown,
) -> Result<[Option<Cow<'a, [u8]>>; N], Problem> {
    let mut found = [const { None }; N];
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name)?;
        match names.iter().position(|known| known.as_bytes() == &*name) {
            Some(place) if found[place].is_some() => return Err(malformed(format!("query parameter {} is given twice", names[place]))),
            Some(place) => found[place] = Some(decoded(value)?),
            None if unknown == Unknown::Ignored => {}
            None => {
                let name = String::from_utf8_lossy(&name);
                let hint = did_you_mean(&name, &names);
                return Err(malformed(format!("unknown query parameter {:?}{hint}", shown(&name))));
            }
        }
    }
    Ok(found)
}

fn decoded(text: &str) -> Result<Cow<'_, [u8]>, Problem> {
    percent::decode(text.as_bytes(), Plus::Space).map_err(|bad| malformed(format!("query: {bad} of {:?}", shown(text))))
}

/// A whole decimal number.
pub(super) fn number<T: std::str::FromStr>(name: &str, value: &[u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed(format!("query parameter {name} is {:?}, not a number it can be", shown(&String::from_utf8_lossy(value)))))
}

pub(super) fn bytes(value: Cow<'_, [u8]>) -> Bytes {
    match value {
        Cow::Borrowed(slice) => Bytes::copy_from_slice(slice),
        Cow::Owned(vec) => vec.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str) -> String {
        parameters(Some(query), ["key", "partition"], Unknown::Refused).unwrap_err().detail.into_owned()
    }

    #[test]
    fn present_and_empty_is_not_absent() {
        let [key, partition] = parameters(Some("key=&&"), ["key", "partition"], Unknown::Refused).unwrap();
        assert_eq!((key.as_deref(), partition), (Some(&b""[..]), None));
        let [key, _] = parameters(Some("key"), ["key", "partition"], Unknown::Refused).unwrap();
        assert_eq!(key.as_deref(), Some(&b""[..]));
    }

    #[test]
    fn values_are_form_decoded_to_bytes() {
        let [key, _] = parameters(Some("key=a+b%26%FF=c"), ["key", "partition"], Unknown::Refused).unwrap();
        assert_eq!(key.as_deref(), Some(&b"a b&\xFF=c"[..]));
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_nearest_one() {
        assert!(refused("partiton=3").contains("did you mean partition?"));
        assert!(refused("zzzzzz=3").contains("known are key, partition"));
        assert!(parameters(Some("x=1"), ["key"], Unknown::Ignored).is_ok());
    }

    #[test]
    fn twice_and_bad_encodings_are_refused() {
        assert!(refused("key=a&key=a").contains("given twice"));
        assert!(refused("key=%4").contains("hexadecimal"));
    }

    #[test]
    fn numbers_are_decimal_and_in_range() {
        assert_eq!(number::<u32>("partition", b"7").unwrap(), 7);
        for bad in ["", "-1", "+1", "1.0", "4294967296", "seven", " 7"] {
            assert!(number::<u32>("partition", bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
