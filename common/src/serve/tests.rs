#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Drained, Limits, Server};

const HEAD: Duration = Duration::from_millis(300);
const IDLE: Duration = Duration::from_millis(700);
const LIMITS: Limits = Limits { head_timeout: HEAD, idle_timeout: IDLE, write_timeout: HEAD, max_connections: 100 };

/// `/slow` answers after twice every limit, `/refuse` without reading, `/large` with 32 MiB, and
/// anything else with the length of what it was sent.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::default();
    match request.uri().path() {
        "/slow" => tokio::time::sleep(2 * IDLE).await,
        "/refuse" => *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE,
        "/large" => *response.body_mut() = vec![b'x'; 32 << 20].into(),
        _ => {
            let length = request.into_body().collect().await.map_or(0, |body| body.to_bytes().len());
            *response.body_mut() = length.to_string().into();
        }
    }
    Ok(response)
}

struct Running {
    address: std::net::SocketAddr,
    drain: CancellationToken,
    server: JoinHandle<Drained>,
}

impl Running {
    fn start(limits: Limits, drain_timeout: Duration) -> Self {
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), limits).unwrap();
        let (address, drain) = (server.local_addr(), CancellationToken::new());
        let server = tokio::spawn(server.run(service_fn(answer), drain.clone(), drain_timeout));
        Self { address, drain, server }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn send(&self, bytes: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream
    }
}

/// Everything until the server closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// One answer with a body of one byte, on a connection that stays open.
async fn answered(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    while !text.contains("\r\n\r\n") || text.ends_with("\r\n\r\n") {
        let mut bytes = [0; 1024];
        let length = stream.read(&mut bytes).await.unwrap();
        assert_ne!(length, 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
    text
}

fn assert_lasted(since: Instant, limit: Duration) {
    let lasted = since.elapsed();
    assert!(lasted >= limit && lasted <= limit + limit / 10 + Duration::from_millis(300), "{lasted:?} for {limit:?}");
}

#[tokio::test]
async fn a_head_that_dribbles_is_answered_408_with_an_empty_body() {
    let running = Running::start(LIMITS, IDLE);
    let begun = Instant::now();
    let (mut reader, mut writer) = running.connect().await.into_split();
    let dribble = tokio::spawn(async move {
        for byte in b"POST / HTTP/1.1\r\nHost: ".iter().cycle() {
            if writer.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    });
    let mut text = String::new();
    reader.read_to_string(&mut text).await.unwrap();
    assert_lasted(begun, HEAD);
    assert!(text.starts_with("HTTP/1.1 408 ") && text.ends_with("\r\n\r\n"), "{text:?}");
    dribble.abort();
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word_fresh_or_used() {
    let running = Running::start(LIMITS, IDLE);
    let begun = Instant::now();
    let (mut fresh, mut used) = (running.connect().await, running.send("POST / HTTP/1.1\r\nhost: a\r\n\r\n").await);
    answered(&mut used).await;
    assert_eq!(rest(&mut fresh).await, "");
    assert_lasted(begun, IDLE);
    assert_eq!(rest(&mut used).await, "");
    assert_lasted(begun, IDLE);
}

#[tokio::test]
async fn every_request_renews_the_idle_time() {
    let running = Running::start(LIMITS, IDLE);
    let mut stream = running.connect().await;
    for _ in 0..4 {
        stream.write_all(b"POST / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        answered(&mut stream).await;
        tokio::time::sleep(IDLE / 2).await;
    }
}

#[tokio::test]
async fn neither_limit_holds_while_the_service_works() {
    let running = Running::start(LIMITS, IDLE);
    let mut stream = running.send("POST /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let running = Running::start(LIMITS, IDLE);
    let stalled = running.send("POST /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
    stalled.readable().await.unwrap();
    let begun = Instant::now();
    running.drain.cancel();
    assert_eq!(running.server.await.unwrap(), Drained { cut_connections: 0 });
    assert_lasted(begun, HEAD);
    drop(stalled);
}

#[tokio::test]
async fn a_head_too_large_is_431_and_a_bad_one_400_both_without_a_body() {
    let running = Running::start(LIMITS, IDLE);
    let large = format!("POST / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(super::MAX_HEAD_BYTES));
    for (head, status) in [(large.as_str(), "431"), ("POST\r\n\r\n", "400"), ("POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", "400")] {
        let text = rest(&mut running.send(head).await).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")) && text.ends_with("\r\n\r\n"), "{text:?}");
    }
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_goes_on_sending() {
    let running = Running::start(LIMITS, IDLE);
    let (mut reader, mut writer) = running.send("POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 8000000\r\n\r\n").await.into_split();
    let upload = tokio::spawn(async move { writer.write_all(&vec![b'x'; 8_000_000]).await });
    tokio::time::sleep(HEAD / 2).await;
    let mut text = String::new();
    reader.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 413 "), "{text:?}");
    upload.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_says_fin_after_its_request_gets_its_answer() {
    let running = Running::start(LIMITS, IDLE);
    let mut stream = running.send("POST /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    stream.shutdown().await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_drain_closes_idle_connections_at_once_and_finishes_answers() {
    let running = Running::start(LIMITS, 4 * IDLE);
    let mut idle = running.send("POST / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    answered(&mut idle).await;
    let mut busy = running.send("POST /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    tokio::time::sleep(HEAD / 3).await;
    let begun = Instant::now();
    running.drain.cancel();
    assert_eq!(rest(&mut idle).await, "");
    assert!(begun.elapsed() < HEAD);
    assert!(TcpStream::connect(running.address).await.is_err());
    let text = rest(&mut busy).await;
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("connection: close"), "{text:?}");
    assert_eq!(running.server.await.unwrap(), Drained { cut_connections: 0 });
}

#[tokio::test]
async fn what_is_not_over_at_the_deadline_is_cut_and_counted() {
    let running = Running::start(LIMITS, HEAD);
    let mut busy = running.send("POST /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    tokio::time::sleep(HEAD / 3).await;
    let begun = Instant::now();
    running.drain.cancel();
    assert_eq!(running.server.await.unwrap(), Drained { cut_connections: 1 });
    assert_lasted(begun, HEAD);
    assert_eq!(rest(&mut busy).await, "");
}

#[tokio::test]
async fn connections_over_the_bound_wait_while_all_have_requests_under_way() {
    let running = Running::start(Limits { max_connections: 1, ..LIMITS }, IDLE);
    let mut first = running.send("POST /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    tokio::time::sleep(HEAD / 3).await;
    let mut second = running.send("POST / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let waits = tokio::time::timeout(2 * HEAD, second.readable()).await;
    assert!(waits.is_err(), "served beside the first");
    assert!(rest(&mut first).await.starts_with("HTTP/1.1 200 "));
    answered(&mut second).await;
}

#[tokio::test]
async fn clients_that_say_nothing_lock_nobody_out() {
    let patient = Duration::from_secs(60);
    let running = Running::start(Limits { max_connections: 6, idle_timeout: patient, head_timeout: patient, ..LIMITS }, IDLE);
    let mut used = running.send("POST / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    answered(&mut used).await;
    let mut silent = Vec::new();
    for opening in ["", "", "P", "P", "", "P", "", ""] {
        silent.push(running.send(opening).await);
    }
    let begun = Instant::now();
    for _ in 0..6 {
        let mut stream = running.send("POST / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        answered(&mut stream).await;
        silent.push(stream);
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(used.read(&mut [0; 1]).await.unwrap(), 0, "it had waited for longest");
}
