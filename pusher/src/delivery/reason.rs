//! Why an attempt failed, as a label: a fixed enumeration, whatever a receiver does.

use http::StatusCode;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// An answer that means failure, by its first digit; `Other` is above 599.
    Status1xx,
    /// A success, but not the one that `success_status` asks for.
    Status2xx,
    Status3xx,
    Status4xx,
    Status429,
    Status5xx,
    StatusOther,
    /// The whole attempt took longer than `timeout`.
    Timeout,
    /// No connection within `connect_timeout`: name, TCP and TLS together.
    ConnectTimeout,
    Dns,
    Refused,
    /// No route to the host or its network.
    Unreachable,
    /// The address is a cloud's metadata service.
    ForbiddenAddress,
    ConnectFailed,
    TlsExpired,
    /// Self-signed, or by an authority that is not trusted here.
    TlsUntrusted,
    TlsWrongName,
    /// Any other fault of the handshake, such as plain HTTP behind an https URL.
    Tls,
    Reset,
    ClosedBeforeAnswer,
    ClosedMidAnswer,
    /// What came is no HTTP/1.1 answer.
    Protocol,
}

impl Reason {
    pub(crate) const ALL: [Self; 22] = [
        Self::Status1xx,
        Self::Status2xx,
        Self::Status3xx,
        Self::Status4xx,
        Self::Status429,
        Self::Status5xx,
        Self::StatusOther,
        Self::Timeout,
        Self::ConnectTimeout,
        Self::Dns,
        Self::Refused,
        Self::Unreachable,
        Self::ForbiddenAddress,
        Self::ConnectFailed,
        Self::TlsExpired,
        Self::TlsUntrusted,
        Self::TlsWrongName,
        Self::Tls,
        Self::Reset,
        Self::ClosedBeforeAnswer,
        Self::ClosedMidAnswer,
        Self::Protocol,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Status1xx => "status_1xx",
            Self::Status2xx => "status_2xx",
            Self::Status3xx => "status_3xx",
            Self::Status4xx => "status_4xx",
            Self::Status429 => "status_429",
            Self::Status5xx => "status_5xx",
            Self::StatusOther => "status_other",
            Self::Timeout => "timeout",
            Self::ConnectTimeout => "connect_timeout",
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ForbiddenAddress => "forbidden_address",
            Self::ConnectFailed => "connect_failed",
            Self::TlsExpired => "tls_expired",
            Self::TlsUntrusted => "tls_untrusted",
            Self::TlsWrongName => "tls_wrong_name",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::ClosedBeforeAnswer => "closed_before_answer",
            Self::ClosedMidAnswer => "closed_mid_answer",
            Self::Protocol => "protocol",
        }
    }

    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            100..200 => Self::Status1xx,
            200..300 => Self::Status2xx,
            300..400 => Self::Status3xx,
            429 => Self::Status429,
            400..500 => Self::Status4xx,
            500..600 => Self::Status5xx,
            _ => Self::StatusOther,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_all() {
        assert!((0..).zip(Reason::ALL).all(|(number, reason)| reason as usize == number));
        assert_eq!(Reason::ALL.len(), Reason::Protocol as usize + 1, "the last");
    }
}
