//! A scripted receiver on a raw socket: it logs every request and answers as it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::request::Seen;

/// What to do with one request.
#[derive(Debug, Clone)]
pub enum Answer {
    Status(u16),
    /// Status, further header lines (each with its `\r\n`), body.
    Full(u16, String, Bytes),
    /// These bytes, whatever they are, then the connection stays open.
    Raw(Vec<u8>),
    After(Duration, Box<Answer>),
    /// Never answers; the connection stays open until the other side closes it.
    Hang,
    /// Closes without a byte.
    Close,
    /// Resets without a byte.
    Reset,
    /// Answers, then closes the connection without having said so.
    ThenClose(Box<Answer>),
}

impl Answer {
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self::After(delay, Box::new(self))
    }
}

/// How a connection is closed.
#[derive(Debug, Clone, Copy)]
pub enum Closing {
    Fin,
    Reset,
}

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

struct Shared {
    seen: Mutex<Vec<Seen>>,
    script: Mutex<Script>,
    /// How long a connection may lie idle after an answer, and how it then ends.
    idle: Mutex<Option<(Duration, Closing)>>,
    count: watch::Sender<usize>,
    connections: watch::Sender<u64>,
    frozen: watch::Sender<bool>,
}

impl Shared {
    async fn until_thawed(&self) {
        let _ = self.frozen.subscribe().wait_for(|frozen| !frozen).await;
    }
}

/// Dropped, it closes its port and all its connections.
pub struct Receiver {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<DropGuard>,
}

impl Receiver {
    pub async fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    pub async fn ok() -> Self {
        Self::start(|_| Answer::Status(200)).await
    }

    pub async fn start_at(addr: SocketAddr, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            script: Mutex::new(Arc::new(script)),
            idle: Mutex::new(None),
            count: watch::Sender::new(0),
            connections: watch::Sender::new(0),
            frozen: watch::Sender::new(false),
        });
        let mut receiver = Self { addr, shared, stop: None };
        receiver.open().await;
        receiver
    }

    /// Opens the port again after [`Receiver::close`], at the same address, with the same log.
    pub async fn open(&mut self) {
        let listener =
            crate::wait::until("the receiver's port", Duration::from_secs(5), || async { TcpListener::bind(self.addr).await.ok() }).await;
        self.addr = listener.local_addr().unwrap();
        let token = CancellationToken::new();
        tokio::spawn(accept(listener, self.shared.clone(), token.clone()));
        self.stop = Some(token.drop_guard());
    }

    /// Closes the port and cuts every connection.
    pub fn close(&mut self) {
        self.stop = None;
        let mut log = self.shared.seen.lock().unwrap();
        log.iter_mut().filter(|seen| seen.ended().is_none()).for_each(|seen| seen.broken_off = Some(Instant::now()));
    }

    /// Takes connections, as the kernel does for a process that stands still, and neither notes nor answers a request.
    pub fn freeze(&self) {
        self.shared.frozen.send_replace(true);
    }

    pub fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    pub fn url(&self) -> String {
        format!("http://{}/callback", self.addr)
    }

    pub fn script(&self, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Arc::new(script);
    }

    /// From now on every connection that is idle for so long after an answer is closed.
    pub fn close_idle(&self, after: Duration, closing: Closing) {
        *self.shared.idle.lock().unwrap() = Some((after, closing));
    }

    /// Everything so far, in the order it came.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The same without a copy of it.
    pub fn look<T>(&self, at: impl FnOnce(&[Seen]) -> T) -> T {
        at(&self.shared.seen.lock().unwrap())
    }

    /// How many requests there were, as it grows.
    pub fn counted(&self) -> watch::Receiver<usize> {
        self.shared.count.subscribe()
    }

    pub fn count(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        *self.shared.connections.borrow()
    }

    /// Forgets what it saw.
    pub fn clear(&self) {
        self.shared.seen.lock().unwrap().clear();
        self.shared.count.send_replace(0);
    }

    /// Waits until `enough` says so of everything seen.
    pub async fn until(&self, what: &str, within: Duration, enough: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let mut count = self.shared.count.subscribe();
        let wait = async {
            loop {
                count.borrow_and_update();
                if enough(&self.shared.seen.lock().unwrap()) {
                    return;
                }
                count.changed().await.unwrap();
            }
        };
        if tokio::time::timeout(within, wait).await.is_err() {
            panic!("{what}: not within {within:?}; {} requests seen", self.count());
        }
        self.seen()
    }

    pub async fn until_count(&self, n: usize, within: Duration) -> Vec<Seen> {
        self.until(&format!("{n} requests"), within, |seen| seen.len() >= n).await
    }

    /// Waits until `n` requests were answered 2xx.
    pub async fn until_done(&self, n: usize, within: Duration) -> Vec<Seen> {
        self.until(&format!("{n} successes"), within, |seen| seen.iter().filter(|s| s.succeeded()).count() >= n).await
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let serve = async {
        let mut number = 0;
        loop {
            let Ok((stream, peer)) = listener.accept().await else { continue };
            let (shared, stop, connection) = (shared.clone(), stop.clone(), (number, peer));
            number += 1;
            shared.connections.send_modify(|n| *n += 1);
            tokio::spawn(async move { stop.run_until_cancelled(converse(stream, &shared, connection)).await });
        }
    };
    stop.run_until_cancelled(serve).await;
}

