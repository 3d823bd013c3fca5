//! HTTP by hand, for what no client library would send.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends these bytes on a new connection and returns what comes back until the other side closes,
/// or nothing more comes for 300 ms.
pub async fn exchange(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    read_answer(&mut stream).await
}

pub async fn read_answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut chunk = vec![0; 16 << 10];
    let mut patience = Duration::from_secs(5);
    while let Ok(Ok(n @ 1..)) = tokio::time::timeout(patience, stream.read(&mut chunk)).await {
        answer.extend_from_slice(&chunk[..n]);
        patience = Duration::from_millis(300);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of an answer's first line; `None` if there was no answer.
pub fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()
}

/// One connection, read answer by answer.
#[derive(Debug)]
pub struct Connection {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

/// One answer, complete.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// Status line and header lines.
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl Connection {
    pub async fn open(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next answer; `None` if the connection ends first. A body is read if a length is given.
    pub async fn reply(&mut self, within: Duration) -> Option<Reply> {
        tokio::time::timeout(within, self.read_reply()).await.unwrap_or_else(|_| panic!("no answer within {within:?}"))
    }

    async fn read_reply(&mut self) -> Option<Reply> {
        let head_end = loop {
            match self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.more().await?,
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_end]).into_owned();
        let mut reply = Reply { status: status(&head)?, head, body: String::new() };
        let length = reply.header("content-length").map_or(0, |n| n.parse::<usize>().unwrap());
        while self.buffer.len() < head_end + length {
            self.more().await?;
        }
        reply.body = String::from_utf8_lossy(&self.buffer[head_end..head_end + length]).into_owned();
        self.buffer.drain(..head_end + length);
        Some(reply)
    }

    async fn more(&mut self) -> Option<()> {
        let mut chunk = vec![0; 16 << 10];
        let n = self.stream.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
        self.buffer.extend_from_slice(&chunk[..n]);
        Some(())
    }

    /// Waits until the other side closes; what it still says is returned.
    pub async fn end(&mut self, within: Duration) -> String {
        let rest = async { while self.more().await.is_some() {} };
        tokio::time::timeout(within, rest).await.unwrap_or_else(|_| panic!("not closed within {within:?}"));
        String::from_utf8_lossy(&std::mem::take(&mut self.buffer)).into_owned()
    }
}
