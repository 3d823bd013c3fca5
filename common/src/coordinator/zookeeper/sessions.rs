//! The sessions of one process. The first says that it is in the fleet; further ones are opened when
//! those before them have no room for a claim, and closed when they own nothing any more. Each
//! partition is written under the session that owns it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::super::lease::Joint;
use super::super::{Claim, ClaimError, Commit, CommitError, CoordinatorError, Lease, Log, Member};
use super::core::Core;
use super::servers::Door;
use super::session::{Ends, Session};
use super::state::{MAX_PATH_BYTES, Refused, State};
use super::store::Then;
use super::wire::{Status, Wire};
use super::{Metrics, Options, claim, fleet, owned, store};
use crate::ids::{Epoch, GroupPartition};

/// Questions to the owner of a session that wait; more wait at their senders.
const MAX_WAITING: usize = 1024;
/// Of one process. Servers take 60 connections of one address, unless they are told otherwise.
const MAX_SESSIONS: usize = 32;
/// Claims under way: of thousands at once, each would be answered after all patience.
const MAX_CLAIMS: usize = 256;
/// Of a claim for which others leave no room each time.
const MAX_TRIES: usize = 8;

/// Of one more session, for the member that is in the fleet by the first.
type Open = dyn Fn(&Core, Member) -> Core + Send + Sync;

/// Clones are the same.
#[derive(Clone)]
pub(super) struct Sessions {
    pub(super) first: Core,
    further: Arc<Mutex<Further>>,
    open: Arc<Open>,
    claims: Arc<Semaphore>,
    /// How long a session that is being opened is waited for, and one that owns nothing is kept.
    patience: Duration,
}

/// Held for a look, never over I/O.
#[derive(Default)]
struct Further {
    cores: Vec<Core>,
    /// Grows whenever there are others.
    revision: u64,
}

/// What a claim begins with.
pub(super) struct Room {
    pub(super) core: Core,
    pub(super) session: i64,
    pub(super) instance: String,
}

/// Those that begin with it.
pub(super) struct Begun {
    pub(super) sessions: Sessions,
    pub(super) hints: watch::Receiver<u64>,
    pub(super) lease: Lease,
}

/// `max_path_bytes`: of the ephemeral nodes of each session.
pub(super) fn begin<D: Door>(door: D, options: Options, metrics: &Metrics, stop: CancellationToken, max_path_bytes: usize) -> Begun {
    let (hint, hints) = watch::channel(0);
    let (joint, share, lease) = Joint::new();
    let chroot_bytes = options.ensemble.chroot().len();
    let patience = options.session_timeout;
    let begin = Begin { door: Arc::new(door), options };
    let trouble = format!("not connected to ZooKeeper at {} yet", begin.options.ensemble);
    let first = begin
        .session(State::new(share, chroot_bytes, max_path_bytes), trouble, |wire, asks| Core::new(wire, asks, hint, stop, metrics.clone()));
    let open = move |first: &Core, member: Member| {
        let state = State::further(member, joint.share(), chroot_bytes, max_path_bytes);
        begin.session(state, String::new(), |wire, asks| first.further(wire, asks))
    };
    let (open, claims) = (Arc::new(open), Arc::new(Semaphore::new(MAX_CLAIMS)));
    Begun { sessions: Sessions { first, further: Arc::default(), open, claims, patience }, hints, lease }
}

struct Begin<D> {
    door: Arc<D>,
    options: Options,
}