/// Until the other side closes, something is malformed, or the script says to close.
async fn converse(mut stream: TcpStream, shared: &Shared, mut connection: (u64, SocketAddr)) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut buffer = BytesMut::with_capacity(16 << 10);
    loop {
        let mut seen = read_request(&mut stream, &mut buffer, &mut connection).await?;
        shared.until_thawed().await;
        seen.at = Instant::now();
        let script = shared.script.lock().unwrap().clone();
        let answer = script(&seen);
        let place = {
            let mut log = shared.seen.lock().unwrap();
            log.push(seen);
            shared.count.send_replace(log.len());
            log.len() - 1
        };
        let goes_on = perform(&mut stream, answer, shared, place).await;
        if goes_on.is_none() {
            note(shared, place, None);
        }
        if !goes_on? {
            return None;
        }
        let idle = *shared.idle.lock().unwrap();
        if let Some((after, closing)) = idle
            && tokio::time::timeout(after, stream.readable()).await.is_err()
        {
            if matches!(closing, Closing::Reset) {
                socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).ok()?;
            }
            return None;
        }
    }
}

fn note(shared: &Shared, place: usize, answered: Option<(u16, Instant)>) {
    let mut log = shared.seen.lock().unwrap();
    if let Some(seen) = log.get_mut(place) {
        match answered {
            Some((status, at)) => (seen.status, seen.answered) = (Some(status), Some(at)),
            None => (seen.status, seen.answered, seen.broken_off) = (None, None, Some(Instant::now())),
        }
    }
    shared.count.send_replace(log.len());
}

/// Returns whether the connection goes on; `None`: it broke off. An answer is noted before it is given: whoever has it may look
/// at the log.
async fn perform(stream: &mut TcpStream, answer: Answer, shared: &Shared, place: usize) -> Option<bool> {
    match answer {
        Answer::Status(status) => Box::pin(perform(stream, Answer::Full(status, String::new(), Bytes::new()), shared, place)).await,
        Answer::Full(status, headers, body) => {
            let bodyless = status == 204 || status == 304;
            let length = if bodyless { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
            let mut bytes = format!("HTTP/1.1 {status} X\r\n{length}{headers}\r\n").into_bytes();
            bytes.extend_from_slice(&body);
            shared.until_thawed().await;
            note(shared, place, Some((status, Instant::now())));
            stream.write_all(&bytes).await.ok()?;
            Some(true)
        }
        Answer::Raw(bytes) => {
            stream.write_all(&bytes).await.ok()?;
            note(shared, place, None);
            Some(true)
        }
        Answer::After(delay, answer) => {
            let mut byte = [0];
            tokio::select! {
                () = tokio::time::sleep(delay) => Box::pin(perform(stream, *answer, shared, place)).await,
                closed = stream.peek(&mut byte) => match closed {
                    Ok(0) | Err(_) => None,
                    Ok(_) => { tokio::time::sleep(delay).await; Box::pin(perform(stream, *answer, shared, place)).await }
                },
            }
        }
        Answer::Hang => {
            let mut sink = [0; 1024];
            while stream.read(&mut sink).await.ok()? > 0 {}
            None
        }
        Answer::Close => None,
        Answer::Reset => {
            socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO)).ok()?;
            None
        }
        Answer::ThenClose(answer) => Box::pin(perform(stream, *answer, shared, place)).await.map(|_| false),
    }
}

/// Whoever hands the connections of others on says in a first line whose each is (HAProxy's PROXY protocol, version 1).
async fn read_request(stream: &mut TcpStream, buffer: &mut BytesMut, (connection, peer): &mut (u64, SocketAddr)) -> Option<Seen> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = buffer.split_to(head_end);
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.trim_end().split("\r\n").peekable();
    if let Some(whose) = lines.next_if(|line| line.starts_with("PROXY TCP4 ")) {
        let words: Vec<&str> = whose.split(' ').collect();
        *peer = SocketAddr::new(words.get(2)?.parse().ok()?, words.get(4)?.parse().ok()?);
    }
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> =
        lines.map(|line| line.split_once(':').map(|(n, v)| (n.to_owned(), v.trim().to_owned()))).collect::<Option<_>>()?;
    let length: usize =
        headers.iter().find(|(n, _)| n.eq_ignore_ascii_case("content-length")).and_then(|(_, v)| v.parse().ok()).unwrap_or(0);
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer.split_to(length).freeze();
    let (at, connection, peer) = (Instant::now(), *connection, *peer);
    Some(Seen { method, target, headers, body, at, answered: None, broken_off: None, status: None, connection, peer })
}
