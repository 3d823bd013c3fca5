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
