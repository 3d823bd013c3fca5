//! A TCP relay that delays, holds or swallows either direction, or resets every connection.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What becomes of the bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Pass,
    /// They wait until the flow is another.
    Hold,
    /// They are taken and never arrive.
    Drop,
    /// They arrive that much later.
    Delay(Duration),
}

impl Flows {
    fn of(&self, connection: u64, flow: Flow) -> Flow {
        let (from, to) = self.concerned;
        if (from..to).contains(&connection) { flow } else { Flow::Pass }
    }
}

/// Dropped, it closes every connection.
pub struct Relay {
    addr: SocketAddr,
    flows: watch::Sender<Flows>,
    cut: watch::Sender<u64>,
    /// Connections so far.
    accepted: Arc<AtomicU64>,
    clients: Clients,
    _stop: DropGuard,
}

#[derive(Debug, Clone, Copy)]
struct Flows {
    to_server: Flow,
    to_client: Flow,
    /// On other connections, everything passes.
    concerned: (u64, u64),
}

impl Relay {
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let flows = watch::Sender::new(Flows { to_server: Flow::Pass, to_client: Flow::Pass, concerned: (0, u64::MAX) });
        let cut = watch::Sender::new(0);
        let stop = CancellationToken::new();
        let (flow, cuts, stopped) = (flows.subscribe(), cut.subscribe(), stop.clone());
        let accepted = Arc::<AtomicU64>::default();
        let (count, clients) = (Arc::clone(&accepted), Clients::default());
        let entered = clients.clone();
        tokio::spawn(async move {
            let accept = async {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    let number = count.fetch_add(1, Ordering::Relaxed);
                    let ends = (cuts.clone(), stopped.clone());
                    tokio::spawn(connection((number, client), server, flow.clone(), ends, entered.clone()));
                }
            };
            tokio::select! {
                () = stopped.cancelled() => {}
                () = accept => {}
            }
        });
        Self { addr, flows, cut, accepted, clients, _stop: stop.drop_guard() }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn to_server(&self, flow: Flow) {
        self.flows.send_modify(|flows| flows.to_server = flow);
    }

    pub fn to_client(&self, flow: Flow) {
        self.flows.send_modify(|flows| flows.to_client = flow);
    }

    /// Both directions, for connections that are open and for new ones.
    pub fn both(&self, flow: Flow) {
        self.flows.send_modify(|flows| (flows.to_server, flows.to_client) = (flow, flow));
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Everything passes on other connections than these, counted from 0, whatever is said of them.
    pub fn concern(&self, connections: std::ops::Range<u64>) {
        self.flows.send_modify(|flows| flows.concerned = (connections.start, connections.end));
    }

    pub fn clients(&self) -> Clients {
        self.clients.clone()
    }

    /// Resets every open connection.
    pub fn reset(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

/// Who has a connection through the relay: what the kernel knows of them, before anybody is woken by it.
#[derive(Clone, Default)]
pub struct Clients(Arc<Mutex<HashMap<SocketAddr, socket2::Socket>>>);

impl Clients {
    /// Whether the client of a connection, which the server knows by this address, has closed or reset it, or the relay has.
    pub fn has_gone(&self, seen_by_server: SocketAddr) -> bool {
        let open = self.0.lock().unwrap();
        let Some(socket) = open.get(&seen_by_server) else { return true };
        match socket.peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// `None`: it is over already.
    fn enter(&self, client: &TcpStream, upstream: &TcpStream) -> Option<Entered> {
        let (socket, address) = (socket2::SockRef::from(client).try_clone().ok()?, upstream.local_addr().ok()?);
        self.0.lock().unwrap().insert(address, socket);
        Some(Entered { clients: self.clone(), address })
    }
}

struct Entered {
    clients: Clients,
    address: SocketAddr,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.clients.0.lock().unwrap().remove(&self.address);
    }
}

async fn connection(
    (number, client): (u64, TcpStream),
    server: SocketAddr,
    flows: watch::Receiver<Flows>,
    (mut cut, stop): (watch::Receiver<u64>, CancellationToken),
    clients: Clients,
) {
    let Ok(upstream) = TcpStream::connect(server).await else { return };
    let Some(here) = clients.enter(&client, &upstream) else { return };
    for stream in [&client, &upstream] {
        stream.set_nodelay(true).unwrap();
        // A close is a reset, whatever is still on its way.
        socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
    cut.mark_unchanged();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = upstream.into_split();
    tokio::select! {
        // Dropped first, or the reset would wait for it.
        () = async move { let _here = here; stop.cancelled().await } => {}
        _ = cut.changed() => {}
        () = pump(from_client, to_server, flows.clone(), |flows| flows.of(number, flows.to_server)) => {}
        () = pump(from_server, to_client, flows, |flows| flows.of(number, flows.to_client)) => {}
    }
}

/// Ends when one side has, and what it sent has arrived.
async fn pump(
    from: impl AsyncReadExt + Unpin,
    to: impl AsyncWriteExt + Unpin,
    flows: watch::Receiver<Flows>,
    mine: impl Fn(&Flows) -> Flow,
) {
    let (sent, arriving) = mpsc::channel(1024);
    let taken = async {
        take(from, sent, flows, mine).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = taken => {}
        () = hand_on(arriving, to) => {}
    }
}

/// What was taken, and when it arrives.
type Sent = (Instant, Bytes);

async fn take(
    mut from: impl AsyncReadExt + Unpin,
    sent: mpsc::Sender<Sent>,
    mut flows: watch::Receiver<Flows>,
    mine: impl Fn(&Flows) -> Flow,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        let Ok(flow) = flows.wait_for(|flows| mine(flows) != Flow::Hold).await.map(|flows| mine(&flows)) else { return };
        let arrives = match flow {
            Flow::Drop => continue,
            Flow::Delay(delay) => Instant::now() + delay,
            Flow::Pass | Flow::Hold => Instant::now(),
        };
        if sent.send((arrives, Bytes::copy_from_slice(&buffer[..read]))).await.is_err() {
            return;
        }
    }
}

async fn hand_on(mut arriving: mpsc::Receiver<Sent>, mut to: impl AsyncWriteExt + Unpin) {
    while let Some((arrives, bytes)) = arriving.recv().await {
        tokio::time::sleep_until(arrives).await;
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
