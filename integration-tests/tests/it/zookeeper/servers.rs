//! The harness itself, connect strings and access.

use std::time::Duration;

use common::coordinator::zookeeper::{AclMode, Ensemble, Options};
use common::coordinator::{Coordinator, CoordinatorError};
use integration_tests::wait;
use integration_tests::zookeeper::ZooKeeper;
use integration_tests::zookeeper::tool::Code;

use super::{World, at, claimed, commit, member, open};

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

/// C63: every harmless way to write the same place leads to it.
#[tokio::test]
async fn the_harmless_forms_of_a_connect_string_lead_to_one_place() {
    let world = World::fresh().await;
    let server = world.servers.connect_string();
    let first = world.member("one").await;
    let chroot = &world.chroot[1..];
    for text in [
        format!("{server}//{chroot}/"),
        format!("{server},/{chroot}"),
        format!("{server}, {server}/{chroot}"),
        format!(" {server} /{chroot}"),
    ] {
        let ensemble = Ensemble::parse(&text).unwrap();
        let coordinator = open(Options { ensemble, ..world.options(&server) });
        assert_eq!(coordinator.members().await, first.members().await, "{text}");
    }
    let each_its_own = Ensemble::parse(&format!("{server}/{chroot},{server}/{chroot}")).unwrap_err();
    assert!(each_its_own.to_string().contains("one path for all stands after the last server"), "{each_its_own}");
}

#[tokio::test]
async fn creator_acl_keeps_others_from_writing_and_lets_them_read() {
    const NO_AUTH: Code = Code(-102);
    let world = World::fresh().await;
    let mut options = world.options(&world.servers.connect_string());
    (options.digest, options.acl) = (Some("mqgate:secret".into()), AclMode::Creator);
    let coordinator = open(options);
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
    let coordinator = open(world.options(&integration_tests::ports::free().to_string()));
    let answer = coordinator.standing(&[at()]).await;
    assert!(matches!(answer, Err(CoordinatorError::Unavailable(_))), "{answer:?}");
    assert_eq!(coordinator.missing().len(), 1);
    assert!(!coordinator.lease().holds());
}
