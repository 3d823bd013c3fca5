//! Two processes with one name, own leftovers, old consumers, and who leaves.

use std::time::{Duration, Instant};

use common::coordinator::{ClaimError, Coordinator, CoordinatorError, Member};
use integration_tests::wait;
use integration_tests::zookeeper::tool::Kind;

use super::{SESSION, World, at, claimed, claimed_within, commit, log, member};

#[tokio::test]
async fn a_second_process_of_the_same_name_is_refused_after_a_wait() {
    let world = World::fresh().await;
    let first = world.member("one").await;
    let second = world.coordinator();
    let start = Instant::now();
    assert_eq!(second.join(member("one")).await, Err(CoordinatorError::InstanceTaken("one".into())));
    let took = start.elapsed();
    assert!(took >= SESSION + Duration::from_secs(5) && took < SESSION + Duration::from_secs(7), "{took:?}");
    assert!(!second.lease().holds() && first.lease().holds());
}

#[tokio::test]
async fn an_own_node_of_an_older_session_is_waited_for_however_long() {
    let world = World::fresh().await;
    let me = member("one");
    let leftover = serde_json::json!({"proto": 1, "boot": me.boot, "host": "h", "pid": 1, "version": "", "admin": "", "groups": {}});
    let mut older = world.tool();
    older.put(&world.path("/mqgate/fleet"), "");
    older.create(&world.path("/mqgate/fleet/one"), &leftover.to_string(), Kind::Ephemeral).unwrap();
    let coordinator = std::sync::Arc::new(world.coordinator());
    let (joining, who) = (coordinator.clone(), me.clone());
    let joined = tokio::spawn(async move { joining.join(who).await });
    tokio::time::sleep(SESSION + Duration::from_secs(6)).await;
    assert!(!joined.is_finished() && !coordinator.lease().holds());
    assert_eq!(coordinator.missing(), ["this process is not in the fleet yet"]);
    drop(older);
    joined.await.unwrap().unwrap();
    let members = coordinator.members().await.unwrap();
    assert_eq!(members, [Member { entered: members[0].entered, ..me }]);
}

#[tokio::test]
async fn an_owner_of_the_0_8_era_is_respected_and_its_end_is_hinted_at() {
    let world = World::fresh().await;
    let mut old = world.tool();
    old.put(&world.path("/consumers/g/owners/t"), "");
    old.create(&world.path("/consumers/g/owners/t/0"), "host:4711", Kind::Ephemeral).unwrap();
    old.put(&world.path("/consumers/g/offsets/t/0"), "17");
    let coordinator = world.member("one").await;
    assert_eq!(coordinator.claim(&at(), log()).await, Err(ClaimError::Held("host:4711".into())));
    let mut hints = coordinator.hints();
    hints.mark_unchanged();
    drop(old);
    tokio::time::timeout(Duration::from_secs(5), hints.changed()).await.unwrap().unwrap();
    assert_eq!(claimed_within(&coordinator, Duration::from_secs(5)).await.progress.cursor.0, 17);
}

#[tokio::test]
async fn old_tools_read_owners_ids_and_cursors_as_they_knew_them() {
    let world = World::fresh().await;
    let coordinator = world.member("one").await;
    let epoch = claimed(&coordinator).await.epoch;
    assert_eq!(coordinator.commit(&[commit(epoch, 42)]).await, [Ok(())]);
    let mut tool = world.tool();
    assert_eq!(tool.get(&world.path("/consumers/g/owners/t/0")).as_deref(), Some("one"));
    assert_eq!(tool.get(&world.path("/consumers/g/offsets/t/0")).as_deref(), Some("42"));
    let id: serde_json::Value = serde_json::from_str(&tool.get(&world.path("/consumers/g/ids/one")).unwrap()).unwrap();
    assert_eq!((&id["pattern"], &id["subscription"], &id["version"]), (&"static".into(), &serde_json::json!({"t": 1}), &1.into()));
}

#[tokio::test]
async fn who_leaves_is_gone_at_once_and_its_cursors_stand() {
    let world = World::fresh().await;
    let (one, other) = (world.member("one").await, world.member("other").await);
    let epoch = claimed(&one).await.epoch;
    assert_eq!(one.commit(&[commit(epoch, 8)]).await, [Ok(())]);
    assert_eq!(other.members().await.unwrap().len(), 2);
    let mut hints = other.hints();
    hints.mark_unchanged();
    one.leave().await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), hints.changed()).await.unwrap().unwrap();
    let instances: Vec<String> = other.members().await.unwrap().into_iter().map(|Member { instance, .. }| instance).collect();
    assert_eq!(instances, ["other"]);
    assert_eq!(claimed(&other).await.progress.cursor.0, 8);
    assert_eq!(world.tool().children(&world.path("/consumers/g/ids")), ["other"]);
    wait::until("its lease has ended", Duration::from_secs(1), async || (!one.lease().holds()).then_some(())).await;
}
