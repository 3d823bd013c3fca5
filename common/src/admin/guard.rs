//! Who may use `/v1`: nobody by accident, no web page, and over the network only with the token.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, Uri};
use subtle::ConstantTimeEq;

use crate::config::Secret;
use crate::problem::{Kind, Problem};

/// The rule of one admin port.
#[derive(Clone, Debug)]
pub struct Access {
    reach: Reach,
    token: Option<Arc<Secret>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    Loopback,
    Network,
}

/// Anybody could pause, replay and delete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "other machines can reach {listen}, so the admin API needs a token: set {section}.admin_token, or let {section}.admin be on 127.0.0.1"
)]
pub struct OpenToTheNetwork {
    section: &'static str,
    listen: SocketAddr,
}

impl Access {
    /// To be asked before the port is opened. `section` is the configuration's, for the message.
    pub fn new(section: &'static str, listen: SocketAddr, token: Option<Secret>) -> Result<Self, OpenToTheNetwork> {
        let reach = if listen.ip().to_canonical().is_loopback() { Reach::Loopback } else { Reach::Network };
        match (reach, &token) {
            (Reach::Network, None) => Err(OpenToTheNetwork { section, listen }),
            _ => Ok(Self { reach, token: token.map(Arc::new) }),
        }
    }

    pub(super) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        if self.reach == Reach::Loopback {
            from_this_machine(uri, headers)?;
        }
        if let Some(token) = &self.token {
            authorized(token, headers)?;
        }
        match *method {
            Method::POST | Method::PUT | Method::PATCH | Method::DELETE => as_json(headers),
            _ => Ok(()),
        }
    }
}

/// A web page reaches a loopback port under the page's own host name (DNS rebinding), or with an
/// `Origin`; a program that means this port does neither.
fn from_this_machine(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(ORIGIN) {
        return Err(Problem::new(Kind::Forbidden, "requests from web pages (with an Origin header) are refused"));
    }
    let mut hosts = headers.get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().is_ok_and(is_local),
        _ => false,
    };
    if named && uri.authority().is_none_or(|authority| is_local(authority.as_str())) {
        return Ok(());
    }
    Err(Problem::new(Kind::Forbidden, "on loopback the Host header must be localhost, 127.0.0.1 or [::1]"))
}

fn is_local(authority: &str) -> bool {
    let user_info = authority.contains('@');
    let host = authority.parse::<Authority>().map(|authority| authority.host().to_ascii_lowercase());
    !user_info && matches!(host.as_deref(), Ok("localhost" | "127.0.0.1" | "[::1]"))
}

fn authorized(token: &Secret, headers: &HeaderMap) -> Result<(), Problem> {
    let sent =
        headers.get(AUTHORIZATION).ok_or_else(|| Problem::new(Kind::Unauthorized, "send the admin token: Authorization: Bearer …"))?;
    let given = sent.as_bytes().split_at_checked("Bearer ".len()).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "));
    match given {
        Some((_, given)) if bool::from(given.ct_eq(token.expose().as_bytes())) => Ok(()),
        _ => Err(Problem::new(Kind::Unauthorized, "this is not the admin token")),
    }
}

/// A page may send forms and plain text to another origin unasked, but never JSON.
fn as_json(headers: &HeaderMap) -> Result<(), Problem> {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = sent.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::new(Kind::UnsupportedMediaType, "writes need Content-Type: application/json"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn access(listen: &str, token: Option<&str>) -> Result<Access, OpenToTheNetwork> {
        Access::new("pusher", listen.parse().unwrap(), token.map(|text| Secret::new(text.to_owned())))
    }

    fn verdict(access: &Access, method: &Method, headers: &[(&str, &str)]) -> u16 {
        let pairs = headers.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()));
        let headers: HeaderMap = pairs.fold(HeaderMap::new(), |mut map, (name, value): (http::HeaderName, _)| {
            map.append(name, value);
            map
        });
        access.check(method, &Uri::from_static("/v1/groups"), &headers).map_or_else(|problem| problem.kind.status().as_u16(), |()| 200)
    }

    #[test]
    fn off_loopback_a_token_is_needed_to_listen_at_all() {
        for open in ["0.0.0.0:9091", "[::]:9091", "10.0.0.1:9091", "[::ffff:10.0.0.1]:9091"] {
            assert!(access(open, None).is_err(), "{open}");
            assert!(access(open, Some("t")).is_ok(), "{open}");
        }
        for closed in ["127.0.0.1:9091", "127.0.0.2:0", "[::1]:9091", "[::ffff:127.0.0.1]:9091"] {
            assert!(access(closed, None).is_ok(), "{closed}");
        }
        let refusal = access("0.0.0.0:9091", None).unwrap_err().to_string();
        assert!(refusal.contains("pusher.admin_token") && refusal.contains("0.0.0.0:9091"), "{refusal}");
    }

    #[test]
    fn no_web_page_reaches_a_loopback_port() {
        let access = access("127.0.0.1:9091", None).unwrap();
        for host in ["localhost", "LocalHost:9091", "127.0.0.1:1", "[::1]:9091", "[::1]"] {
            assert_eq!(verdict(&access, &Method::GET, &[("host", host)]), 200, "{host}");
            assert_eq!(verdict(&access, &Method::GET, &[("host", host), ("origin", "http://localhost:9091")]), 403, "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:9091", "localhost@evil.example", "evil@localhost", "", "::1"]
        {
            assert_eq!(verdict(&access, &Method::GET, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(verdict(&access, &Method::GET, &[]), 403);
        assert_eq!(verdict(&access, &Method::GET, &[("host", "localhost"), ("host", "evil.example")]), 403);
    }

    #[test]
    fn the_authority_of_the_request_line_counts_like_the_host_header() {
        let access = access("127.0.0.1:9091", None).unwrap();
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
        assert!(access.check(&Method::GET, &Uri::from_static("http://evil.example/v1/groups"), &headers).is_err());
        assert!(access.check(&Method::GET, &Uri::from_static("http://127.0.0.1:9091/v1/groups"), &headers).is_ok());
    }

    #[test]
    fn the_token_is_asked_for_on_every_request_also_on_loopback() {
        for listen in ["127.0.0.1:9091", "0.0.0.0:9091"] {
            let access = access(listen, Some("s3cret")).unwrap();
            let with = |value| verdict(&access, &Method::GET, &[("host", "localhost"), ("authorization", value)]);
            assert_eq!(verdict(&access, &Method::GET, &[("host", "localhost")]), 401);
            assert_eq!(with("Bearer s3cret"), 200);
            assert_eq!(with("bearer s3cret"), 200);
            for wrong in ["Bearer s3cre", "Bearer s3crett", "Bearer ", "Bearer", "Basic s3cret", "s3cret"] {
                assert_eq!(with(wrong), 401, "{wrong}");
            }
        }
    }

    #[test]
    fn writes_say_that_they_are_json() {
        let access = access("127.0.0.1:9091", None).unwrap();
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let with = |value| verdict(&access, &method, &[("host", "localhost"), ("content-type", value)]);
            assert_eq!(with("application/json"), 200);
            assert_eq!(with("Application/JSON; charset=utf-8"), 200);
            assert_eq!(with("text/plain"), 415);
            assert_eq!(with("application/jsonx"), 415);
            assert_eq!(verdict(&access, &method, &[("host", "localhost")]), 415);
        }
    }
}
