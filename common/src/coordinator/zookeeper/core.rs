//! What every verb works with: the way to the servers, to the session's task, and hints.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::done::node::Writer;
use super::super::{CoordinatorError, Standing};
use super::metrics::Metrics;
use super::outcome::{Node, Nodes};
use super::paths;
use super::servers::{Change, Watch};
use super::session::Ask;
use super::state::State;
use super::wire::{Link, Op, Wire, WriteError, Written};
use crate::ids::GroupPartition;

/// More nodes than this are looked at every few seconds only: at a reconnect all watches are one packet.
const MAX_WATCHES: usize = 1000;

#[derive(Clone)]
pub(super) struct Core {
    pub(super) wire: Wire,
    asks: mpsc::Sender<Ask>,
    hints: watch::Sender<u64>,
    stop: CancellationToken,
    metrics: Metrics,
    marks: Arc<Marks>,
    shared: Arc<Shared>,
}

/// Of all sessions of a process: no two writes have the same mark.
struct Marks {
    boot: Uuid,
    writes: AtomicU64,
}

struct Shared {
    /// Watched now: one watch for each node, however many ask. Held for a look, never over I/O.
    watched: Mutex<HashSet<String>>,
    /// Why this process is not in the fleet although it is to be.
    missing: watch::Sender<Option<String>>,
    /// Somebody joined: foreign consumers are looked for.
    joined: Notify,
}

impl Shared {
    fn new(missing: Option<String>) -> Arc<Self> {
        Arc::new(Self { watched: Mutex::default(), missing: watch::Sender::new(missing), joined: Notify::new() })
    }
}

impl Core {
    pub(super) fn new(wire: Wire, asks: mpsc::Sender<Ask>, hints: watch::Sender<u64>, stop: CancellationToken, metrics: Metrics) -> Self {
        let marks = Arc::new(Marks { boot: Uuid::new_v4(), writes: AtomicU64::new(0) });
        Self { wire, asks, hints, stop, metrics, marks, shared: Shared::new(None) }
    }

    /// Of one more session of the same process, which is [not in](Self::is_in) yet.
    pub(super) fn further(&self, wire: Wire, asks: mpsc::Sender<Ask>) -> Self {
        let not_in = "another session with ZooKeeper is being opened".to_owned();
        let (hints, metrics, marks) = (self.hints.clone(), self.metrics.clone(), self.marks.clone());
        Self { wire, asks, hints, stop: self.stop.child_token(), metrics, marks, shared: Shared::new(Some(not_in)) }
    }

