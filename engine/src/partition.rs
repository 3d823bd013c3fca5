//! One partition at work: the handle that its owner holds, and the loop behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::run::PartitionLoop;
use crate::ports::{Progress, SourceError};
use crate::status::{Ended, Status};

mod alarm;
pub(crate) mod attempts;
mod commits;
mod intake;
mod run;
mod seldom;
mod watched;

/// Questions that may wait for the loop at once.
const MAX_WAITING_COMMANDS: usize = 4;

/// Whether attempts may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Run,
    /// No new attempt; open ones end by themselves. Processing clocks stand still.
    Pause,
    /// No new attempt, and open ones are stopped at once: cut, not failed.
    Cut,
}

/// A running partition loop. Dropping it stops the loop and cuts its attempts.
#[derive(Debug)]
pub struct PartitionHandle {
    control: Arc<Control>,
    commands: mpsc::Sender<Command>,
    life: watch::Receiver<Life>,
}

impl PartitionHandle {
    /// Takes effect before the next attempt starts. A cut cuts what is open, however soon another
    /// permission follows.
    pub fn set_permission(&self, permission: Permission) {
        self.control.set(permission);
        self.control.waker.wake();
    }

    /// As of a moment ago.
    pub async fn status(&self) -> Status {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Status(reply)).await;
        match answer.await {
            Ok(status) => status,
            Err(_) => Status { progress: self.stored(), ..Status::default() },
        }
    }

    /// Takes no more; open attempts end within `grace` or are cut; then says how far it came. That
    /// progress is not committed: the caller stores it together with giving up the ownership.
    ///
    /// Meanwhile a cut still cuts. Waits for a commit under way to answer, however long the sink
    /// takes. Released again, a loop that has ended says what was stored last.
    pub async fn release(&self, grace: Duration) -> Progress {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Release { grace, reply }).await;
        match answer.await {
            Ok(progress) => progress,
            // The loop is gone: what was stored last is certainly true.
            Err(_) => self.stored(),
        }
    }

    /// What the sink stored last, or where the loop began.
    pub fn stored(&self) -> Progress {
        self.life.borrow().stored.clone()
    }

    /// Resolves when the loop stops by itself. Cancel safe. The handle may still be released.
    pub async fn ended(&mut self) -> Ended {
        match self.life.wait_for(|life| life.ended.is_some()).await.map(|life| life.ended.clone()) {
            Ok(Some(ended)) => ended,
            Ok(None) | Err(_) => Ended::Source(SourceError::Failed("the partition loop is gone; this is a defect of the engine".into())),
        }
    }
}

/// What the loop says of itself.
#[derive(Clone, Debug, Default)]
struct Life {
    ended: Option<Ended>,
    /// What the sink stored last, or where the loop began.
    stored: Progress,
}

enum Command {
    Status(oneshot::Sender<Status>),
    Release { grace: Duration, reply: oneshot::Sender<Progress> },
}

/// What the owner wants, which the loop looks at before every attempt.
#[derive(Debug)]
struct Control {
    /// An [`Order`]: the number of cuts, and the permission in the lowest two bits.
    order: AtomicU64,
    waker: AtomicWaker,
}

/// The permission, and how often everything was to be cut so far: a cut holds for what was open,
/// also when the loop sees only the permission that came after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    permission: Permission,
    cuts: u64,
}

impl Default for Order {
    fn default() -> Self {
        Self { permission: Permission::Run, cuts: 0 }
    }
}

impl Order {
    fn pack(self) -> u64 {
        self.cuts << 2 | self.permission as u64
    }

    fn unpack(packed: u64) -> Self {
        let permission = match packed & 0b11 {
            run if run == Permission::Run as u64 => Permission::Run,
            pause if pause == Permission::Pause as u64 => Permission::Pause,
            _ => Permission::Cut,
        };
        Self { permission, cuts: packed >> 2 }
    }

    fn then(self, permission: Permission) -> Self {
        Self { permission, cuts: self.cuts + u64::from(permission == Permission::Cut) }
    }
}

impl Control {
    fn new() -> Self {
        Self { order: AtomicU64::new(Order::default().pack()), waker: AtomicWaker::new() }
    }

    fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    fn set(&self, permission: Permission) {
        let next = |packed| Some(Order::unpack(packed).then(permission).pack());
        let _ = self.order.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    fn order(&self) -> Order {
        Order::unpack(self.order.load(Ordering::Acquire))
    }
}
