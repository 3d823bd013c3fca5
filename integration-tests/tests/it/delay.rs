//! Records that are to be delivered some time after they were written (C72).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use integration_tests::backend::{Backend, Site};
use integration_tests::cluster::{Cluster, TAKEN_OVER};
use integration_tests::gateway::{Setup, group};
use integration_tests::ledger::judge;
use integration_tests::receiver::Receiver;
use integration_tests::request::Seen;
use serde_json::json;

on_each_backend! {
    each_is_pushed_when_it_is_due_over_a_stop_that_waits_for_none,
}

const MS: Duration = Duration::from_millis(1);

/// Wall-clock time of a moment, in milliseconds.
struct Clock {
    at: Instant,
    ms: u64,
}

impl Clock {
    fn now() -> Self {
        let (since_1970, now) = (SystemTime::now().duration_since(UNIX_EPOCH).unwrap(), Instant::now());
        // When that millisecond began.
        let at = now - Duration::from_nanos((since_1970.subsec_nanos() % 1_000_000).into());
        Self { at, ms: u64::try_from(since_1970.as_millis()).unwrap() }
    }

    /// How long after its due time a record came; negative, in milliseconds: before.
    fn late_ms(&self, seen: &Seen, delay: Duration) -> i64 {
        let timestamp: u64 = seen.header("X-Kmq-Timestamp").unwrap().parse().unwrap();
        let due = timestamp + u64::try_from(delay.as_millis()).unwrap();
        let came = self.ms + u64::try_from((seen.at - self.at).as_millis()).unwrap();
        came.cast_signed() - due.cast_signed()
    }
}

/// Of different ages, on keys of their own and on one key; stopped when some are done and others wait.
async fn each_is_pushed_when_it_is_due_over_a_stop_that_waits_for_none(backend: Backend) {
    const DELAY: Duration = Duration::from_secs(5);
    let receiver = Receiver::ok().await;
    let policy = json!({"delay": "5s", "commit_interval": "100ms"});
    let mut site = Site::start(backend, Setup::groups([group("g", "t", &receiver.url(), &policy)])).await;
    let clock = Clock::now();
    let (http, url) = (reqwest::Client::new(), site.proxy().topic_url(&site.topic("t")));
    for key in ["own", "same"] {
        for (n, age_ms) in [10_000, 0, 7_500, 1_000].into_iter().enumerate() {
            let key = if key == "own" { format!("own{n}") } else { key.to_owned() };
            let post = http.post(format!("{url}?key={key}&timestamp={}", clock.ms - age_ms)).body(format!("{key} {n}"));
            assert_eq!(post.send().await.unwrap().status(), 200);
        }
    }
    // Those that are older than the delay, but for the one behind a record of its key that waits.
    receiver.until_done(3, Duration::from_secs(3)).await;
    site.pusher.until_metric("mqgate_in_flight_records", &[], 0.0, Duration::from_secs(2)).await;
    tokio::time::sleep(300 * MS).await;
    let asked = Instant::now();
    assert_eq!(site.pusher.terminate(Duration::from_secs(3)).await.code(), Some(0), "{}", site.pusher.log());
    assert!(asked.elapsed() < 1_500 * MS, "it waited for due times: {:?}", asked.elapsed());
    site.pusher.restart().await;
    let seen = receiver.until_done(8, Duration::from_secs(10)).await;
    let mut same = Vec::new();
    for s in &seen {
        let late = clock.late_ms(s, DELAY);
        assert!(late >= 0, "{} came {late} ms before it was due", s.text());
        if s.key() == Some("same") {
            same.push(s.text());
        } else if !s.text().ends_with('0') && !s.text().ends_with('2') {
            assert!(late <= 1_000, "{} came {late} ms after it was due", s.text());
        }
    }
    assert_eq!(same, ["same 0", "same 1", "same 2", "same 3"], "the order of a key comes before due times");
    let of = |text: &str| seen.iter().find(|s| s.text() == text).unwrap().at;
    assert!(of("same 3") - of("same 1") < 500 * MS, "what was overdue follows at once");
    site.pusher.until_caught_up("g", Duration::from_secs(5)).await;
    assert_eq!(receiver.count(), 8, "none twice");
}

/// Many wait, more than are held, while another pusher comes and goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_that_wait_are_not_held_and_move_between_pushers_without_a_repeat() {
    const RECORDS: usize = 100_000;
    /// Longer than it takes to write them.
    const DELAY: Duration = Duration::from_secs(10);
    let (cluster, receiver) = (Cluster::shared().await, Receiver::ok().await);
    let topic = cluster.topic("delayed", 6).await;
    let policy = json!({"delay": "10s", "commit_interval": "200ms", "worker_num": 64, "max_in_flight_records": 1_000, "timeout": "10s"});
    let groups = || [group("g", &topic, &receiver.url(), &policy)];
    let a = cluster.pusher("a", groups()).start().await;
    cluster.until_owned("g", &topic, 6, &["a"], TAKEN_OVER).await;
    let (clock, resident) = (Clock::now(), a.resident_bytes());
    let keys: Vec<String> = (0..RECORDS).map(|n| format!("k{}", n % 10_000)).collect();
    let value = "x".repeat(1_000);
    let records: Vec<_> = keys.iter().map(|key| (Some(key.as_str()), Some(value.as_str()))).collect();
    for chunk in records.chunks(10_000) {
        cluster.produce(&topic, chunk).await;
    }
    let mut b = cluster.pusher("b", groups()).start().await;
    cluster.until_owned("g", &topic, 6, &["a", "b"], TAKEN_OVER).await;
    a.until_metric("mqgate_owned_partitions", &[], 3.0, TAKEN_OVER).await;
    let grown = a.resident_bytes().saturating_sub(resident);
    assert!(grown < 60 << 20, "{} MiB more for 100 MB that wait", grown >> 20);
    assert_eq!(b.terminate(Duration::from_secs(10)).await.code(), Some(0), "{}", b.log());
    cluster.until_owned("g", &topic, 6, &["a"], TAKEN_OVER).await;
    receiver.until_count(RECORDS, Duration::from_secs(90)).await;
    cluster.until_cursors_at_end("g", &topic, Duration::from_secs(10)).await;
    let seen = receiver.seen();
    let early = seen.iter().filter(|s| clock.late_ms(s, DELAY) < 0).count();
    assert_eq!(early, 0, "came before they were due");
    let verdict = judge(&[], &seen);
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!((verdict.delivered, verdict.repeats), (RECORDS, 0));
}
