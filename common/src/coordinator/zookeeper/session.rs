//! The one task that owns a session: it connects, takes the session up again, and shows by writes
//! that it lives. All state of the session is changed here and nowhere else.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Error, SessionState};

use super::super::lease::boot_time;
use super::core::Core;
use super::metrics::Presence;
use super::servers::{Door, Opened, States};
use super::state::{Role, State};
use super::wire::{Link, Op, Status, WriteError};
use super::{Ensemble, fleet};

/// Between two tries to connect that failed at once.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// The longest rest of the task, when nothing is due.
const MAX_REST: Duration = Duration::from_secs(1);

/// Asked of the task, in turn.
pub(super) type Ask = Box<dyn FnOnce(&mut State) + Send>;

/// With the time at which the servers were first asked for it.
type Connecting<D> = Pin<Box<dyn Future<Output = (Duration, Result<Opened<<D as Door>::Ticket, <D as Door>::States>, Error>)> + Send>>;

enum Connection<D: Door> {
    /// A new session, or the one before if it is still alive.
    Opening(Connecting<D>),
    Open(Opened<D::Ticket, D::States>),
}

pub(super) struct Session<D: Door> {
    door: Arc<D>,
    ensemble: Ensemble,
    state: State,
    core: Core,
    presence: Presence,
    ends: Ends,
    /// To be taken up before a new session is opened.
    former: Option<D::Ticket>,
    proof: Option<oneshot::Receiver<()>>,
}

/// What a session's task shares with the verbs.
pub(super) struct Ends {
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) status: watch::Sender<Status>,
    pub(super) stop: CancellationToken,
}

impl<D: Door> Session<D> {
    pub(super) fn new(door: Arc<D>, ensemble: Ensemble, state: State, core: Core, ends: Ends) -> Self {
        let presence = core.metrics().session();
        Self { door, ensemble, state, core, presence, ends, former: None, proof: None }
    }

    /// Until the coordinator is dropped; the session is closed then.
    pub(super) async fn run(mut self) {
        let mut connection = Connection::Opening(self.open(Duration::ZERO));
        loop {
            let rest = self.rest();
            connection = tokio::select! {
                biased;
                () = self.ends.stop.cancelled() => break,
                next = step(&mut connection) => match next {
                    Event::Opened(asked, result) => self.opened(asked, result),
                    Event::Changed(state) => self.changed(connection, state),
                },
                Some(ask) = self.ends.asks.recv() => {
                    ask(&mut self.state);
                    while let Ok(ask) = self.ends.asks.try_recv() {
                        ask(&mut self.state);
                    }
                    connection
                }
                () = tokio::time::sleep(rest) => connection,
            };
            self.prove();
        }
        self.ends.status.send_replace(Status { trouble: "this process has closed its connection".into(), ..Status::default() });
    }

    fn open(&self, pause: Duration) -> Connecting<D> {
        let asked = boot_time();
        let opening = self.door.open(self.former.clone());
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            (asked, opening.await)
        })
    }

    fn opened(&mut self, asked: Duration, result: Result<Opened<D::Ticket, D::States>, Error>) -> Connection<D> {
        match result {
            Ok(opened) => {
                let Link { session, timeout, .. } = opened.link;
                let new = self.state.session != Some(session);
                self.former = None;
                self.state.session_is(session, timeout, asked);
                tracing::info!(ensemble = %self.ensemble, session = format!("{session:#x}"), ?timeout, new, "connected to ZooKeeper");
                self.publish(&opened.link);
                if new && let Some(member) = self.state.to_join_again() {
                    fleet::join_again(&self.core, session, member);
                }
                Connection::Open(opened)
            }
            Err(Error::SessionExpired) if self.former.is_some() => {
                self.over();
                Connection::Opening(self.open(Duration::ZERO))
            }
            Err(error) => {
                let trouble = format!("ZooKeeper at {} cannot be reached: {error}", self.ensemble);
                if self.ends.status.borrow().trouble != trouble {
                    tracing::warn!(trouble, "not connected to ZooKeeper; it is tried again");
                }
                self.ends.status.send_modify(|status| status.trouble = trouble);
                Connection::Opening(self.open(RECONNECT_PAUSE))
            }
        }
    }

    /// Only the refusal of the servers ends a session; the library's own `Expired` does not.
    fn over(&mut self) {
        let lost = self.state.session_over();
        self.former = None;
        self.presence.session_lost();
        if self.state.member.is_some() {
            self.core.say_missing(Some("this process is not in the fleet: its session is over".to_owned()));
        }
        match self.state.role() {
            Role::First => tracing::error!(ensemble = %self.ensemble, partitions = lost,
                "the ZooKeeper session is over: nothing is owned any more; a new one is opened, and the fleet is joined again"),
            Role::Further => tracing::error!(ensemble = %self.ensemble, partitions = lost,
                "a further ZooKeeper session is over: what was owned under it is owned no more, and what is owned under the others is \
                given up and taken again; a new one is opened"),
        }
        self.ends.status.send_replace(Status { trouble: "the session is over; a new one is being opened".into(), ..Status::default() });
        self.core.hint();
    }

    fn changed(&mut self, connection: Connection<D>, state: SessionState) -> Connection<D> {
        let Connection::Open(opened) = connection else { return connection };
        match state {
            SessionState::SyncConnected => {
                self.publish(&opened.link);
                Connection::Open(opened)
            }
            SessionState::Disconnected | SessionState::ConnectedReadOnly => {
                tracing::warn!(ensemble = %self.ensemble, "the connection to ZooKeeper is lost; nothing is sent until it is back");
                self.disconnected();
                Connection::Open(opened)
            }
            SessionState::Expired | SessionState::Closed | SessionState::AuthFailed => {
                self.disconnected();
                self.former = Some(opened.ticket);
                Connection::Opening(self.open(Duration::ZERO))
            }
        }
    }

    fn publish(&mut self, link: &Link) {
        self.presence.connected(true);
        self.ends.status.send_replace(Status { session: Some(link.session), link: Some(link.clone()), trouble: String::new() });
        self.core.hint();
    }

    fn disconnected(&mut self) {
        self.presence.connected(false);
        let trouble = format!("the connection to ZooKeeper at {} is lost", self.ensemble);
        self.ends.status.send_modify(|status| {
            status.link = None;
            status.trouble = trouble;
        });
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
        if under_way || !due || self.ends.status.borrow().link.is_none() {
            return;
        }
        let (ended, proof) = oneshot::channel();
        self.proof = Some(proof);
        let (core, member, path) = (self.core.clone(), member.clone(), self.state.proof_path());
        self.core.background(async move {
            if let Err(WriteError::Conflict { .. }) = core.write(session, &[Op::Exists { path: path.clone() }]).await {
                tracing::error!(instance = member.instance, path, "this node was deleted by somebody else; it is made again");
                fleet::join_again(&core, session, member);
                // Not at once again, while that is under way.
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            let _ = ended.send(());
        });
    }
}

enum Event<D: Door> {
    Opened(Duration, Result<Opened<D::Ticket, D::States>, Error>),
    Changed(SessionState),
}

async fn step<D: Door>(connection: &mut Connection<D>) -> Event<D> {
    match connection {
        Connection::Opening(opening) => {
            let (asked, result) = opening.await;
            Event::Opened(asked, result)
        }
        Connection::Open(opened) => Event::Changed(opened.states.changed().await),
    }
}
