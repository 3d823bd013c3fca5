//! HTTP by hand: what no client library would send, and every byte that comes back.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.body.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_default().to_owned()
    }
}

/// A request with a body of known length.
pub(crate) fn post(target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: gw\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// One request on a connection of its own.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut client = Client::connect(address).await;
    client.send(bytes).await;
    client.answer().await
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), received: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Closes with a reset instead of a FIN.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// `false` at the end of the stream.
    async fn receive(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.received)).await;
        read.unwrap_or_else(|_| panic!("nothing came after {:?}", String::from_utf8_lossy(&self.received))).unwrap() > 0
    }

    /// Everything up to this text, which is the last of it.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.received.windows(text.len()).position(|w| w == text.as_bytes()) {
                let rest = self.received.split_off(at + text.len());
                return String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
            }
            assert!(self.receive().await, "closed before {text:?}; there was {:?}", String::from_utf8_lossy(&self.received));
        }
    }

    /// Whether the server closed, and sent nothing before.
    pub(crate) async fn is_closed_silently(&mut self) -> bool {
        self.received.is_empty() && !self.receive().await
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.received.len() < length {
            assert!(self.receive().await, "closed in a body");
        }
        let rest = self.received.split_off(length);
        std::mem::replace(&mut self.received, rest)
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.until("\r\n\r\n").await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        if let Some(length) = answer.header("content-length") {
            let length = length.parse().unwrap();
            answer.body = self.exactly(length).await;
        } else if answer.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await {
                answer.body.extend(chunk);
            }
        }
        answer
    }

    /// One chunk of a chunked body; `None` after the last.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.until("\r\n").await;
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        let mut chunk = self.exactly(size + 2).await;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }
}
