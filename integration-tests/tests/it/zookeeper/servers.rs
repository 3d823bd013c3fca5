//! The harness itself, connect strings and access.

use std::time::Duration;

use common::coordinator::zookeeper::AclMode;
use common::coordinator::{Coordinator, CoordinatorError, ZooKeeperCoordinator};
use integration_tests::wait;
use integration_tests::zookeeper::ZooKeeper;
use integration_tests::zookeeper::tool::Code;

use super::{World, at, claimed, commit, member};

#[tokio::test]
async fn the_harness_freezes_kills_and_restarts_one_of_three_servers() {
    let mut servers = ZooKeeper::ensemble(3).await;
    servers.freeze(0);
    assert_eq!(servers.ask(0, "ruok").await, None);
    servers.thaw(0);
    wait::until("it answers again", Duration::from_secs(5), async || servers.ask(0, "ruok").await).await;
    servers.kill(1);
    assert_eq!(servers.ask(1, "ruok").await, None);
    servers.restart(1).await;
}

#[tokio::test]
async fn a_missing_chroot_is_made_and_nothing_is_written_outside_of_it() {
    let mut world = World::fresh().await;
    world.chroot += "/a/b";
    let coordinator = world.member("one").await;
    claimed(&coordinator).await;
    let mut tool = world.tool();
    let mut inside = tool.children(&world.chroot);
    inside.sort();
    assert_eq!(inside, ["consumers", "mqgate"]);
    let top = tool.children("/");
    assert!(top.iter().all(|name| name == "zookeeper" || name.starts_with("test-")), "{top:?}");
}

#[tokio::test]
async fn creator_acl_keeps_others_from_writing_and_lets_them_read() {
    const NO_AUTH: Code = Code(-102);
    let world = World::fresh().await;
    let mut options = world.options(&world.servers.connect_string());
    (options.digest, options.acl) = (Some("mqgate:secret".into()), AclMode::Creator);
    let coordinator = ZooKeeperCoordinator::open(options);
    super::settle(&coordinator, "one").await;
    let epoch = claimed(&coordinator).await.epoch;
    assert_eq!(coordinator.commit(&[commit(epoch, 5)]).await, [Ok(())]);
    assert_eq!(world.cursor().as_deref(), Some("5"));
    assert_eq!(world.tool().set(&world.path("/consumers/g/offsets/t/0"), "99"), Err(NO_AUTH));
    let stranger = world.coordinator();
    let refused = stranger.join(member("two")).await;
    assert!(matches!(refused, Err(CoordinatorError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn without_servers_a_verb_fails_in_time_and_says_what_is_missing() {
    let world = World::fresh().await;
    let coordinator = ZooKeeperCoordinator::open(world.options(&integration_tests::ports::free().to_string()));
    let answer = coordinator.standing(&[at()]).await;
    assert!(matches!(answer, Err(CoordinatorError::Unavailable(_))), "{answer:?}");
    assert_eq!(coordinator.missing().len(), 1);
    assert!(!coordinator.lease().holds());
}
