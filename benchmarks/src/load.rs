//! Requests to a server, written beforehand, over plain connections: a generator that costs little beside what it measures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::{Buf, Bytes, BytesMut};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::keys::{Labels, Spread};
use crate::message::{Label, SIZE_BYTES, key_name};

/// One connection to a server of HTTP/1.1.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
    /// The last answer that was none of 200, with its head.
    refusal: String,
}

impl Connection {
    pub(crate) async fn open(server: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).await.context("connecting")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: BytesMut::with_capacity(4 << 10), refusal: String::new() })
    }

    /// The answer's status, once its body is read.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.stream.write_all(request).await?;
        loop {
            if let Some((status, length)) = whole_answer(&self.buffer)? {
                if status != 200 {
                    self.refusal = String::from_utf8_lossy(&self.buffer[..length]).into_owned();
                }
                self.buffer.advance(length);
                return Ok(status);
            }
            anyhow::ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server closed the connection");
        }
    }
}

/// Status and length of the answer at the beginning, if all of it is there.
fn whole_answer(bytes: &[u8]) -> anyhow::Result<Option<(u16, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut answer = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = answer.parse(bytes)? else { return Ok(None) };
    let header = |name: &str| answer.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value);
    let body = match (header("content-length"), header("transfer-encoding")) {
        (Some(length), None) => Some(std::str::from_utf8(length)?.parse::<usize>()?).filter(|length| bytes.len() - head >= *length),
        (None, Some(b"chunked")) => chunks(&bytes[head..])?,
        _ => anyhow::bail!("an answer of unknown length"),
    };
    let code = answer.code.context("a status")?;
    Ok(body.map(|body| (code, head + body)))
}

