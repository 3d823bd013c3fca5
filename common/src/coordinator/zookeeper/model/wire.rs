//! The processes' side of the simulated network, whole or deliberately broken.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use zookeeper_client::{Acl, Error, MultiWriteError, SessionState, Stat};

use super::super::paths;
use super::super::servers::{Change, Door, Opened, Servers, States, Watch};
use super::super::wire::{Link, Op};
use super::world::{Reply, Request, SESSION, Shared};
use crate::coordinator::Birth;

/// A rule of the protocol that is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The done set is written before the cursor, and counts whoever wrote the cursor.
    PairApart,
    /// Work goes on until the client's own clock says that the session has expired.
    LeaseByExpired,
    /// An owner node is mine if it has my name.
    OwnerByText,
    /// A partition without a cursor starts where its log ends at the moment.
    BirthMissing,
    /// Whatever version a node has, it is written over.
    VersionIgnored,
    /// A lease lasts from the last write, whatever the leader has heard of.
    LeaseUnsettled,
    /// The next in rank takes at once what nobody owns.
    NextTooEarly,
    /// And never.
    NextNever,
    /// It gives what it took back to who could not take it.
    NextForgets,
    /// Attempts begin although the group is paused.
    PauseIgnored,
}

pub(super) struct SimulatedDoor {
    pub(super) world: Shared,
    pub(super) peer: usize,
    pub(super) instance: String,
    pub(super) broken: Option<Broken>,
}

impl Door for SimulatedDoor {
    type Ticket = i64;
    type States = SimulatedStates;

    fn open(&self, former: Option<i64>) -> impl Future<Output = Result<Opened<i64, SimulatedStates>, Error>> + Send + use<> {
        let answered = self.world.lock().open(self.peer, former);
        let (world, peer, instance, broken) = (self.world.clone(), self.peer, self.instance.clone(), self.broken);
        async move {
            let attached = answered.await.map_err(|_| Error::ConnectionLoss)??;
            let session = attached.session;
            let servers = Simulated { world, peer, client: attached.client, session, instance, broken };
            let link = Link { servers: Arc::new(servers), session, timeout: SESSION };
            Ok(Opened { link, ticket: session, states: SimulatedStates(attached.states) })
        }
    }
}

pub(super) struct SimulatedStates(watch::Receiver<SessionState>);

impl States for SimulatedStates {
    async fn changed(&mut self) -> SessionState {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => std::future::pending().await,
        }
    }
}

struct Simulated {
    world: Shared,
    peer: usize,
    client: u64,
    session: i64,
    instance: String,
    broken: Option<Broken>,
}

impl Simulated {
    async fn ask(&self, request: Request) -> Reply {
        let answered = self.world.lock().ask(self.client, request);
        answered.await.unwrap_or(Reply::Failed(Error::ConnectionLoss))
    }

    async fn node(&self, path: &str) -> Result<Option<(Vec<u8>, Stat)>, Error> {
        let mut node = match self.ask(Request::Get(path.to_owned())).await {
            Reply::Node(node) => node,
            Reply::Failed(error) => return Err(error),
            _ => return Err(Error::ConnectionLoss),
        };
        if let Some((data, stat)) = &mut node {
            self.distort(path, data, stat);
        }
        Ok(node)
    }

    /// By the operations' indexes.
    fn parts(&self, ops: &[Op]) -> Vec<Vec<usize>> {
        let of_done = |index: &usize| self.broken == Some(Broken::PairApart) && ops[*index].path().contains("/done/");
        let (apart, together): (Vec<usize>, Vec<usize>) = (0..ops.len()).partition(of_done);
        [apart, together].into_iter().filter(|part| !part.is_empty()).collect()
    }

