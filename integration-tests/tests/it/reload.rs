//! SIGHUP: a bad file changes nothing, a good one changes what it says and nothing else (C68).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use integration_tests::cluster::{Cluster, TAKEN_OVER};
use integration_tests::gateway::{Gateway, Setup, group};
use integration_tests::ledger::{Acked, judge};
use integration_tests::producer::Producer;
use integration_tests::receiver::{Answer, Receiver};
use integration_tests::request::Seen;
use integration_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

const MS: Duration = Duration::from_millis(1);
/// After which a good file is in force.
const APPLIED: Duration = Duration::from_secs(5);

/// Each group has a topic of its own; the receiver knows them by their paths.
struct Scene {
    cluster: Cluster,
    entries: Entries,
    proxy: Gateway,
    receiver: Receiver,
    pusher: Gateway,
}

/// What can stand in the file.
struct Entries {
    topics: [String; 4],
    receiver: SocketAddr,
}

impl Entries {
    fn entry(&self, index: usize, path: &str, more: &Value) -> Value {
        group(GROUPS[index], &self.topics[index], &format!("http://{}/{path}", self.receiver), more)
    }

    fn a(&self, path: &str, timeout: &str) -> Value {
        let pause = json!({"initial": "300ms", "max": "300ms"});
        self.entry(0, path, &json!({"timeout": timeout, "retry_times": 1_000_000, "retry_backoff": pause, "worker_num": 64}))
    }

    fn b(&self) -> Value {
        self.entry(1, "b", &json!({"timeout": "60s"}))
    }

    fn plain(&self, index: usize) -> Value {
        self.entry(index, GROUPS[index], &json!({"commit_interval": "100ms"}))
    }
}

const GROUPS: [&str; 4] = ["a", "b", "c", "d"];

/// `a` fails, `b` hangs, the others are well.
fn answer(seen: &Seen) -> Answer {
    match &*seen.target {
        "/a" => Answer::Status(500),
        "/b" => Answer::Hang,
        _ => Answer::Status(200),
    }
}

impl Scene {
    /// `a`, `b` and `d` are served; 50 records of `a` are in retry, and 4 of `b` in flight.
    async fn new() -> (Self, [Vec<Acked>; 2]) {
        let cluster = Cluster::shared().await;
        let topics = join_all(GROUPS.map(|name| cluster.topic(name, 2))).await.try_into().unwrap();
        let proxy = cluster.proxy().start().await;
        let receiver = Receiver::start(answer).await;
        let entries = Entries { topics, receiver: receiver.addr };
        let pusher = cluster.pusher("p", [entries.a("a", "5s"), entries.b(), entries.plain(3)]).start().await;
        let scene = Self { cluster, entries, proxy, receiver, pusher };
        let failing = scene.post(0, 50).await;
        let hanging = scene.post(1, 4).await;
        let tried = |seen: &[Seen]| seen.iter().filter(|s| s.target == "/a").count() >= 100 && in_flight(seen) == 4;
        scene.receiver.until("the trouble before the reload", Duration::from_secs(20), tried).await;
        (scene, [failing, hanging])
    }

    fn write(&mut self, groups: impl IntoIterator<Item = Value>) {
        self.pusher.configure(|setup: &mut Setup| setup.groups = groups.into_iter().collect());
    }

    async fn post(&self, index: usize, count: usize) -> Vec<Acked> {
        let producer = Producer::new(self.proxy.api, &self.entries.topics[index]);
        let mut acked = Vec::new();
        for n in 0..count {
            acked.push(producer.plain(Some(&format!("k{n}")), &[], n.to_string().into()).await.unwrap());
        }
        acked
    }

    async fn reloads(&self, outcome: &str) -> f64 {
        self.pusher.metric("mqgate_config_reloads_total", &[("outcome", outcome)]).await
    }

    /// Asks for a reload, which is refused with an error that says `why`; all groups go on as they were.
    async fn assert_refused(&self, why: &[&str]) {
        let (before, names, lines) = (self.reloads("refused").await, self.names().await, self.pusher.log_lines().len());
        self.pusher.reload();
        wait::until(&format!("the refusal that says {why:?}"), APPLIED, || async {
            (self.reloads("refused").await == before + 1.0).then_some(())
        })
        .await;
        let said = |line: &Value| line["level"] == "ERROR" && why.iter().all(|word| line.to_string().contains(word));
        let new = self.pusher.log_lines().split_off(lines);
        assert!(new.iter().any(said), "an error that says {why:?}: {new:#?}");
        assert_eq!(self.names().await, names);
        let acked = self.post(3, 5).await;
        let all = |seen: &[Seen]| judge(&acked, &of("/d", seen)).lost.is_empty();
        self.receiver.until("the healthy group goes on", APPLIED, all).await;
    }

