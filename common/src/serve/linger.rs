//! Ending a connection whose client may still be sending.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LINGER: Duration = Duration::from_secs(2);

/// Says that nothing more will come, then swallows for a while what the client still sends. Closing
/// with bytes unread would reset the connection, and the client would lose the refusal it is to read.
pub(super) async fn linger(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut sink = [0; 4096];
    let swallow = async { while matches!(stream.read(&mut sink).await, Ok(1..)) {} };
    // Over the time is as good as done: both ways the stream is dropped.
    let _ = tokio::time::timeout(LINGER, swallow).await;
}
