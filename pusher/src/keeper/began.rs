//! Says where a claim's cursor came from, loudly where records were passed over.

use common::coordinator::{Began, Claim};
use common::ids::GroupPartition;
use tracing::{debug, warn};

use crate::metrics::Metrics;

pub(crate) fn announce(at: &GroupPartition, claim: &Claim, metrics: &Metrics) {
    let GroupPartition { group, topic, partition } = at;
    let (partition, cursor, epoch) = (partition.0, claim.progress.cursor, claim.epoch.0);
    metrics.claimed(at, claim.began);
    match claim.began {
        Began::AtCursor => debug!(%group, %topic, partition, %cursor, epoch, "the partition is taken over at its cursor"),
        Began::AtBirth => debug!(%group, %topic, partition, %cursor, epoch, "the partition is taken over where the group starts"),
        Began::BelowFirst { skipped } => {
            warn!(%group, %topic, partition, %cursor, epoch, skipped,
                "records were deleted from the log before they were delivered; delivery goes on at the first that is left. Raise the retention, or find out why the group is behind");
        }
        Began::LogTruncated { from } => {
            warn!(%group, %topic, partition, %cursor, epoch, former_cursor = %from,
                "the log is shorter than what was delivered from it already; delivery goes on at its end");
        }
        Began::TopicRecreated { abandoned } => {
            warn!(%group, %topic, partition, %cursor, epoch, former_cursor = %abandoned,
                "the topic was created anew since the cursor was written; delivery begins at its first record, and what the former topic still held is gone");
        }
    }
}
