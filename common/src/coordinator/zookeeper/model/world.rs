//! Everything outside of the processes: the servers with their sessions, the network to them, the
//! log, and the truth about what receivers acknowledged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use zookeeper_client::{Error, MultiWriteError, SessionState, Stat};

use super::super::servers::Watch;
use super::super::wire::Op;
use super::tree::{Tree, stat};
use super::truth::Truth;
use crate::ids::Partition;

pub(super) const SESSION: Duration = Duration::from_secs(6);
/// Between two pings of the leader: half a tick.
const PING: Duration = Duration::from_millis(1000);
/// Of the client library: silent for so long, it calls the connection lost, and later the session expired.
const LOST_AFTER: Duration = Duration::from_millis(2400);
const EXPIRED_AFTER: Duration = Duration::from_secs(9);

#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(super) fn new(truth: Truth) -> Self {
        Self(Arc::new(Mutex::new(World { truth, ..World::default() })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }
}

/// What becomes of the packets between a process and its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flow {
    #[default]
    Pass,
    Hold,
    /// Requests arrive, answers do not.
    Mute,
    /// They arrive, but the server is cut off from its leader: it answers pings, and reads with
    /// what it knew, and passes no write on. What it hears of its clients it keeps meanwhile
    /// (`LearnerSessionTracker`), and the leader's pings wait in the same stream as all else.
    Isolated,
}

/// One life of a process, as the network sees it.
#[derive(Default)]
pub(super) struct Peer {
    pub(super) flow: Flow,
    pub(super) frozen: bool,
    gone: bool,
    /// It cannot claim: the log does not answer it.
    pub(super) unable: bool,
    /// Sessions that its server was shown to live, and has not told its leader yet.
    heard: BTreeSet<i64>,
    /// The latest send time of a write that was acknowledged.
    pub(super) last_write: Duration,
    /// So many of the next answers to writes are lost, each with its connection.
    pub(super) lose: u32,
    pub(super) fail_reads: u32,
    /// What its server knows, if it is behind.
    stale: Option<Tree>,
    fired: Vec<oneshot::Sender<()>>,
}

struct Client {
    peer: usize,
    session: i64,
    state: watch::Sender<SessionState>,
    inbox: VecDeque<(Request, oneshot::Sender<Reply>)>,
    /// Answers that do not arrive for now.
    unheard: Vec<(Reply, oneshot::Sender<Reply>)>,
    last_contact: Duration,
}

struct Opening {
    peer: usize,
    former: Option<i64>,
    since: Duration,
    answer: oneshot::Sender<Result<Attached, Error>>,
}

pub(super) struct Attached {
    pub(super) client: u64,
    pub(super) session: i64,
    pub(super) states: watch::Receiver<SessionState>,
}

struct Watched {
    peer: usize,
    path: String,
    what: Watch,
    fire: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(super) enum Request {
    Multi(Vec<Op>),
    Get(String),
    Children(String),
    Sync,
    Watch(String, Watch),
}

pub(super) enum Reply {
    Multi(Result<Vec<Option<Stat>>, MultiWriteError>),
    Node(Option<(Vec<u8>, Stat)>),
    Children(Option<Vec<String>>),
    Synced,
    Watching(oneshot::Receiver<()>),
    Failed(Error),
}

#[derive(Default)]
pub(super) struct World {
    pub(super) now: Duration,
    pub(super) tree: Tree,
    /// When the leader last heard of each that is alive.
    sessions: BTreeMap<i64, Duration>,
    last_session: i64,
    clients: BTreeMap<u64, Client>,
    last_client: u64,
    openings: Vec<Opening>,
    pub(super) peers: Vec<Peer>,
    watches: Vec<Watched>,
    /// Writes that are still under way although their sender has given them up.
    late: Vec<(i64, Vec<Op>)>,
    pub(super) truth: Truth,
    pub(super) bypass: bool,
    /// Of the log.
    pub(super) questions: u64,
    /// Grow whenever topics are others, and whenever readers are to look again.
    pub(super) topic_changes: watch::Sender<u64>,
    pub(super) appended: watch::Sender<u64>,
}

impl World {
    pub(super) fn is_alive(&self, session: i64) -> bool {
        self.sessions.contains_key(&session)
    }

    pub(super) fn open(&mut self, peer: usize, former: Option<i64>) -> oneshot::Receiver<Result<Attached, Error>> {
        let (answer, answered) = oneshot::channel();
        self.openings.push(Opening { peer, former, since: self.now, answer });
        answered
    }

    pub(super) fn ask(&mut self, client: u64, request: Request) -> oneshot::Receiver<Reply> {
        let (answer, answered) = oneshot::channel();
        let Some(client) = self.clients.get_mut(&client) else { return answered };
        match *client.state.borrow() {
            SessionState::Expired => drop(answer.send(Reply::Failed(Error::SessionExpired))),
            _ => client.inbox.push_back((request, answer)),
        }
        answered
    }

