//! The rim: what is asked of the servers, and the one implementation that asks real ones. The model
//! test has another.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zookeeper_client::{
    Acl, Acls, Client, CreateMode, Error, MultiWriteError, MultiWriteResult, OneshotWatcher, SessionInfo, SessionState, Stat, StateWatcher,
};

use super::wire::{Link, Op, digest};
use super::{AclMode, Options};

/// What a node is watched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Watch {
    Node,
    Children,
}

/// Ends when what is watched has changed.
pub(super) type Change = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Requests on one session, paths below the chroot.
#[async_trait]
pub(super) trait Servers: Send + Sync {
    /// All or nothing. Of each operation that wrote data its node as it is now.
    async fn multi(&self, ops: &[Op], acl: &'static [Acl]) -> Result<Vec<Option<Stat>>, MultiWriteError>;

    async fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), Error>;

    async fn stat(&self, path: &str) -> Result<Option<Stat>, Error>;

    async fn children(&self, path: &str) -> Result<Vec<String>, Error>;

    async fn sync(&self) -> Result<(), Error>;

    /// A persistent node without content, and those above it, where they are missing.
    async fn make(&self, path: &str, acl: &'static [Acl]) -> Result<(), Error>;

    /// Once; `Node` also where there is none yet.
    async fn watch(&self, path: &str, what: Watch) -> Result<Change, Error>;
}

/// Opens sessions.
pub(super) trait Door: Send + Sync + 'static {
    /// What takes a session up again.
    type Ticket: Clone + Send + Sync + 'static;
    type States: States;

    /// A new session, or `former` if the servers still have it: else `SessionExpired`.
    fn open(
        &self,
        former: Option<Self::Ticket>,
    ) -> impl Future<Output = Result<Opened<Self::Ticket, Self::States>, Error>> + Send + use<Self>;
}

pub(super) struct Opened<T, S> {
    pub(super) link: Link,
    pub(super) ticket: T,
    pub(super) states: S,
}

/// What becomes of an open session's connection. `Expired` is the client's own opinion.
pub(super) trait States: Send + Sync + 'static {
    fn changed(&mut self) -> impl Future<Output = SessionState> + Send;
}

/// Dropped, with everything that was made of it, its session is closed.
struct Connected(Client);

#[async_trait]
impl Servers for Connected {
    async fn multi(&self, ops: &[Op], acl: &'static [Acl]) -> Result<Vec<Option<Stat>>, MultiWriteError> {
        let mut writer = self.0.new_multi_writer();
        for op in ops {
            match op {
                Op::Create { path, data, mode } => writer.add_create(path, data, &mode.with_acls(Acls::new(acl))),
                Op::Set { path, data, version } => writer.add_set_data(path, data, *version),
                Op::Delete { path } => writer.add_delete(path, None),
                Op::Exists { path } => writer.add_check_version(path, -1),
            }?;
        }
        Ok(writer.commit().await?.iter().map(stat).collect())
    }

    async fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), Error> {
        self.0.get_data(path).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.0.check_stat(path).await
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.0.list_children(path).await
    }

    async fn sync(&self) -> Result<(), Error> {
        self.0.sync("/").await
    }

    async fn make(&self, path: &str, acl: &'static [Acl]) -> Result<(), Error> {
        self.0.mkdir(path, &CreateMode::Persistent.with_acls(Acls::new(acl))).await
    }

    async fn watch(&self, path: &str, what: Watch) -> Result<Change, Error> {
        let watcher: OneshotWatcher = match what {
            Watch::Node => self.0.check_and_watch_stat(path).await?.1,
            Watch::Children => self.0.list_and_watch_children(path).await?.1,
        };
        Ok(Box::pin(async move { drop(watcher.changed().await) }))
    }
}

fn stat(result: &MultiWriteResult) -> Option<Stat> {
    match result {
        MultiWriteResult::Create { stat, .. } | MultiWriteResult::SetData { stat } => (!stat.is_invalid()).then_some(*stat),
        _ => None,
    }
}

impl States for StateWatcher {
    fn changed(&mut self) -> impl Future<Output = SessionState> + Send {
        StateWatcher::changed(self)
    }
}

/// To real servers.
pub(super) struct Network(pub(super) Options);

impl Door for Network {
    type Ticket = SessionInfo;
    type States = StateWatcher;

    fn open(&self, former: Option<SessionInfo>) -> impl Future<Output = Result<Opened<SessionInfo, StateWatcher>, Error>> + Send + use<> {
        open(self.0.clone(), former)
    }
}

async fn open(options: Options, former: Option<SessionInfo>) -> Result<Opened<SessionInfo, StateWatcher>, Error> {
    let mut connector = Client::connector().with_session_timeout(options.session_timeout);
    if let Some(credentials) = &options.digest {
        let (scheme, auth) = digest(credentials);
        connector = connector.with_auth(scheme, auth);
    }
    let taken_up = former.is_some();
    if let Some(former) = former {
        connector = connector.with_session(former);
    }
    let client = connector.connect(&options.ensemble.servers()).await?;
    let client = match options.ensemble.chroot() {
        "" => client,
        // Nothing may fail here: a client that is dropped closes its session.
        chroot if taken_up => client.chroot(chroot).map_err(|_| Error::BadArguments(&"the chroot is no path"))?,
        chroot => enter(client, chroot, options.acl, options.session_timeout).await?,
    };
    let (session, timeout) = (client.session_id().0, client.session_timeout());
    let (ticket, states) = (client.session().clone(), client.state_watcher());
    Ok(Opened { link: Link { servers: Arc::new(Connected(client)), session, timeout }, ticket, states })
}

/// The chroot with everything above it is made if it is missing; nothing else is written outside of it.
async fn enter(client: Client, chroot: &str, acl: AclMode, patience: Duration) -> Result<Client, Error> {
    let make = async {
        if client.check_stat(chroot).await?.is_none() {
            client.mkdir(chroot, &CreateMode::Persistent.with_acls(Acls::new(acl.list()))).await?;
            tracing::info!(chroot, "the chroot was missing in ZooKeeper and has been created");
        }
        Ok::<(), Error>(())
    };
    match tokio::time::timeout(patience, make).await {
        Ok(Ok(())) => client.chroot(chroot).map_err(|_| Error::BadArguments(&"the chroot is no path")),
        Ok(Err(error)) => Err(Error::UnexpectedError(format!("the chroot {chroot} is missing and cannot be created: {error}"))),
        Err(_) => Err(Error::Timeout),
    }
}
