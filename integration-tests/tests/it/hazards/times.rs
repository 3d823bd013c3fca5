//! Clocks that differ, clocks that jump, and what is done when time was up.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use integration_tests::load::Load;
use integration_tests::receiver::Answer;
use integration_tests::request::Seen;

use super::*;

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The second proxy's clock is 40 ms behind, so that of two messages of a key the later one is due first.
#[tokio::test(flavor = "multi_thread")]
async fn proxies_whose_clocks_differ_reorder_nothing_under_a_delay() {
    const DELAY_MS: u64 = 700;
    const MESSAGES: usize = 30;
    let scene = Scene::new(1, Receiver::ok().await, json!({"delay": format!("{DELAY_MS}ms")})).await;
    let _pusher = scene.pusher("a").await;
    let proxies = [scene.cluster.proxy().start().await, scene.cluster.proxy().start().await];
    let (http, began, began_ms) = (reqwest::Client::new(), Instant::now(), now_ms());
    let mut stamps = Vec::new();
    for n in 0..MESSAGES {
        let stamp = now_ms() - if n % 2 == 1 { 40 } else { 0 };
        let url = proxies[n % 2].topic_url(&format!("{}?key=k&timestamp={stamp}", scene.topic));
        let answer = http.post(url).body(n.to_string()).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        stamps.push(stamp);
    }
    let seen = scene.receiver.until_done(MESSAGES, PATIENCE).await;
    assert_eq!(seen.iter().map(Seen::offset).collect::<Vec<_>>(), (0..MESSAGES as u64).collect::<Vec<_>>(), "each once, in order");
    for (seen, stamp) in seen.iter().zip(&stamps) {
        let at = began_ms + u64::try_from(seen.at.duration_since(began).as_millis()).unwrap();
        // Its time is rounded down to the millisecond, as are both of ours.
        assert!(at + 3 >= stamp + DELAY_MS, "offset {} came {} ms early", seen.offset(), stamp + DELAY_MS - at);
    }
    scene.cluster.until_cursors_at_end("g", &scene.topic, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_is_out_of_time_begins_again_until_the_receiver_heals() {
    let receiver = Receiver::start(|_| Answer::Hang).await;
    let policy =
        json!({"processing_timeout": "500ms", "timeout": "10s", "retry_times": 3, "failed_sleep": "200ms", "bypass_failed": false});
    let scene = Scene::new(1, receiver, policy).await;
    let pusher = scene.pusher("a").await;
    let acked = scene.post(&scene.cluster, 0..3, 1).await;
    let seen = scene.receiver.until_count(4, PATIENCE).await;
    assert!(seen.iter().all(|seen| seen.offset() == 0), "the rest of its key waits");
    for seen in &seen[..3] {
        let took = seen.broken_off.unwrap().duration_since(seen.at);
        assert!((400 * MS..5_000 * MS).contains(&took), "an attempt that hangs was given up after {took:?}");
    }
    scene.receiver.script(|_| Answer::Status(200));
    let verdict = scene.settle(&acked).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!((verdict.repeats, pusher.metric("mqgate_bypassed_total", &[]).await), (0, 0.0));
}

/// All of `timeout`, `processing_timeout`, back-off, lease and session pass while it stands still, and are seen at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_of_15_s_fails_nothing_although_every_timer_fires_at_once() {
    let receiver = Receiver::start(|seen| match (seen.offset() % 5, seen.attempt()) {
        (0, 0) => Answer::Status(500),
        (rest, _) => Answer::Status(200).after(u32::try_from(rest).unwrap() * 100 * MS),
    })
    .await;
    let policy = json!({
        "timeout": "3s", "processing_timeout": "6s", "retry_times": 2, "retry_backoff": {"initial": "500ms", "max": "1s"},
        "bypass_failed": true, "delay": "300ms", "commit_interval": "200ms", "worker_num": 16,
    });
    let scene = Scene::new(4, receiver, policy).await;
    let pusher = scene.pusher("a").await;
    let proxy = scene.cluster.proxy().start().await;
    let load = Load::start(Producer::new(proxy.api, &scene.topic), 50, 40);
    scene.receiver.until_done(100, PATIENCE).await;
    pusher.freeze();
    tokio::time::sleep(Duration::from_secs(15)).await;
    pusher.thaw();
    let count = scene.receiver.count();
    scene.receiver.until_count(count + 100, TAKEN_OVER + PATIENCE).await;
    let acked = load.stop().await;
    let verdict = scene.settle(&acked).await;
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(pusher.metric("mqgate_bypassed_total", &[]).await, 0.0, "{}", pusher.log());
    // What was in flight, and what was done since the last commit.
    assert!(verdict.repeats < 16 + 50, "{}", verdict.repeats);
}
