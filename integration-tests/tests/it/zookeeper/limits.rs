//! C64: many partitions on one session, many watches, values that no server takes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::coordinator::{
    Birth, ClaimError, Commit, Coordinator, CoordinatorError, MemberGroup, Replay, ReplayTarget, ZooKeeperCoordinator,
};
use common::ids::{GroupPartition, Offset, Partition, Topic};
use futures_util::{StreamExt, stream};
use integration_tests::relay::Relay;
use integration_tests::wait;

use super::{SESSION, World, at, commit, log, member, open, settle};

const PARTITIONS: u32 = 2000;
/// As many claims are under way as of a pusher that starts.
const AT_ONCE: usize = 256;

fn partition(number: u32) -> GroupPartition {
    GroupPartition { topic: Topic::new("a-topic-whose-name-has-forty-characters").unwrap(), partition: Partition(number), ..at() }
}

async fn all_claimed(coordinator: &ZooKeeperCoordinator) -> Vec<Commit> {
    let claims = stream::iter(0..PARTITIONS).map(|number| async move {
        let claim = coordinator.claim(&partition(number), log()).await.unwrap();
        Commit { at: partition(number), ..commit(claim.epoch, 5) }
    });
    claims.buffered(AT_ONCE).collect().await
}

fn watches(of: &str) -> u32 {
    let total = of.lines().find_map(|line| line.strip_prefix("Total watches:"));
    total.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn two_thousand_partitions_on_one_session_outlive_a_reconnect_and_watches_are_bounded() {
    let world = World::fresh().await;
    let servers = integration_tests::zookeeper::ZooKeeper::start().await;
    let relay = Relay::start(servers.addr(0)).await;
    let owner = open(world.options(&relay.addr().to_string()));
    settle(&owner, "owner").await;
    let birth = Birth { topic_id: None, start: vec![Offset(0); PARTITIONS as usize] };
    owner.birth(&at().group, &partition(0).topic, birth, &[]).await.unwrap();
    let commits = all_claimed(&owner).await;
    let stored = |answers: Vec<Result<(), _>>| answers.into_iter().for_each(|answer| assert_eq!(answer, Ok(())));
    stored(owner.commit(&commits).await);

    let relayed = Relay::start(servers.addr(0)).await;
    let waiting = open(world.options(&relayed.addr().to_string()));
    settle(&waiting, "waiting").await;
    let refused = stream::iter(0..PARTITIONS).map(|number| {
        let waiting = &waiting;
        async move { waiting.claim(&partition(number), log()).await }
    });
    let refused: Vec<_> = refused.buffered(AT_ONCE).collect().await;
    assert!(refused.iter().all(|claim| *claim == Err(ClaimError::Held("owner".into()))));
    let watched = watches(&servers.ask(0, "wchs").await.unwrap());
    assert!((900..=1010).contains(&watched), "{watched}");

    // All watches are armed again by one packet, which the servers take.
    relay.reset();
    relayed.reset();
    wait::until("both are connected again", SESSION, async || (owner.missing().is_empty() && waiting.missing().is_empty()).then_some(()))
        .await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        assert!(owner.missing().is_empty() && waiting.missing().is_empty(), "it connects once, and not in a loop");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stored(owner.commit(&commits).await);
    assert_eq!(owner.moved(&commits.iter().map(|commit| (commit.at.clone(), commit.epoch)).collect::<Vec<_>>()).await, Ok(vec![]));

    // The end of a partition beyond the watches is found by the next try.
    owner.leave().await.unwrap();
    wait::until("the last one is free", SESSION, async || waiting.claim(&partition(PARTITIONS - 1), log()).await.ok()).await;
}

#[tokio::test]
async fn what_no_server_takes_is_refused_here_and_costs_no_connection() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let refused = |error: &CoordinatorError, named: &str| {
        let CoordinatorError::Refused(text) = error else { panic!("{error:?}") };
        assert!(text.contains(named) && text.contains("nothing was written"), "{text}");
    };
    let many = Birth { topic_id: None, start: vec![Offset(1_000_000_000); 100_000] };
    let huge = Topic::new("huge").unwrap();
    let error = coordinator.birth(&at().group, &huge, many, &[]).await.unwrap_err();
    refused(&error, "the start of group g in topic huge");
    let target = |number| {
        let topic = Topic::new(&format!("{number:0>249}")).unwrap();
        ReplayTarget { topic, partition: Partition(0), to: Offset(1), topic_id: None }
    };
    let replay = Replay { group: at().group, id: "r".into(), asked_at: 1, targets: (0..2000).map(target).collect() };
    let error = coordinator.replay(&replay).await.unwrap_err();
    refused(&error, "replay \"r\" of group g; split it");
    assert!(coordinator.missing().is_empty() && coordinator.lease().holds());
    assert_eq!(world.tool().children(&world.path("/mqgate/groups/g/topics")), ["t"]);
}

#[tokio::test]
async fn a_member_of_four_thousand_groups_is_in_all_of_them() {
    let world = World::fresh().await;
    let coordinator = world.coordinator();
    let served = MemberGroup { topics: vec![Topic::new("t").unwrap()], config: "0123456789abcdef".into() };
    let groups: BTreeMap<_, _> = (0..4000).map(|number| (format!("{number:032x}"), served.clone())).collect();
    coordinator.join(common::coordinator::Member { groups: groups.clone(), ..member("one") }).await.unwrap();
    let mut tool = world.tool();
    for group in [groups.keys().next(), groups.keys().last()].into_iter().flatten() {
        assert_eq!(tool.children(&world.path(&format!("/consumers/{group}/ids"))), ["one"]);
    }
    coordinator.leave().await.unwrap();
    for group in [groups.keys().next(), groups.keys().last()].into_iter().flatten() {
        assert!(tool.children(&world.path(&format!("/consumers/{group}/ids"))).is_empty());
    }
}