    /// What a program that does not keep a rule would make of it.
    fn distort(&self, path: &str, data: &mut Vec<u8>, stat: &mut Stat) {
        match self.broken {
            Some(Broken::OwnerByText) if path.contains("/owners/") && *data == self.instance.as_bytes() => {
                stat.ephemeral_owner = self.session;
            }
            Some(Broken::PairApart) if path.contains("/done/") => {
                let world = self.world.lock();
                stat.mzxid = world.tree.get(&path.replace("/done/", "/offsets/")).map_or(stat.mzxid, |cursor| cursor.mzxid);
            }
            Some(Broken::BirthMissing) if path.contains("/topics/") => {
                let world = self.world.lock();
                let log = world.truth.log();
                let birth = Birth { topic_id: Some(log.topic_id()), start: log.ends() };
                *data = serde_json::to_vec(&birth).unwrap();
            }
            _ => {}
        }
    }
}

#[async_trait]
impl Servers for Simulated {
    async fn multi(&self, ops: &[Op], _: &'static [Acl]) -> Result<Vec<Option<Stat>>, MultiWriteError> {
        let mut ops = ops.to_vec();
        if self.broken == Some(Broken::VersionIgnored) {
            for op in &mut ops {
                if let Op::Set { version, .. } = op {
                    *version = None;
                }
            }
        }
        let mut stats = vec![None; ops.len()];
        let sent = self.world.lock().now;
        for part in self.parts(&ops) {
            let some: Vec<Op> = part.iter().map(|index| ops[*index].clone()).collect();
            match self.ask(Request::Multi(some)).await {
                Reply::Multi(Ok(written)) => part.into_iter().zip(written).for_each(|(index, stat)| stats[index] = stat),
                Reply::Multi(Err(MultiWriteError::OperationFailed { index, source })) => {
                    return Err(MultiWriteError::OperationFailed { index: part[index], source });
                }
                Reply::Multi(Err(error)) => return Err(error),
                Reply::Failed(source) => return Err(MultiWriteError::RequestFailed { source }),
                _ => return Err(MultiWriteError::RequestFailed { source: Error::ConnectionLoss }),
            }
        }
        let peer = &mut self.world.lock().peers[self.peer];
        peer.last_write = peer.last_write.max(sent);
        Ok(stats)
    }

    async fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), Error> {
        self.node(path).await?.ok_or(Error::NoNode)
    }

    async fn stat(&self, path: &str) -> Result<Option<Stat>, Error> {
        Ok(self.node(path).await?.map(|(_, stat)| stat))
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        match self.ask(Request::Children(path.to_owned())).await {
            Reply::Children(children) => children.ok_or(Error::NoNode),
            Reply::Failed(error) => Err(error),
            _ => Err(Error::ConnectionLoss),
        }
    }

    async fn sync(&self) -> Result<(), Error> {
        match self.ask(Request::Sync).await {
            Reply::Synced => Ok(()),
            Reply::Failed(error) => Err(error),
            _ => Err(Error::ConnectionLoss),
        }
    }

    async fn make(&self, path: &str, _: &'static [Acl]) -> Result<(), Error> {
        let mut missing = vec![path];
        while let Some(above) = missing.last().map(|path| paths::parent(path)).filter(|above| !above.is_empty()) {
            missing.push(above);
        }
        for path in missing.into_iter().rev() {
            match self.ask(Request::Multi(vec![Op::create(path.to_owned(), "")])).await {
                Reply::Multi(Ok(_) | Err(MultiWriteError::OperationFailed { source: Error::NodeExists, .. })) => {}
                Reply::Multi(Err(error)) => return Err(error.into()),
                Reply::Failed(error) => return Err(error),
                _ => return Err(Error::ConnectionLoss),
            }
        }
        Ok(())
    }

    async fn watch(&self, path: &str, what: Watch) -> Result<Change, Error> {
        match self.ask(Request::Watch(path.to_owned(), what)).await {
            Reply::Watching(fired) => Ok(Box::pin(async move {
                // Its connection and all watches on it may be gone for good.
                if fired.await.is_err() {
                    std::future::pending::<()>().await;
                }
            })),
            Reply::Failed(error) => Err(error),
            _ => Err(Error::ConnectionLoss),
        }
    }
}