impl<D: Door> Begin<D> {
    fn session(&self, state: State, trouble: String, core: impl FnOnce(Wire, mpsc::Sender<super::session::Ask>) -> Core) -> Core {
        let (asks, asked) = mpsc::channel(MAX_WAITING);
        let (status, status_receiver) = watch::channel(Status { trouble, ..Status::default() });
        let core = core(Wire::new(status_receiver, &self.options), asks);
        let ends = Ends { asks: asked, status, stop: core.stop() };
        tokio::spawn(Session::new(self.door.clone(), self.options.ensemble.clone(), state, core.clone(), ends).run());
        core
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Further> {
        self.further.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn further(&self) -> Vec<Core> {
        self.lock().cores.clone()
    }

    fn all(&self) -> Vec<Core> {
        std::iter::once(self.first.clone()).chain(self.further()).collect()
    }

    /// What keeps any of them from being connected. One that is being opened does not yet.
    pub(super) fn trouble(&self) -> Vec<String> {
        let trouble = |core: &Core| (!core.wire.is_connected()).then(|| core.wire.trouble());
        self.all().iter().filter_map(trouble).filter(|trouble| !trouble.is_empty()).collect()
    }

    /// Waited for before a claim begins, and held until it is answered.
    pub(super) async fn turn_to_claim(&self) -> Result<SemaphorePermit<'_>, CoordinatorError> {
        let turn = tokio::time::timeout(self.patience, self.claims.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or_else(|| CoordinatorError::Unavailable(self.first.wire.trouble()))
    }

    /// Begins a claim under the first session that has room for it; opens another if none has.
    pub(super) async fn room_for(&self, at: &GroupPartition) -> Result<Room, ClaimError> {
        for _ in 0..MAX_TRIES {
            let (known, further) = {
                let further = self.lock();
                (further.revision, further.cores.clone())
            };
            if let Some(room) = begin_claim(&self.first, at).await? {
                return Ok(room);
            }
            for core in further {
                if !self.is_in(&core).await {
                    return Err(unopened(at, &core.wire.trouble()));
                }
                if let Some(room) = begin_claim(&core, at).await? {
                    return Ok(room);
                }
            }
            self.open_another(known).await?;
        }
        Err(CoordinatorError::Unavailable(format!("there is no room for {at} in ZooKeeper at the moment")).into())
    }

    /// One that is being opened is waited for, unless it is known why it cannot be; not for as long as the claim is, which
    /// is to say so.
    async fn is_in(&self, core: &Core) -> bool {
        let cannot = core.missing().is_some() && !core.wire.is_connected() && !core.wire.trouble().is_empty();
        !cannot && core.is_in(self.patience / 2).await
    }

    /// Unless others have opened or closed one since.
    async fn open_another(&self, known: u64) -> Result<(), CoordinatorError> {
        let Some(member) = self.first.ask(|state| state.member.clone()).await? else { return Ok(()) };
        let mut further = self.lock();
        if further.revision != known {
            return Ok(());
        }
        let sessions = further.cores.len() + 1;
        if sessions == MAX_SESSIONS {
            return Err(CoordinatorError::Refused(format!(
                "the {MAX_SESSIONS} sessions with ZooKeeper that one process has are full of what it owns; let more processes share it"
            )));
        }
        let core = (self.open)(&self.first, member);
        further.revision += 1;
        further.cores.push(core.clone());
        drop(further);
        tracing::info!(
            sessions = sessions + 1,
            max_path_bytes = MAX_PATH_BYTES,
            "the sessions with ZooKeeper are full of the paths of what this process owns; another one is opened"
        );
        self.close_when_idle(core);
        Ok(())
    }

    /// It is not needed once what it owns fits elsewhere.
    fn close_when_idle(&self, core: Core) {
        let (sessions, idle_for) = (self.clone(), self.patience);
        core.clone().background(async move {
            loop {
                tokio::time::sleep(idle_for / 4).await;
                if core.ask(move |state| state.retire(idle_for)).await.unwrap_or(true) {
                    tracing::info!("a further session with ZooKeeper owns nothing any more and is closed");
                    return sessions.close(&core);
                }
            }
        });
    }

    fn close(&self, core: &Core) {
        let mut further = self.lock();
        further.cores.retain(|other| !other.is(core));
        further.revision += 1;
        core.stop().cancel();
    }

    /// Nothing more is claimed under any of them.
    pub(super) async fn withdraw(self) -> Result<(), CoordinatorError> {
        first_error(futures_util::future::join_all(self.all().into_iter().map(fleet::withdraw)).await)
    }

    /// Further ones are closed.
    pub(super) async fn leave(self) -> Result<(), CoordinatorError> {
        let mut further = self.further();
        let mut left = futures_util::future::join_all(self.all().into_iter().map(fleet::leave)).await;
        loop {
            further.iter().for_each(|core| self.close(core));
            // A claim may have opened one before it found out that it is refused.
            further = self.further();
            if further.is_empty() {
                return first_error(left);
            }
            left.extend(futures_util::future::join_all(further.iter().cloned().map(fleet::leave)).await);
        }
    }

    pub(super) async fn adopt(self, at: GroupPartition, epoch: Epoch, log: Log) -> Result<Claim, ClaimError> {
        claim::adopt(self.holder(&at, epoch).await?, at, epoch, log).await
    }

    pub(super) async fn disown(self, at: GroupPartition, epoch: Epoch) {
        if let Ok(core) = self.holder(&at, epoch).await {
            claim::disown(core, at, epoch).await;
        }
    }

    /// Each in a transaction of the session that owns it.
    pub(super) async fn store(self, commits: Vec<Commit>, then: Then) -> Vec<Result<(), CommitError>> {
        let held: Vec<_> = commits.iter().map(|commit| (commit.at.clone(), commit.epoch)).collect();
        let (cores, holders) = match self.holders(&held).await {
            Ok(known) => known,
            Err(error) => return vec![Err(error.into()); commits.len()],
        };
        let stores = cores.into_iter().zip(parts(commits, &holders)).filter(|(_, part)| !part.is_empty());
        let stored = futures_util::future::join_all(stores.map(|(core, part)| async move {
            let (indexes, commits): (Vec<_>, Vec<_>) = part.into_iter().unzip();
            indexes.into_iter().zip(store::store(core, commits, then).await).collect::<Vec<_>>()
        }));
        in_order(stored.await)
    }

    pub(super) async fn moved(&self, owned: &[(GroupPartition, Epoch)]) -> Result<Vec<GroupPartition>, CoordinatorError> {
        let (cores, holders) = self.holders(owned).await?;
        let looks = cores.into_iter().zip(parts(owned.to_vec(), &holders)).filter(|(_, part)| !part.is_empty());
        let moved = futures_util::future::try_join_all(looks.map(|(core, part)| async move {
            let (_, asked): (Vec<_>, Vec<_>) = part.into_iter().unzip();
            owned::moved(&core, &asked).await
        }));
        Ok(moved.await?.concat())
    }

    async fn holder(&self, at: &GroupPartition, epoch: Epoch) -> Result<Core, CoordinatorError> {
        let (mut cores, holders) = self.holders(&[(at.clone(), epoch)]).await?;
        Ok(cores.swap_remove(holders[0]))
    }

    /// All sessions, and for each epoch which of them owns it; where none does, the first will say so.
    async fn holders(&self, epochs: &[(GroupPartition, Epoch)]) -> Result<(Vec<Core>, Vec<usize>), CoordinatorError> {
        let cores = self.all();
        let mut holders = vec![0; epochs.len()];
        for (index, core) in cores.iter().enumerate().skip(1) {
            let asked = epochs.to_vec();
            let owns = core.ask(move |state| asked.iter().map(|(at, epoch)| state.owns(at, *epoch)).collect::<Vec<_>>());
            // One that was closed meanwhile owned nothing.
            let owns = owns.await.unwrap_or_default();
            holders.iter_mut().zip(owns).filter(|(_, owns)| *owns).for_each(|(holder, _)| *holder = index);
        }
        Ok((cores, holders))
    }
}

async fn begin_claim(core: &Core, at: &GroupPartition) -> Result<Option<Room>, ClaimError> {
    let begun = at.clone();
    match core.ask(move |state| state.begin_claim(&begun)).await? {
        Ok((session, instance)) => Ok(Some(Room { core: core.clone(), session, instance })),
        Err(Refused::NoRoom) => Ok(None),
        Err(Refused::Because(error)) => Err(error),
    }
}

fn unopened(at: &GroupPartition, trouble: &str) -> ClaimError {
    let trouble = if trouble.is_empty() { "it is not answered yet" } else { trouble };
    CoordinatorError::Unavailable(format!(
        "{at} needs another session with ZooKeeper, since what this process owns takes {MAX_PATH_BYTES} bytes of paths in each of the others: {trouble}"
    ))
    .into()
}

fn first_error(results: Vec<Result<(), CoordinatorError>>) -> Result<(), CoordinatorError> {
    results.into_iter().collect()
}

/// With its place in the whole, each to its holder.
fn parts<T>(all: Vec<T>, holders: &[usize]) -> Vec<Vec<(usize, T)>> {
    let mut parts: Vec<Vec<(usize, T)>> = (0..=holders.iter().copied().max().unwrap_or(0)).map(|_| Vec::new()).collect();
    for (index, (one, holder)) in all.into_iter().zip(holders).enumerate() {
        parts[*holder].push((index, one));
    }
    parts
}

fn in_order<T>(parts: Vec<Vec<(usize, T)>>) -> Vec<T> {
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_out_comes_back_in_its_order() {
        let shared = parts(vec!['a', 'b', 'c', 'd'], &[2, 0, 2, 1]);
        assert_eq!(shared, [vec![(1, 'b')], vec![(3, 'd')], vec![(0, 'a'), (2, 'c')]]);
        assert_eq!(in_order(shared), ['a', 'b', 'c', 'd']);
        assert_eq!(in_order(parts(Vec::<char>::new(), &[])), []);
    }
}