/// The length of all chunks at the beginning with what frames them, if the last one is there; without trailers.
fn chunks(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let mut at = 0;
    loop {
        let httparse::Status::Complete((line, size)) =
            httparse::parse_chunk_size(&bytes[at..]).map_err(|_| anyhow::anyhow!("a bad chunk"))?
        else {
            return Ok(None);
        };
        at += line + usize::try_from(size)? + "\r\n".len();
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

/// How a message is POSTed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Ours,
    /// As Kafka's REST Proxy takes JSON, version 2.
    RestProxy,
}

/// What is POSTed where.
pub(crate) struct Target {
    pub(crate) server: SocketAddr,
    pub(crate) topic: String,
    pub(crate) dialect: Dialect,
}

impl Target {
    /// POSTs one message.
    pub(crate) fn single(&self, label: Label, size_bytes: usize) -> Bytes {
        if self.dialect == Dialect::RestProxy {
            return self.records(std::iter::once(label), size_bytes);
        }
        let (topic, key) = (&self.topic, key_name(label.key));
        let head = format!(
            "POST /topics/{topic} HTTP/1.1\r\nhost: {}\r\nx-kmq-partition-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {size_bytes}\r\n\r\n",
            self.server
        );
        [head.as_bytes(), &label.body(size_bytes)].concat().into()
    }

    /// POSTs many, each with its key.
    pub(crate) fn batch(&self, labels: impl Iterator<Item = Label>, size_bytes: usize) -> Bytes {
        let mut lines = Vec::new();
        for label in labels {
            lines.extend_from_slice(format!("{{\"key\":\"{}\",\"value\":", key_name(label.key)).as_bytes());
            lines.extend_from_slice(&label.body(size_bytes));
            lines.extend_from_slice(b"}\n");
        }
        self.many("batch", &lines)
    }

    /// POSTs many without keys, each line a value.
    pub(crate) fn raw_batch(&self, labels: impl Iterator<Item = Label>, size_bytes: usize) -> Bytes {
        if self.dialect == Dialect::RestProxy {
            return self.records(labels, size_bytes);
        }
        let lines: Vec<u8> = labels.flat_map(|label| [&label.body(size_bytes)[..], b"\n"].concat()).collect();
        self.many("batch?raw", &lines)
    }

    fn many(&self, route: &str, lines: &[u8]) -> Bytes {
        self.post(&format!("{}/{route}", self.topic), "application/x-ndjson", lines)
    }

    fn records(&self, labels: impl Iterator<Item = Label>, size_bytes: usize) -> Bytes {
        let mut body = b"{\"records\":[".to_vec();
        for label in labels {
            let comma = if body.ends_with(b"[") { "" } else { "," };
            body.extend_from_slice(format!("{comma}{{\"key\":\"{}\",\"value\":", key_name(label.key)).as_bytes());
            body.extend_from_slice(&label.body(size_bytes));
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        self.post(&self.topic, "application/vnd.kafka.json.v2+json", &body)
    }

    fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Bytes {
        let (server, length) = (self.server, body.len());
        let head =
            format!("POST /topics/{path} HTTP/1.1\r\nhost: {server}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat().into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connecting {
    Once,
    /// As programs do that live for one request.
    ForEachRequest,
}

/// So many connections that each send the next request when the last one is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    pub(crate) connections: u32,
    pub(crate) connecting: Connecting,
    pub(crate) spread: Spread,
    /// In each request; 1 is a request of the single kind.
    pub(crate) records: u32,
    pub(crate) duration: Duration,
}

/// What came of it.
pub(crate) struct Answered {
    pub(crate) records: u64,
    pub(crate) refused: u64,
    pub(crate) span: Duration,
    pub(crate) latency_us: Histogram<u64>,
}

impl Answered {
    pub(crate) fn per_second(&self) -> f64 {
        self.records as f64 / self.span.as_secs_f64()
    }
}

impl Pattern {
    /// Of one connection: enough that no key is sent much more often than another, few enough to be written beforehand.
    fn requests(&self, target: &Target, connection: u32) -> Vec<Bytes> {
        let skipped = connection as usize * 997;
        let mut labels = Labels::new(self.spread, 10_000).skip(skipped);
        match self.records {
            1 => labels.take(200).map(|label| target.single(label, SIZE_BYTES)).collect(),
            records => (0..20).map(|_| target.raw_batch(labels.by_ref().take(records as usize), SIZE_BYTES)).collect(),
        }
    }

    pub(crate) async fn run(self, target: &Target) -> anyhow::Result<Answered> {
        let began = Instant::now();
        let until = began + self.duration;
        let each: Vec<_> = (0..self.connections)
            .map(|connection| tokio::spawn(send(target.server, self.requests(target, connection), self.connecting, until)))
            .collect();
        let mut all = Answered { records: 0, refused: 0, span: Duration::ZERO, latency_us: Histogram::new(3)? };
        for task in each {
            let (ok, refused, latency_us) = task.await??;
            all.records += ok * u64::from(self.records);
            all.refused += refused;
            all.latency_us.add(latency_us)?;
        }
        all.span = began.elapsed();
        Ok(all)
    }
}

async fn send(
    server: SocketAddr,
    requests: Vec<Bytes>,
    connecting: Connecting,
    until: Instant,
) -> anyhow::Result<(u64, u64, Histogram<u64>)> {
    let (mut ok, mut refused, mut latency_us) = (0, 0, Histogram::new(3)?);
    let mut connection = Connection::open(server).await?;
    for request in requests.iter().cycle() {
        let began = Instant::now();
        if began >= until {
            break;
        }
        if connecting == Connecting::ForEachRequest {
            connection = Connection::open(server).await?;
        }
        match connection.exchange(request).await? {
            200 => ok += 1,
            _ => refused += 1,
        }
        latency_us.record(u64::try_from(began.elapsed().as_micros())?)?;
    }
    Ok((ok, refused, latency_us))
}

/// Writes so many messages of so many keys, in the order of each key.
pub(crate) async fn fill(target: &Arc<Target>, labels: Labels, count: u64, size_bytes: usize) -> anyhow::Result<()> {
    let per_request = (512 << 10) / size_bytes.max(1) as u64 + 1;
    let mut connection = Connection::open(target.server).await?;
    let (mut labels, mut left) = (labels, count);
    while left > 0 {
        let now = per_request.min(left);
        let request = target.batch(labels.by_ref().take(usize::try_from(now)?), size_bytes);
        let status = connection.exchange(&request).await?;
        anyhow::ensure!(status == 200, "a batch was answered so: {}", connection.refusal);
        left -= now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_proxy_gets_a_list_of_records() {
        let target = Target { server: "127.0.0.1:1".parse().unwrap(), topic: "t".into(), dialect: Dialect::RestProxy };
        let labels = [0, 1].map(|number| Label { key: 7, number });
        let request = String::from_utf8(target.raw_batch(labels.into_iter(), 100).to_vec()).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /topics/t HTTP/1.1\r\n"), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["records"][1]["key"], "k0000007");
        assert_eq!(body["records"][1]["value"]["number"], 1);
    }

    #[test]
    fn an_answer_is_whole_with_its_body() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1";
        assert_eq!(whole_answer(&answer[..30]).unwrap(), None);
        assert_eq!(whole_answer(&answer[..39]).unwrap(), None);
        assert_eq!(whole_answer(answer).unwrap(), Some((200, 40)));
        whole_answer(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_err();
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!(whole_answer(answer).unwrap(), Some((200, answer.len())));
        (0..answer.len()).for_each(|end| assert_eq!(whole_answer(&answer[..end]).unwrap(), None));
    }
}
