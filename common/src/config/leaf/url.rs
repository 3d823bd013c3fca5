//! Callback URLs: http or https, with a host that is not a cloud's metadata service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A callback URL, and the text it was given as: the default group name is that text's hash.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::config) struct Callback {
    pub(in crate::config) uri: http::Uri,
    pub(in crate::config) written: String,
}

/// Names under which clouds serve credentials to whoever asks from inside.
const METADATA_NAMES: [&str; 5] =
    ["metadata.google.internal", "metadata.goog", "metadata.tencentyun.com", "metadata.azure.internal", "instance-data.ec2.internal"];

/// Amazon, Google, Azure and others; Amazon's tasks and time; Tencent; Azure's host; Oracle; Alibaba.
const METADATA_V4: [Ipv4Addr; 7] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(169, 254, 0, 23),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(100, 100, 100, 200),
];

const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// Whether a cloud serves credentials at this address. For the address really dialled, too.
pub fn is_cloud_metadata(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => METADATA_V4.contains(&v4),
        IpAddr::V6(v6) => METADATA_V6.contains(&v6) || nat64(v6).is_some_and(|v4| METADATA_V4.contains(&v4)),
    }
}

/// The address behind `64:ff9b::/96` (RFC 6052).
fn nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))),
        _ => None,
    }
}

pub(in crate::config) fn parse(text: &str) -> Result<Callback, String> {
    let fail = |why: &str| Err(format!("{:?}: {why}", text.chars().take(200).collect::<String>()));
    if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic()) {
        return fail(&format!("{odd:?} cannot stand in a URL; percent-encode it"));
    }
    let uri: http::Uri = match text.parse() {
        Ok(uri) => uri,
        Err(error) => return fail(&error.to_string()),
    };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return fail("expected a whole URL, such as \"http://127.0.0.1:8080/callback\"");
    };
    if !matches!(scheme, "http" | "https") {
        return fail("only http and https can be called");
    }
    if authority.as_str().contains('@') {
        return fail("user and password in a URL are not sent; leave them out");
    }
    if authority.host().is_empty() || authority.host() == "[]" {
        return fail("the host is missing");
    }
    // What follows the host is a colon and a port, or nothing.
    let port = &authority.as_str()[authority.host().len()..];
    if !port.is_empty() && !matches!(authority.port_u16(), Some(1..)) {
        return fail("a port is 1 to 65535");
    }
    if text.contains('#') {
        return fail("what follows `#` is never sent; leave it out");
    }
    if names_cloud_metadata(authority.host()) {
        return fail("this is a cloud's metadata service, which hands out credentials; it is never called");
    }
    Ok(Callback { written: text.to_owned(), uri })
}

fn names_cloud_metadata(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    METADATA_NAMES.contains(&host.as_str()) || literal(&host).is_some_and(is_cloud_metadata)
}

/// A host as the system's resolver would read it without asking anybody: also `0xa9fea9fe`,
/// `2852039166` and `169.254.43518` (`inet_aton`).
fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse() {
        return Some(address);
    }
    let parts: Vec<u32> = host.split('.').map(classic_number).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 || leading.iter().any(|part| *part > 255) || u64::from(*last) >> (32 - 8 * leading.len()) != 0 {
        return None;
    }
    let high = leading.iter().zip([24, 16, 8]).fold(0, |sum, (part, shift)| sum | part << shift);
    Some(IpAddr::V4(Ipv4Addr::from(high | last)))
}

fn classic_number(text: &str) -> Option<u32> {
    match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hex), _) => u32::from_str_radix(hex, 16).ok(),
        (None, Some(octal)) if !octal.is_empty() => u32::from_str_radix(octal, 8).ok(),
        (None, _) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_is_http_or_https_with_a_host() {
        for good in ["http://localhost", "https://rx.example:8443/a/b?c=//d", "http://[::1]:9000/", "http://10.0.0.1/x"] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good));
        }
        for bad in [
            "",
            "localhost:8080",
            "/callback",
            "ftp://h/",
            "http://",
            "http:///x",
            "http://h:0/",
            "http://h:99999/",
            "http://h:/",
            "http://u:p@h/",
            "http://h/a b",
            "http://h/é",
            "http://h/#x",
            "http://[]/",
            "http://h:80:90/",
            "HTTP",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cloud_metadata_is_refused_in_every_spelling() {
        for host in [
            "169.254.169.254",
            "169.254.169.254:80",
            "2852039166",
            "0xa9fea9fe",
            "0251.0376.0251.0376",
            "169.254.43518",
            "[fd00:ec2::254]",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "metadata.google.internal",
            "Metadata.Google.Internal.",
            "100.100.100.200",
        ] {
            let verdict = parse(&format!("http://{host}/latest/"));
            assert!(verdict.as_ref().is_err_and(|why| why.contains("metadata")), "{host}: {verdict:?}");
        }
        for host in ["169.254.169.25", "1.2.3.4.5", "metadata.example.com", "100.100.100.201", "2852039166.example"] {
            assert!(parse(&format!("http://{host}/")).is_ok(), "{host}");
        }
    }
}
