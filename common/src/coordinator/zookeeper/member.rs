//! A member of the fleet as the text of its node, and as old tools are to see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::{Member, MemberGroup};

/// The content of a fleet node. The instance is the node's name.
#[derive(Serialize)]
struct Written<'a> {
    proto: u32,
    boot: Uuid,
    host: &'a str,
    pid: u32,
    version: &'a str,
    admin: &'a str,
    groups: &'a BTreeMap<String, MemberGroup>,
}

/// What must be there of a member of any version: by which rules it shares, and which life it is
/// of. The rest may be missing or of another kind than ours.
#[derive(Deserialize)]
struct Read {
    proto: u32,
    boot: Uuid,
    #[serde(default)]
    host: Value,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    version: Value,
    #[serde(default)]
    admin: Value,
    #[serde(default)]
    groups: Value,
}

pub(super) fn encode(member: &Member) -> Vec<u8> {
    let Member { instance: _, proto, boot, host, pid, version, admin, groups, entered: _ } = member;
    serde_json::to_vec(&Written { proto: *proto, boot: *boot, host, pid: *pid, version, admin, groups })
        .expect("texts and numbers are always JSON")
}

pub(super) fn decode(instance: &str, node: &[u8]) -> Result<Member, serde_json::Error> {
    let Read { proto, boot, host, pid, version, admin, groups } = serde_json::from_slice(node)?;
    let text = |value: Value| if let Value::String(text) = value { text } else { String::new() };
    let pid = pid.as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
    let groups = if let Value::Object(groups) = groups { groups } else { serde_json::Map::new() };
    let group = |(name, group): (String, Value)| Some((name, serde_json::from_value(group).ok()?));
    let groups = groups.into_iter().filter_map(group).collect();
    let (host, version, admin) = (text(host), text(version), text(admin));
    Ok(Member { instance: instance.to_owned(), proto, boot, host, pid, version, admin, groups, entered: 0 })
}

/// As consumers of the 0.8 era registered themselves.
pub(super) fn registration(group: &MemberGroup) -> Vec<u8> {
    let subscription: BTreeMap<&str, u32> = group.topics.iter().map(|topic| (topic.as_str(), 1)).collect();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    json!({"pattern": "static", "subscription": subscription, "timestamp": now, "version": 1}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::super::conformance::member;
    use super::*;

    #[test]
    fn a_member_reads_as_it_was_written_and_says_by_which_rules_it_shares() {
        let me = member("me");
        let text = String::from_utf8(encode(&me)).unwrap();
        assert!(text.starts_with(r#"{"proto":1,"boot":""#), "{text}");
        assert_eq!(decode("me", text.as_bytes()).unwrap(), me);
        assert!(decode("me", b"garbage").is_err());
    }

    #[test]
    fn a_member_of_a_newer_version_is_read_as_far_as_it_can_be() {
        let boot = Uuid::from_u128(7);
        let newer =
            json!({"proto": 2, "boot": boot, "pid": "x", "new": 1, "groups": {"g": {"topics": ["t"], "config": "c", "more": []}, "h": 7}});
        let read = decode("new", newer.to_string().as_bytes()).unwrap();
        assert_eq!((read.proto, read.boot, read.pid, read.host.as_str()), (2, boot, 0, ""));
        assert_eq!(read.groups.keys().collect::<Vec<_>>(), ["g"]);
        let least = json!({"proto": 3, "boot": boot, "groups": []});
        assert!(decode("new", least.to_string().as_bytes()).unwrap().groups.is_empty());
    }

    #[test]
    fn old_tools_find_a_registration_as_they_knew_it() {
        let text = String::from_utf8(registration(&member("me").groups["g"])).unwrap();
        assert!(
            text.starts_with(r#"{"pattern":"static","subscription":{"t":1},"timestamp":"#) && text.ends_with(r#","version":1}"#),
            "{text}"
        );
    }
}
