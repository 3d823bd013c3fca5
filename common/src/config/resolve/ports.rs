//! What the two servers of a gateway say about each other, and who may reach them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::LazyLock;

use super::narrow;
use crate::config::fault::Report;
use crate::config::file;
use crate::config::leaf::address::is_loopback;
use crate::config::role::Role;
use crate::config::section::Given;
use crate::config::{ProxyConfig, PusherConfig, Secret};

/// The default, which may be written down without comment.
const UNUSED_PROXY_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9089);

pub(super) fn proxy(role: Role, raw: file::Proxy, report: &mut Report<'_>) -> Option<ProxyConfig> {
    check_token("proxy.admin_token", &raw.admin, &raw.admin_token, report);
    if let (Some(listen), Some(false)) = (raw.listen.value, raw.allow_anonymous.value)
        && !is_loopback(listen)
    {
        let message = format!(
            "{listen} is reached by others than this machine, and anybody could produce there; say `proxy.allow_anonymous: true` if that is meant"
        );
        report.fault_at(&raw.listen.spot, message);
    }
    match role {
        Role::Standalone if raw.admin.value.is_some_and(|admin| admin != UNUSED_PROXY_ADMIN) => {
            report.warning_at(&raw.admin.spot, "`standalone` serves one admin port, `pusher.admin`; this one is not opened");
        }
        Role::Proxy => check_shared(&raw.admin, raw.listen.value, report),
        Role::Standalone | Role::Pusher => {}
    }
    if let (Some(message), Some(all)) = (raw.max_message_bytes.value, raw.max_in_flight_bytes.value)
        && message > all
    {
        let spot = if raw.max_message_bytes.is_given() { &raw.max_message_bytes.spot } else { &raw.max_in_flight_bytes.spot };
        report.fault_at(spot, "`max_message_bytes` is more than `max_in_flight_bytes`: the largest messages could never be taken in");
    }
    Some(ProxyConfig {
        listen: raw.listen.value?,
        admin: raw.admin.value?,
        admin_token: raw.admin_token.value?,
        allow_anonymous: raw.allow_anonymous.value?,
        produce_timeout: raw.produce_timeout.value?,
        max_message_bytes: narrow(raw.max_message_bytes.value?),
        max_in_flight_requests: narrow(raw.max_in_flight_requests.value?),
        max_in_flight_bytes: narrow(raw.max_in_flight_bytes.value?),
        head_timeout: raw.head_timeout.value?,
        body_timeout: raw.body_timeout.value?,
        idle_timeout: raw.idle_timeout.value?,
        drain_timeout: raw.drain_timeout.value?,
    })
}

pub(super) fn pusher(role: Role, raw: file::Pusher, proxy: Option<&ProxyConfig>, report: &mut Report<'_>) -> Option<PusherConfig> {
    check_token("pusher.admin_token", &raw.admin, &raw.admin_token, report);
    if role == Role::Standalone {
        check_shared(&raw.admin, proxy.map(|proxy| proxy.listen), report);
    }
    Some(PusherConfig {
        admin: raw.admin.value?,
        admin_token: raw.admin_token.value?,
        instance: raw.instance.value?.unwrap_or_else(|| INSTANCE.clone()),
        session_timeout: raw.session_timeout.value?,
        drain_timeout: raw.drain_timeout.value?,
        max_buffered_bytes: narrow(raw.max_buffered_bytes.value?),
    })
}

/// Two servers of one process.
fn check_shared(admin: &Given<SocketAddr>, listen: Option<SocketAddr>, report: &mut Report<'_>) {
    if let (Some(address), Some(listen)) = (admin.value, listen) {
        let same_host = address.ip() == listen.ip() || address.ip().is_unspecified() || listen.ip().is_unspecified();
        if address.port() != 0 && address.port() == listen.port() && same_host {
            report.fault_at(&admin.spot, format!("port {} is `proxy.listen`'s already", address.port()));
        }
    }
}

fn check_token(name: &str, admin: &Given<SocketAddr>, token: &Given<Option<Secret>>, report: &mut Report<'_>) {
    if let (Some(address), Some(None)) = (admin.value, &token.value)
        && !is_loopback(address)
    {
        report.fault_at(&admin.spot, format!("{address} is reached by others than this machine; it needs `{name}`, such as \"env:NAME\""));
    }
}

/// The same however often this process reads its configuration.
static INSTANCE: LazyLock<String> = LazyLock::new(instance);

/// `<host>-<pid>-<random>`, without what no path element may hold.
fn instance() -> String {
    let host = gethostname::gethostname().to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "_");
    let host: String = host.chars().take(200).collect();
    format!("{host}-{}-{:06x}", std::process::id(), rand::random::<u32>() & 0xFF_FFFF)
}
