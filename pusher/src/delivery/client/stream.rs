//! A connection that knows whether it served before and whether an answer has begun: what tells a
//! stale connection from a receiver that failed.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

macro_rules! either {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport {
            Transport::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Transport::Tls($stream) => {
                let $stream = Pin::new(&mut **$stream);
                $call
            }
        }
    };
}

/// Carried inside an [`io::Error`]: the connection ended after a request went out on it, or was
/// about to, and before any byte of an answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) connection: Served,
    /// `None`: the receiver closed in good order.
    cause: Option<io::Error>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Served {
    Nothing,
    Before,
    /// Closed by this side before anything was sent: older than `connection_max_age`.
    ItsTime,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) => write!(f, "the connection failed before any byte of an answer: {cause}"),
            None => f.write_str("the receiver closed the connection before any byte of an answer"),
        }
    }
}

impl std::error::Error for Unanswered {}

impl Unanswered {
    pub(super) fn was_reset(&self) -> bool {
        self.cause.is_some()
    }
}

/// Requests never overlap on it (HTTP/1.1 without pipelining), so that a write after a flush begins
/// one, once an answer to the one before has begun; everything read after that answers it.
pub(super) struct Stream {
    transport: Transport,
    opened: Instant,
    max_age: Duration,
    requests: u32,
    writing: Writing,
    answer: Answer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// Everything so far is flushed.
    Between,
    Within,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Awaited,
    Begun,
}

impl Stream {
    pub(super) fn new(transport: Transport, max_age: Duration) -> Self {
        Self { transport, opened: Instant::now(), max_age, requests: 0, writing: Writing::Between, answer: Answer::Begun }
    }

    fn before_write(&mut self) -> io::Result<()> {
        let begins = (self.writing, self.answer) == (Writing::Between, Answer::Begun);
        self.writing = Writing::Within;
        if begins {
            self.answer = Answer::Awaited;
            self.requests = self.requests.saturating_add(1);
            if self.requests > 1 && self.opened.elapsed() >= self.max_age {
                let aged = Unanswered { connection: Served::ItsTime, cause: None };
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, aged));
            }
        }
        Ok(())
    }

    fn ended(&self, cause: Option<io::Error>) -> io::Error {
        let kind = cause.as_ref().map_or(io::ErrorKind::UnexpectedEof, io::Error::kind);
        let connection = if self.requests > 1 { Served::Before } else { Served::Nothing };
        io::Error::new(kind, Unanswered { connection, cause })
    }

    fn explain<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match self.answer {
            Answer::Awaited => result.map_err(|error| self.ended(Some(error))),
            Answer::Begun => result,
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = ready!(either!(&mut self.transport, stream => stream.poll_read(cx, buf)));
        self.explain(result)?;
        match (buf.filled().len() > before, self.answer) {
            (true, _) => self.answer = Answer::Begun,
            (false, Answer::Awaited) => return Poll::Ready(Err(self.ended(None))),
            (false, Answer::Begun) => {}
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.before_write()?;
        let result = ready!(either!(&mut self.transport, stream => stream.poll_write(cx, buf)));
        Poll::Ready(self.explain(result))
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.before_write()?;
        let result = ready!(either!(&mut self.transport, stream => stream.poll_write_vectored(cx, bufs)));
        Poll::Ready(self.explain(result))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(either!(&mut self.transport, stream => stream.poll_flush(cx)));
        self.explain(result)?;
        self.writing = Writing::Between;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut self.transport, stream => stream.poll_shutdown(cx))
    }
}
