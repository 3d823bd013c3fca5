//! Why there is no answer, read off the chain of errors below the client.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::client::legacy;
use rustls::CertificateError;

use super::stream::{Served, Unanswered};
use crate::delivery::reason::Reason;

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("the name {0:?} cannot be resolved: {1}")]
    Dns(String, io::Error),
    #[error("the name {0:?} has no address")]
    NoAddress(String),
    #[error("{0} is a cloud's metadata service, which no callback may be")]
    Forbidden(SocketAddr),
    #[error("cannot connect to {0}: {1}")]
    Tcp(SocketAddr, io::Error),
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
}

impl ConnectError {
    fn reason(&self) -> Reason {
        match self {
            Self::Dns(..) | Self::NoAddress(_) => Reason::Dns,
            Self::Forbidden(_) => Reason::ForbiddenAddress,
            Self::TimedOut(_) => Reason::ConnectTimeout,
            Self::Tls(error) => tls_reason(error),
            Self::Tcp(_, error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => Reason::Refused,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Reason::Unreachable,
                io::ErrorKind::TimedOut => Reason::ConnectTimeout,
                io::ErrorKind::ConnectionReset => Reason::Reset,
                _ => Reason::ConnectFailed,
            },
        }
    }
}

fn tls_reason(error: &io::Error) -> Reason {
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match fault {
        Some(rustls::Error::InvalidCertificate(fault)) => match fault {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Reason::TlsExpired,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Reason::TlsWrongName,
            _ => Reason::TlsUntrusted,
        },
        _ => Reason::Tls,
    }
}

/// A request without a usable answer.
#[derive(Debug)]
pub(in crate::delivery) struct Broken {
    pub(in crate::delivery) reason: Reason,
    pub(in crate::delivery) repeat: Repeat,
    pub(in crate::delivery) detail: String,
}

/// Whether the request may be sent once more, at once, as part of the same attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::delivery) enum Repeat {
    No,
    /// A reused connection closed before any byte of an answer.
    StaleConnection,
    /// Nothing was sent: the connection had come of age.
    AgedConnection,
}

impl Broken {
    pub(in crate::delivery) fn before_head(error: &legacy::Error) -> Self {
        if let Some(connect) = find::<ConnectError>(error) {
            return Self { reason: connect.reason(), repeat: Repeat::No, detail: connect.to_string() };
        }
        match unanswered(error) {
            Some(ended) => {
                let reason = if ended.was_reset() { Reason::Reset } else { Reason::ClosedBeforeAnswer };
                let repeat = match ended.connection {
                    Served::Nothing => Repeat::No,
                    Served::Before => Repeat::StaleConnection,
                    Served::ItsTime => Repeat::AgedConnection,
                };
                Self { reason, repeat, detail: ended.to_string() }
            }
            None => Self::of_chain(error),
        }
    }

    /// The head came; the body did not, or not whole.
    pub(in crate::delivery) fn within_body(error: &hyper::Error) -> Self {
        Self::of_chain(error)
    }

    pub(in crate::delivery) fn timed_out(after: Duration) -> Self {
        Self { reason: Reason::Timeout, repeat: Repeat::No, detail: format!("no whole answer within {after:?}") }
    }

    fn of_chain(error: &(dyn Error + 'static)) -> Self {
        let reason = match (find::<hyper::Error>(error), find::<io::Error>(error)) {
            (Some(hyper), _) if hyper.is_parse() => Reason::Protocol,
            (Some(hyper), _) if hyper.is_incomplete_message() => Reason::ClosedMidAnswer,
            (_, Some(io)) if io.kind() == io::ErrorKind::UnexpectedEof => Reason::ClosedMidAnswer,
            (_, Some(io)) if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => Reason::Tls,
            (_, Some(_)) => Reason::Reset,
            (Some(hyper), None) if hyper.is_canceled() || hyper.is_closed() => Reason::ClosedBeforeAnswer,
            (_, None) => Reason::Protocol,
        };
        Self { reason, repeat: Repeat::No, detail: innermost(error) }
    }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// `source` of an `io::Error` skips what it carries, so that must be looked into.
fn unanswered<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Unanswered> {
    chain(error).filter_map(|error| error.downcast_ref::<io::Error>()).find_map(|io| io.get_ref()?.downcast_ref())
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string()
}
