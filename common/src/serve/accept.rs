//! The accept loop, its bound, and the drain.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

use super::places::{Place, Places};
use super::{Drained, Limits, connection};

/// Long enough to be no hot loop, short enough that nobody waits for it.
const PAUSE_WITHOUT_FILES: Duration = Duration::from_millis(50);

/// How connections are told to end. The flags can be read without a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    draining: AtomicBool,
    drain: CancellationToken,
    cut: AtomicBool,
    cut_off: CancellationToken,
}

impl Stop {
    pub(super) fn alarms(&self) -> [WaitForCancellationFutureOwned; 2] {
        [self.0.drain.clone().cancelled_owned(), self.0.cut_off.clone().cancelled_owned()]
    }

    pub(super) fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    pub(super) fn is_cut(&self) -> bool {
        self.0.cut.load(Ordering::Acquire)
    }

    // The flag goes first: who is woken by the token must find it set.
    fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
        self.0.drain.cancel();
    }

    fn cut(&self) {
        self.0.cut.store(true, Ordering::Release);
        self.0.cut_off.cancel();
    }
}

pub(super) async fn run<S, B>(
    listener: TcpListener,
    limits: Limits,
    service: S,
    drain: CancellationToken,
    drain_timeout: Duration,
) -> Drained
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (stop, connections) = (Stop::default(), TaskTracker::new());
    let mut entrance = Entrance { places: Places::new(limits.max_connections), trouble: Trouble::None };
    while let Some((stream, place)) = drain.run_until_cancelled(entrance.accept(&listener)).await {
        let connection = connection::serve(stream, place.progress(), service.clone(), limits, stop.clone());
        connections.spawn(async move {
            connection.await;
            drop(place);
        });
    }
    drop(listener);
    stop.drain();
    connections.close();
    let cut_connections = match tokio::time::timeout(drain_timeout, connections.wait()).await {
        Ok(()) => 0,
        Err(_) => connections.len(),
    };
    stop.cut();
    Drained { cut_connections }
}

/// The bound on connections, and the patience when the process has run out of files.
struct Entrance {
    places: Places,
    trouble: Trouble,
}

/// So that a lasting trouble is logged when it begins and when it ends, and not 20 times a second.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Reported,
}

impl Entrance {
    /// One connection beyond the bound is taken in, for which a place is then looked for: only so is it
    /// known that somebody waits.
    async fn accept(&mut self, listener: &TcpListener) -> (TcpStream, Place) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    self.over();
                    // Answers are small and must not wait for the last one's acknowledgement.
                    let _ = stream.set_nodelay(true);
                    return (stream, self.places.take().await);
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => self.pause(&error).await,
            }
        }
    }

    async fn pause(&mut self, error: &io::Error) {
        if self.trouble == Trouble::None {
            self.trouble = Trouble::Reported;
            tracing::error!(%error, "cannot accept connections; clients wait, and this tries again every {PAUSE_WITHOUT_FILES:?} (ulimit -n?)");
        }
        tokio::time::sleep(PAUSE_WITHOUT_FILES).await;
    }

    fn over(&mut self) {
        if self.trouble == Trouble::Reported {
            self.trouble = Trouble::None;
            tracing::info!("connections are accepted again");
        }
    }
}

/// The client was gone before it was accepted; the next one may be well.
fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_files_is_no_fault_of_one_connection() {
        assert!(!concerns_one_connection(&io::Error::from_raw_os_error(libc::EMFILE)));
        assert!(!concerns_one_connection(&io::Error::from_raw_os_error(libc::ENFILE)));
        assert!(concerns_one_connection(&io::Error::from_raw_os_error(libc::ECONNABORTED)));
    }
}
