//! What a fleet's loop waits for.

use common::coordinator::{CoordinatorError, Member};
use tokio_util::sync::CancellationToken;

use super::charges::Prepared;
use super::kept::Ended;
use super::looking::Seen;
use super::{Fleet, Order};

pub(super) enum Event {
    Drain,
    Ordered(Order),
    LeaseChanged,
    Prepared(Prepared),
    Joined((Member, Result<(), CoordinatorError>)),
    Seen(Seen),
    Ended(Ended),
    /// Something that partitions are shared by may have changed.
    Hinted,
    /// It is time for what was put off.
    Due,
}

impl Fleet {
    /// Cancel safe. Cutting comes before anything else.
    pub(super) async fn next_event(&mut self, drain: &CancellationToken) -> Event {
        let Self { orders, lease, charges, membership, kept, looking, hints, .. } = self;
        let look = looking.due().filter(|_| membership.is_in());
        let due = [membership.due(), look].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = drain.cancelled() => Event::Drain,
            _ = lease.changed() => Event::LeaseChanged,
            Some(order) = orders.recv() => Event::Ordered(order),
            ended = kept.next_ended() => Event::Ended(ended),
            prepared = charges.next_prepared() => Event::Prepared(prepared),
            joined = membership.next_joined() => Event::Joined(joined),
            seen = looking.next_seen() => Event::Seen(seen),
            () = hints.next() => Event::Hinted,
            () = until(due) => Event::Due,
        }
    }
}

async fn until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
