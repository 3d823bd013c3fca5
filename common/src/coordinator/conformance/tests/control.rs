//! Pause, resume, and hints.

use super::super::*;
use crate::coordinator::Control;

pub async fn a_group_runs_unless_paused(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = harness.open().await;
    assert_eq!(coordinator.control(&scene.group).await, Ok(Control::default()));
    coordinator.set_paused(&scene.group, true).await.unwrap();
    assert!(coordinator.control(&scene.group).await.unwrap().paused);
    coordinator.set_paused(&scene.group, false).await.unwrap();
    assert_eq!(coordinator.control(&scene.group).await, Ok(Control::default()));
}

pub async fn a_pause_survives_a_restart(harness: &dyn Harness) {
    let (scene, other) = (Scene::new("g", "t"), Scene::new("g2", "t"));
    harness.open().await.set_paused(&scene.group, true).await.unwrap();
    let coordinator = harness.open().await;
    assert!(coordinator.control(&scene.group).await.unwrap().paused);
    assert!(!coordinator.control(&other.group).await.unwrap().paused);
}

pub async fn a_pause_keeps_the_replays(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = harness.open().await;
    coordinator.replay(&scene.replay("r", [(0, 3)])).await.unwrap();
    coordinator.set_paused(&scene.group, true).await.unwrap();
    coordinator.replay(&scene.replay("s", [(0, 4)])).await.unwrap();
    assert_eq!(coordinator.control(&scene.group).await, Ok(Control { paused: true, replays: vec!["r".into(), "s".into()] }));
}

pub async fn changes_are_hinted_at(harness: &dyn Harness) {
    let scene = Scene::new("g", "t");
    let coordinator = harness.open().await;
    let mut hints = coordinator.hints();
    coordinator.join(member("here")).await.unwrap();
    hints.changed().await.unwrap();
    coordinator.set_paused(&scene.group, true).await.unwrap();
    hints.changed().await.unwrap();
    coordinator.replay(&scene.replay("r", [(0, 3)])).await.unwrap();
    hints.changed().await.unwrap();
}
