//! C64: tens of thousands of cursors, and values as large as a server takes.

use std::time::{Duration, Instant};

use common::coordinator::{Birth, ClaimError, Commit, Coordinator, Member, MemberGroup, ZooKeeperCoordinator};
use common::ids::{GroupName, GroupPartition, Offset, Partition, Topic};
use futures_util::{StreamExt, stream};
use integration_tests::relay::Relay;
use integration_tests::wait;

use super::metrics::Scraped;
use super::{SESSION, World, at, claimed, commit, log, member, settle};

const GROUPS: usize = 3;
const TOPICS: usize = 10;
const PARTITIONS: u32 = 1_000;

fn group(number: usize) -> GroupName {
    GroupName::new(&format!("group-{number}")).unwrap()
}

fn topic(number: usize) -> Topic {
    Topic::new(&format!("{number:0>2}-a-topic-whose-name-has-forty-letters")).unwrap()
}

/// Everything, group by group and topic by topic.
fn all() -> Vec<GroupPartition> {
    let of =
        |(g, t): (usize, usize)| (0..PARTITIONS).map(move |p| GroupPartition { group: group(g), topic: topic(t), partition: Partition(p) });
    (0..GROUPS).flat_map(|g| (0..TOPICS).map(move |t| (g, t))).flat_map(of).collect()
}

/// As the original left them.
fn put_cursors(world: &World) {
    let mut tool = world.tool();
    let folder = |at: &GroupPartition| world.path(&format!("/consumers/{}/offsets/{}", at.group, at.topic));
    let cursors: Vec<_> = all().iter().map(|at| (format!("{}/{}", folder(at), at.partition), "7".to_owned())).collect();
    for first in all().iter().filter(|at| at.partition == Partition(0)) {
        tool.put(&folder(first), "");
    }
    tool.create_all(&cursors);
}

/// It was connected once, and stays so.
async fn assert_connected(coordinator: &ZooKeeperCoordinator, scraped: &Scraped, disconnections: usize) {
    wait::until("it is connected", SESSION, async || coordinator.missing().is_empty().then_some(())).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        assert!(coordinator.missing().is_empty(), "{:?}", coordinator.missing());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(scraped.reads(&format!("mqgate_zookeeper_disconnections_total {disconnections}")), "it connects in a loop");
}

#[tokio::test]
async fn thirty_thousand_cursors_are_picked_up_and_read_and_a_reconnect_is_one() {
    let world = World::fresh().await;
    put_cursors(&world);
    let (scraped, metrics) = Scraped::new();
    let relay = Relay::start(world.servers.addr(0)).await;
    let coordinator = ZooKeeperCoordinator::open(world.options(&relay.addr().to_string()), &metrics);
    let served = MemberGroup { topics: (0..TOPICS).map(topic).collect(), config: "c0ffee".into() };
    let groups = (0..GROUPS).map(|number| (group(number).to_string(), served.clone())).collect();
    coordinator.join(Member { groups, ..member("one") }).await.unwrap();
    for first in all().iter().filter(|at| at.partition == Partition(0)) {
        let birth = Birth { topic_id: None, start: vec![Offset(0); PARTITIONS as usize] };
        coordinator.birth(&first.group, &first.topic, birth, &vec![log(); PARTITIONS as usize]).await.unwrap();
    }
    let asked = Instant::now();
    let standing = coordinator.standing(&all()).await.unwrap();
    println!("{} cursors were read in {:?}", standing.len(), asked.elapsed());
    assert_eq!(standing.len(), all().len());
    let claims = all().into_iter().step_by(50);
    let claims = stream::iter(claims).map(async |at| (coordinator.claim(&at, log()).await.unwrap(), at));
    let claims: Vec<_> = claims.buffered(256).collect().await;
    assert!(claims.iter().all(|(claim, _)| claim.progress.cursor == Offset(7)), "each where the original left it");
    let commits: Vec<Commit> = claims.iter().map(|(claim, at)| Commit { at: at.clone(), ..commit(claim.epoch, 9) }).collect();
    assert!(coordinator.commit(&commits).await.iter().all(Result::is_ok));
    assert_connected(&coordinator, &scraped, 0).await;
    relay.reset();
    scraped.until("mqgate_zookeeper_disconnections_total 1").await;
    assert_connected(&coordinator, &scraped, 1).await;
    assert!(coordinator.commit(&commits).await.iter().all(Result::is_ok));
    coordinator.leave().await.unwrap();
}

#[tokio::test]
async fn a_value_of_a_megabyte_stops_its_own_partition_and_nothing_else() {
    const LARGE: usize = 1_000_000;
    let world = World::fresh().await;
    let (scraped, metrics) = Scraped::new();
    let relay = Relay::start(world.servers.addr(0)).await;
    let coordinator = ZooKeeperCoordinator::open(world.options(&relay.addr().to_string()), &metrics);
    settle(&coordinator, "one").await;
    let epoch = claimed(&coordinator).await.epoch;
    let mut tool = world.tool();
    tool.put(&world.path("/consumers/g/offsets/t/1"), &"9".repeat(LARGE));
    tool.put(&world.path("/consumers/g/offsets/t/2"), "5");
    tool.put(&world.path("/consumers/g/done/t/2"), &"x".repeat(LARGE));
    tool.put(&world.path("/mqgate/fleet/large"), &"x".repeat(LARGE));
    let of = |partition: u32| GroupPartition { partition: Partition(partition), ..at() };
    match coordinator.claim(&of(1), log()).await {
        Err(ClaimError::UnreadableCursor(text)) => assert!(text.len() < 100 && text.starts_with("999"), "cut for the log: {}", text.len()),
        other => panic!("{other:?}"),
    }
    let second = coordinator.claim(&of(2), log()).await.unwrap();
    assert_eq!((second.progress.cursor, second.progress.done.is_empty()), (Offset(5), true));
    let commits = [commit(epoch, 3), Commit { at: of(2), ..commit(second.epoch, 6) }];
    assert_eq!(coordinator.commit(&commits).await, [Ok(()), Ok(())]);
    assert!(tool.get(&world.path("/consumers/g/done/t/2")).unwrap().len() < 1_000, "written anew");
    let members = coordinator.members().await.unwrap();
    assert!(members.iter().any(|member| member.instance == "one"), "{members:?}");
    assert_connected(&coordinator, &scraped, 0).await;
    relay.reset();
    scraped.until("mqgate_zookeeper_disconnections_total 1").await;
    assert_connected(&coordinator, &scraped, 1).await;
    assert_eq!(coordinator.commit(&commits).await, [Ok(()), Ok(())]);
}
