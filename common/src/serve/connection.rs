//! One connection: hyper speaks HTTP, this watches the clock and the drain.
//!
//! hyper's own `header_read_timeout` is not used: it runs from the end of the last answer, so that
//! it would be the idle timeout too; it allocates a timer per request; and it closes without a 408.
//! Here one timer per connection is set again only when it has fired or is due too late.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::accept::Stop;
use super::io_watch::WatchedIo;
use super::linger::linger;
use super::phase::{Busy, Phase, Progress};
use super::{Limits, MAX_HEAD_BYTES};

/// Also the largest piece of a body that is read at once.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

const HEAD_TOO_SLOW: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Why a connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// By either side, in the course of HTTP.
    Closed,
    TimedOut(Phase),
    /// Its place was needed, and it had nothing to do.
    Evicted,
    /// The drain's deadline passed.
    Cut,
}

pub(super) async fn serve<S, B>(stream: TcpStream, progress: Arc<Progress>, service: S, limits: Limits, stop: Stop)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let io = TokioIo::new(WatchedIo::new(stream, Arc::clone(&progress)));
    let seen = Arc::clone(&progress);
    let watched = service_fn(move |request| {
        let busy = seen.begin();
        let answer = service.call(request);
        async move {
            let response = answer.await?;
            busy.answered(response.status());
            Ok::<_, S::Error>(response.map(|body| WatchedBody { body, _busy: busy }))
        }
    });
    let mut connection = protocol().serve_connection(io, watched);
    let mut watch = Watch::new(progress, limits, stop);
    let end = std::future::poll_fn(|cx| {
        if let Drain::Begins = watch.drain(cx) {
            Pin::new(&mut connection).graceful_shutdown();
        }
        if Pin::new(&mut connection).poll(cx).is_ready() {
            return Poll::Ready(End::Closed);
        }
        watch.poll(cx)
    })
    .await;
    let stream = connection.into_parts().io.into_inner().into_stream();
    finish(stream, end, &watch.progress).await;
}

fn protocol() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).max_header_size(MAX_HEAD_BYTES).max_buf_size(MAX_BUFFER_BYTES);
    // A client that says FIN after its request still gets its answer.
    http.half_close(true);
    http
}

async fn finish(stream: TcpStream, end: End, progress: &Progress) {
    match end {
        End::TimedOut(Phase::Head) => {
            // A socket that takes not even this has a client that does not read.
            let _ = stream.try_write(HEAD_TOO_SLOW);
            linger(stream).await;
        }
        End::Closed if progress.may_still_send() => linger(stream).await,
        End::Closed | End::TimedOut(Phase::Idle | Phase::Busy | Phase::Stalled) | End::Evicted | End::Cut => {}
    }
}

/// Whether the drain asks something of this connection.
enum Drain {
    Nothing,
    Begins,
}

/// The clock and the drain of one connection.
struct Watch {
    progress: Arc<Progress>,
    limits: Limits,
    stop: Stop,
    /// Polled once each, only to have this task woken: a task's waker stays the same, and polling
    /// them on every wake-up would take a lock that all connections share.
    alarms: Option<[Pin<Box<WaitForCancellationFutureOwned>>; 2]>,
    draining: bool,
    since: (Phase, u32),
    deadline: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    fn new(progress: Arc<Progress>, limits: Limits, stop: Stop) -> Self {
        let since = (Phase::Idle, progress.moves());
        let deadline = Some(Instant::now() + limits.idle_timeout);
        Self { progress, limits, stop, alarms: None, draining: false, since, deadline, timer: None }
    }

    fn drain(&mut self, cx: &mut Context<'_>) -> Drain {
        if self.alarms.is_none() {
            let mut alarms = self.stop.alarms().map(Box::pin);
            for alarm in &mut alarms {
                // What has rung already is seen from the flags below.
                let _ = alarm.as_mut().poll(cx);
            }
            self.alarms = Some(alarms);
            self.progress.wakes(cx.waker());
        }
        if self.draining || !self.stop.is_draining() {
            return Drain::Nothing;
        }
        self.draining = true;
        Drain::Begins
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.draining && self.stop.is_cut() {
            return Poll::Ready(End::Cut);
        }
        let now_in = (self.progress.phase(), self.progress.moves());
        if now_in != self.since {
            self.since = now_in;
            self.deadline = self.limit(now_in.0).map(|limit| {
                let now = Instant::now();
                self.progress.phase_began(now);
                now + limit
            });
        }
        if self.progress.leaves() {
            return Poll::Ready(End::Evicted);
        }
        let Some(deadline) = self.deadline else { return Poll::Pending };
        ready!(self.poll_deadline(deadline, cx));
        Poll::Ready(End::TimedOut(now_in.0))
    }

    fn limit(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Idle => Some(self.limits.idle_timeout),
            Phase::Head => Some(self.limits.head_timeout),
            Phase::Stalled => Some(self.limits.write_timeout),
            Phase::Busy => None,
        }
    }

    fn poll_deadline(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() <= deadline && !timer.is_elapsed() {
            // It wakes this task in time to look again; registered by the poll that set it.
            if timer.deadline() != deadline {
                return Poll::Pending;
            }
            return timer.as_mut().poll(cx);
        }
        if Instant::now() >= deadline {
            return Poll::Ready(());
        }
        timer.as_mut().reset(deadline);
        timer.as_mut().poll(cx)
    }
}

/// A body whose connection is busy until it is over.
struct WatchedBody<B> {
    body: B,
    _busy: Busy,
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
