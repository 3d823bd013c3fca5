//! What operators do meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::faults::{Deed, Kind};
use super::lane::Lane;
use super::world::{CHURN, GROUPS, GROWING, GROWN_TO};
use crate::kafka::trio::Trio;

/// Further back than any group may lag: what is moved forwards is skipped on purpose.
pub(super) const REPLAYED: Duration = Duration::from_secs(60);

pub(super) async fn run(mut lane: Lane, trio: &Mutex<Trio>, admins: &[std::net::SocketAddr], partitions: &mut usize) {
    let http = reqwest::Client::builder().timeout(Duration::from_secs(15)).build().unwrap();
    while lane.next().await {
        let deed = lane.one_of(&[Deed::GrowTopic, Deed::RecreateTopic, Deed::Replay, Deed::Pause]);
        if deed == Deed::GrowTopic && *partitions == GROWN_TO {
            continue;
        }
        let journal = lane.journal.clone();
        let group = lane.one_of(&GROUPS);
        let admin = lane.one_of(admins);
        let whom = if matches!(deed, Deed::Replay | Deed::Pause) { group } else { "" };
        let _open = journal.begin(Kind::Operator, deed, whom);
        match deed {
            Deed::GrowTopic if trio.lock().await.grow_topic(GROWING, *partitions + 1).await => *partitions += 1,
            Deed::GrowTopic => {}
            Deed::RecreateTopic => recreate(&mut lane, trio).await,
            Deed::Replay => {
                let since = std::time::SystemTime::now() - REPLAYED;
                post(
                    &http,
                    admin,
                    &format!("groups/{group}/replay"),
                    &json!({"from": humantime::format_rfc3339_millis(since).to_string()}),
                )
                .await;
            }
            _ => {
                post(&http, admin, &format!("groups/{group}/pause"), &json!({})).await;
                lane.hold(0.5, 4.0).await;
                // Whichever pusher is there: it must not stay paused.
                for admin in admins.iter().cycle().take(40) {
                    if post(&http, *admin, &format!("groups/{group}/resume"), &json!({})).await {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }
}

async fn recreate(lane: &mut Lane, trio: &Mutex<Trio>) {
    if !trio.lock().await.delete_topic(CHURN).await {
        return;
    }
    lane.hold(0.0, 4.0).await;
    // Deleting goes on in the background.
    for _ in 0..60 {
        if trio.lock().await.try_create_topic(CHURN, 2).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("{CHURN} could not be created again");
}

async fn post(http: &reqwest::Client, admin: std::net::SocketAddr, path: &str, body: &Value) -> bool {
    let sent = http.post(format!("http://{admin}/v1/{path}")).json(body).send().await;
    sent.is_ok_and(|answer| answer.status().is_success())
}
