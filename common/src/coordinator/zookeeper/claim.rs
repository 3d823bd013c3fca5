//! Claim and adopt: what stands is read, decided on, and written together with the owner.

use super::super::done::node::{self, Header, Writer};
use super::super::{Began, Birth, Claim, ClaimError, CoordinatorError, Log, Progress, claim, cursor};
use super::core::Core;
use super::outcome::{Base, Node, Nodes, Owned};
use super::paths;
use super::servers::Watch;
use super::sessions::{Room, Sessions};
use super::wire::{Op, WriteError};
use crate::ids::{Epoch, GroupPartition};

/// Of a claim that others' writes come before each time.
const MAX_TRIES: usize = 8;

/// The ownership under which the pair is read.
enum From {
    Nobody {
        instance: String,
    },
    /// Ours already, under this.
    Former(Owned),
}

pub(super) async fn claim(sessions: Sessions, at: GroupPartition, log: Log) -> Result<Claim, ClaimError> {
    let Room { core, session, instance } = sessions.room_for(&at).await?;
    let result = take(&core, session, &at, &log, &From::Nobody { instance }).await;
    finish(&core, session, at, result).await
}

pub(super) async fn adopt(core: Core, at: GroupPartition, epoch: Epoch, log: Log) -> Result<Claim, ClaimError> {
    let begun = at.clone();
    let (session, former) = core.ask(move |state| state.begin_adopt(&begun, epoch)).await??;
    let result = take(&core, session, &at, &log, &From::Former(former)).await;
    finish(&core, session, at, result).await
}

/// Nobody waits for the claim any more: what it took is given back as it was taken.
pub(super) async fn disown(core: Core, at: GroupPartition, epoch: Epoch) {
    let begun = at.clone();
    let Ok(Ok((session, _))) = core.ask(move |state| state.begin_store(&begun, epoch)).await else { return };
    let _ = core.write(session, &[Op::Delete { path: paths::owner(&at) }]).await;
    let _ = core.ask(move |state| state.end(session, &at, None)).await;
}

async fn finish(core: &Core, session: i64, at: GroupPartition, result: Result<(Claim, Owned), ClaimError>) -> Result<Claim, ClaimError> {
    match result {
        Ok((claim, owned)) => {
            let (epoch, ended) = (claim.epoch, at.clone());
            let still = core.ask(move |state| {
                state.end(session, &ended, Some(owned));
                state.owns(&ended, epoch)
            });
            if still.await? { Ok(claim) } else { Err(ClaimError::EpochOver) }
        }
        Err(error @ ClaimError::EpochOver) => {
            core.ask(move |state| state.end(session, &at, None)).await?;
            Err(error)
        }
        Err(error) => {
            core.ask(move |state| state.end_unchanged(session, &at)).await?;
            Err(error)
        }
    }
}

async fn take(core: &Core, session: i64, at: &GroupPartition, log: &Log, from: &From) -> Result<(Claim, Owned), ClaimError> {
    for _ in 0..MAX_TRIES {
        let nodes = read(core, session, at, from).await?;
        let plan = plan(core, session, at, log, from, &nodes).await?;
        match core.write(session, &plan.ops(at)).await {
            Ok(written) => {
                let version = |stat: Option<zookeeper_client::Stat>| stat.map(|stat| (stat.version, stat.mzxid));
                let mut stats = written.stats.into_iter().rev();
                let (done, cursor) = (stats.next().flatten(), stats.next().flatten());
                if let (Some((done, _)), Some((cursor, mzxid))) = (version(done), version(cursor)) {
                    return Ok(plan.won(Base { cursor: Some(cursor), done: Some(done), mzxid }));
                }
            }
            Err(WriteError::Conflict { .. }) => {}
            Err(WriteError::SessionOver) => return Err(ClaimError::EpochOver),
            Err(WriteError::Refused(error)) => return Err(error.into()),
        }
        // It may have been our own write before, whose answer was lost; else parents are missing or
        // somebody was quicker.
        let nodes = core.nodes_surely(session, at).await.ok_or(ClaimError::EpochOver)?;
        if let (Some(base), true) = (nodes.written_by(plan.writer), nodes.is_of(session)) {
            return Ok(plan.won(base));
        }
        let link = core.wire.on(session).await.ok_or(ClaimError::EpochOver)?;
        core.wire.make_parents(&link, &plan.ops(at)).await?;
    }
    Err(CoordinatorError::Unavailable("others write to the partition's nodes all the time".into()).into())
}

