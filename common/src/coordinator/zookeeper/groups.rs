//! What is written down about a group: where it starts in a topic, whether it is paused, and replays.

use super::super::done::node::{self, Header};
use super::super::{
    Birth, Control, CoordinatorError, Log, Progress, Replay, ReplayTarget, Replayed, birth as rule, claim, control as limits, cursor,
};
use super::claim::read_birth;
use super::core::Core;
use super::outcome::{Node, Nodes};
use super::paths;
use super::wire::{Link, MAX_PACKET_BYTES, Op, WriteError};
use crate::ids::{GroupName, GroupPartition, Partition, Topic};

/// Of a write that others' come before each time.
const MAX_TRIES: usize = 16;
/// Reads under way at once.
const MAX_READS: usize = 256;

pub(super) async fn birth(core: Core, group: GroupName, topic: Topic, asked: Birth, log: Vec<Log>) -> Result<Birth, CoordinatorError> {
    let path = paths::birth(&group, &topic);
    for _ in 0..MAX_TRIES {
        let link = core.wire.link().await?;
        if let Some(node) = core.wire.get(&link, &path).await? {
            return read_birth(&node, &path);
        }
        // A server that lags behind could hide a cursor, and with it that the group is not new.
        core.wire.sync(&link).await?;
        let cursors = core.wire.children(&link, &paths::cursors(&group, &topic)).await?;
        let has_cursor: Vec<Partition> = cursors.iter().filter_map(|name| name.parse().ok()).map(Partition).collect();
        let birth = rule::decide(asked.clone(), &has_cursor, &log);
        let json = serde_json::to_vec(&birth).expect("numbers and ids are always JSON");
        let create = [Op::create(path.clone(), json)];
        check_size(&core, &create, || format!("the start of group {group} in topic {topic}"))?;
        match core.write(link.session, &create).await {
            Ok(_) => return Ok(birth),
            Err(WriteError::Conflict { .. }) => core.wire.make_parents(&link, &create).await?,
            Err(WriteError::SessionOver) => {}
            Err(WriteError::Refused(error)) => return Err(error),
        }
    }
    Err(restless(&path))
}

pub(super) async fn control(core: &Core, group: &GroupName) -> Result<Control, CoordinatorError> {
    let link = core.wire.link().await?;
    let path = paths::control(group);
    let node = core.get_watched(&link, &path).await?;
    Ok(read_control(node.as_ref(), &path)?.0)
}

/// With the version to write it at.
fn read_control(node: Option<&Node>, path: &str) -> Result<(Control, Option<i32>), CoordinatorError> {
    let Some(node) = node else { return Ok((Control::default(), None)) };
    let unreadable = |error| CoordinatorError::Unavailable(format!("{path} cannot be read: {error}; correct it"));
    Ok((serde_json::from_slice(&node.data).map_err(unreadable)?, Some(node.version)))
}

fn put_control(path: &str, control: &Control, version: Option<i32>) -> Op {
    let json = serde_json::to_vec(control).expect("texts and booleans are always JSON");
    Op::put(path.to_owned(), json, version)
}

pub(super) async fn set_paused(core: Core, group: GroupName, paused: bool) -> Result<(), CoordinatorError> {
    let path = paths::control(&group);
    for _ in 0..MAX_TRIES {
        let link = core.wire.link().await?;
        let (control, version) = read_control(core.wire.get(&link, &path).await?.as_ref(), &path)?;
        let write = [put_control(&path, &Control { paused, ..control }, version)];
        match core.write(link.session, &write).await {
            Ok(_) => {
                core.hint();
                return Ok(());
            }
            Err(WriteError::Conflict { .. }) => core.wire.make_parents(&link, &write).await?,
            Err(WriteError::SessionOver) => {}
            Err(WriteError::Refused(error)) => return Err(error),
        }
    }
    Err(restless(&path))
}

