//! C64: many partitions of one process, many watches, values that no server takes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use common::coordinator::{
    Birth, ClaimError, Commit, Coordinator, CoordinatorError, Member, MemberGroup, Replay, ReplayTarget, ZooKeeperCoordinator,
};
use common::ids::{GroupPartition, Offset, Partition, Topic};
use futures_util::{StreamExt, stream};
use integration_tests::relay::Relay;
use integration_tests::wait;

use super::sessions::{assert_bounded, ephemerals};
use super::{SESSION, World, at, commit, log, member, open, settle};

/// Of one process: three sessions with names of this length.
const PARTITIONS: u32 = 10_000;
/// Of them, those that another process waits for.
const WAITED_FOR: u32 = 2000;
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

/// As a pusher does: few at a time.
async fn all_stored(coordinator: &ZooKeeperCoordinator, commits: &[Commit]) {
    for some in commits.chunks(1000) {
        coordinator.commit(some).await.into_iter().for_each(|stored| assert_eq!(stored, Ok(())));
    }
}

fn watches(of: &str) -> u32 {
    let total = of.lines().find_map(|line| line.strip_prefix("Total watches:"));
    total.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn ten_thousand_partitions_of_one_process_outlive_a_restart_of_all_servers_and_watches_are_bounded() {
    let world = World::fresh().await;
    let mut servers = integration_tests::zookeeper::ZooKeeper::start().await;
    let relay = Relay::start(servers.addr(0)).await;
    let owner = open(world.options(&relay.addr().to_string()));
    settle(&owner, "owner").await;
    let birth = Birth { topic_id: None, start: vec![Offset(0); PARTITIONS as usize] };
    owner.birth(&at().group, &partition(0).topic, birth, &[]).await.unwrap();
    let commits = all_claimed(&owner).await;
    all_stored(&owner, &commits).await;
    let sessions = ephemerals(&world, &servers).await;
    assert_bounded(&sessions);
    assert_eq!(sessions.len(), 3, "{:?}", sessions.keys());

    let relayed = Relay::start(servers.addr(0)).await;
    let waiting = open(world.options(&relayed.addr().to_string()));
    settle(&waiting, "waiting").await;
    let refused = stream::iter(0..WAITED_FOR).map(|number| {
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
    all_stored(&owner, &commits).await;
    assert_eq!(owner.moved(&commits.iter().map(|commit| (commit.at.clone(), commit.epoch)).collect::<Vec<_>>()).await, Ok(vec![]));

    // The servers go and come back: every session has its whole time again.
    servers.restart(0).await;
    wait::until("both are connected again", SESSION * 2, async || {
        (owner.missing().is_empty() && waiting.missing().is_empty()).then_some(())
    })
    .await;
    all_stored(&owner, &commits).await;

    assert_eq!(ephemerals(&world, &servers).await.values().map(BTreeSet::len).sum::<usize>(), PARTITIONS as usize + 4, "and two members");

    // The end of a partition beyond the watches is found by the next try.
    owner.release(&commits[WAITED_FOR as usize - 1]).await.unwrap();
    wait::until("the last one is free", SESSION, async || waiting.claim(&partition(WAITED_FOR - 1), log()).await.ok()).await;
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
async fn a_member_of_three_thousand_groups_is_in_all_of_them_and_one_of_many_more_is_refused() {
    let world = World::fresh().await;
    let coordinator = world.coordinator();
    let served = MemberGroup { topics: vec![Topic::new("t").unwrap()], config: "0123456789abcdef".into() };
    let serving = |count: u32| {
        let groups: BTreeMap<_, _> = (0..count).map(|number| (format!("g{number:05}"), served.clone())).collect();
        Member { groups, ..member("one") }
    };
    let refused = coordinator.join(serving(6000)).await.unwrap_err();
    assert!(refused.to_string().contains("the names of the 6000 groups"), "{refused}");
    coordinator.join(serving(3000)).await.unwrap();
    let mut tool = world.tool();
    let ids = ["g00000", "g02999"].map(|group| world.path(&format!("/consumers/{group}/ids")));
    ids.iter().for_each(|ids| assert_eq!(tool.children(ids), ["one"]));
    coordinator.leave().await.unwrap();
    ids.iter().for_each(|ids| assert!(tool.children(ids).is_empty()));
}
