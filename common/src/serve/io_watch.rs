//! A socket that notes what moves through it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::phase::Progress;

pub(super) struct WatchedIo {
    stream: TcpStream,
    progress: Arc<Progress>,
}

impl WatchedIo {
    pub(super) fn new(stream: TcpStream, progress: Arc<Progress>) -> Self {
        Self { stream, progress }
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn wrote(&self, answer: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.progress.write(answer.is_pending());
        answer
    }
}

impl AsyncRead for WatchedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let answer = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = answer {
            self.progress.read(buf.filled().len() - before);
        }
        answer
    }
}

impl AsyncWrite for WatchedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(answer)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(answer)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // a TCP stream has nothing to flush
    }

    /// Left to [`linger`](super::linger) and to the close that follows: one system call less a connection.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