    pub(super) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Waits so long until nothing is missing; `false`: it is, or the session has been closed.
    pub(super) async fn is_in(&self, patience: Duration) -> bool {
        let mut missing = self.shared.missing.subscribe();
        let is_in = self.stop.run_until_cancelled(missing.wait_for(Option::is_none));
        matches!(tokio::time::timeout(patience, is_in).await, Ok(Some(Ok(_))))
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What keeps this process out of the fleet; `None`: nothing.
    pub(super) fn say_missing(&self, missing: Option<String>) {
        self.shared.missing.send_replace(missing);
    }

    pub(super) fn missing(&self) -> Option<String> {
        self.shared.missing.borrow().clone()
    }

    pub(super) fn say_joined(&self) {
        self.say_missing(None);
        self.shared.joined.notify_one();
        self.hint();
    }

    pub(super) async fn joined(&self) {
        self.shared.joined.notified().await;
    }

    /// The mark of the next write of a pair.
    pub(super) fn next_writer(&self) -> Writer {
        Writer { boot: self.marks.boot, number: self.marks.writes.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    pub(super) fn hint(&self) {
        self.hints.send_modify(|changes| *changes += 1);
    }

    /// Asks the owner of the session's state.
    pub(super) async fn ask<T: Send + 'static>(&self, verb: impl FnOnce(&mut State) -> T + Send + 'static) -> Result<T, CoordinatorError> {
        let (answer, answered) = oneshot::channel();
        let ask: Ask = Box::new(move |state| drop(answer.send(verb(state))));
        let gone = || CoordinatorError::Unavailable("the connection to ZooKeeper has been closed".into());
        self.asks.send(ask).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }

    /// Goes on until it ends or the coordinator is dropped, whoever waits for it.
    pub(super) fn background(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Runs a verb that must come to its end once begun, and waits for it so long. `Err`: it goes
    /// on, and `unwanted` gets what becomes of it.
    pub(super) async fn to_its_end<T: Send + 'static, U: Future<Output = ()> + Send>(
        &self,
        patience: Duration,
        verb: impl Future<Output = T> + Send + 'static,
        unwanted: impl FnOnce(T) -> U + Send + 'static,
    ) -> Result<T, CoordinatorError> {
        let (sender, receiver) = oneshot::channel();
        self.background(async move {
            let result = verb.await;
            if let Err(result) = sender.send(result) {
                unwanted(result).await;
            }
        });
        let late = || CoordinatorError::Unavailable(self.wire.trouble());
        tokio::time::timeout(patience, receiver).await.map_err(|_| late())?.map_err(|_| late())
    }

    /// A transaction, which extends the lease when it is acknowledged.
    pub(super) async fn write(&self, session: i64, ops: &[Op]) -> Result<Written, WriteError> {
        let written = self.wire.write(session, ops).await?;
        let sent = written.sent;
        self.ask(move |state| state.acknowledged(session, sent)).await.map_err(WriteError::Refused)?;
        Ok(written)
    }

    /// Owner, cursor and done set.
    pub(super) async fn nodes(&self, link: &Link, at: &GroupPartition) -> Result<Nodes, CoordinatorError> {
        let (owner, cursor, done) = (paths::owner(at), paths::cursor(at), paths::done(at));
        let read = |path| self.wire.get(link, path);
        let (owner, cursor, done) = futures_util::join!(read(&owner), read(&cursor), read(&done));
        Ok(Nodes { owner: owner?, cursor: cursor?, done: done? })
    }

    /// The same, until it is answered; `None` once the session is over.
    pub(super) async fn nodes_surely(&self, session: i64, at: &GroupPartition) -> Option<Nodes> {
        loop {
            let link = self.wire.on(session).await?;
            match self.nodes(&link, at).await {
                Ok(nodes) => return Some(nodes),
                Err(error) => {
                    tracing::debug!(%error, %at, "what became of a write cannot be read yet");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    pub(super) async fn standing(&self, link: &Link, at: &GroupPartition) -> Result<Standing, CoordinatorError> {
        let nodes = self.nodes(link, at).await?;
        let owner = nodes.owner.as_ref().map(|owner| String::from_utf8_lossy(&owner.data).into_owned());
        Ok(Standing { progress: nodes.pair(), owner })
    }

    /// A node, watched: a hint comes when it changes, begins to exist or ends.
    pub(super) async fn get_watched(&self, link: &Link, path: &str) -> Result<Option<Node>, CoordinatorError> {
        self.watch(link, path, Watch::Node).await?;
        self.wire.get(link, path).await
    }

    /// Before the read that it is for: what changes in between is read or hinted at. One-shot.
    pub(super) async fn watch(&self, link: &Link, path: &str, what: Watch) -> Result<(), CoordinatorError> {
        if !self.begin_watch(path) {
            return Ok(());
        }
        match self.wire.watch(link, path, what).await {
            Ok(Ok(change)) => self.await_change(path.to_owned(), change),
            // No watch is only a later look.
            Ok(Err(error)) => {
                tracing::debug!(path, %error, "not watched");
                self.end_watch(path);
            }
            Err(late) => {
                self.end_watch(path);
                return Err(late);
            }
        }
        Ok(())
    }

    fn await_change(&self, path: String, change: Change) {
        let core = self.clone();
        self.background(async move {
            change.await;
            core.end_watch(&path);
            core.hint();
        });
    }

    fn begin_watch(&self, path: &str) -> bool {
        let mut watched = self.shared.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.len() < MAX_WATCHES && watched.insert(path.to_owned())
    }

    fn end_watch(&self, path: &str) {
        self.shared.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    }
}
