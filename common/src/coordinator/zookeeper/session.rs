//! The one task that owns a session: it connects, takes the session up again, and shows by writes
//! that it lives. All state of the session is changed here and nowhere else.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Acls, Client, CreateMode, Error, SessionInfo, SessionState, StateWatcher};

use super::super::lease::boot_time;
use super::state::State;
use super::wire::{Link, Op, Status, WriteError, digest};
use super::{Core, Options, fleet, paths};

/// Between two tries to connect that failed at once.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// The longest rest of the task, when nothing is due.
const MAX_REST: Duration = Duration::from_secs(1);

/// Asked of the task, in turn.
pub(super) type Ask = Box<dyn FnOnce(&mut State) + Send>;

type Connecting = Pin<Box<dyn Future<Output = Result<Client, Error>> + Send>>;

enum Connection {
    /// A new session, or the one before if it is still alive.
    Opening(Connecting),
    Open(Client, StateWatcher),
}

pub(super) struct Session {
    pub(super) options: Options,
    pub(super) state: State,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) status: watch::Sender<Status>,
    pub(super) hints: watch::Sender<u64>,
    pub(super) core: Core,
    pub(super) stop: CancellationToken,
    /// To be taken up before a new session is opened.
    former: Option<SessionInfo>,
    proof: Option<oneshot::Receiver<()>>,
}

/// What a session's task shares with the verbs.
pub(super) struct Ends {
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) status: watch::Sender<Status>,
    pub(super) hints: watch::Sender<u64>,
    pub(super) stop: CancellationToken,
}

impl Session {
    pub(super) fn new(options: Options, state: State, core: Core, ends: Ends) -> Self {
        let Ends { asks, status, hints, stop } = ends;
        Self { options, state, asks, status, hints, core, stop, former: None, proof: None }
    }

    /// Until the coordinator is dropped; the session is closed then.
    pub(super) async fn run(mut self) {
        let mut connection = Connection::Opening(self.open(Duration::ZERO));
        loop {
            let rest = self.rest();
            connection = tokio::select! {
                () = self.stop.cancelled() => break,
                Some(ask) = self.asks.recv() => {
                    ask(&mut self.state);
                    while let Ok(ask) = self.asks.try_recv() {
                        ask(&mut self.state);
                    }
                    connection
                }
                next = step(&mut connection) => match next {
                    Event::Opened(result) => self.opened(result),
                    Event::Changed(state) => self.changed(connection, state),
                },
                () = tokio::time::sleep(rest) => connection,
            };
            self.prove();
        }
        self.status.send_replace(Status { trouble: "this process has closed its connection".into(), ..Status::default() });
    }

    fn open(&self, pause: Duration) -> Connecting {
        Box::pin(open(self.options.clone(), self.former.clone(), pause))
    }

    fn opened(&mut self, result: Result<Client, Error>) -> Connection {
        match result {
            Ok(client) => {
                let session = client.session_id().0;
                let new = self.state.session != Some(session);
                self.former = None;
                self.state.session_is(session, client.session_timeout());
                tracing::info!(ensemble = %self.options.ensemble, session = format!("{session:#x}"), timeout = ?client.session_timeout(), new,
                    "connected to ZooKeeper");
                let watcher = client.state_watcher();
                self.publish(&client);
                if new && let Some(member) = self.state.member.clone() {
                    fleet::join_again(&self.core, session, member);
                }
                Connection::Open(client, watcher)
            }
            Err(Error::SessionExpired) if self.former.is_some() => {
                self.over();
                Connection::Opening(self.open(Duration::ZERO))
            }
            Err(error) => {
                let trouble = format!("ZooKeeper at {} cannot be reached: {error}", self.options.ensemble);
                if self.status.borrow().trouble != trouble {
                    tracing::warn!(trouble, "not connected to ZooKeeper; it is tried again");
                }
                self.status.send_modify(|status| status.trouble = trouble);
                Connection::Opening(self.open(RECONNECT_PAUSE))
            }
        }
    }

    /// Only the refusal of the servers ends a session; the library's own `Expired` does not.
    fn over(&mut self) {
        let lost = self.state.session_over();
        self.former = None;
        tracing::error!(ensemble = %self.options.ensemble, partitions = lost,
            "the ZooKeeper session is over: nothing is owned any more; a new one is opened, and the fleet is joined again");
        self.status.send_replace(Status { trouble: "the session is over; a new one is being opened".into(), ..Status::default() });
        self.hint();
    }

