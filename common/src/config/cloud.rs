//! Where clouds hand out credentials to whoever asks from inside: no callback goes there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const METADATA_NAMES: [&str; 5] =
    ["metadata.google.internal", "metadata.goog", "metadata.tencentyun.com", "metadata.azure.internal", "instance-data.ec2.internal"];

const METADATA_V4: [Ipv4Addr; 7] = [
    Ipv4Addr::new(169, 254, 169, 254), // AWS, Azure, Google, DigitalOcean, Oracle, OpenStack
    Ipv4Addr::new(169, 254, 170, 2),   // AWS ECS
    Ipv4Addr::new(169, 254, 170, 23),  // AWS EKS
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's host
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle, formerly
];

const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), // AWS
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),  // AWS EKS
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),  // Google
];

/// Whether a cloud's metadata service answers at this address: to be asked of the address that is
/// really dialled, since a name may lead there.
pub fn is_cloud_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => METADATA_V4.contains(&address),
        IpAddr::V6(address) => METADATA_V6.contains(&address) || embedded(address).is_some_and(|inner| METADATA_V4.contains(&inner)),
    }
}

/// The same of a URL's host, as far as it can be told without asking anybody.
pub(super) fn names_cloud_metadata(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    METADATA_NAMES.contains(&host.as_str()) || literal(&host).is_some_and(is_cloud_metadata)
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, NAT64 and 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0 | 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(joined(g, h)),
        [0x2002, ..] => Some(joined(b, c)),
        _ => None,
    }
}

/// A host as the system's resolver reads it by itself: also `0xa9fea9fe`, `2852039166` and
/// `169.254.43518` (`inet_aton`).
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
    Some(IpAddr::V4(Ipv4Addr::from_bits(high | last)))
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
    fn metadata_addresses_are_known_however_they_are_written() {
        for address in [
            "169.254.169.254",
            "100.100.100.200",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fd00:ec2::254",
        ] {
            assert!(is_cloud_metadata(address.parse().unwrap()), "{address}");
        }
        for host in ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "[fd00:ec2::254]", "Metadata.Google.Internal."] {
            assert!(names_cloud_metadata(host), "{host}");
        }
    }

    #[test]
    fn an_operators_own_network_is_allowed() {
        for address in ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "169.254.1.1", "fd00::1", "::ffff:10.0.0.1"] {
            assert!(!is_cloud_metadata(address.parse().unwrap()), "{address}");
        }
        for host in ["169.254.169.25", "1.2.3.4.5", "metadata.example.com", "100.100.100.201", "2852039166.example", "256.1.1.1", ""] {
            assert!(!names_cloud_metadata(host), "{host}");
        }
    }
}
