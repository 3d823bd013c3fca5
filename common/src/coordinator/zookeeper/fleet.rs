//! Who is in the fleet: join, leave, members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::super::lease::boot_time;
use super::super::{CoordinatorError, Member, MemberGroup};
use super::core::{Core, Watch};
use super::outcome::Node;
use super::paths;
use super::wire::{Link, MAX_PACKET_BYTES, Op, WriteError};

/// Of the rules by which partitions are shared.
const PROTO: u32 = 1;
/// Beyond the session timeout, until another process's node of our name must be gone.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks at a node that is to go; a watch ends it earlier.
const LOOK: Duration = Duration::from_millis(200);
/// Owner nodes deleted in one transaction.
const MAX_DELETED: usize = 64;

/// The content of a fleet node. The instance is the node's name.
#[derive(Serialize, Deserialize)]
struct Wire {
    proto: u32,
    boot: Uuid,
    host: String,
    pid: u32,
    version: String,
    admin: String,
    groups: BTreeMap<String, MemberGroup>,
}

pub(super) fn encode(member: &Member) -> Vec<u8> {
    let Member { instance: _, boot, host, pid, version, admin, groups } = member.clone();
    serde_json::to_vec(&Wire { proto: PROTO, boot, host, pid, version, admin, groups }).expect("texts and numbers are always JSON")
}

pub(super) fn decode(instance: &str, node: &[u8]) -> Result<Member, serde_json::Error> {
    let Wire { proto: _, boot, host, pid, version, admin, groups } = serde_json::from_slice(node)?;
    Ok(Member { instance: instance.to_owned(), boot, host, pid, version, admin, groups })
}

/// As consumers of the 0.8 era registered themselves.
fn registration(group: &MemberGroup) -> Vec<u8> {
    let subscription: BTreeMap<&str, u32> = group.topics.iter().map(|topic| (topic.as_str(), 1)).collect();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    json!({"pattern": "static", "subscription": subscription, "timestamp": now, "version": 1}).to_string().into_bytes()
}

pub(super) async fn join(core: Core, member: Member) -> Result<(), CoordinatorError> {
    if member.instance.is_empty() || member.instance.contains(['/', '\0']) {
        return Err(CoordinatorError::Refused(format!("instance {:?} cannot be a name in ZooKeeper (pusher.instance)", member.instance)));
    }
    let bytes = encode(&member).len();
    if bytes > MAX_PACKET_BYTES / 2 {
        return Err(CoordinatorError::Refused(format!(
            "what this process serves takes {bytes} bytes in ZooKeeper, which is too much; let more instances share it"
        )));
    }
    let before = core.ask(|state| state.member.clone()).await?;
    loop {
        let link = core.wire.link().await?;
        if enter(&core, link.session, &member, before.as_ref(), Patience::UntilTaken).await? {
            warn_of_foreigners(&core, &link, &member).await;
            return Ok(());
        }
    }
}

