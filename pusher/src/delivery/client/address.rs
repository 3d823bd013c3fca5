//! Addresses that no callback may have: where clouds hand out credentials to whoever asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

pub(super) fn is_forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => METADATA_V4.contains(&address),
        IpAddr::V6(address) => METADATA_V6.contains(&address) || embedded(address).is_some_and(|inner| METADATA_V4.contains(&inner)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_addresses_are_forbidden_however_they_are_written() {
        for address in [
            "169.254.169.254",
            "100.100.100.200",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fd00:ec2::254",
        ] {
            assert!(is_forbidden(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_operators_own_network_is_allowed() {
        for address in ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "169.254.1.1", "fd00::1", "::ffff:10.0.0.1"] {
            assert!(!is_forbidden(address.parse().unwrap()), "{address}");
        }
    }
}