    async fn names(&self) -> Vec<String> {
        let groups = self.pusher.admin_get("/v1/groups").await;
        groups["groups"].as_array().unwrap().iter().map(|g| g["group"].as_str().unwrap().to_owned()).collect()
    }

    async fn until_applied(&self, count: f64) {
        wait::until("the reload", APPLIED, || async { (self.reloads("applied").await >= count).then_some(()) }).await;
    }
}

fn of(target: &str, seen: &[Seen]) -> Vec<Seen> {
    seen.iter().filter(|s| s.target == target).cloned().collect()
}

/// Of the group that hangs.
fn in_flight(seen: &[Seen]) -> usize {
    seen.iter().filter(|s| s.target == "/b" && s.ended().is_none()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_leaves_the_old_configuration_whole_and_says_what_is_wrong() {
    let (mut scene, _) = Scene::new().await;
    let file = scene.pusher.config_file();
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &good[..good.len() / 2]).unwrap();
    scene.assert_refused(&["mqgate.json"]).await;
    std::fs::remove_file(&file).unwrap();
    scene.assert_refused(&["cannot be read"]).await;
    let mut broken = scene.entries.plain(3);
    broken["url"] = json!("htp://nowhere");
    scene.write([scene.entries.a("new", "7s"), scene.entries.b(), broken]);
    scene.assert_refused(&["htp://nowhere"]).await;
    assert_eq!(scene.pusher.group("a").await["policy"]["timeout"], "5s", "not even the good half of it");
    assert!(of("/new", &scene.receiver.seen()).is_empty());
    assert_eq!(in_flight(&scene.receiver.seen()), 4, "what is in flight was not touched");
    scene.write([scene.entries.a("a", "5s"), scene.entries.b(), scene.entries.plain(3)]);
    scene.pusher.configure(|setup| drop(setup.pusher.insert("session_timeout".into(), json!("9s"))));
    scene.assert_refused(&["session_timeout", "restart"]).await;
    scene.pusher.configure(|setup| drop(setup.pusher.insert("session_timeout".into(), json!("6s"))));
    let applied = scene.reloads("applied").await;
    scene.pusher.reload();
    scene.until_applied(applied + 1.0).await;
    assert!(scene.pusher.runs());
}

/// Two within 50 ms, and the file replaced by a rename between them.
#[tokio::test(flavor = "multi_thread")]
async fn a_good_file_changes_a_failing_group_takes_one_away_and_adds_one_without_loss_or_repeat() {
    let (mut scene, [failing, hanging]) = Scene::new().await;
    let healthy = scene.post(3, 10).await;
    let early = scene.post(2, 10).await;
    scene.write([scene.entries.a("half", "6s"), scene.entries.b(), scene.entries.plain(3)]);
    scene.pusher.reload();
    let file = scene.pusher.config_file();
    let beside = file.with_extension("new");
    let old = std::fs::read(&file).unwrap();
    scene.write([scene.entries.a("good", "7s"), scene.entries.plain(2), scene.entries.plain(3)]);
    std::fs::rename(&file, &beside).unwrap();
    std::fs::write(&file, old).unwrap();
    tokio::time::sleep(30 * MS).await;
    std::fs::rename(&beside, &file).unwrap();
    scene.pusher.reload();
    let asked = Instant::now();
    let good = |seen: &[Seen]| judge(&failing, &of("/good", seen)).lost.is_empty();
    scene.receiver.until("the failing records at their new address", APPLIED, good).await;
    eprintln!("a new address is in use {:?} after the reload", asked.elapsed());
    assert_eq!(scene.pusher.group("a").await["policy"]["timeout"], "7s");
    assert_eq!(scene.names().await, ["a", "c", "d"]);
    let added = |seen: &[Seen]| judge(&early, &of("/c", seen)).lost.is_empty();
    scene.receiver.until("the new group from its beginning", Duration::from_secs(10), added).await;
    // What was in flight for the one that is gone is not done, and its cursor is kept.
    scene.receiver.until("its attempts to end", Duration::from_secs(30), |seen| in_flight(seen) == 0).await;
    assert!(scene.cluster.cursors("b", &scene.entries.topics[1]).values().all(|cursor| *cursor == 0));
    scene.cluster.until_cursors_at_end("a", &scene.entries.topics[0], Duration::from_secs(5)).await;
    for (index, acked) in [(2, &early), (3, &healthy)] {
        let verdict = judge(acked, &of(&format!("/{}", GROUPS[index]), &scene.receiver.seen()));
        verdict.assert_nothing_lost_or_reordered();
        assert_eq!(verdict.repeats, 0, "{}", GROUPS[index]);
    }
    let moved = judge(&failing, &of("/good", &scene.receiver.seen()));
    moved.assert_nothing_lost_or_reordered();
    assert_eq!(moved.repeats, 0);
    // It comes back where it was.
    scene.receiver.script(|_| Answer::Status(200));
    scene.write([scene.entries.a("good", "7s"), scene.entries.b(), scene.entries.plain(2), scene.entries.plain(3)]);
    scene.pusher.reload();
    let all = |seen: &[Seen]| judge(&hanging, &of("/b", seen)).lost.is_empty();
    scene.receiver.until("the records of the group that came back", Duration::from_secs(10), all).await;
    assert!(scene.pusher.runs());
}

/// Its cursors lie under the hash of its URL: without a name it would begin anew.
#[tokio::test(flavor = "multi_thread")]
async fn another_url_of_a_group_without_a_name_is_refused_with_the_line_that_keeps_its_cursors() {
    let cluster = Cluster::shared().await;
    let topic = cluster.topic("unnamed", 1).await;
    let receiver = Receiver::ok().await;
    let proxy = cluster.proxy().start().await;
    let entry = |path: &str| json!({"url": format!("http://{}/{path}", receiver.addr), "topics": [topic], "initial_from_oldest": true});
    let mut pusher = cluster.pusher("p", [entry("old")]).start().await;
    let producer = Producer::new(proxy.api, &topic);
    producer.plain(Some("k"), &[], "first".into()).await.unwrap();
    receiver.until_done(1, Duration::from_secs(10)).await;
    let name = pusher.admin_get("/v1/groups").await["groups"][0]["group"].as_str().unwrap().to_owned();
    cluster.until_cursors_at_end(&name, &topic, Duration::from_secs(5)).await;
    pusher.configure(|setup| setup.groups = vec![entry("new")]);
    pusher.reload();
    let line = format!("\"group\": \"{name}\"");
    let said = |entry: &Value| entry["level"] == "ERROR" && entry["message"].as_str().is_some_and(|text| text.contains(&line));
    wait::until(&format!("the line {line}"), APPLIED, || async { pusher.log_lines().iter().any(said).then_some(()) }).await;
    producer.plain(Some("k"), &[], "second".into()).await.unwrap();
    receiver.until_done(2, Duration::from_secs(5)).await;
    // With that line it is the same group at its new address.
    let mut kept = entry("new");
    kept["group"] = json!(name);
    pusher.configure(|setup| setup.groups = vec![kept]);
    pusher.reload();
    pusher.until_metric("mqgate_config_reloads_total", &[("outcome", "applied")], 1.0, APPLIED).await;
    producer.plain(Some("k"), &[], "third".into()).await.unwrap();
    let seen = receiver.until_done(3, Duration::from_secs(10)).await;
    let got: Vec<(&str, &str)> = seen.iter().map(|s| (&*s.target, s.text())).collect();
    assert_eq!(got, [("/old", "first"), ("/old", "second"), ("/new", "third")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_moves_nothing_between_pushers() {
    let cluster = Cluster::shared().await;
    let topic = cluster.topic("calm", 6).await;
    let receiver = Receiver::ok().await;
    let proxy = cluster.proxy().start().await;
    let entry = |timeout: &str| group("g", &topic, &receiver.url(), &json!({"timeout": timeout, "commit_interval": "100ms"}));
    let mut pushers = Vec::new();
    for instance in ["a", "b"] {
        pushers.push(cluster.pusher(instance, [entry("2s")]).start().await);
    }
    let even = || async {
        let owners = cluster.owners("g", &topic);
        (owners.values().filter(|owner| *owner == "a").count() == 3 && owners.len() == 6).then_some(owners)
    };
    let before = wait::until("both to have their share", TAKEN_OVER, even).await;
    let load = integration_tests::load::Load::start(Producer::new(proxy.api, &topic), 50, 60);
    receiver.until_count(50, Duration::from_secs(10)).await;
    for pusher in &mut pushers {
        pusher.configure(|setup| setup.groups = vec![entry("3s")]);
        pusher.signal(Signal::HUP);
        pusher.until_metric("mqgate_config_reloads_total", &[("outcome", "applied")], 1.0, APPLIED).await;
    }
    let count = receiver.count();
    receiver.until_count(count + 100, Duration::from_secs(10)).await;
    let acked = load.stop().await;
    let seen = receiver.until("all of it", Duration::from_secs(10), |seen| judge(&acked, seen).lost.is_empty()).await;
    let verdict = judge(&acked, &seen);
    verdict.assert_nothing_lost_or_reordered();
    assert_eq!(verdict.repeats, 0);
    assert_eq!(cluster.owners("g", &topic), before);
}
