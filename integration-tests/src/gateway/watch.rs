//! What lies in the log of a gateway.

use base64::Engine as _;
use serde_json::Value;

use super::Gateway;

/// A record as the admin port shows it.
#[derive(Debug, Clone)]
pub struct Stored {
    pub partition: u64,
    pub offset: u64,
    pub key: Option<String>,
    /// `None`: a tombstone.
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
}

impl Stored {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    fn read(partition: u64, shown: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let decoded = |value: &Value| base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap()).unwrap();
        let value = shown.get("value_base64").map_or_else(|| text(&shown["value"]).map(String::into_bytes), |v| Some(decoded(v)));
        let header = |h: &Value| (text(&h["name"]).unwrap(), text(&h["value"]).unwrap_or_default());
        let headers = shown["headers"].as_array().unwrap().iter().map(header).collect();
        Self { partition, offset: shown["offset"].as_u64().unwrap(), key: text(&shown["key"]), value, headers }
    }
}

impl Gateway {
    /// Bytes in the data folder.
    pub fn stored_bytes(&self) -> u64 {
        let mut folders = vec![self.data_dir()];
        let mut bytes = 0;
        while let Some(folder) = folders.pop() {
            // Files come and go while this looks at them.
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(found) if found.is_dir() => folders.push(entry.path()),
                    Ok(found) => bytes += std::os::unix::fs::MetadataExt::blocks(&found) * 512,
                    Err(_) => {}
                }
            }
        }
        bytes
    }

    /// First and end offset of each partition; empty where there is no such topic.
    pub async fn topic_bounds(&self, topic: &str) -> Vec<(u64, u64)> {
        let all = self.admin_get("/v1/topics").await;
        let found = all["topics"].as_array().unwrap().iter().find(|t| t["topic"] == topic).cloned();
        let bound = |p: &Value| (p["first"].as_u64().unwrap(), p["end"].as_u64().unwrap());
        found.map_or_else(Vec::new, |t| t["partitions"].as_array().unwrap().iter().map(bound).collect())
    }

    /// How many records were ever written to the topic.
    pub async fn written(&self, topic: &str) -> u64 {
        self.topic_bounds(topic).await.iter().map(|(_, end)| end).sum()
    }

    /// Everything that lies in the topic.
    pub async fn stored(&self, topic: &str) -> Vec<Stored> {
        let mut found = Vec::new();
        for (partition, (first, end)) in (0_u64..).zip(self.topic_bounds(topic).await) {
            let mut at = first;
            while at < end {
                let page = self.admin_get(&format!("/v1/topics/{topic}/messages?partition={partition}&offset={at}&limit=100")).await;
                found.extend(page["messages"].as_array().unwrap().iter().map(|m| Stored::read(partition, m)));
                at = page["next_offset"].as_u64().unwrap();
            }
        }
        found
    }
}
