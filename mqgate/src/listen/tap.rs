//! Header names as they came over the wire. Hyper keeps them in lower case and out of order, and
//! what a receiver's author wants to see is what was sent.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Hyper refuses a head beyond about 400 KiB; one that is longer than this is shown hyper's way.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Names and values, in order.
pub(super) type Headers = Vec<(String, Vec<u8>)>;

/// Remembers what was read since the last write: with one request at a time, its head first.
pub(super) struct Tap<T> {
    io: T,
    seen: Arc<Mutex<Vec<u8>>>,
}

/// The other end of a [`Tap`].
pub(super) struct Seen(Arc<Mutex<Vec<u8>>>);

impl<T> Tap<T> {
    pub(super) fn new(io: T) -> (Self, Seen) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        (Self { io, seen: seen.clone() }, Seen(seen))
    }
}

impl Seen {
    /// The head's lines if they are surely those of this request, else what hyper made of them
    /// (requests that a client sent without waiting for answers run into each other here).
    pub(super) fn take(&self, parsed: &HeaderMap) -> Headers {
        let seen = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        head_lines(&seen).filter(|lines| agrees(lines, parsed)).unwrap_or_else(|| {
            let owned =
                |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| (name.to_string(), value.as_bytes().to_vec());
            parsed.iter().map(owned).collect()
        })
    }
}

fn head_lines(seen: &[u8]) -> Option<Headers> {
    let mut lines = seen.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).skip(1);
    let mut headers = Vec::new();
    loop {
        match lines.next()? {
            [] => return Some(headers),
            line => {
                let colon = line.iter().position(|byte| *byte == b':')?;
                let name = String::from_utf8(line[..colon].to_vec()).ok()?;
                headers.push((name, line[colon + 1..].trim_ascii().to_vec()));
            }
        }
    }
}

fn agrees(lines: &Headers, parsed: &HeaderMap) -> bool {
    let known = |(name, value): &(String, Vec<u8>)| parsed.get_all(name.as_str()).iter().any(|parsed| parsed.as_bytes() == value);
    lines.len() == parsed.len() && lines.iter().all(known)
}

impl<T: AsyncRead + Unpin> AsyncRead for Tap<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_HEAD_BYTES - seen.len();
        seen.extend(buffer.filled()[before..].iter().take(room));
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Tap<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bytes: &str) -> Seen {
        Seen(Arc::new(Mutex::new(bytes.into())))
    }

    fn parsed() -> HeaderMap {
        HeaderMap::from_iter([("host".parse().unwrap(), "a".parse().unwrap()), ("x-kmq-topic".parse().unwrap(), "t".parse().unwrap())])
    }

    #[test]
    fn names_keep_their_case_and_order() {
        let headers = seen("POST / HTTP/1.1\r\nX-Kmq-Topic: t\r\nHost:a\r\n\r\nbody: no header").take(&parsed());
        assert_eq!(headers, [("X-Kmq-Topic".into(), b"t".to_vec()), ("Host".into(), b"a".to_vec())]);
    }

    #[test]
    fn bytes_that_are_not_this_requests_head_are_not_shown_as_one() {
        for other in ["", "POST / HTTP/1.1\r\nHost: a\r\nX-Kmq-Topic: u\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\n\r\n", "Host: a\r\nX-Kmq"]
        {
            assert_eq!(seen(other).take(&parsed())[0], ("host".into(), b"a".to_vec()), "{other:?}");
        }
    }
}
