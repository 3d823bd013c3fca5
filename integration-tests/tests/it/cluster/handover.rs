//! A pusher that comes and goes beside another one, with requests in flight all the time (C31).

use integration_tests::cluster::{CursorWatch, TAKEN_OVER};
use integration_tests::ledger::repeated_too_much;
use integration_tests::load::Load;
use integration_tests::receiver::Answer;
use serde_json::json;

use super::*;

const SLOWEST_COMMIT: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_survive_a_pusher_that_comes_and_goes() {
    let receiver = Receiver::start(|_| Answer::Status(200).after(rand::random_range(0..600) * MS)).await;
    let policy = json!({"worker_num": 32, "commit_interval": "100ms", "timeout": "10s"});
    let scene = Scene::new(Cluster::shared().await, 6, receiver, policy).await;
    let _a = scene.pusher("a").await;
    let watch = CursorWatch::start(&scene.cluster, "g", &scene.topic);
    let load = Load::start(scene.producer(), 50, 300);
    let (mut terminated, mut killed) = (Vec::new(), Vec::new());
    for round in 0..4 {
        let mut b = scene.pusher("b").await;
        scene.until_spread(6, &["a", "b"], TAKEN_OVER).await;
        let count = scene.receiver.count();
        scene.receiver.until_count(count + 60, Duration::from_secs(10)).await;
        if round % 2 == 0 {
            terminated.push(Instant::now());
            assert_eq!(b.terminate(Duration::from_secs(10)).await.code(), Some(0), "{}", b.log());
        } else {
            b.kill();
            killed.push(Instant::now());
        }
        scene.until_owned(6, &["a"], TAKEN_OVER).await;
    }
    let verdict = scene.settle(&load.stop().await, Duration::from_secs(20)).await;
    verdict.assert_nothing_lost_or_reordered();
    watch.assert_none_fell().await;
    let seen = scene.receiver.seen();
    for kill in &killed {
        let bad = repeated_too_much(&seen, *kill, 100 * MS + SLOWEST_COMMIT);
        assert!(bad.is_empty(), "{bad:?} were done long before the kill");
    }
    for end in terminated {
        let next_kill = killed.iter().find(|kill| **kill > end).unwrap();
        let between: Vec<Seen> = seen.iter().filter(|s| s.at < *next_kill).cloned().collect();
        let earlier = killed.iter().filter(|kill| **kill < end).max();
        // What an earlier kill repeated has had its time.
        let fresh: Vec<Seen> = between.into_iter().filter(|s| earlier.is_none_or(|kill| s.at > *kill + TAKEN_OVER)).collect();
        let bad = repeated_too_much(&fresh, end, Duration::ZERO);
        assert!(bad.is_empty(), "SIGTERM repeated {bad:?}, which had finished");
    }
    eprintln!("4 hand-overs: {} delivered, {} repeats", verdict.delivered, verdict.repeats);
}