/// The id in the control node says that all of it was done: both are one transaction.
pub(super) async fn replay(core: Core, replay: Replay) -> Result<Replayed, CoordinatorError> {
    limits::check(&replay)?;
    let path = paths::control(&replay.group);
    let mut tried: Option<Vec<_>> = None;
    for _ in 0..MAX_TRIES {
        let link = core.wire.link().await?;
        let (control, version) = read_control(core.wire.get(&link, &path).await?.as_ref(), &path)?;
        if control.has_seen(&replay.id) {
            core.hint();
            return Ok(tried.map_or(Replayed::Repeated, Replayed::Moved));
        }
        let stand = read_targets(&core, &link, &replay).await?;
        let (ops, moved) = transaction(&core, &replay, &stand);
        let mut all = vec![put_control(&path, &control.with_replay(replay.id.clone()), version)];
        all.extend(ops);
        let what = || format!("replay {:?} of group {}; split it by topic: {}", replay.id, replay.group, limits::topics(&replay));
        check_size(&core, &all, what)?;
        match core.write(link.session, &all).await {
            Ok(_) => {
                core.hint();
                return Ok(Replayed::Moved(moved));
            }
            // A conflict with ourselves, if it was sent before: then the id is there.
            Err(WriteError::Conflict { repeated, .. }) => {
                tried = repeated.then_some(moved);
                core.wire.make_parents(&link, &all).await?;
            }
            Err(WriteError::SessionOver) => tried = Some(moved),
            Err(WriteError::Refused(error)) => return Err(error),
        }
    }
    Err(restless(&path))
}

fn at(replay: &Replay, target: &ReplayTarget) -> GroupPartition {
    GroupPartition { group: replay.group.clone(), topic: target.topic.clone(), partition: target.partition }
}

async fn read_targets(core: &Core, link: &Link, replay: &Replay) -> Result<Vec<Nodes>, CoordinatorError> {
    let mut stand = Vec::with_capacity(replay.targets.len());
    for some in replay.targets.chunks(MAX_READS) {
        let reads = some.iter().map(|target| async { core.nodes(link, &at(replay, target)).await });
        stand.extend(futures_util::future::try_join_all(reads).await?);
    }
    Ok(stand)
}

/// At any version: the last replay wins, and no late commit passes it. And what it moves.
fn transaction(core: &Core, replay: &Replay, stand: &[Nodes]) -> (Vec<Op>, Vec<(Option<crate::ids::Offset>, crate::ids::Offset)>) {
    const ANY: i32 = -1;
    let mut ops = Vec::with_capacity(2 * stand.len());
    let mut moved = Vec::with_capacity(stand.len());
    for (target, nodes) in replay.targets.iter().zip(stand) {
        let at = at(replay, target);
        let before = claim::pair(&nodes.found()).ok().flatten().map(|before| before.cursor);
        let header = Header { writer: core.next_writer(), topic_id: target.topic_id, replayed_at: Some(replay.asked_at) };
        let done = node::encode(&header, &Progress { cursor: target.to, ..Progress::default() });
        ops.push(Op::put(paths::cursor(&at), cursor::encode(target.to), nodes.cursor.as_ref().map(|_| ANY)));
        ops.push(Op::put(paths::done(&at), done, nodes.done.as_ref().map(|_| ANY)));
        moved.push((before, target.to));
    }
    (ops, moved)
}

fn check_size(core: &Core, ops: &[Op], what: impl FnOnce() -> String) -> Result<(), CoordinatorError> {
    let bytes = core.wire.bytes(ops);
    if bytes <= MAX_PACKET_BYTES {
        return Ok(());
    }
    let what = what();
    Err(CoordinatorError::Refused(format!(
        "{bytes} bytes are more than the {MAX_PACKET_BYTES} of one transaction; nothing was written: {what}"
    )))
}

fn restless(path: &str) -> CoordinatorError {
    CoordinatorError::Unavailable(format!("others write to {path} all the time"))
}
