//! One file, several Kafkas and several ensembles.

use integration_tests::cluster::fresh;
use integration_tests::gateway::{Role, Setup};
use integration_tests::kafka::{Kafka, Version};
use integration_tests::zookeeper::ZooKeeper;
use serde_json::json;

use super::*;

/// The same topic name in both, so that whoever reads the wrong one is found out.
#[tokio::test(flavor = "multi_thread")]
async fn groups_of_one_file_live_on_different_clusters_and_ensembles() {
    let mut far = ZooKeeper::start().await;
    let near = Cluster::shared().await.at_the_root();
    let four = Cluster::of(Kafka::shared(Version::Four).await, far.addr(0));
    let topic = near.topic("both", 2).await;
    four.kafka.create_topic(&topic, 2, &[]).await;
    let receiver = Receiver::ok().await;
    let [registered, listed, elsewhere] = ["registered", "listed", "elsewhere"].map(fresh);
    let of = |name: &str, more: Value| group(name, &topic, &format!("http://{}/{name}", receiver.addr), &more);
    let groups = [
        // Its ensemble's /brokers/ids.
        of(&registered, json!({"zookeepers": [near.zookeeper()]})),
        // The brokers of the whole file, and its ensemble.
        of(&listed, json!({})),
        of(&elsewhere, json!({"zookeepers": [far.addr(0)], "zk_path": four.zk_path(), "brokers": [near.kafka.brokers()]})),
    ];
    let setup = Setup { role: Role::Pusher, ..Setup::groups(groups) }.field("zookeepers", json!([near.zookeeper()]));
    let setup = setup.field("queue", json!({"kafka": {"brokers": [four.kafka.brokers()]}})).pusher("session_timeout", json!("6s"));
    let instance = fresh("many");
    let mut pusher = setup.pusher("instance", json!(instance)).start().await;
    let of_near = post(&near, &topic, "near").await;
    let of_four = post(&four, &topic, "four").await;
    let got = |name: &str, seen: &[Seen]| seen.iter().filter(|s| s.target == format!("/{name}")).cloned().collect::<Vec<_>>();
    for (name, acked, cursors) in [(&registered, &of_near, &near), (&listed, &of_four, &near), (&elsewhere, &of_near, &four)] {
        let seen = receiver.until(name, Duration::from_secs(20), |seen| got(name, seen).len() >= acked.len()).await;
        let verdict = judge(acked, &got(name, &seen));
        verdict.assert_nothing_lost_or_reordered();
        assert_eq!(verdict.repeats, 0);
        let end = |partition: u32| acked.iter().filter(|a| a.partition == partition).count() as u64;
        let ends = BTreeMap::from([(0, end(0)), (1, end(1))]);
        wait::until(&format!("the cursors of {name}"), Duration::from_secs(5), || async {
            (cursors.cursors(name, &topic) == ends).then_some(())
        })
        .await;
    }
    assert!(near.cursors(&elsewhere, &topic).is_empty() && four.cursors(&listed, &topic).is_empty(), "each in its own ensemble alone");
    for (cluster, named, not) in [(&near, [&registered, &listed].as_slice(), &elsewhere), (&four, &[&elsewhere], &listed)] {
        let member = cluster.tool().get(&cluster.path(&format!("/mqgate/fleet/{instance}"))).unwrap();
        assert!(named.iter().all(|name| member.contains(*name)) && !member.contains(not), "{member}");
    }
    // What one group stands on goes away; the others do not notice.
    far.kill(0);
    let more = post(&near, &topic, "more").await;
    let seen = receiver.until("more", Duration::from_secs(10), |seen| judge(&more, &got(&registered, seen)).lost.is_empty()).await;
    judge(&more, &got(&registered, &seen)).assert_nothing_lost_or_reordered();
    assert!(pusher.runs());
}

/// 40 messages by a proxy of that cluster.
async fn post(cluster: &Cluster, topic: &str, text: &str) -> Vec<Acked> {
    let proxy = cluster.proxy().start().await;
    let producer = Producer::new(proxy.api, topic);
    let mut acked = Vec::new();
    for n in 0..40 {
        acked.push(producer.plain(Some(&format!("k{n}")), &[], format!("{text}.{n}").into()).await.unwrap());
    }
    acked
}