/// After a session that is over, or a fleet node that was deleted: until it has succeeded.
pub(super) fn join_again(core: &Core, session: i64, member: Member) {
    let joining = core.clone();
    core.background(async move {
        loop {
            // Who has left meanwhile stays away.
            let who = member.clone();
            if !joining.ask(move |state| state.member.as_ref() == Some(&who)).await.unwrap_or(false) {
                return;
            }
            match enter(&joining, session, &member, Some(&member), Patience::ForEver).await {
                Ok(true) => return tracing::info!(instance = member.instance, "in the fleet again"),
                // The session after this one joins by itself.
                Ok(false) => return,
                Err(error) => {
                    tracing::error!(instance = member.instance, %error, "this process is not in the fleet; joining is tried again");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    });
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// With another process of our name, for as long as a dead one could still be there.
    UntilTaken,
    ForEver,
}

/// `false`: the session is over.
async fn enter(core: &Core, session: i64, member: &Member, before: Option<&Member>, patience: Patience) -> Result<bool, CoordinatorError> {
    let mut taken_since = None;
    loop {
        let Some(link) = core.wire.on(session).await else { return Ok(false) };
        let node = core.wire.get(&link, &paths::member(&member.instance)).await?;
        if let Some(other) = node.as_ref().filter(|node| node.session != session) {
            let of_us = decode(&member.instance, &other.data).is_ok_and(|other| other.boot == member.boot);
            let since = *taken_since.get_or_insert_with(|| {
                tracing::warn!(
                    instance = member.instance,
                    of_us,
                    "a node of this name is in the fleet; it is waited for to go, and nothing is served until then"
                );
                boot_time()
            });
            if !of_us && patience == Patience::UntilTaken && boot_time() - since > link.timeout + GRACE {
                return Err(CoordinatorError::InstanceTaken(member.instance.clone()));
            }
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let ops = entry(core, &link, member, before, node.is_some()).await?;
        match core.write(session, &ops).await {
            Ok(written) => {
                let (member, sent) = (member.clone(), written.sent);
                core.ask(move |state| {
                    state.member = Some(member);
                    state.joined(session, sent);
                })
                .await?;
                core.hint();
                return Ok(true);
            }
            Err(WriteError::Conflict { .. }) => core.wire.make_parents(&link, &ops).await?,
            Err(WriteError::SessionOver) => return Ok(false),
            Err(WriteError::Refused(error)) => return Err(error),
        }
    }
}

/// A change of the fleet node is its end and a new one, so that who watches the fleet's names sees it.
async fn entry(core: &Core, link: &Link, member: &Member, before: Option<&Member>, present: bool) -> Result<Vec<Op>, CoordinatorError> {
    let path = paths::member(&member.instance);
    let mut ops = Vec::new();
    if present {
        ops.push(Op::Delete { path: path.clone() });
    }
    ops.push(Op::create_ephemeral(path, encode(member)));
    for (group, served) in &member.groups {
        let id = paths::id(group, &member.instance);
        match core.wire.get(link, &id).await? {
            None => ops.push(Op::create_ephemeral(id, registration(served))),
            Some(node) if node.session == link.session => ops.push(Op::Set { path: id, data: registration(served), version: None }),
            // Of an older session: it goes by itself, and nobody decides by it.
            Some(_) => {}
        }
    }
    for group in before.into_iter().flat_map(|before| before.groups.keys()).filter(|group| !member.groups.contains_key(*group)) {
        let id = paths::id(group, &member.instance);
        if core.wire.get(link, &id).await?.is_some_and(|node| node.session == link.session) {
            ops.push(Op::Delete { path: id });
        }
    }
    Ok(ops)
}

/// Consumers that do not know our rules deliver what we deliver, and write our cursors.
async fn warn_of_foreigners(core: &Core, link: &Link, member: &Member) {
    let fleet: BTreeSet<String> = core.wire.children(link, paths::FLEET).await.unwrap_or_default().into_iter().collect();
    for group in member.groups.keys() {
        let ids = core.wire.children(link, &paths::ids(group)).await.unwrap_or_default();
        for foreign in ids.iter().filter(|id| !fleet.contains(*id)) {
            tracing::warn!(
                group,
                consumer = foreign,
                "a consumer that is not of this fleet is registered for the group: stop the original programs first, \
                both would deliver every message and write the same cursors"
            );
        }
    }
}

/// What it owns is given up as it was last committed: the pairs stand, the owner nodes go.
pub(super) async fn leave(core: Core) -> Result<(), CoordinatorError> {
    let asked = core.ask(|state| {
        let of = (state.session, state.member.clone(), state.owned());
        state.left();
        of
    });
    let (Some(session), Some(member), owned) = asked.await? else { return Ok(()) };
    let mut gone = vec![paths::member(&member.instance)];
    gone.extend(member.groups.keys().map(|group| paths::id(group, &member.instance)));
    gone.extend(owned.iter().map(paths::owner));
    let link = core.wire.link().await?;
    for some in gone.chunks(MAX_DELETED) {
        delete_mine(&core, &link, session, some).await?;
    }
    core.hint();
    Ok(())
}

async fn delete_mine(core: &Core, link: &Link, session: i64, paths: &[String]) -> Result<(), CoordinatorError> {
    loop {
        let nodes = futures_util::future::try_join_all(paths.iter().map(|path| core.wire.get(link, path))).await?;
        let is_mine = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.session == session);
        let mine = paths.iter().zip(&nodes).filter(|(_, node)| is_mine(node));
        let ops: Vec<Op> = mine.map(|(path, _)| Op::Delete { path: path.clone() }).collect();
        if ops.is_empty() {
            return Ok(());
        }
        match core.write(session, &ops).await {
            Ok(_) | Err(WriteError::SessionOver) => return Ok(()),
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::Refused(error)) => return Err(error),
        }
    }
}

/// Who cannot be read is named and not counted: it may be of a version that is not born yet.
pub(super) async fn members(core: &Core) -> Result<Vec<Member>, CoordinatorError> {
    let link = core.wire.link().await?;
    core.watch(&link, paths::FLEET, Watch::Children).await?;
    let names = core.wire.children(&link, paths::FLEET).await?;
    let nodes = names.iter().map(|name| async { core.wire.get(&link, &paths::member(name)).await });
    let nodes = futures_util::future::try_join_all(nodes).await?;
    let mut members = Vec::with_capacity(names.len());
    for (name, node) in names.iter().zip(nodes) {
        match node.map(|node| decode(name, &node.data)) {
            Some(Ok(member)) => members.push(member),
            Some(Err(error)) => tracing::error!(instance = name, %error, "a member of the fleet cannot be read and is passed over"),
            None => {}
        }
    }
    members.sort_unstable_by(|one, other| one.instance.cmp(&other.instance));
    Ok(members)
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
    fn old_tools_find_a_registration_as_they_knew_it() {
        let text = String::from_utf8(registration(&member("me").groups["g"])).unwrap();
        assert!(
            text.starts_with(r#"{"pattern":"static","subscription":{"t":1},"timestamp":"#) && text.ends_with(r#","version":1}"#),
            "{text}"
        );
    }
}