    /// Answers what can be answered of a process's requests, at most so many. How many were.
    pub(super) fn serve(&mut self, peer: usize, mut at_most: usize) -> usize {
        let flow = self.peers[peer].flow;
        let mut served = self.attach(peer);
        let clients: Vec<u64> = self.clients.iter().filter(|(_, client)| client.peer == peer).map(|(id, _)| *id).collect();
        for id in clients {
            if flow == Flow::Pass {
                let unheard = std::mem::take(&mut self.clients.get_mut(&id).unwrap().unheard);
                unheard.into_iter().for_each(|(reply, answer)| drop(answer.send(reply)));
            }
            while at_most > 0 {
                let client = self.clients.get_mut(&id).unwrap();
                let connected = *client.state.borrow() == SessionState::SyncConnected;
                let reads = |(request, _): &(Request, _)| !matches!(request, Request::Multi(_) | Request::Sync);
                let serves = match flow {
                    Flow::Pass | Flow::Mute => true,
                    Flow::Isolated => client.inbox.front().is_some_and(reads),
                    Flow::Hold => false,
                };
                if !connected || !serves {
                    break;
                }
                let Some((request, answer)) = client.inbox.pop_front() else { break };
                let session = client.session;
                let writes = matches!(request, Request::Multi(_));
                let reply = self.execute(peer, session, request);
                at_most -= 1;
                served += 1;
                if writes && self.peers[peer].lose > 0 {
                    self.peers[peer].lose -= 1;
                    drop(answer.send(Reply::Failed(Error::ConnectionLoss)));
                    self.disconnect(id);
                } else if flow == Flow::Mute {
                    self.clients.get_mut(&id).unwrap().unheard.push((reply, answer));
                } else {
                    let _ = answer.send(reply);
                }
            }
        }
        served + self.fire()
    }

    fn attach(&mut self, peer: usize) -> usize {
        if self.peers[peer].flow != Flow::Pass {
            return 0;
        }
        let (mine, others) = std::mem::take(&mut self.openings).into_iter().partition(|opening| opening.peer == peer);
        self.openings = others;
        let mine: Vec<Opening> = mine;
        let count = mine.len();
        for Opening { former, answer, .. } in mine {
            let session = match former {
                Some(former) if !self.is_alive(former) => {
                    let _ = answer.send(Err(Error::SessionExpired));
                    continue;
                }
                Some(former) => former,
                None => {
                    self.last_session += 1;
                    self.last_session
                }
            };
            self.sessions.insert(session, self.now);
            self.moved(session);
            self.last_client += 1;
            let (state, states) = watch::channel(SessionState::SyncConnected);
            let client = Client { peer, session, state, inbox: VecDeque::new(), unheard: Vec::new(), last_contact: self.now };
            self.clients.insert(self.last_client, client);
            let _ = answer.send(Ok(Attached { client: self.last_client, session, states }));
        }
        count
    }

    /// What was sent on another connection of the session is refused from now on.
    fn moved(&mut self, session: i64) {
        self.late.retain(|(of, _)| *of != session);
    }

    /// A request shows that its session lives, to its server only, which tells it to the leader with
    /// the next ping: also where the leader executes the request.
    fn execute(&mut self, peer: usize, session: i64, request: Request) -> Reply {
        self.show(peer, session);
        if let Request::Multi(ops) = request {
            let reply = Reply::Multi(self.commit(session, &ops));
            self.catch_up(peer);
            return reply;
        }
        if matches!(request, Request::Sync) {
            self.catch_up(peer);
            return Reply::Synced;
        }
        let tree = self.peers[peer].stale.as_ref().unwrap_or(&self.tree);
        match request {
            Request::Get(path) => Reply::Node(tree.get(&path).map(|node| (node.data.clone(), stat(node)))),
            Request::Children(path) => Reply::Children(tree.get(&path).map(|_| tree.children(&path))),
            Request::Watch(path, Watch::Children) if tree.get(&path).is_none() => Reply::Failed(Error::NoNode),
            Request::Watch(path, what) => {
                let (fire, fired) = oneshot::channel();
                self.watches.push(Watched { peer, path, what, fire });
                Reply::Watching(fired)
            }
            Request::Multi(_) | Request::Sync => unreachable!("answered above"),
        }
    }

    fn show(&mut self, peer: usize, session: i64) {
        self.peers[peer].heard.insert(session);
    }

    /// Every server that is not cut off tells its leader what it has heard.
    fn ping(&mut self) {
        for peer in 0..self.peers.len() {
            if self.peers[peer].flow != Flow::Isolated {
                self.tell(peer);
            }
        }
    }

