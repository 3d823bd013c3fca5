//! Consumers that do not know our rules, registered for our groups: they deliver what we deliver,
//! and write our cursors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::CoordinatorError;
use super::core::Core;
use super::paths;

/// Between two looks, unless this process has just joined.
const LOOK: Duration = Duration::from_secs(10);
/// Reads under way at once.
const MAX_READS: usize = 64;

/// By group; groups without any are in it too.
type Foreign = BTreeMap<String, BTreeSet<String>>;

/// For as long as there is the coordinator: who comes and goes is said once, and counted.
pub(super) async fn watch(core: Core) {
    let mut known = Foreign::new();
    loop {
        match look(&core).await {
            Ok(seen) => known = compare(&core, &known, seen),
            Err(error) => tracing::debug!(%error, "foreign consumers cannot be looked for"),
        }
        // Late or early, it is only a warning.
        let _ = tokio::time::timeout(LOOK, core.joined()).await;
    }
}

async fn look(core: &Core) -> Result<Foreign, CoordinatorError> {
    let Some(member) = core.ask(|state| state.to_join_again()).await? else { return Ok(Foreign::new()) };
    let link = core.wire.link().await?;
    let groups: Vec<&String> = member.groups.keys().collect();
    // Who comes or goes meanwhile is in one of the two.
    let mut fleet: BTreeSet<String> = core.wire.children(&link, paths::FLEET).await?.into_iter().collect();
    let mut registered = Vec::with_capacity(groups.len());
    for some in groups.chunks(MAX_READS) {
        let ids = some.iter().map(|group| async { core.wire.children(&link, &paths::ids(group)).await });
        registered.extend(futures_util::future::try_join_all(ids).await?);
    }
    fleet.extend(core.wire.children(&link, paths::FLEET).await?);
    let foreign = |ids: Vec<String>| ids.into_iter().filter(|id| !fleet.contains(id)).collect();
    Ok(groups.into_iter().cloned().zip(registered.into_iter().map(foreign)).collect())
}

fn compare(core: &Core, known: &Foreign, seen: Foreign) -> Foreign {
    let none = BTreeSet::new();
    for (group, consumers) in &seen {
        core.metrics().foreign(group, consumers.len());
        let before = known.get(group).unwrap_or(&none);
        for consumer in consumers.difference(before) {
            tracing::warn!(
                group,
                consumer,
                "a consumer that is not of this fleet is registered for the group: stop the original programs first, both deliver every message and write the same cursors"
            );
        }
        for consumer in before.difference(consumers) {
            tracing::info!(group, consumer, "the consumer that is not of this fleet is gone");
        }
    }
    known.keys().filter(|group| !seen.contains_key(*group)).for_each(|group| core.metrics().forget_group(group));
    seen
}
