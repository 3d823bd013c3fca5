//! Readers that stand still although there are records ahead of them: seen, counted and opened anew.
//!
//! It should not happen, and the client is said to have ways to do it: a wake-up that is lost, a
//! fetch that is not sent again.

use std::sync::{Arc, Weak};

use foldhash::HashMap;
use tracing::warn;

use super::intake::Intake;
use super::line::Line;
use super::metrics::Reopening;
use super::readers::{Desk, Place, Quiet};
use super::site::Site;
use crate::ids::Offset;

/// Looks again and again, until the queue is gone.
pub(super) async fn run(intake: Weak<Intake>, site: Arc<Site>, readers: Desk) {
    let mut suspects: Vec<Arc<Line>> = Vec::new();
    loop {
        tokio::time::sleep(site.options.watch_every).await;
        let quiet = readers.survey().await;
        let Some(intake) = intake.upgrade() else { return };
        let behind = behind(&intake, quiet).await;
        for (quiet, end) in &behind {
            if suspects.iter().any(|suspect| Arc::ptr_eq(suspect, &quiet.line)) {
                let (topic, partition) = &quiet.place;
                warn!(%topic, partition = partition.0, offset = quiet.position.0, end = end.0,
                    "a Kafka reader stands still although there are records ahead; it is opened anew");
                readers.end(&quiet.place, Arc::clone(&quiet.line), Reopening::StoodStill);
            }
        }
        site.metrics.stalled_readers.set(i64::try_from(behind.len()).unwrap_or(i64::MAX));
        suspects = behind.into_iter().map(|(quiet, _)| quiet.line).collect();
    }
}

/// Those with records ahead, and where these end. None if the cluster does not answer: then nobody
/// gets anything, and that is said elsewhere.
async fn behind(intake: &Intake, quiet: Vec<Quiet>) -> Vec<(Quiet, Offset)> {
    // A partition may have several readers, and is asked for once.
    let mut ends: HashMap<Place, Option<Offset>> = quiet.iter().map(|quiet| (quiet.place.clone(), None)).collect();
    let places: Vec<Place> = ends.keys().cloned().collect();
    let Ok(found) = intake.cluster.ends(&places).await else { return Vec::new() };
    ends.extend(places.into_iter().zip(found));
    let still_behind = |quiet: Quiet| {
        // An open transaction is not ahead: these ends are those of what is committed.
        let end = ends.get(&quiet.place).copied().flatten()?;
        let stands = end > quiet.position && quiet.line.waits_at() == Some(quiet.position);
        stands.then_some((quiet, end))
    };
    quiet.into_iter().filter_map(still_behind).collect()
}
