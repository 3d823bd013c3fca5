//! What the operating system asks of a running process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    reloads: mpsc::Sender<()>,
}

/// The exit code of a stop that waited for nothing.
const STOPPED_AT_ONCE: i32 = 1;

impl Signals {
    /// From here on none of them ends the process by itself. Needs a tokio runtime. What is
    /// received is a SIGHUP; several in a row, before one is looked at, are one.
    pub(super) fn take() -> io::Result<(Self, mpsc::Receiver<()>)> {
        let (reloads, asked) = mpsc::channel(1);
        let signals = Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reloads,
        };
        Ok((signals, asked))
    }

    /// The first SIGTERM or SIGINT begins the drain, a second one ends the process.
    pub(super) async fn obey(mut self, drain: CancellationToken) {
        loop {
            let name = tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.hangup.recv() => {
                    // A full queue: one that is still to begin reads what is there now, too.
                    let _ = self.reloads.try_send(());
                    continue;
                }
            };
            if drain.is_cancelled() {
                error!("{name} again: stopping at once; what was in flight will be delivered again");
                std::process::exit(STOPPED_AT_ONCE);
            }
            info!("{name}: draining: requests and attempts in flight may end, nothing new is taken; once more stops at once");
            drain.cancel();
        }
    }
}
