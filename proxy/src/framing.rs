//! What of a head decides where a request ends and whom it is for. hyper is lenient there; a proxy
//! before us may not be, and two readings of one stream are how requests are smuggled.

use common::problem::{Kind, Problem};
use http::header::{HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Version};

/// After a refusal nothing more can be read from the connection for certain.
pub(crate) fn check(head: &Parts) -> Result<(), Problem> {
    let detail = transfer_coding(&head.headers).or_else(|| host(&head.headers, head.version));
    detail.map_or(Ok(()), |detail| Err(Problem::new(Kind::Malformed, detail)))
}

/// RFC 9112, 6.1. hyper takes whatever ends with `chunked`, and would hand over the rest undecoded.
fn transfer_coding(headers: &HeaderMap) -> Option<&'static str> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => None,
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => None,
        _ => Some("Transfer-Encoding is not chunked alone; no other coding is undone here, so send the body without it"),
    }
}

/// RFC 9112, 3.2.
fn host(headers: &HeaderMap, version: Version) -> Option<&'static str> {
    match headers.get_all(HOST).iter().count() {
        1 => None,
        0 if version < Version::HTTP_11 => None,
        0 => Some("header host is missing, which HTTP/1.1 requires"),
        _ => Some("header host is given twice"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(version: Version, headers: &[(&'static str, &'static str)]) -> Option<String> {
        let mut request = http::Request::post("/").version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap().into_parts().0).err().map(|problem| problem.detail.into_owned())
    }

    #[test]
    fn chunked_is_the_only_transfer_coding() {
        for alone in ["chunked", "Chunked"] {
            assert_eq!(refusal(Version::HTTP_11, &[("host", "a"), ("transfer-encoding", alone)]), None);
        }
        for other in ["gzip, chunked", "chunked, chunked", "gzip", "identity", "", "chunked;a=b"] {
            let detail = refusal(Version::HTTP_11, &[("host", "a"), ("transfer-encoding", other)]);
            assert!(detail.is_some_and(|detail| detail.contains("Transfer-Encoding")), "{other}");
        }
        let two = [("host", "a"), ("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")];
        assert!(refusal(Version::HTTP_11, &two).is_some());
    }

    #[test]
    fn a_request_of_http_1_1_has_one_host() {
        assert_eq!(refusal(Version::HTTP_11, &[("host", "")]), None);
        assert_eq!(refusal(Version::HTTP_10, &[]), None);
        assert!(refusal(Version::HTTP_11, &[]).is_some());
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert!(refusal(version, &[("host", "a"), ("host", "a")]).is_some());
        }
    }
}
