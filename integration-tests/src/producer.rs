//! A producer that speaks all three dialects and remembers what was acknowledged.

use std::net::SocketAddr;
use std::sync::{Arc, Once};

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::ledger::{Acked, hash};

/// rustls has no default provider unless told; done once per process.
pub fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| rustls::crypto::ring::default_provider().install_default().expect("nobody else installs one"));
}

#[derive(Clone)]
pub struct Producer {
    pub http: reqwest::Client,
    api: SocketAddr,
    topic: Arc<str>,
}

/// What came back when a message was not acknowledged.
#[derive(Debug)]
pub struct Refused {
    /// `None`: no answer at all.
    pub status: Option<u16>,
    pub body: String,
    pub retry_after: Option<String>,
}

impl Producer {
    pub fn new(api: SocketAddr, topic: &str) -> Self {
        install_tls_provider();
        Self { http: reqwest::Client::new(), api, topic: topic.into() }
    }

    fn url(&self, rest: &str) -> String {
        format!("http://{}/topics/{}{rest}", self.api, self.topic)
    }

    /// Dialect 1a.
    pub async fn plain(&self, key: Option<&str>, headers: &[(&str, &str)], body: Bytes) -> Result<Acked, Refused> {
        let digest = hash(&body);
        let mut request = self.http.post(self.url("")).body(body);
        if let Some(key) = key {
            request = request.header("X-Kmq-Partition-Key", key);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = answered(request.send().await).await?;
        Ok(self.acked(key, digest, &answer["partition"], &answer["offset"]))
    }

    /// Dialect 1b.
    pub async fn original(&self, key: &str, body: Bytes) -> Result<Acked, Refused> {
        let digest = hash(&body);
        let url = format!("http://{}/produce?format=json", self.api);
        let request = self.http.post(url).header("X-Kmq-Topic", &*self.topic).header("X-Kmq-Partition-Key", key).body(body);
        let answer = answered(request.send().await).await?;
        assert_eq!(answer["errno"], 0, "{answer}");
        let data = &answer["data"];
        assert_eq!(data["Topic"], *self.topic);
        Ok(self.acked(Some(key), digest, &data["Partition"], &data["Offset"]))
    }

    /// Dialect 1c, `results=all`, with `value_base64`; every line must be accepted.
    pub async fn batch(&self, messages: &[(String, Bytes)], headers: &Value) -> Vec<Acked> {
        let line = |(key, body): &(String, Bytes)| {
            let value = base64::engine::general_purpose::STANDARD.encode(body);
            json!({"key": key, "value_base64": value, "headers": headers}).to_string() + "\n"
        };
        let text: String = messages.iter().map(line).collect();
        let request = self.http.post(self.url("/batch?results=all")).header("Content-Type", "application/x-ndjson").body(text);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.unwrap();
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
        let (summary, results) = lines.split_last().expect("a batch answer ends with its summary");
        assert_eq!(summary["accepted"], messages.len(), "{summary}");
        assert_eq!(summary["status"], 200, "{summary}");
        let of =
            |((key, body), result): (&(String, Bytes), &Value)| self.acked(Some(key), hash(body), &result["partition"], &result["offset"]);
        messages.iter().zip(results).map(of).collect()
    }

    fn acked(&self, key: Option<&str>, digest: [u8; 16], partition: &Value, offset: &Value) -> Acked {
        Acked {
            topic: self.topic.to_string(),
            partition: u32::try_from(partition.as_u64().expect("an answer names the partition")).unwrap(),
            offset: offset.as_u64().expect("an answer names the offset"),
            key: key.map(str::to_owned),
            digest,
        }
    }
}

async fn answered(answer: reqwest::Result<reqwest::Response>) -> Result<Value, Refused> {
    let silent = |e: reqwest::Error| Refused { status: None, body: e.to_string(), retry_after: None };
    let answer = answer.map_err(silent)?;
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get("retry-after").and_then(|v| v.to_str().ok()).map(str::to_owned);
    let body = answer.text().await.map_err(silent)?;
    if status != 200 {
        return Err(Refused { status: Some(status), body, retry_after });
    }
    Ok(serde_json::from_str(&body).unwrap_or_else(|e| panic!("a 200 carries JSON: {e}: {body}")))
}
