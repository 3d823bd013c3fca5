use serde_json::json;

use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, group};

#[tokio::test(flavor = "multi_thread")]
async fn a_group_shows_what_holds_it_up() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Status(503)).await);
    let running = rig.start(&[group("g", receiver.address, &["t", "not there yet".replace(' ', "-").as_str()])]).await;
    running.queue_topic("t", 1).await;
    for _ in 0..3 {
        running.post("t", Some("k"), "x").await;
    }
    receiver.wait_for(2).await;
    running.wait_until("g", |partition| partition["live"]["oldest_unfinished"]["last_error"].is_object()).await;
    let (_, detail) = running.get("/groups/g").await;
    let partition = &detail["partitions"][0];
    assert_eq!((&detail["state"], &detail["policy"]["worker_num"]), (&json!("running"), &json!(16)));
    for (field, value) in [("owner", json!("me")), ("owner_admin", json!(null)), ("cursor", json!(0)), ("end", json!(3)), ("lag", json!(3))]
    {
        assert_eq!(partition[field], value, "{field}: {detail:#}");
    }
    let oldest = &partition["live"]["oldest_unfinished"];
    assert_eq!((&oldest["offset"], &oldest["last_error"]["status"]), (&json!(0), &json!(503)));
    let (_, list) = running.get("/groups").await;
    assert_eq!(
        (&list["groups"][0]["partitions"], &list["groups"][0]["owned"], &list["groups"][0]["lag"]),
        (&json!(1), &json!(1), &json!(3))
    );
    assert_eq!(running.get("/groups/other").await.1["code"], "unknown_group");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_made_listed_and_deleted() {
    let rig = Rig::new();
    let running = rig.start(&[]).await;
    let put = async |topic: &str, partitions: u32| {
        running.request("PUT", &format!("/topics/{topic}"), Some(json!({"partitions": partitions}))).await
    };
    let (status, made) = put("orders", 2).await;
    assert_eq!(
        (status, &made["partitions"]),
        (201, &json!([{"partition": 0, "first": 0, "end": 0}, {"partition": 1, "first": 0, "end": 0}]))
    );
    assert_eq!(put("orders", 2).await.0, 200, "the same again is no fault");
    assert_eq!(put("orders", 3).await.1["code"], "exists");
    assert_eq!(put("orders", 0).await.0, 409);
    assert_eq!(put("other", 0).await.1["code"], "malformed");
    assert_eq!(put("a%20b", 1).await.1["code"], "illegal_topic");
    let (_, misspelt) = running.request("PUT", "/topics/x", Some(json!({"partitons": 1}))).await;
    assert_eq!(misspelt["status"], 400);
    assert_eq!(running.get("/topics").await.1["topics"].as_array().unwrap().len(), 1);
    assert_eq!(running.request("DELETE", "/topics/orders", None).await.0, 204);
    assert_eq!(running.request("DELETE", "/topics/orders", None).await.1["code"], "unknown_topic");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_messages_can_be_looked_at() {
    let rig = Rig::new();
    let running = rig.start(&[]).await;
    running.queue_topic("t", 1).await;
    for number in 0..5 {
        running.post("t", Some("k"), &number.to_string()).await;
    }
    let values = |answer: &serde_json::Value| -> Vec<_> {
        answer["messages"].as_array().unwrap().iter().map(|message| message["value"].as_str().unwrap().to_owned()).collect()
    };
    let (_, newest) = running.get("/topics/t/messages?limit=2").await;
    assert_eq!((values(&newest), &newest["first"], &newest["end"]), (vec!["3".into(), "4".into()], &json!(0), &json!(5)));
    let (_, page) = running.get("/topics/t/messages?partition=0&offset=1&limit=2").await;
    assert_eq!((values(&page), &page["next_offset"]), (vec!["1".into(), "2".into()], &json!(3)));
    let (_, end) = running.get("/topics/t/messages?offset=5").await;
    assert_eq!(values(&end).len(), 0);
    for (query, code) in [
        ("offset=6", "malformed"),
        ("limit=101", "malformed"),
        ("limit=0", "malformed"),
        ("partition=1", "unknown_partition"),
        ("ofset=1", "malformed"),
    ] {
        assert_eq!(running.get(&format!("/topics/t/messages?{query}")).await.1["code"], code, "{query}");
    }
    assert_eq!(running.get("/topics/none/messages").await.1["code"], "unknown_topic");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_later_says_so() {
    let rig = Rig::new();
    let running = rig.start(&[]).await;
    let (status, problem) = running.get("/groups/g/failures").await;
    assert!(status == 404 && problem["detail"].as_str().unwrap().contains("later"), "{problem}");
    running.drain().await;
}
