use crate::receiver::{Answer, Receiver};
use crate::rig::{Rig, group};

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_tells_lag_and_ends_as_of_now_and_forgets_lost_partitions() {
    let (rig, receiver) = (Rig::new(), Receiver::answering(|_| Answer::Hang).await);
    let running = rig.start(&[group("g", receiver.address, &["t"])]).await;
    running.queue_topic("t", 1).await;
    for _ in 0..3 {
        running.post("t", Some("k"), "x").await;
    }
    receiver.wait_for(1).await;
    let scraped = running.scrape().await;
    for line in [
        r#"mqgate_lag_records{group="g",topic="t",partition="0"} 3"#,
        r#"mqgate_end_offset{group="g",topic="t",partition="0"} 3"#,
        r#"mqgate_owned_partitions{group="g"} 1"#,
        r#"mqgate_cursor_offset{group="g",topic="t",partition="0"} 0"#,
    ] {
        assert!(scraped.lines().any(|scraped| scraped == line), "{line} is not in\n{scraped}");
    }
    let mut families: Vec<_> = scraped.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all, "a family is there twice:\n{scraped}");
    receiver.script(|_| Answer::Status(200));
    running.request("DELETE", "/topics/t", None).await;
    let lost = async {
        while running.scrape().await.contains("partition=\"0\"") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), lost).await.unwrap();
    running.drain().await;
}