    fn changed(&mut self, connection: Connection, state: SessionState) -> Connection {
        let Connection::Open(client, watcher) = connection else { return connection };
        match state {
            SessionState::SyncConnected => {
                self.publish(&client);
                Connection::Open(client, watcher)
            }
            SessionState::Disconnected | SessionState::ConnectedReadOnly => {
                tracing::warn!(ensemble = %self.options.ensemble, "the connection to ZooKeeper is lost; nothing is sent until it is back");
                self.disconnected();
                Connection::Open(client, watcher)
            }
            SessionState::Expired | SessionState::Closed | SessionState::AuthFailed => {
                self.disconnected();
                self.former = Some(client.into_session());
                Connection::Opening(self.open(Duration::ZERO))
            }
        }
    }

    fn publish(&mut self, client: &Client) {
        let link = Link { client: client.clone(), session: client.session_id().0, timeout: client.session_timeout() };
        self.status.send_replace(Status { session: Some(link.session), link: Some(link), trouble: String::new() });
        self.hint();
    }

    fn disconnected(&mut self) {
        let trouble = format!("the connection to ZooKeeper at {} is lost", self.options.ensemble);
        self.status.send_modify(|status| {
            status.link = None;
            status.trouble = trouble;
        });
    }

    fn hint(&self) {
        self.hints.send_modify(|changes| *changes += 1);
    }

    /// Until the lease or the next proof is due.
    fn rest(&self) -> Duration {
        let lapse = self.state.lapse().unwrap_or(MAX_REST);
        let proof = self.state.next_proof().map_or(MAX_REST, |due| due.saturating_sub(boot_time()));
        lapse.min(proof).clamp(Duration::from_millis(5), MAX_REST)
    }

    /// A write that changes nothing, when none has been acknowledged for too long.
    fn prove(&mut self) {
        let under_way = self.proof.as_mut().is_some_and(|proof| matches!(proof.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        let due = self.state.next_proof().is_some_and(|due| due <= boot_time());
        let (Some(session), Some(member)) = (self.state.session, &self.state.member) else { return };
        if under_way || !due || self.status.borrow().link.is_none() {
            return;
        }
        let (ended, proof) = oneshot::channel();
        self.proof = Some(proof);
        let (core, member) = (self.core.clone(), member.clone());
        self.core.background(async move {
            let here = [Op::Exists { path: paths::member(&member.instance) }];
            if let Err(WriteError::Conflict { .. }) = core.write(session, &here).await {
                tracing::error!(
                    instance = member.instance,
                    "this process's node in the fleet was deleted by somebody else; it is made again"
                );
                fleet::join_again(&core, session, member);
                // Not at once again, while that is under way.
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            let _ = ended.send(());
        });
    }
}

enum Event {
    Opened(Result<Client, Error>),
    Changed(SessionState),
}

async fn step(connection: &mut Connection) -> Event {
    match connection {
        Connection::Opening(opening) => Event::Opened(opening.await),
        Connection::Open(_, watcher) => Event::Changed(watcher.changed().await),
    }
}

async fn open(options: Options, former: Option<SessionInfo>, pause: Duration) -> Result<Client, Error> {
    tokio::time::sleep(pause).await;
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
    match options.ensemble.chroot() {
        "" => Ok(client),
        // Nothing may fail here: a client that is dropped closes its session.
        chroot if taken_up => client.chroot(chroot).map_err(|_| Error::BadArguments(&"the chroot is no path")),
        chroot => enter(client, chroot, &options).await,
    }
}

/// The chroot with everything above it is made if it is missing; nothing else is written outside of it.
async fn enter(client: Client, chroot: &str, options: &Options) -> Result<Client, Error> {
    let make = async {
        if client.check_stat(chroot).await?.is_none() {
            client.mkdir(chroot, &CreateMode::Persistent.with_acls(Acls::new(options.acl.list()))).await?;
            tracing::info!(chroot, "the chroot was missing in ZooKeeper and has been created");
        }
        Ok::<(), Error>(())
    };
    match tokio::time::timeout(options.session_timeout, make).await {
        Ok(Ok(())) => client.chroot(chroot).map_err(|_| Error::BadArguments(&"the chroot is no path")),
        Ok(Err(error)) => Err(Error::UnexpectedError(format!("the chroot {chroot} is missing and cannot be created: {error}"))),
        Err(_) => Err(Error::Timeout),
    }
}
