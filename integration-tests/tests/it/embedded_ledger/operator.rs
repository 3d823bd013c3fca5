//! Replays and pauses, and what each of them promises from its answer on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::TOPIC;
use super::receivers::GROUPS;

/// How far back a partition is moved, at most.
const REPLAYED: u64 = 60;

/// Cursors of a group, moved back.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) group: &'static str,
    pub(super) targets: BTreeMap<u32, u64>,
    pub(super) asked: Instant,
    /// From then on all of it must be delivered again, whatever crashes.
    pub(super) answered: Option<Instant>,
}

/// A life that began while its group was paused: from the end of the one before to the resume no attempt may begin.
#[derive(Debug)]
pub(super) struct Pause {
    pub(super) group: &'static str,
    pub(super) from: Instant,
    pub(super) to: Instant,
}

#[derive(Debug)]
pub(super) struct Operator {
    http: reqwest::Client,
    admin: SocketAddr,
    pub(super) replays: Vec<Replay>,
    pub(super) pauses: Vec<Pause>,
    paused: Option<&'static str>,
}

impl Operator {
    pub(super) fn new(admin: SocketAddr) -> Self {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(5)).build().unwrap();
        Self { http, admin, replays: Vec::new(), pauses: Vec::new(), paused: None }
    }

    /// Some way back in every partition. What retention takes meanwhile can make it be refused.
    pub(super) async fn replay(&mut self, random: &mut StdRng) {
        let group = GROUPS[random.random_range(0..GROUPS.len())];
        let Some(now) = self.ask(reqwest::Method::GET, &format!("groups/{group}"), None).await else { return };
        let Some(topics) = self.ask(reqwest::Method::GET, "topics", None).await else { return };
        let mut targets = BTreeMap::new();
        for (partition, log) in (0_u32..).zip(topics["topics"][0]["partitions"].as_array().unwrap()) {
            let cursor = now["partitions"][partition as usize]["cursor"].as_u64().unwrap_or(0);
            let to = cursor.saturating_sub(random.random_range(0..REPLAYED)).max(log["first"].as_u64().unwrap());
            targets.insert(partition, to);
        }
        let asked = Instant::now();
        let body = json!({"offsets": {TOPIC: targets}});
        let answer = self.ask(reqwest::Method::POST, &format!("groups/{group}/replay"), Some(body)).await;
        self.replays.push(Replay { group, targets, asked, answered: answer.map(|_| Instant::now()) });
    }

    pub(super) async fn pause(&mut self, random: &mut StdRng) {
        let group = GROUPS[random.random_range(0..GROUPS.len())];
        if self.ask(reqwest::Method::POST, &format!("groups/{group}/pause"), Some(json!({}))).await.is_some() {
            self.paused = Some(group);
        }
    }

    pub(super) async fn resume(&mut self, from: Instant) {
        if let Some(group) = self.paused.take() {
            self.pauses.push(Pause { group, from, to: Instant::now() });
            let resumed = self.ask(reqwest::Method::POST, &format!("groups/{group}/resume"), Some(json!({}))).await;
            resumed.expect("a ready process takes a resume");
        }
    }

    async fn ask(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> Option<Value> {
        let request = self.http.request(method, format!("http://{}/v1/{path}", self.admin));
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await.ok().filter(|answer| answer.status().is_success())?;
        answer.json().await.ok()
    }
}
