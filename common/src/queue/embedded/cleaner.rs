//! Giving space back: segments that nobody needs are dropped whole; of those that are mostly
//! dead, what lives is moved together into a new one.
//!
//! So a group that stands still, or a small topic among large ones, holds back no more space than
//! about twice its own records, and nothing is ever rewritten in the common case, where segments
//! die as a whole.

use std::sync::Arc;

use hashbrown::HashMap;

use super::chunk::Place;
use super::housekeeper::Sealed;
use super::log::Log;
use super::meta::{Meta, StoredRun, StoredSegment};
use super::segment::{Run, Segment};
use super::shared::Shared;
use super::space::{self, Room};
use crate::store::{Durability, Store, StoreError};

/// What lives of a segment.
#[derive(Default)]
struct Living {
    runs: Vec<(Place, Run)>,
    bytes: u64,
}

pub(super) fn clean(shared: &Shared, logs: &[Arc<Log>], sealed: &mut Vec<Sealed>) -> Result<(), StoreError> {
    let mut living = living(logs);
    let mut dead = Vec::new();
    let mut sparse = Vec::new();
    let mut sparse_bytes = 0;
    let mut reclaimed = 0;
    for (at, candidate) in sealed.iter().enumerate() {
        let Some(living) = living.remove(&candidate.segment.id) else {
            dead.push(at);
            continue;
        };
        if living.bytes < candidate.bytes / 2 && sparse_bytes + living.bytes <= shared.options.segment_bytes {
            sparse_bytes += living.bytes;
            reclaimed += candidate.bytes - living.bytes;
            sparse.push((at, living));
        }
    }
    let worth_it = reclaimed >= shared.options.segment_bytes / 8;
    if worth_it && space::room(&shared.store, shared.options.disk_reserve_bytes, sparse_bytes) == Room::Enough {
        let merged = relocate(shared, logs, sealed, &sparse, sparse_bytes)?;
        dead.extend(sparse.iter().map(|(at, _)| *at));
        sealed.push(merged);
    }
    drop_segments(shared, sealed, dead)
}

/// By segment.
fn living(logs: &[Arc<Log>]) -> HashMap<u64, Living> {
    let mut living = HashMap::<_, Living>::new();
    for log in logs {
        for run in log.runs() {
            let of_segment = living.entry(run.segment.id).or_default();
            of_segment.bytes += run.bytes;
            of_segment.runs.push((log.place, run));
        }
    }
    living
}

fn relocate(shared: &Shared, logs: &[Arc<Log>], sealed: &[Sealed], sparse: &[(usize, Living)], bytes: u64) -> Result<Sealed, StoreError> {
    let target = shared.new_segment()?;
    let mut runs: Vec<_> = sparse.iter().flat_map(|(_, living)| living.runs.iter().cloned()).collect();
    runs.sort_by_key(|(place, run)| (*place, run.base));
    target.keyspace.bulk_load(runs.iter().flat_map(|(place, run)| run.entries(*place, run.base)))?;
    let stored = StoredSegment { bytes, runs: runs.iter().map(|(place, run)| StoredRun::new(*place, run)).collect() };
    let old: Vec<u64> = sparse.iter().map(|(at, _)| sealed[*at].segment.id).collect();
    let mut batch = shared.store.batch();
    shared.meta.put_segment(&mut batch, target.id, &stored);
    for &id in &old {
        shared.meta.delete_segment(&mut batch, id);
    }
    batch.commit(Durability::Synced)?;
    for log in logs {
        log.relocate(&old, &target);
    }
    tracing::info!(segments = old.len(), bytes, "what was left of sparse segments was moved together");
    Ok(Sealed { segment: target, bytes })
}

/// Their files go when the last reader in them is done.
fn drop_segments(shared: &Shared, sealed: &mut Vec<Sealed>, mut dead: Vec<usize>) -> Result<(), StoreError> {
    dead.sort_unstable();
    let dropped: Vec<_> = dead.into_iter().rev().map(|at| sealed.remove(at).segment).collect();
    drop_all(&shared.store, &shared.meta, &dropped)
}

/// What is written down about a segment goes first, and for sure: a later segment may get its number.
pub(super) fn drop_all(store: &Store, meta: &Meta, segments: &[Arc<Segment>]) -> Result<(), StoreError> {
    if segments.is_empty() {
        return Ok(());
    }
    let mut batch = store.batch();
    for segment in segments {
        meta.delete_segment(&mut batch, segment.id);
    }
    batch.commit(Durability::Synced)?;
    segments.iter().try_for_each(|segment| store.delete_keyspace(segment.keyspace.clone()))
}
