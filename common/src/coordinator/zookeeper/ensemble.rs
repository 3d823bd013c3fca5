//! The connect string: `host:port,host:port/chroot`.

use std::fmt;

const DEFAULT_PORT: u16 = 2181;

/// The servers, and the path under which everything lies.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ensemble {
    /// Each `host:port`, an IPv6 address in brackets.
    hosts: Vec<String>,
    /// `/a/b`, without a slash at its end; empty for the root.
    chroot: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnsembleError {
    #[error("{0:?} names no server; expected host:port,host:port/path")]
    NoHost(String),
    #[error("{0:?} is no host:port")]
    Host(String),
    #[error("{0:?} has a path after one of several servers; one path for all stands after the last server")]
    ChrootPerHost(String),
    #[error("{0:?} is no path in ZooKeeper: an element is \".\" or \"..\", or has a control character")]
    Chroot(String),
}

impl Ensemble {
    /// Blanks around a server and a comma too many are passed over, a port left out is 2181, and
    /// slashes too many in the path count as one.
    pub fn parse(text: &str) -> Result<Self, EnsembleError> {
        let (hosts, chroot) = text.find('/').map_or((text, ""), |slash| text.split_at(slash));
        if chroot.contains(',') {
            return Err(EnsembleError::ChrootPerHost(text.to_owned()));
        }
        let parts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        let hosts = parts.map(host).collect::<Result<Vec<_>, _>>()?;
        if hosts.is_empty() {
            return Err(EnsembleError::NoHost(text.to_owned()));
        }
        Ok(Self { hosts, chroot: path(chroot)? })
    }

    /// As the client library takes it: without the path.
    pub(super) fn servers(&self) -> String {
        self.hosts.join(",")
    }

    pub fn chroot(&self) -> &str {
        &self.chroot
    }
}

impl fmt::Display for Ensemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.servers(), self.chroot)
    }
}

fn host(text: &str) -> Result<String, EnsembleError> {
    let wrong = || EnsembleError::Host(text.to_owned());
    let (host, port) = match text.rfind(']') {
        Some(end) if text.starts_with('[') => (&text[..=end], &text[end + 1..]),
        _ => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    let port = match port {
        "" => DEFAULT_PORT,
        port => port.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port| *port > 0).ok_or_else(wrong)?,
    };
    let illegal = |c: char| c.is_whitespace() || c.is_control();
    if host.is_empty() || host == "[]" || host.contains(illegal) { Err(wrong()) } else { Ok(format!("{host}:{port}")) }
}

fn path(text: &str) -> Result<String, EnsembleError> {
    let elements: Vec<&str> = text.trim_end().split('/').filter(|element| !element.is_empty()).collect();
    if elements.iter().any(|element| matches!(*element, "." | "..") || element.contains(char::is_control)) {
        return Err(EnsembleError::Chroot(text.to_owned()));
    }
    Ok(elements.iter().map(|element| format!("/{element}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(String, String), EnsembleError> {
        Ensemble::parse(text).map(|ensemble| (ensemble.servers(), ensemble.chroot))
    }

    #[test]
    fn harmless_forms_are_accepted() {
        for (text, servers, chroot) in [
            ("z1:2181", "z1:2181", ""),
            ("z1", "z1:2181", ""),
            ("z1:2181/", "z1:2181", ""),
            ("z1:2181/a/b", "z1:2181", "/a/b"),
            ("z1:2181//a/", "z1:2181", "/a"),
            ("z1:2181,z2:2182/a", "z1:2181,z2:2182", "/a"),
            ("z1:2181, z2:2182,", "z1:2181,z2:2182", ""),
            ("[::1]:2181/a", "[::1]:2181", "/a"),
            ("[::1]", "[::1]:2181", ""),
        ] {
            assert_eq!(parsed(text), Ok((servers.into(), chroot.into())), "{text}");
        }
    }

    #[test]
    fn a_path_after_each_server_is_refused_and_not_guessed_at() {
        assert_eq!(parsed("z1:2181/a,z2:2181/a"), Err(EnsembleError::ChrootPerHost("z1:2181/a,z2:2181/a".into())));
    }

    #[test]
    fn what_is_no_server_or_no_path_is_refused() {
        for text in ["", ",", "/a", "z1:", "z1:0", "z1:99999", "z1:x", ":2181", "z 1", "::1", "[]:1", "z1/a/../b", "z1/."] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
