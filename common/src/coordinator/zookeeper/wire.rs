//! Requests to the servers: sent only while connected, each with an end, and what is not answered
//! is sent again, the same, on the same session, until it is answered or the session is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use zookeeper_client::{Acl, CreateMode, Error, MultiWriteError, Permission, Stat};

use super::super::CoordinatorError;
use super::super::lease::boot_time;
use super::outcome::Node;
use super::servers::{Change, Servers, Watch};
use super::{AclMode, Options, paths};

/// Between two tries of the same request.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Servers cut the connection at 1 MiB instead of answering. Two thousand replayed partitions
/// with names of usual length are within it.
pub(super) const MAX_PACKET_BYTES: usize = 900 * 1024;

/// A connection and its session.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) servers: Arc<dyn Servers>,
    pub(super) session: i64,
    /// As the servers granted it.
    pub(super) timeout: Duration,
}

/// What the owner of the session publishes.
#[derive(Clone, Default)]
pub(super) struct Status {
    /// Until the servers refuse it, also while disconnected.
    pub(super) session: Option<i64>,
    /// While connected.
    pub(super) link: Option<Link>,
    /// Why it is not connected.
    pub(super) trouble: String,
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Create { path: String, data: Vec<u8>, mode: CreateMode },
    Set { path: String, data: Vec<u8>, version: Option<i32> },
    Delete { path: String },
    Exists { path: String },
}

impl Op {
    pub(super) fn create(path: String, data: impl Into<Vec<u8>>) -> Self {
        Self::Create { path, data: data.into(), mode: CreateMode::Persistent }
    }

    pub(super) fn create_ephemeral(path: String, data: impl Into<Vec<u8>>) -> Self {
        Self::Create { path, data: data.into(), mode: CreateMode::Ephemeral }
    }

    /// Set at that version, or create where there is none.
    pub(super) fn put(path: String, data: impl Into<Vec<u8>>, version: Option<i32>) -> Self {
        match version {
            Some(_) => Self::Set { path, data: data.into(), version },
            None => Self::create(path, data),
        }
    }

    pub(super) fn path(&self) -> &str {
        match self {
            Self::Create { path, .. } | Self::Set { path, .. } | Self::Delete { path } | Self::Exists { path } => path,
        }
    }

    fn bytes(&self) -> usize {
        const OVERHEAD: usize = 64;
        let data = match self {
            Self::Create { data, .. } | Self::Set { data, .. } => data.len(),
            Self::Delete { .. } | Self::Exists { .. } => 0,
        };
        OVERHEAD + self.path().len() + data
    }
}

/// An acknowledged transaction.
pub(super) struct Written {
    /// By [`boot_time`].
    pub(super) sent: Duration,
    /// Of each operation that wrote data.
    pub(super) stats: Vec<Option<Stat>>,
}

pub(super) enum WriteError {
    /// The operation that cannot be done as things stand: wrong version, a node too many or missing.
    Conflict {
        index: usize,
        /// The same was sent before without an answer: the conflict may be with ourselves.
        repeated: bool,
    },
    SessionOver,
    Refused(CoordinatorError),
}

#[derive(Clone)]
pub(super) struct Wire {
    status: watch::Receiver<Status>,
    acl: &'static [Acl],
    /// Of the path before each node's.
    chroot_bytes: usize,
    /// How long a read waits for a connection.
    patience: Duration,
}

impl Wire {
    pub(super) fn new(status: watch::Receiver<Status>, options: &Options) -> Self {
        let chroot_bytes = options.ensemble.chroot().len();
        Self { status, acl: options.acl.list(), chroot_bytes, patience: options.session_timeout }
    }

    /// About what these take in a packet.
    pub(super) fn bytes(&self, ops: &[Op]) -> usize {
        ops.iter().map(|op| self.chroot_bytes + op.bytes()).sum()
    }

    /// Cut into what fits into a transaction each.
    pub(super) fn parts(&self, ops: Vec<Op>) -> Vec<Vec<Op>> {
        let mut parts: Vec<Vec<Op>> = Vec::new();
        let mut bytes = 0;
        for op in ops {
            let more = self.chroot_bytes + op.bytes();
            bytes += more;
            match parts.last_mut() {
                Some(part) if bytes <= MAX_PACKET_BYTES => part.push(op),
                _ => {
                    bytes = more;
                    parts.push(vec![op]);
                }
            }
        }
        parts
    }

