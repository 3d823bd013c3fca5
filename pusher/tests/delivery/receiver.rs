//! A receiver on a raw socket, whose every byte and close is scripted.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// What to do once a request was read. When the steps end without a close, the next request of
/// that connection is read.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// In good order (FIN).
    Close,
    /// At once (RST).
    Reset,
    /// Nothing more, until the other side closes.
    Stall,
}

pub(crate) fn send(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(bytes.as_ref().to_vec())
}

pub(crate) fn ok() -> Step {
    send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Of this receiver, from 0.
    pub(crate) connection: usize,
    /// Of this connection, from 0.
    pub(crate) on_connection: usize,
    /// Of this receiver, from 0.
    pub(crate) number: usize,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &str| line.split_once(": ").is_some_and(|(found, _)| found == name);
        self.head.lines().find(|line| of(line)).and_then(|line| line.split_once(": ")).map(|(_, value)| value)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    WholeRequests,
    /// The body stays unread.
    HeadsOnly,
}

type Script = dyn Fn(&Request) -> Vec<Step> + Send + Sync;

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<Script>,
    reading: Reading,
    requests: Mutex<Vec<Request>>,
    /// When each connection was closed by the other side.
    closed: watch::Sender<Vec<Instant>>,
}

impl Receiver {
    pub(crate) async fn start(script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::with(Reading::WholeRequests, None, script).await
    }

    pub(crate) async fn with(
        reading: Reading,
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let closed = watch::Sender::new(Vec::new());
        let shared = Arc::new(Shared { script: Box::new(script), reading, requests: Mutex::default(), closed });
        tokio::spawn(accept(listener, tls, Arc::clone(&shared)));
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/cb?a=1", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Waits until the other side has closed that many connections; when it closed the last.
    pub(crate) async fn closed(&self, connections: usize) -> Instant {
        let mut closed = self.shared.closed.subscribe();
        let seen = tokio::time::timeout(Duration::from_secs(5), closed.wait_for(|closed| closed.len() >= connections)).await;
        seen.expect("the connection is closed").unwrap()[connections - 1]
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    for connection in 0.. {
        let (tcp, _) = listener.accept().await.unwrap();
        let (tls, shared) = (tls.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            match tls {
                None => converse(tcp, connection, &shared, reset).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(tcp).await {
                        converse(stream, connection, &shared, |_| {}).await;
                    }
                }
            }
        });
    }
}

fn reset(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, connection: usize, shared: &Shared, reset: impl Fn(&S)) {
    for on_connection in 0.. {
        let Some((head, body)) = read_request(&mut stream, shared.reading).await else { return shared.close_seen() };
        let request = {
            let mut requests = shared.requests.lock().unwrap();
            let request = Request { head, body, connection, on_connection, number: requests.len() };
            requests.push(request.clone());
            request
        };
        for step in (shared.script)(&request) {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return shared.close_seen();
                    }
                }
                Step::Wait(time) => sleep(time).await,
                Step::Close => return,
                Step::Reset => return reset(&stream),
                Step::Stall => {
                    let mut rest = Vec::new();
                    let _ = stream.read_to_end(&mut rest).await;
                    return shared.close_seen();
                }
            }
        }
    }
}

impl Shared {
    fn close_seen(&self) {
        self.closed.send_modify(|closed| closed.push(Instant::now()));
    }
}

/// `None` once the other side has closed.
async fn read_request(stream: &mut (impl AsyncRead + Unpin), reading: Reading) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("every request has a length");
    let mut body = vec![0; length.parse().unwrap()];
    if reading == Reading::WholeRequests {
        stream.read_exact(&mut body).await.ok()?;
    }
    Some((head, body))
}