    fn tell(&mut self, peer: usize) {
        for session in std::mem::take(&mut self.peers[peer].heard) {
            if let Some(heard) = self.sessions.get_mut(&session) {
                *heard = self.now;
            }
        }
    }

    fn commit(&mut self, session: i64, ops: &[Op]) -> Result<Vec<Option<Stat>>, MultiWriteError> {
        if !self.is_alive(session) {
            return Err(MultiWriteError::RequestFailed { source: Error::SessionExpired });
        }
        self.write(session, ops).map_err(|(index, source)| MultiWriteError::OperationFailed { index, source })
    }

    /// By a session, or by an old tool (session 0).
    pub(super) fn write(&mut self, session: i64, ops: &[Op]) -> Result<Vec<Option<Stat>>, (usize, Error)> {
        let before = self.truth.before(&self.tree, ops);
        let written = self.tree.multi(session, ops)?;
        self.truth.after(&self.tree, session, ops, before);
        self.truth.turns.after(self.now, ops);
        let touched: Vec<&str> = ops.iter().filter(|op| !matches!(op, Op::Exists { .. })).map(Op::path).collect();
        let parents: Vec<&str> = touched.iter().map(|path| super::super::paths::parent(path)).collect();
        for watched in std::mem::take(&mut self.watches) {
            let changed = match watched.what {
                Watch::Node => touched.contains(&watched.path.as_str()),
                Watch::Children => parents.contains(&watched.path.as_str()),
            };
            if changed {
                self.peers[watched.peer].fired.push(watched.fire);
            } else {
                self.watches.push(watched);
            }
        }
        Ok(written)
    }

    /// An event arrives where its connection and its server let it.
    fn fire(&mut self) -> usize {
        let heard = self.peers.iter_mut().filter(|peer| peer.flow == Flow::Pass && peer.stale.is_none());
        heard.flat_map(|peer| peer.fired.drain(..)).filter_map(|fire| fire.send(()).ok()).count()
    }

    pub(super) fn fall_behind(&mut self, peer: usize) {
        self.peers[peer].stale = Some(self.tree.clone());
    }

    pub(super) fn catch_up(&mut self, peer: usize) {
        self.peers[peer].stale = None;
    }

    pub(super) fn set_flow(&mut self, peer: usize, flow: Flow) {
        if flow == Flow::Isolated {
            self.fall_behind(peer);
        } else if self.peers[peer].flow == Flow::Isolated {
            // The pings that waited are answered before any later answer reaches a client.
            self.tell(peer);
        }
        if flow == Flow::Pass {
            self.catch_up(peer);
            self.deliver_late();
        }
        self.peers[peer].flow = flow;
    }

    /// Writes that their senders gave up arrive after all.
    pub(super) fn deliver_late(&mut self) {
        for (session, ops) in std::mem::take(&mut self.late) {
            let _ = self.commit(session, &ops);
        }
    }

    /// The connection is reset. What was asked on it and not executed may still arrive. A server that
    /// is cut off has lost its leader's connection too: it closes all others, and forgets what it heard.
    pub(super) fn cut(&mut self, peer: usize) {
        if self.peers[peer].flow == Flow::Isolated {
            self.peers[peer].heard.clear();
        }
        let of = self.clients.iter().filter(|(_, client)| client.peer == peer).map(|(id, _)| *id);
        of.collect::<Vec<_>>().into_iter().for_each(|id| self.disconnect(id));
    }

    fn disconnect(&mut self, id: u64) {
        let client = self.clients.get_mut(&id).unwrap();
        if *client.state.borrow() != SessionState::SyncConnected {
            return;
        }
        client.state.send_replace(SessionState::Disconnected);
        client.unheard.drain(..).for_each(|(_, answer)| drop(answer.send(Reply::Failed(Error::ConnectionLoss))));
        for (request, answer) in client.inbox.drain(..) {
            let _ = answer.send(Reply::Failed(Error::ConnectionLoss));
            if let Request::Multi(ops) = request {
                self.late.push((client.session, ops));
            }
        }
    }

    /// The process is dead: its connections close, its session lives on.
    pub(super) fn gone(&mut self, peer: usize) {
        self.cut(peer);
        self.peers[peer].gone = true;
        self.clients.retain(|_, client| client.peer != peer);
        self.openings.retain(|opening| opening.peer != peer);
        self.watches.retain(|watched| watched.peer != peer);
        self.peers[peer].fired.clear();
    }

    pub(super) fn close(&mut self, peer: usize) {
        let sessions: Vec<i64> = self.clients.values().filter(|client| client.peer == peer).map(|client| client.session).collect();
        self.gone(peer);
        if self.peers[peer].flow == Flow::Pass {
            sessions.into_iter().for_each(|session| self.expire(session));
        }
    }

