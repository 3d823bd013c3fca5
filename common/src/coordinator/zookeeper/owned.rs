//! Looks at what stands, without writing.

use std::collections::HashSet;

use super::super::{CoordinatorError, Standing, Vacant};
use super::core::Core;
use super::outcome::Owned;
use super::paths;
use super::wire::Link;
use crate::ids::{Epoch, GroupName, GroupPartition, Partition, Topic};

/// Reads under way at once.
const MAX_READS: usize = 256;

/// Those whose pair is not the one that this process wrote, or that it does not own at all: to be
/// adopted, or to be found out to be over.
pub(super) async fn moved(core: &Core, asked: &[(GroupPartition, Epoch)]) -> Result<Vec<GroupPartition>, CoordinatorError> {
    let link = core.wire.link().await?;
    let before = at_rest(core, asked).await?;
    let mut suspects = Vec::new();
    for some in asked.iter().zip(&before).collect::<Vec<_>>().chunks(MAX_READS) {
        let looks = some.iter().map(|((at, epoch), owned)| async {
            let touched = match owned {
                None => true,
                Some(None) => false,
                Some(Some(owned)) => touched(core, &link, at, owned).await?,
            };
            Ok::<_, CoordinatorError>(touched.then(|| (at.clone(), *epoch, (*owned).clone())))
        });
        suspects.extend(futures_util::future::try_join_all(looks).await?.into_iter().flatten());
    }
    // What was written while we looked is no trace of somebody else.
    let again: Vec<_> = suspects.iter().map(|(at, epoch, _)| (at.clone(), *epoch)).collect();
    let now = at_rest(core, &again).await?;
    Ok(suspects.into_iter().zip(now).filter(|((_, _, before), now)| before == now).map(|((at, _, _), _)| at).collect())
}

async fn at_rest(core: &Core, asked: &[(GroupPartition, Epoch)]) -> Result<Vec<Option<Option<Owned>>>, CoordinatorError> {
    let asked = asked.to_vec();
    core.ask(move |state| asked.iter().map(|(at, epoch)| state.at_rest(at, *epoch)).collect()).await
}

async fn touched(core: &Core, link: &Link, at: &GroupPartition, owned: &Owned) -> Result<bool, CoordinatorError> {
    let (owner, cursor, done) = (paths::owner(at), paths::cursor(at), paths::done(at));
    let look = |path| core.wire.stat(link, path);
    let (owner, cursor, done) = futures_util::join!(look(&owner), look(&cursor), look(&done));
    let as_written = |stat: &Option<zookeeper_client::Stat>| stat.is_some_and(|stat| stat.mzxid == owned.base.mzxid);
    let mine = owner?.is_some_and(|owner| owner.ephemeral_owner == link.session);
    Ok(!mine || !as_written(&cursor?) || !as_written(&done?))
}

pub(super) async fn standing(core: &Core, at: &[GroupPartition]) -> Result<Vec<Standing>, CoordinatorError> {
    let link = core.wire.link().await?;
    let mut stand = Vec::with_capacity(at.len());
    for some in at.chunks(MAX_READS) {
        stand.extend(futures_util::future::try_join_all(some.iter().map(|at| core.standing(&link, at))).await?);
    }
    Ok(stand)
}

/// Each with the last write of its pair: a claim is one. Of both nodes, in case somebody deleted one.
pub(super) async fn vacant(core: &Core, group: &GroupName, topic: &Topic, partitions: u32) -> Result<Vec<Vacant>, CoordinatorError> {
    let link = core.wire.link().await?;
    let unowned: Vec<Partition> = {
        let owned = owned(core, &link, group, topic).await?;
        (0..partitions).map(Partition).filter(|partition| !owned.contains(&partition.0.to_string())).collect()
    };
    let mut vacant = Vec::with_capacity(unowned.len());
    for some in unowned.chunks(MAX_READS) {
        let looks = some.iter().map(|partition| async {
            let at = GroupPartition { group: group.clone(), topic: topic.clone(), partition: *partition };
            let (cursor, done) = (paths::cursor(&at), paths::done(&at));
            let (cursor, done) = futures_util::join!(core.wire.stat(&link, &cursor), core.wire.stat(&link, &done));
            let written = |stat: Option<zookeeper_client::Stat>| stat.map_or(0, |stat| stat.mzxid.unsigned_abs());
            Ok::<_, CoordinatorError>(Vacant { partition: *partition, mark: written(cursor?).max(written(done?)) })
        });
        vacant.extend(futures_util::future::try_join_all(looks).await?);
    }
    // Claimed since, it would have the mark of that claim, and be taken for vacant all the time from here to its end.
    if !vacant.is_empty() {
        let owned = owned(core, &link, group, topic).await?;
        vacant.retain(|vacant| !owned.contains(&vacant.partition.0.to_string()));
    }
    Ok(vacant)
}

/// Numbers of partitions.
async fn owned(core: &Core, link: &Link, group: &GroupName, topic: &Topic) -> Result<HashSet<String>, CoordinatorError> {
    Ok(core.wire.children(link, &paths::owners(group, topic)).await?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::super::conformance::{Scene, log, member, topic_id};
    use super::super::model::Pair;
    use crate::coordinator::Birth;
    use crate::ids::Offset;

    /// It looked as if nobody had owned it since before it was claimed.
    #[test]
    fn what_is_claimed_during_a_look_is_not_vacant() {
        let (pair, at) = (Pair::new(), Scene::new("g", "t").at(0));
        let (group, topic) = (at.group.clone(), at.topic.clone());
        let born = Birth { topic_id: Some(topic_id(1)), start: vec![Offset(0)] };
        let joined = pair.claimant.ask(async move |coordinator| {
            coordinator.birth(&group, &topic, born, &[log(0, 10)]).await.unwrap();
            coordinator.join(member("claimant")).await.unwrap();
        });
        assert!(pair.all() && joined.is_finished());
        let (group, topic) = (at.group.clone(), at.topic.clone());
        let vacant = pair.watcher.ask(async move |coordinator| coordinator.vacant(&group, &topic, 1).await.unwrap());
        pair.watcher_reads_once();
        let claimed = pair.claimant.ask(async move |coordinator| coordinator.claim(&at, log(0, 10)).await.unwrap());
        pair.claimant_goes_on();
        assert!(claimed.is_finished() && !vacant.is_finished());
        assert_eq!(pair.answer(vacant), []);
    }
}
