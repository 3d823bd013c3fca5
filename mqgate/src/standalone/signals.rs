//! What the operating system asks of a running gateway.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// The exit code of a stop that waited for nothing.
const STOPPED_AT_ONCE: i32 = 1;

impl Signals {
    /// From here on none of them ends the process by itself. Needs a tokio runtime.
    pub(super) fn take() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The first SIGTERM or SIGINT begins the drain, a second one ends the process.
    pub(super) async fn obey(mut self, drain: CancellationToken) {
        loop {
            let name = tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.hangup.recv() => {
                    warn!("SIGHUP: reloading the configuration is not there yet, nothing was changed; restart to apply a new one");
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
