//! What operators do meanwhile.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::faults::{Came, Deed, Journal, Kind};
use super::lane::Lane;
use super::orders::{Moved, Pause, Replay};
use super::verdict::READ_WITHIN;
use super::world::{CHURN, GROUPS, GROWING, GROWN_TO};
use crate::kafka::trio::Trio;

/// Further back than any group may lag: what is moved forwards is skipped on purpose.
pub(super) const REPLAYED: Duration = Duration::from_secs(60);

/// Longer than a pusher is frozen: once given up, nothing is to be done when it thaws.
const PATIENCE: Duration = Duration::from_secs(18);
/// Of pushers, one after the other.
const TRIES: usize = 10;
/// A group must not stay paused.
const RESUME_TRIES: usize = 60;
const TRY_AGAIN: Duration = Duration::from_millis(500);

pub(super) async fn run(mut lane: Lane, trio: &Mutex<Trio>, admins: &[SocketAddr], partitions: &mut usize) {
    let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
    while lane.next().await {
        let deed = lane.one_of(&[Deed::GrowTopic, Deed::RecreateTopic, Deed::Replay, Deed::Pause]);
        if deed == Deed::GrowTopic && *partitions == GROWN_TO {
            continue;
        }
        let (journal, group) = (lane.journal.clone(), lane.one_of(&GROUPS));
        let order = Order { http: &http, admins, first: lane.below(admins.len()), group };
        let whom = if matches!(deed, Deed::Replay | Deed::Pause) { group } else { "" };
        let mut open = journal.begin(Kind::Operator, deed, whom);
        open.came(match deed {
            Deed::GrowTopic => grow(trio, partitions).await,
            Deed::RecreateTopic => recreate(&mut lane, trio).await,
            Deed::Replay => order.replay(&journal).await,
            _ => order.pause(&mut lane).await,
        });
    }
}

async fn grow(trio: &Mutex<Trio>, partitions: &mut usize) -> Came {
    if !trio.lock().await.grow_topic(GROWING, *partitions + 1).await {
        return Came::Refused;
    }
    *partitions += 1;
    Came::Done
}

async fn recreate(lane: &mut Lane, trio: &Mutex<Trio>) -> Came {
    let deleted = trio.lock().await.delete_topic(CHURN).await;
    lane.hold(0.0, 4.0).await;
    // Deleting goes on in the background, and may have been done although the answer was lost.
    for _ in 0..if deleted { 60 } else { 1 } {
        if trio.lock().await.try_create_topic(CHURN, 2).await {
            return Came::Done;
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
    assert!(!deleted, "{CHURN} could not be created again");
    Came::Refused
}

enum Reply {
    Done(Value),
    Refused,
    Unknown,
}

/// To the fleet, for one group. Whatever is asked for may be asked for twice.
struct Order<'a> {
    http: &'a reqwest::Client,
    admins: &'a [SocketAddr],
    /// Whom to ask first.
    first: usize,
    group: &'static str,
}

impl Order<'_> {
    async fn replay(&self, journal: &Journal) -> Came {
        let (asked, since) = (Instant::now(), SystemTime::now() - REPLAYED);
        // The id makes it one replay, whoever is asked for it.
        let id = since.duration_since(UNIX_EPOCH).expect("it is after 1970").as_nanos().to_string();
        let body = json!({"from": humantime::format_rfc3339_millis(since).to_string(), "id": id});
        let (moved, came) = match self.ask("replay", &body, TRIES).await {
            Reply::Refused => return Came::Refused,
            // Where to is what the answer said that was lost.
            Reply::Done(answer) if answer["repeated"] == true => (None, Came::Done),
            Reply::Done(answer) => (Some(moved(&answer)), Came::Done),
            Reply::Unknown => (None, Came::Unknown),
        };
        journal.replayed(Replay { group: self.group, asked, answered: Instant::now(), moved });
        came
    }

    /// Long enough to see whether it is obeyed, or so short that owners may not even notice.
    async fn pause(&self, lane: &mut Lane) -> Came {
        let came = match self.ask("pause", &json!({}), TRIES).await {
            Reply::Refused => return Came::Refused,
            Reply::Done(_) => Came::Done,
            Reply::Unknown => Came::Unknown,
        };
        let (answered, long) = (Instant::now(), READ_WITHIN.as_secs_f64());
        let (least, most) = lane.one_of(&[(0.5, 4.0), (long + 2.0, long + 5.0)]);
        lane.hold(least, most).await;
        if came == Came::Done {
            lane.journal.paused(Pause { group: self.group, answered, resumed: Instant::now() });
        }
        match self.ask("resume", &json!({}), RESUME_TRIES).await {
            Reply::Done(_) => came,
            Reply::Refused | Reply::Unknown => Came::Unknown,
        }
    }

    /// One pusher after the other, since some are down, until one says that it is done.
    async fn ask(&self, what: &str, body: &Value, tries: usize) -> Reply {
        let mut none = Reply::Refused;
        for admin in self.admins.iter().cycle().skip(self.first).take(tries) {
            let url = format!("http://{admin}/v1/groups/{}/{what}", self.group);
            match reply(self.http.post(url).json(body).send().await).await {
                Reply::Done(answer) => return Reply::Done(answer),
                Reply::Unknown => none = Reply::Unknown,
                Reply::Refused => {}
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
        none
    }
}

/// Refused is what nobody took, and what the answer says was not done.
async fn reply(answer: reqwest::Result<reqwest::Response>) -> Reply {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if error.is_connect() => return Reply::Refused,
        Err(_) => return Reply::Unknown,
    };
    let status = answer.status();
    let Ok(text) = answer.text().await else { return Reply::Unknown };
    match status {
        status if status.is_success() => serde_json::from_str(&text).map_or(Reply::Unknown, Reply::Done),
        status if status.is_client_error() || text.contains("nothing was moved") => Reply::Refused,
        _ => Reply::Unknown,
    }
}

fn moved(answer: &Value) -> Vec<Moved> {
    let one = |moved: &Value| {
        let partition = u32::try_from(moved["partition"].as_u64()?).ok()?;
        Some(Moved { topic: moved["topic"].as_str()?.to_owned(), partition, old: moved["old"].as_u64(), new: moved["new"].as_u64()? })
    };
    let partitions = answer["partitions"].as_array().unwrap_or_else(|| panic!("a replay was answered {answer}"));
    partitions.iter().map(|moved| one(moved).unwrap_or_else(|| panic!("a replay was answered {answer}"))).collect()
}
