//! Other programs that do the same, under the same load: `--peers FOLDER`.
//!
//! `FOLDER/peers.json` lists them; each is started in that folder. In the words of a command `{brokers}`, `{port}`, `{topic}`,
//! `{group}` and `{url}` stand for what the program is to use.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use integration_tests::cluster::{Cluster, fresh};
use integration_tests::ports;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::child::Own;
use crate::goals::Goal;
use crate::keys::{Labels, Spread};
use crate::load::{Connecting, Dialect, Pattern, Target, fill};
use crate::message::SIZE_BYTES;
use crate::receiver::{Manner, Receiver};
use crate::run::{Options, Results};
use crate::stage::{Servers, Stage};
use crate::table::Row;
use crate::usage::Meter;

const PARTITIONS: u32 = 8;
const KEYS: u32 = 10_000;
/// Virtual machines take their time.
const STARTED: Duration = Duration::from_secs(30);
const WARM_UP: Duration = Duration::from_secs(5);
const DRAINED: Duration = Duration::from_secs(180);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peer {
    name: String,
    does: Does,
    command: Vec<String>,
    /// Where it looks for Kafka, if it cannot be told: that address is forwarded to the broker.
    #[serde(default)]
    broker_at: Option<SocketAddr>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Does {
    /// Takes `POST /topics/{topic}` as the REST Proxy of Kafka does, with `{"records":[{"key":…,"value":…}]}`.
    Produce,
    /// POSTs each record's value to the URL.
    Push,
}

/// A peer at work. Dropped, it is killed.
struct Running {
    own: Own,
    _forward: Option<Forward>,
}

/// Dropped, it ends.
struct Forward(JoinHandle<()>);

impl Drop for Forward {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Forward {
    async fn start(at: SocketAddr, to: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(at).await.with_context(|| format!("forwarding {at} to Kafka"))?;
        Ok(Self(tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                tokio::spawn(async move {
                    if let Ok(mut broker) = TcpStream::connect(to).await {
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut broker).await;
                    }
                });
            }
        })))
    }
}

impl Peer {
    async fn start(&self, folder: &Path, cluster: &Cluster, filled: &BTreeMap<&str, String>) -> anyhow::Result<Running> {
        let brokers = cluster.kafka.brokers();
        let forward = match self.broker_at {
            Some(at) => Some(Forward::start(at, brokers.parse()?).await?),
            None => None,
        };
        let fill = |word: &String| {
            let known = filled.iter().fold(word.clone(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value));
            known.replace("{brokers}", &brokers)
        };
        let words: Vec<String> = self.command.iter().map(fill).collect();
        let (program, arguments) = words.split_first().with_context(|| format!("{} has no command", self.name))?;
        let within = folder.join(program);
        let mut command = Command::new(if within.exists() { within.as_os_str() } else { program.as_ref() });
        command.args(arguments).current_dir(folder).stderr(Stdio::null());
        Ok(Running { own: Own::run(command).with_context(|| self.name.clone())?, _forward: forward })
    }
}

fn listed(folder: &Path, does: Does) -> anyhow::Result<Vec<Peer>> {
    let file = folder.join("peers.json");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let all: Vec<Peer> = serde_json::from_str(&text).with_context(|| format!("{} is no list of peers", file.display()))?;
    Ok(all.into_iter().filter(|peer| peer.does == does).collect())
}