/// Of an owned partition a missing cursor is put back from memory: the birth would repeat everything.
/// Not so where a replay came in between, whose cursor is not known any more.
async fn read(core: &Core, session: i64, at: &GroupPartition, from: &From) -> Result<Nodes, ClaimError> {
    let link = core.wire.on(session).await.ok_or(ClaimError::EpochOver)?;
    let nodes = core.nodes(&link, at).await?;
    match (from, &nodes.owner) {
        (From::Former(_), _) if !nodes.is_of(session) => Err(ClaimError::EpochOver),
        (From::Nobody { .. }, Some(owner)) if owner.session != session => {
            let holder = String::from_utf8_lossy(&owner.data).into_owned();
            core.watch(&link, &paths::owner(at), Watch::Node).await?;
            // What went before it was watched would be waited for.
            let nodes = core.nodes(&link, at).await?;
            let held = nodes.owner.as_ref().is_some_and(|owner| owner.session != session);
            if held { Err(ClaimError::Held(holder)) } else { Ok(nodes) }
        }
        _ => Ok(nodes),
    }
}

struct Plan {
    owner: Option<String>,
    found: Base,
    writer: Writer,
    header: Header,
    progress: Progress,
    began: Began,
}

async fn plan(core: &Core, session: i64, at: &GroupPartition, log: &Log, from: &From, nodes: &Nodes) -> Result<Plan, ClaimError> {
    let memory = match from {
        From::Former(owned) if nodes.lack_only_what_we_wrote(owned) => Some(cursor::encode(owned.cursor)),
        From::Former(_) | From::Nobody { .. } => None,
    };
    let mut found = nodes.found();
    if let (Some(text), From::Former(owned)) = (&memory, from) {
        found.cursor = Some(claim::Node { text: text.as_bytes(), mzxid: owned.base.mzxid.unsigned_abs() });
    }
    let birth = if found.cursor.is_none() { birth_of(core, session, at).await? } else { None };
    let (progress, began) = claim::decide(&claim::Found { birth: birth.as_ref(), ..found }, at.partition, log)?;
    let replayed_at = nodes.header().and_then(|header| header.replayed_at);
    if let From::Former(owned) = from
        && replayed_at == owned.replayed_at
    {
        tracing::warn!(group = %at.group, topic = %at.topic, partition = at.partition.0, from = owned.cursor.0, to = progress.cursor.0,
            "the cursor was moved or its nodes were changed outside mqgate; delivery goes on where it now stands");
    }
    let writer = core.next_writer();
    let owner = match from {
        From::Nobody { instance } if nodes.owner.is_none() => Some(instance.clone()),
        _ => None,
    };
    Ok(Plan { owner, found: nodes.base(), writer, header: Header { writer, topic_id: log.topic_id, replayed_at }, progress, began })
}

async fn birth_of(core: &Core, session: i64, at: &GroupPartition) -> Result<Option<Birth>, ClaimError> {
    let link = core.wire.on(session).await.ok_or(ClaimError::EpochOver)?;
    let path = paths::birth(&at.group, &at.topic);
    Ok(core.wire.get(&link, &path).await?.map(|node| read_birth(&node, &path)).transpose()?)
}

/// What cannot be read is never taken for absent.
pub(super) fn read_birth(node: &Node, path: &str) -> Result<Birth, CoordinatorError> {
    serde_json::from_slice(&node.data).map_err(|error| CoordinatorError::Unavailable(format!("{path} cannot be read: {error}; correct it")))
}

impl Plan {
    /// Done set last, and the cursor before it.
    fn ops(&self, at: &GroupPartition) -> Vec<Op> {
        let owner = self.owner.as_ref().map(|instance| Op::create_ephemeral(paths::owner(at), instance.as_bytes()));
        let cursor = self.progress.cursor;
        let done = node::encode(&self.header, &self.progress);
        let pair = [Op::put(paths::cursor(at), cursor::encode(cursor), self.found.cursor), Op::put(paths::done(at), done, self.found.done)];
        owner.into_iter().chain(pair).collect()
    }

    fn won(self, base: Base) -> (Claim, Owned) {
        let epoch = Epoch(base.mzxid.unsigned_abs());
        let Self { writer, header, progress, began, .. } = self;
        let owned = Owned { epoch, base, writer, cursor: progress.cursor, topic_id: header.topic_id, replayed_at: header.replayed_at };
        (Claim { epoch, progress, began }, owned)
    }
}
