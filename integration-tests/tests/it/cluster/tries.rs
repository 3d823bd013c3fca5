//! A record that fails while its partition goes from one pusher to another.

use integration_tests::cluster::fresh;
use integration_tests::ledger::BROKEN;
use integration_tests::receiver::Answer;
use rdkafka::message::{Headers, Message};
use serde_json::json;

use super::*;

const RETRY_TIMES: u64 = 13;
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
/// From an attempt's end until a commit with it is stored, on a busy machine.
const SLOWEST_COMMIT: Duration = Duration::from_millis(1_400);
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    Terminate,
}

/// At the first record.
fn attempts(seen: &[Seen]) -> Vec<&Seen> {
    seen.iter().filter(|seen| seen.offset() == 0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_record_gets_to_the_dead_letters_in_one_round_however_often_its_partition_moves() {
    let cluster = Cluster::shared().await;
    let letters = cluster.topic("letters", 1).await;
    let receiver = Receiver::start(|seen| Answer::Status(if seen.offset() == 0 { 500 } else { 200 })).await;
    let policy = json!({"bypass_failed": true, "retry_times": RETRY_TIMES, "retry_backoff": {"initial": "1s", "max": "1s"},
        "dead_letter_topic": letters, "commit_interval": "100ms"});
    let scene = Scene::new(cluster, 1, receiver, policy).await;
    let names = ["a", "b"].map(fresh);
    let start = |name: &str| scene.cluster.pusher(name, [scene.group()]).pusher("session_timeout", json!("3s")).start();
    let mut pushers = [start(&names[0]).await, start(&names[1]).await];
    let acked = scene.post_of_one_key(20).await;
    let mut killed = Vec::new();
    for end in [End::Kill, End::Terminate, End::Kill] {
        let before = scene.receiver.look(|seen| attempts(seen).len());
        scene.receiver.until("three more attempts", PATIENCE, |seen| attempts(seen).len() >= before + 3).await;
        let owner = scene.owner(&names).await;
        match end {
            End::Kill => {
                pushers[owner].kill();
                killed.push(Instant::now());
            }
            End::Terminate => {
                assert_eq!(pushers[owner].terminate(PATIENCE).await.code(), Some(0), "{}", pushers[owner].log());
            }
        }
        pushers[owner].spawn();
    }
    scene.settle(&acked[1..], 2 * PATIENCE).await.assert_nothing_lost_or_reordered();
    assert_one_round(&scene.receiver.seen(), &killed);
    assert_eq!(scene.cluster.ends(&letters).await[&0], 1, "one letter");
    assert_eq!(attempts_of_letter(&scene.cluster, &letters).await, (RETRY_TIMES + 1).to_string());
}

impl Scene {
    async fn post_of_one_key(&self, n: usize) -> Vec<Acked> {
        let producer = self.producer();
        let mut acked = Vec::new();
        for n in 0..n {
            acked.push(producer.plain(Some("k"), &[], n.to_string().into()).await.unwrap());
        }
        acked
    }

    /// Which of these owns the one partition.
    async fn owner(&self, names: &[String]) -> usize {
        wait::until("an owner", PATIENCE, || async {
            let owners = self.cluster.owners("g", &self.topic);
            names.iter().position(|name| owners.get(&0) == Some(name))
        })
        .await
    }
}

/// What a killed owner had no time to store is all that is made again.
fn assert_one_round(seen: &[Seen], killed: &[Instant]) {
    let attempts = attempts(seen);
    let unstored = |kill: &Instant| {
        let since = *kill - (COMMIT_INTERVAL + SLOWEST_COMMIT);
        attempts.iter().filter(|seen| (since..=*kill).contains(&seen.at)).count()
    };
    let again: usize = killed.iter().map(unstored).sum();
    let (made, round) = (attempts.len(), usize::try_from(RETRY_TIMES).unwrap() + 1);
    eprintln!("{made} attempts of {round}; {again} may be made again");
    assert!(made >= round, "{BROKEN}: given up after {made} attempts");
    assert!(made <= round + again, "{made} attempts: a round was begun anew");
    let moves: Vec<_> = attempts.windows(2).filter(|pair| pair[0].epoch() != pair[1].epoch()).collect();
    assert!(moves.len() >= 3, "it moved {} times", moves.len());
    let in_peace = |pair: &&&[&Seen]| !killed.iter().any(|kill| (pair[0].at..=pair[1].at).contains(kill));
    for pair in moves.iter().filter(in_peace) {
        assert_eq!(pair[1].attempt(), pair[0].attempt() + 1, "who lets go stores what it has tried");
    }
}

/// As the one letter says.
async fn attempts_of_letter(cluster: &Cluster, letters: &str) -> String {
    let letter = cluster.kafka.first_record(letters, PATIENCE).await;
    let headers = letter.headers().unwrap();
    let attempts = headers.iter().find(|header| header.key == "mqgate-dlq-attempts").and_then(|header| header.value);
    String::from_utf8(attempts.unwrap().to_vec()).unwrap()
}
