//! Addresses to listen on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `127.0.0.1:9090`, `[::1]:9090` or `localhost:9090`. Other names are not looked up: what a
/// server listens on should not depend on somebody else's answer.
pub(in crate::config) fn parse(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let hint = |what: &str| Err(format!("{text:?}: {what}"));
    if text.parse::<Ipv4Addr>().is_ok() {
        return hint(&format!("the port is missing; write \"{text}:9090\""));
    }
    if let Some(bare) = text.rsplit_once(':').filter(|(host, _)| host.parse::<Ipv6Addr>().is_ok()) {
        return hint(&format!("an IPv6 address needs brackets; write \"[{}]:{}\"", bare.0, bare.1));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return hint("expected an address and a port, such as \"127.0.0.1:9090\"");
    };
    let Ok(port) = port.parse::<u16>() else {
        return hint(&format!("{port:?} is no port; ports are 0 to 65535, and 0 picks a free one"));
    };
    match host {
        "localhost" => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        "" | "*" => hint(&format!("write \"0.0.0.0:{port}\" for every interface, \"127.0.0.1:{port}\" for this machine alone")),
        _ => hint("names other than localhost are not looked up here; write an IP address"),
    }
}

/// Whether only this machine reaches it.
pub(in crate::config) fn is_loopback(address: SocketAddr) -> bool {
    IpAddr::to_canonical(&address.ip()).is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_localhost() {
        assert_eq!(parse("127.0.0.1:0").unwrap(), SocketAddr::from(([127, 0, 0, 1], 0)));
        assert_eq!(parse("[::1]:9090").unwrap().port(), 9090);
        assert_eq!(parse("localhost:9090").unwrap(), SocketAddr::from(([127, 0, 0, 1], 9090)));
    }

    #[test]
    fn a_wrong_address_is_answered_with_a_right_one() {
        assert!(parse(":9090").unwrap_err().contains("0.0.0.0:9090"));
        assert!(parse("127.0.0.1").unwrap_err().contains("127.0.0.1:9090"));
        assert!(parse("::1:9090").unwrap_err().contains("[::1]:9090"));
        assert!(parse("127.0.0.1:99999").unwrap_err().contains("65535"));
        assert!(parse("gateway:9090").unwrap_err().contains("not looked up"));
        assert!(parse("").is_err());
    }

    #[test]
    fn loopback_is_known_in_every_spelling() {
        for text in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_loopback(parse(text).unwrap()), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            assert!(!is_loopback(parse(text).unwrap()), "{text}");
        }
    }
}