    /// What is missing to send anything; else that an answer is.
    pub(super) fn trouble(&self) -> String {
        let status = self.status.borrow();
        if status.link.is_some() { "ZooKeeper has not answered in time".into() } else { status.trouble.clone() }
    }

    /// The session timeout, while connected.
    pub(super) fn granted(&self) -> Option<Duration> {
        self.status.borrow().link.as_ref().map(|link| link.timeout)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.status.borrow().link.is_some()
    }

    /// Whatever session there is; not longer than patience allows.
    pub(super) async fn link(&self) -> Result<Link, CoordinatorError> {
        let mut status = self.status.clone();
        let connected = tokio::time::timeout(self.patience, status.wait_for(|status| status.link.is_some())).await;
        let link = connected.ok().and_then(Result::ok).and_then(|status| status.link.clone());
        link.ok_or_else(|| CoordinatorError::Unavailable(self.status.borrow().trouble.clone()))
    }

    /// A connection of that session, however long it takes; `None` once the session is over.
    pub(super) async fn on(&self, session: i64) -> Option<Link> {
        let mut status = self.status.clone();
        let known = |status: &Status| status.session != Some(session) || status.link.is_some();
        let status = status.wait_for(known).await.ok()?;
        if status.session == Some(session) { status.link.clone() } else { None }
    }