pub(crate) async fn produce(options: &Options, folder: &Path, servers: &Servers, results: &mut Results) -> anyhow::Result<()> {
    let Some(cluster) = servers.cluster() else { return Ok(()) };
    let usual =
        Pattern { connections: 64, connecting: Connecting::Once, spread: Spread::Uniform, records: 1, duration: options.duration() };
    let cases = [
        ("POST, 64 connections", usual),
        ("POST, 1 connection", Pattern { connections: 1, ..usual }),
        ("POST, 256 connections", Pattern { connections: 256, ..usual }),
        ("batches of 100, 16 connections", Pattern { connections: 16, records: 100, ..usual }),
    ];
    for peer in listed(folder, Does::Produce)? {
        let (server, topic) = (ports::free(), cluster.topic("peer", i32::try_from(PARTITIONS)?).await);
        let filled = BTreeMap::from([("port", server.port().to_string()), ("topic", topic.clone())]);
        let running = peer.start(folder, cluster, &filled).await?;
        until_open(server, &peer.name).await?;
        let target = Target { server, topic: topic.clone(), dialect: Dialect::RestProxy };
        Pattern { duration: WARM_UP, ..usual }.run(&target).await?;
        for (name, pattern) in cases {
            let before: u64 = cluster.ends(&topic).await.values().sum();
            let meter = Meter::start(running.own.pid())?;
            let answered = pattern.run(&target).await?;
            let usage = meter.read()?;
            let written = cluster.ends(&topic).await.values().sum::<u64>() - before;
            if answered.refused > 0 || written != answered.records {
                eprintln!("{}, {name}: {} refused, {} answered, {written} written", peer.name, answered.refused, answered.records);
            }
            add(Row::new(format!("Kafka {name}"), &peer.name).answered(&answered, &usage), results);
        }
    }
    Ok(())
}

/// What a peer reached, and that mqgate is to be ahead of it.
fn add(peer: Row, results: &mut Results) {
    let ours = results.rows.iter().find(|ours| ours.workload == peer.workload && ours.subject == "mqgate");
    if let Some(ours) = ours {
        let beside = |of: fn(&Row) -> Option<f64>| Some(of(ours)? / of(&peer)?);
        let what = |figure: &str| format!("{}: {figure} beside that of {}", peer.workload, peer.subject);
        results.goals.extend(beside(|row| row.per_second).map(|ratio| Goal::at_least(what("rate"), ratio, 1.0)));
        results.goals.extend(beside(|row| row.latency_ms.get(1).copied()).map(|ratio| Goal::at_most(what("p99"), ratio, 1.0)));
        results.goals.extend(beside(|row| row.cpu_s_per_100k).map(|ratio| Goal::at_most(what("CPU"), ratio, 1.0)));
    }
    results.rows.push(peer);
}

async fn until_open(server: SocketAddr, name: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    while TcpStream::connect(server).await.is_err() {
        anyhow::ensure!(began.elapsed() < STARTED, "{name} does not listen at {server}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

pub(crate) async fn push(options: &Options, folder: &Path, servers: &Servers, results: &mut Results) -> anyhow::Result<()> {
    let Some(cluster) = servers.cluster() else { return Ok(()) };
    let (receiver, messages) = (Receiver::start()?, options.messages);
    for peer in listed(folder, Does::Push)? {
        let stage = Stage::new(servers, PARTITIONS).await?;
        fill(&stage.target, Labels::new(Spread::Even, KEYS), messages, SIZE_BYTES).await?;
        receiver.set(Manner::default()).await?;
        let filled = BTreeMap::from([("topic", stage.target.topic.clone()), ("group", fresh("peer")), ("url", receiver.url())]);
        let running = peer.start(folder, cluster, &filled).await?;
        let meter = Meter::start(running.own.pid())?.since_birth();
        let seen = receiver.until_done(messages, DRAINED).await?;
        let usage = meter.read()?;
        if seen.check(messages).is_err() {
            eprintln!("{}, drain of {messages}: {seen:?}", peer.name);
        }
        add(Row::new("Kafka drain, instant receiver", &peer.name).rate(seen.per_second()).used(&usage, seen.done.max(1)), results);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_listed_by_what_they_do() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"[{"name": "Go", "does": "produce", "command": ["gw", "-l", "127.0.0.1:{port}"]},
            {"name": "Java", "does": "push", "command": ["java", "Push"], "broker_at": "127.0.0.1:19093"}]"#;
        std::fs::write(folder.path().join("peers.json"), text).unwrap();
        let names = |does| listed(folder.path(), does).unwrap().into_iter().map(|peer| peer.name).collect::<Vec<_>>();
        assert_eq!(names(Does::Produce), ["Go"]);
        assert_eq!(names(Does::Push), ["Java"]);
        std::fs::write(folder.path().join("peers.json"), r#"[{"name": "Go"}]"#).unwrap();
        assert!(listed(folder.path(), Does::Push).is_err());
    }
}