    fn expire(&mut self, session: i64) {
        if self.sessions.remove(&session).is_some() {
            let ops: Vec<Op> = self.tree.ephemerals(session).into_iter().map(|path| Op::Delete { path }).collect();
            self.write(session, &ops).expect("ephemeral nodes have no children");
        }
    }

    /// Whether one of its sessions does.
    pub(super) fn owns(&self, peer: usize, partition: Partition) -> bool {
        let owner = self.tree.get(&format!("/consumers/g/owners/t/{}", partition.0)).map(|node| node.owner);
        self.clients.values().any(|client| client.peer == peer && Some(client.session) == owner)
    }

    /// Tells who reads, and who follows the topics.
    pub(super) fn log_changed(&self) {
        self.topic_changes.send_modify(|changes| *changes += 1);
        self.records_changed();
    }

    /// Tells who reads.
    pub(super) fn records_changed(&self) {
        self.appended.send_modify(|changes| *changes += 1);
    }

    pub(super) fn client_thinks_expired(&self, peer: usize) -> bool {
        let last = self.clients.values().rev().find(|client| client.peer == peer);
        last.is_none_or(|client| *client.state.borrow() == SessionState::Expired)
    }

    pub(super) fn attempt(&mut self, peer: usize, what: (usize, u64, u64), value: &[u8]) -> u64 {
        let Self { truth, sessions, peers, .. } = self;
        truth.attempt(peer, what, value, |session| sessions.contains_key(&session), |peer| peers[peer].frozen)
    }

    /// Under which a process works on a partition, as far as can be told.
    pub(super) fn epoch_of(&self, peer: usize, partition: usize) -> u64 {
        let sessions = self.clients.values().filter(|client| client.peer == peer).map(|client| client.session);
        self.truth.epoch_of(peer, partition, &sessions.collect::<Vec<_>>())
    }

    /// Every session has its whole time again, and every connection is cut.
    pub(super) fn restart_servers(&mut self) {
        (0..self.peers.len()).for_each(|peer| self.cut(peer));
        self.peers.iter_mut().for_each(|peer| peer.heard.clear());
        let now = self.now;
        self.sessions.values_mut().for_each(|heard| *heard = now);
    }

    /// Time has passed.
    pub(super) fn tick(&mut self) {
        let ids: Vec<u64> = self.clients.keys().copied().collect();
        for id in ids {
            self.tick_client(id);
        }
        let now = self.now;
        if now.as_millis().is_multiple_of(PING.as_millis()) {
            self.ping();
        }
        let over: Vec<i64> = self.sessions.iter().filter(|(_, heard)| now - **heard > SESSION).map(|(session, _)| *session).collect();
        over.into_iter().for_each(|session| self.expire(session));
        let (late, waiting): (Vec<Opening>, Vec<_>) = std::mem::take(&mut self.openings)
            .into_iter()
            .partition(|opening| now - opening.since > SESSION && !self.peers[opening.peer].frozen);
        self.openings = waiting;
        late.into_iter().for_each(|opening| drop(opening.answer.send(Err(Error::Timeout))));
    }

    fn tick_client(&mut self, id: u64) {
        let client = self.clients.get_mut(&id).unwrap();
        let (peer, session, state) = (&self.peers[client.peer], client.session, *client.state.borrow());
        if peer.frozen {
            return;
        }
        let heard = matches!(peer.flow, Flow::Pass | Flow::Isolated);
        let arrives = peer.flow != Flow::Hold;
        match state {
            SessionState::SyncConnected => {
                if heard {
                    client.last_contact = self.now;
                }
                let ended = matches!(peer.flow, Flow::Pass | Flow::Mute) && !self.sessions.contains_key(&session);
                if ended || self.now - client.last_contact > LOST_AFTER {
                    self.disconnect(id);
                } else if arrives {
                    let peer = client.peer;
                    self.show(peer, session);
                }
            }
            SessionState::Disconnected if peer.flow == Flow::Pass => {
                if self.sessions.contains_key(&session) {
                    client.last_contact = self.now;
                    client.state.send_replace(SessionState::SyncConnected);
                    self.sessions.insert(session, self.now);
                    self.moved(session);
                } else {
                    self.expired(id);
                }
            }
            SessionState::Disconnected if self.now - client.last_contact > EXPIRED_AFTER => self.expired(id),
            _ => {}
        }
    }

    fn expired(&mut self, id: u64) {
        let client = self.clients.get_mut(&id).unwrap();
        client.state.send_replace(SessionState::Expired);
        client.inbox.drain(..).for_each(|(_, answer)| drop(answer.send(Reply::Failed(Error::SessionExpired))));
    }
}
