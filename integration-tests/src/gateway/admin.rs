//! What the admin port answers.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Gateway;
use crate::wait;

impl Gateway {
    pub(super) async fn is_ready(&self) -> bool {
        self.missing().await.is_some_and(|missing| missing.is_empty())
    }

    /// What `/readyz` says is missing, nothing with a 200; `None` if it does not answer in time.
    pub async fn missing(&self) -> Option<Vec<String>> {
        let request = self.http.get(format!("http://{}/readyz", self.admin)).timeout(Duration::from_secs(2));
        let answer = request.send().await.ok()?;
        let ready = answer.status() == StatusCode::OK;
        let missing: Vec<String> = serde_json::from_str(&answer.text().await.ok()?).unwrap();
        assert_eq!(ready, missing.is_empty(), "the status and the list say the same: {missing:?}");
        Some(missing)
    }

    /// Waits until `/readyz` names something that contains `what`.
    pub async fn until_missing(&self, what: &str, within: Duration) {
        wait::until(&format!("/readyz to miss {what}"), within, || async {
            let missing = self.missing().await?;
            missing.iter().any(|m| m.contains(what)).then_some(())
        })
        .await;
    }

    pub async fn admin_get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("http://{}{path}", self.admin)).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}: {text}"))
    }

    /// `None` while the answer is a refusal, as it is when the queue does not answer yet.
    pub async fn try_group(&self, name: &str) -> Option<Value> {
        let answer = self.http.get(format!("http://{}/v1/groups/{name}", self.admin)).send().await.unwrap();
        if answer.status().is_success() { answer.json().await.ok() } else { None }
    }

    pub async fn group(&self, name: &str) -> Value {
        self.admin_get(&format!("/v1/groups/{name}")).await
    }

    pub async fn create_topic(&self, topic: &str, partitions: u32) {
        let url = format!("http://{}/v1/topics/{topic}", self.admin);
        let answer = self.http.put(url).json(&json!({"partitions": partitions})).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    pub async fn delete_topic(&self, topic: &str) -> StatusCode {
        let request = self.http.delete(format!("http://{}/v1/topics/{topic}", self.admin));
        request.header("Content-Type", "application/json").send().await.unwrap().status()
    }

    pub async fn metrics(&self) -> String {
        self.http.get(format!("http://{}/metrics", self.admin)).send().await.unwrap().text().await.unwrap()
    }

    /// The sum of all series of that name that have all these labels.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.metrics().await;
        let has = |line: &str| labels.iter().all(|(k, v)| line.contains(&format!("{k}=\"{v}\"")));
        let series = text.lines().filter(|l| l.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && has(l));
        series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Waits until that sum is `value`.
    pub async fn until_metric(&self, name: &str, labels: &[(&str, &str)], value: f64, within: Duration) {
        wait::until_right(within, || async {
            let now = self.metric(name, labels).await;
            if now == value { Ok(()) } else { Err(format!("{name}{labels:?} is {now}, not {value}")) }
        })
        .await;
    }

    /// Waits until every partition of the group has its cursor at the end: lag 0.
    pub async fn until_caught_up(&self, group: &str, within: Duration) {
        wait::until_right(within, || async {
            let answer = self.group(group).await;
            let partitions = answer["partitions"].as_array().unwrap();
            let done = !partitions.is_empty() && partitions.iter().all(|p| p["lag"] == 0 && p["cursor"] == p["end"]);
            if done { Ok(()) } else { Err(format!("the lag of {group} is not 0: {}", answer["partitions"])) }
        })
        .await;
    }
}
