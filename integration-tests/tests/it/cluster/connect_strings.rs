//! Every way to write where `ZooKeeper` is (C63), and the name under which a pusher stands there.

use std::process::Command;

use integration_tests::cluster::{SESSION, TAKEN_OVER, fresh};
use integration_tests::gateway::{Role, Setup};
use integration_tests::{binary, ports};
use serde_json::json;

use super::*;

/// A pusher that is told by flags alone where `ZooKeeper` is.
fn pusher(cluster: &Cluster, group: &Value, zookeepers: &str) -> Setup {
    let text = json!({"consumer_groups": [group]}).to_string();
    Setup::file(Role::Pusher, text).flags(&["--brokers", &cluster.kafka.brokers(), "--zookeepers", zookeepers])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_harmless_form_leads_to_its_chroot_which_is_made_and_nothing_is_written_outside() {
    let cluster = Cluster::shared().await.at_the_root();
    let (here, nobody) = (cluster.zookeeper(), ports::free());
    let (topic, receiver) = (cluster.topic("forms", 1).await, Receiver::ok().await);
    cluster.produce(&topic, &[(Some("k"), Some("v"))]).await;
    let forms = [
        (format!("{here}/A/b"), "/A/b"),
        (format!("{here},{nobody}/A"), "/A"),
        (format!("{nobody},{here}/A"), "/A"),
        (format!("{here}//A"), "/A"),
        (format!("{here}/A/"), "/A"),
        (format!("{here}, {nobody}/A"), "/A"),
        (format!("{here},/A"), "/A"),
        (format!("{here}/"), ""),
        (here.to_string(), ""),
    ];
    for (form, chroot) in forms {
        // A chroot and a group that nobody else has.
        let top = fresh("form");
        let (form, chroot) = (form.replace("/A", &format!("/{top}")), chroot.replace("/A", &format!("/{top}")));
        let name = fresh("g");
        let mut pusher = pusher(&cluster, &group(&name, &topic, &receiver.url(), &json!({"commit_interval": "50ms"})), &form).start().await;
        let path = format!("{chroot}/consumers/{name}/offsets/{topic}/0");
        let stored = async || (cluster.tool().get(&path)? == "1").then_some(());
        wait::until(&format!("{form}: the cursor at {path}"), Duration::from_secs(10), stored).await;
        pusher.terminate(Duration::from_secs(10)).await;
        if !chroot.is_empty() {
            let mut inside = cluster.tool().children(&chroot);
            inside.sort();
            assert_eq!(inside, ["consumers", "mqgate"], "{form}");
            assert!(!cluster.tool().children("/consumers").contains(&name), "{form}: outside of its chroot");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_port_is_2181_and_an_ipv6_address_stands_in_brackets() {
    let cluster = Cluster::shared().await;
    let port = ports::free().port();
    for (form, expected) in [("localhost/a".to_owned(), "localhost:2181"), (format!("[::1]:{port}/a"), &*format!("[::1]:{port}"))] {
        let pusher = pusher(&cluster, &group("g", "t", "http://127.0.0.1:9/", &json!({})), &form).spawn();
        pusher.until_missing(expected, Duration::from_secs(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_after_each_server_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mqgate.json");
    std::fs::write(&file, "{}").unwrap();
    let forms =
        [("z1:2181/a,z2:2181/a", "one path for all"), ("z1:2181/a/../b", "/a/../b"), ("", "no server"), ("z1:x", "z1:x"), ("::1", "::1")];
    for (form, why) in forms {
        let mut command = Command::new(binary::mqgate());
        let output = command.args(["pusher", "-c"]).arg(&file).args(["--zookeepers", form]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{form}: {said}");
        assert!(said.contains("--zookeepers") && said.contains(why), "{form}: {said}");
    }
}

/// Its node still stands after `kill -9`, and is waited for; another process's is not taken.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_name_that_another_process_has_ends_the_second_with_exit_code_2() {
    let scene = Scene::new(Cluster::shared().await, 2, Receiver::ok().await, json!({})).await;
    let mut first = scene.pusher("twin").await;
    scene.until_owned(2, &["twin"], TAKEN_OVER).await;
    let mut second = scene.cluster.pusher("twin", [scene.group()]).spawn();
    let started = Instant::now();
    let status = second.exit(SESSION + Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(2), "{}", second.log());
    assert!(second.log().contains("twin"), "{}", second.log());
    assert!(started.elapsed() > SESSION, "not before a dead one's node would have gone");
    let acked = scene.post(20).await;
    scene.settle(&acked, Duration::from_secs(10)).await.assert_nothing_lost_or_reordered();
    first.kill();
    first.restart().await;
    scene.until_owned(2, &["twin"], TAKEN_OVER).await;
    let acked = scene.post(20).await;
    scene.settle(&acked, Duration::from_secs(10)).await.assert_nothing_lost_or_reordered();
    assert_eq!(scene.receiver.count(), 40);
}