    /// One transaction, until it is answered. What is larger than a packet is refused here: servers
    /// would cut the connection over it, each time again.
    pub(super) async fn write(&self, session: i64, ops: &[Op]) -> Result<Written, WriteError> {
        let bytes = self.bytes(ops);
        if bytes > MAX_PACKET_BYTES {
            let path = ops.iter().max_by_key(|op| op.bytes()).map_or("", Op::path);
            return Err(WriteError::Refused(CoordinatorError::Refused(format!(
                "{bytes} bytes are more than the {MAX_PACKET_BYTES} of one transaction in ZooKeeper; nothing was written. The largest is {path}"
            ))));
        }
        let mut pause = FIRST_PAUSE;
        let mut repeated = false;
        loop {
            let link = self.on(session).await.ok_or(WriteError::SessionOver)?;
            let sent = boot_time();
            match tokio::time::timeout(link.timeout, link.servers.multi(ops, self.acl)).await {
                Ok(Ok(stats)) => return Ok(Written { sent, stats }),
                Ok(Err(error)) => match definite(&error) {
                    Some(Definite::Conflict(index)) => return Err(WriteError::Conflict { index, repeated }),
                    Some(Definite::Refused) => return Err(WriteError::Refused(refused(&error, ops))),
                    None => tracing::debug!(%error, "it is not known what became of a write; the same is sent again"),
                },
                Err(_) => tracing::debug!("a write was not answered in time; the same is sent again"),
            }
            repeated = true;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// A node, or `None` where there is none.
    pub(super) async fn get(&self, link: &Link, path: &str) -> Result<Option<Node>, CoordinatorError> {
        match self.answer(link, link.servers.get(path)).await? {
            Ok((data, stat)) => Ok(Some(node(data, &stat))),
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(unavailable(&error, path)),
        }
    }

    pub(super) async fn stat(&self, link: &Link, path: &str) -> Result<Option<Stat>, CoordinatorError> {
        self.answer(link, link.servers.stat(path)).await?.map_err(|error| unavailable(&error, path))
    }

    /// Of a node that may not exist.
    pub(super) async fn children(&self, link: &Link, path: &str) -> Result<Vec<String>, CoordinatorError> {
        match self.answer(link, link.servers.children(path)).await? {
            Ok(children) => Ok(children),
            Err(Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(unavailable(&error, path)),
        }
    }

    /// What is read after it is at least as new as what was written before it.
    pub(super) async fn sync(&self, link: &Link) -> Result<(), CoordinatorError> {
        self.answer(link, link.servers.sync()).await?.map_err(|error| unavailable(&error, "/"))
    }

    /// Armed before the read that it is for. Inner error: it cannot be watched.
    pub(super) async fn watch(&self, link: &Link, path: &str, what: Watch) -> Result<Result<Change, Error>, CoordinatorError> {
        self.answer(link, link.servers.watch(path, what)).await
    }

    /// Makes a persistent node without content, and those above it. Below the chroot, which exists.
    pub(super) async fn make(&self, link: &Link, path: &str) -> Result<(), CoordinatorError> {
        self.answer(link, link.servers.make(path, self.acl)).await?.map_err(|error| unavailable(&error, path))
    }

    /// What stands above the nodes that a transaction is to create.
    pub(super) async fn make_parents(&self, link: &Link, ops: &[Op]) -> Result<(), CoordinatorError> {
        let created = ops.iter().filter_map(|op| if let Op::Create { path, .. } = op { Some(paths::parent(path)) } else { None });
        let parents: BTreeSet<&str> = created.collect();
        futures_util::future::try_join_all(parents.into_iter().map(|parent| self.make(link, parent))).await.map(drop)
    }

    /// A read is not waited for longer than the session could live without an answer.
    async fn answer<T>(&self, link: &Link, request: impl Future<Output = T>) -> Result<T, CoordinatorError> {
        let late = |_| CoordinatorError::Unavailable(format!("ZooKeeper has not answered for {:?}", link.timeout));
        tokio::time::timeout(link.timeout, request).await.map_err(late)
    }
}

impl AclMode {
    pub(super) fn list(self) -> &'static [Acl] {
        static OPEN: [Acl; 1] = [Acl::new_const(Permission::ALL, "world", "anyone")];
        static CREATOR: [Acl; 2] = [Acl::new_const(Permission::ALL, "auth", ""), Acl::new_const(Permission::READ, "world", "anyone")];
        match self {
            Self::Open => &OPEN,
            Self::Creator => &CREATOR,
        }
    }
}

pub(super) fn node(data: Vec<u8>, stat: &Stat) -> Node {
    Node { data, version: stat.version, mzxid: stat.mzxid, session: stat.ephemeral_owner }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Definite {
    Conflict(usize),
    /// It will not be done however often it is sent.
    Refused,
}

/// `None`: it may have been done, or may be if it is sent again.
fn definite(error: &MultiWriteError) -> Option<Definite> {
    let (index, source) = match error {
        MultiWriteError::RequestFailed { source } => (None, source),
        MultiWriteError::OperationFailed { index, source } => (Some(*index), source),
    };
    match (index, source) {
        (Some(index), Error::NoNode | Error::NodeExists | Error::BadVersion) => Some(Definite::Conflict(index)),
        (_, Error::NoAuth | Error::InvalidAcl | Error::QuotaExceeded | Error::BadArguments(_) | Error::NotReadOnly) => {
            Some(Definite::Refused)
        }
        (_, Error::NoChildrenForEphemerals | Error::NotEmpty | Error::Unimplemented | Error::MarshallingError) => Some(Definite::Refused),
        _ => None,
    }
}

fn refused(error: &MultiWriteError, ops: &[Op]) -> CoordinatorError {
    let index = if let MultiWriteError::OperationFailed { index, .. } = error { *index } else { 0 };
    let path = ops.get(index).map_or("", Op::path);
    CoordinatorError::Refused(format!("ZooKeeper refuses a write to {path}: {error}"))
}

fn unavailable(error: &Error, path: &str) -> CoordinatorError {
    match error {
        Error::NoAuth => CoordinatorError::Refused(format!("ZooKeeper refuses access to {path}: {error}")),
        _ => CoordinatorError::Unavailable(format!("{error}, at {path}")),
    }
}

/// `user:password`, as the scheme `digest` takes it.
pub(super) fn digest(credentials: &str) -> (&'static str, &[u8]) {
    ("digest", credentials.as_bytes())
}

#[cfg(test)]
mod tests {
    use zookeeper_client::AuthId;

    use super::*;

    fn of_operation(source: Error) -> Option<Definite> {
        definite(&MultiWriteError::OperationFailed { index: 3, source })
    }

    #[test]
    fn only_what_the_servers_decided_is_definite() {
        for conflict in [Error::NoNode, Error::NodeExists, Error::BadVersion] {
            assert_eq!(of_operation(conflict), Some(Definite::Conflict(3)));
        }
        assert_eq!(of_operation(Error::NoAuth), Some(Definite::Refused));
        for unknown in [Error::ConnectionLoss, Error::Timeout, Error::SessionExpired, Error::SessionMoved, Error::ClientClosed] {
            assert_eq!(definite(&MultiWriteError::RequestFailed { source: unknown }), None);
        }
        assert_eq!(definite(&MultiWriteError::RequestFailed { source: Error::UnexpectedError("cut".into()) }), None);
    }

    #[test]
    fn creator_acl_lets_the_world_read() {
        let permissions: Vec<_> = AclMode::Creator.list().iter().map(|acl| (acl.scheme(), acl.permission())).collect();
        assert_eq!(permissions, [("auth", Permission::ALL), ("world", Permission::READ)]);
        assert_eq!(AclMode::Open.list()[0].auth_id(), &AuthId::anyone());
    }
}
