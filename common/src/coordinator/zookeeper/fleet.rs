//! Who is in the fleet: join, leave, members.

use std::collections::HashSet;
use std::time::Duration;

use super::super::lease::boot_time;
use super::super::{CoordinatorError, Member};
use super::core::Core;
use super::member::{decode, encode, registration};
use super::outcome::Node;
use super::paths;
use super::servers::Watch;
use super::state::Role;
use super::wire::{Link, MAX_PACKET_BYTES, Op, WriteError, Written};

/// Beyond the session timeout, until another process's node of our name must be gone.
const GRACE: Duration = Duration::from_secs(5);
const NOT_YET: &str = "this process is not in the fleet yet";
/// Between two looks at a node that is to go; a watch ends it earlier.
const LOOK: Duration = Duration::from_millis(200);
/// Owner nodes deleted in one transaction.
const MAX_DELETED: usize = 64;

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
    let joining = member.clone();
    let before = core.ask(move |state| state.begin_join(&joining)).await??;
    core.say_missing(Some(NOT_YET.to_owned()));
    loop {
        let link = core.wire.link().await?;
        if enter(&core, link.session, &member, before.as_ref(), Patience::UntilTaken).await? {
            return Ok(());
        }
    }
}

/// After a session that is over, or a fleet node that was deleted: until it has succeeded.
pub(super) fn join_again(core: &Core, session: i64, member: Member) {
    let joining = core.clone();
    core.background(async move {
        loop {
            // Who has left or withdrawn meanwhile stays away.
            let who = member.clone();
            let role = joining.ask(move |state| (state.to_join_again() == Some(who)).then(|| state.role())).await;
            let entered = match role {
                Ok(Some(Role::First)) => enter(&joining, session, &member, Some(&member), Patience::ForEver).await,
                Ok(Some(Role::Further)) => enter_further(&joining, session).await,
                Ok(None) | Err(_) => return,
            };
            match entered {
                Ok(true) if role == Ok(Some(Role::First)) => return tracing::info!(instance = member.instance, "in the fleet again"),
                Ok(true) => return tracing::info!(session = format!("{session:#x}"), "a further session with ZooKeeper takes partitions"),
                // The session after this one joins by itself.
                Ok(false) => return,
                Err(error) => {
                    tracing::error!(instance = member.instance, %error, "this process is not in the fleet; joining is tried again");
                    joining.say_missing(Some(format!("this process is not in the fleet: {error}")));
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
                let taken = || CoordinatorError::InstanceTaken(member.instance.clone()).to_string();
                core.say_missing(Some(if of_us { NOT_YET.to_owned() } else { taken() }));
                boot_time()
            });
            if !of_us && patience == Patience::UntilTaken && boot_time() - since > link.timeout + GRACE {
                return Err(CoordinatorError::InstanceTaken(member.instance.clone()));
            }
            tokio::time::sleep(LOOK).await;
            // Or nothing would be known of the session's life when it joins, and its lease not begin yet.
            let _ = core.write(session, &[Op::Exists { path: paths::FLEET.to_owned() }]).await;
            continue;
        }
        let ops = entry(core, &link, member, before, node.is_some()).await?;
        // Old tools may see a member's groups one after the other.
        let mut parts = core.wire.parts(ops).into_iter();
        let first = parts.next().unwrap_or_default();
        match core.write(session, &first).await {
            Ok(written) => {
                let (member, sent) = (member.clone(), written.sent);
                core.ask(move |state| {
                    state.member = Some(member);
                    state.joined(session, sent);
                })
                .await?;
                for part in parts {
                    write_rest(core, &link, &part).await;
                }
                core.say_joined();
                return Ok(true);
            }
            Err(WriteError::Conflict { .. }) => core.wire.make_parents(&link, &first).await?,
            Err(WriteError::SessionOver) => return Ok(false),
            Err(WriteError::Refused(error)) => return Err(error),
        }
    }
}

/// A further session has no node in the fleet: that its first write is acknowledged is enough.
/// `false`: the session is over.
async fn enter_further(core: &Core, session: i64) -> Result<bool, CoordinatorError> {
    loop {
        match core.write(session, &[Op::Exists { path: paths::FLEET.to_owned() }]).await {
            Ok(Written { sent, .. }) => {
                core.ask(move |state| state.joined(session, sent)).await?;
                core.say_joined();
                return Ok(true);
            }
            Err(WriteError::Conflict { .. }) => {
                let Some(link) = core.wire.on(session).await else { return Ok(false) };
                core.wire.make(&link, paths::FLEET).await?;
            }
            Err(WriteError::SessionOver) => return Ok(false),
            Err(WriteError::Refused(error)) => return Err(error),
        }
    }
}

/// Of the registrations that did not fit into the first transaction: nobody decides by them.
async fn write_rest(core: &Core, link: &Link, part: &[Op]) {
    for _ in 0..2 {
        match core.write(link.session, part).await {
            Err(WriteError::Conflict { .. }) if core.wire.make_parents(link, part).await.is_ok() => {}
            Err(WriteError::Refused(error)) => return tracing::warn!(%error, "old tools do not see this process in some of its groups"),
            Ok(_) | Err(WriteError::Conflict { .. } | WriteError::SessionOver) => return,
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

/// Out of the fleet, so that others may take what is released; what is owned stays so until then.
pub(super) async fn withdraw(core: Core) -> Result<(), CoordinatorError> {
    let asked = core.ask(|state| {
        state.withdraw();
        (state.session, state.member_nodes())
    });
    let (session, gone) = asked.await?;
    delete_all(&core, session, gone).await
}

/// What it owns is given up as it was last committed: the pairs stand, the owner nodes go.
pub(super) async fn leave(core: Core) -> Result<(), CoordinatorError> {
    let asked = core.ask(|state| {
        let mut gone = state.member_nodes();
        gone.extend(state.owned().iter().map(paths::owner));
        state.left();
        (state.session, gone)
    });
    let (session, gone) = asked.await?;
    delete_all(&core, session, gone).await
}

async fn delete_all(core: &Core, session: Option<i64>, gone: Vec<String>) -> Result<(), CoordinatorError> {
    let Some(session) = session.filter(|_| !gone.is_empty()) else { return Ok(()) };
    let link = core.wire.link().await?;
    for some in gone.chunks(MAX_DELETED) {
        delete_mine(core, &link, session, some).await?;
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

/// Who cannot be read at all is named and not counted: it may be of a version that is not born yet.
pub(super) async fn members(core: &Core) -> Result<Vec<Member>, CoordinatorError> {
    let link = core.wire.link().await?;
    core.watch(&link, paths::FLEET, Watch::Children).await?;
    let names = core.wire.children(&link, paths::FLEET).await?;
    let nodes = names.iter().map(|name| async { core.wire.get(&link, &paths::member(name)).await });
    let nodes = futures_util::future::try_join_all(nodes).await?;
    let mut members = Vec::with_capacity(names.len());
    let mut unreadable = HashSet::new();
    for (name, node) in names.iter().zip(nodes) {
        let entered = node.as_ref().map_or(0, |node| node.mzxid.unsigned_abs());
        match node.map(|node| decode(name, &node.data)) {
            Some(Ok(member)) => members.push(Member { entered, ..member }),
            Some(Err(error)) => {
                unreadable.insert(format!("{name}: {error}"));
            }
            None => {}
        }
    }
    for member in core.ask(|state| state.newly_unreadable(unreadable)).await? {
        tracing::error!(member, "a node of the fleet cannot be read and is passed over: it gets no partitions");
    }
    members.sort_unstable_by(|one, other| one.instance.cmp(&other.instance));
    Ok(members)
}
