//! Real `ZooKeeper` servers, one or three, that can be killed, frozen and started again.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::java::{JavaProcess, class_path};
use crate::relay::{Flow, Relay};
use crate::{ports, wait};

pub mod tool;

/// Of the servers, in milliseconds: sessions expire up to one later than they must.
pub const TICK_MS: u64 = 500;

/// Dropped, every server is killed, and what they stored is gone.
pub struct ZooKeeper {
    dir: TempDir,
    servers: Vec<Server>,
    /// From one server to another's ports for its peers; where there is none, the way is direct.
    between: HashMap<(usize, usize), [Relay; 2]>,
}

struct Server {
    client: SocketAddr,
    /// For the others of the ensemble: data and election.
    peers: [SocketAddr; 2],
    process: Option<JavaProcess>,
}

impl ZooKeeper {
    /// One server, ready.
    pub async fn start() -> Self {
        Self::ensemble(1).await
    }

    /// So many servers, all of them ready.
    pub async fn ensemble(size: usize) -> Self {
        Self::of(size).started().await
    }

    /// The same, of which a server can be [parted](Self::part) from the others.
    pub async fn divisible(size: usize) -> Self {
        let mut ensemble = Self::of(size);
        for (from, to) in (0..size).flat_map(|from| (0..size).map(move |to| (from, to))).filter(|(from, to)| from != to) {
            let [data, election] = ensemble.servers[to].peers;
            ensemble.between.insert((from, to), [Relay::start(data).await, Relay::start(election).await]);
        }
        ensemble.started().await
    }

    fn of(size: usize) -> Self {
        let server = |_| Server { client: ports::free(), peers: [ports::free(), ports::free()], process: None };
        Self { dir: tempfile::tempdir().unwrap(), servers: (0..size).map(server).collect(), between: HashMap::new() }
    }

    async fn started(mut self) -> Self {
        (0..self.servers.len()).for_each(|index| self.spawn(index));
        for index in 0..self.servers.len() {
            self.until_ready(index).await;
        }
        self
    }

    /// What goes between it and the other servers: all of their data, and of elections what did not find another way, for
    /// servers also tell each other where they are.
    pub fn part(&self, index: usize, flow: Flow) {
        let its = self.between.iter().filter(|((from, to), _)| *from == index || *to == index);
        its.flat_map(|(_, relays)| relays).for_each(|relay| relay.both(flow));
    }

    /// `host:port,host:port,…`
    pub fn connect_string(&self) -> String {
        self.servers.iter().map(|server| server.client.to_string()).collect::<Vec<_>>().join(",")
    }

    pub fn addr(&self, index: usize) -> SocketAddr {
        self.servers[index].client
    }

    /// `kill -9`.
    pub fn kill(&mut self, index: usize) {
        self.servers[index].process = None;
    }

    /// SIGTERM; returns once it has ended.
    pub async fn stop(&mut self, index: usize) {
        let Some(mut process) = self.servers[index].process.take() else { return };
        process.signal(Signal::TERM);
        wait::until("ZooKeeper ends", Duration::from_secs(20), || std::future::ready((!process.runs()).then_some(()))).await;
    }

    /// Stands still, with its connections open, until [`Self::thaw`].
    pub fn freeze(&self, index: usize) {
        self.process(index).freeze();
    }

    pub fn thaw(&self, index: usize) {
        self.process(index).signal(Signal::CONT);
    }

    /// Starts it again on what it stored, and waits until it serves.
    pub async fn restart(&mut self, index: usize) {
        self.kill(index);
        self.spawn(index);
        self.until_ready(index).await;
    }

    /// Starts it again without waiting: one of three is ready only together with another.
    pub fn spawn(&mut self, index: usize) {
        let data = self.dir.path().join(format!("server-{index}"));
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("myid"), format!("{}\n", index + 1)).unwrap();
        let file = self.dir.path().join(format!("zoo-{index}.cfg"));
        std::fs::write(&file, self.configuration(index, &data)).unwrap();
        let log = self.dir.path().join(format!("zookeeper-{index}.log"));
        let words = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", file.to_str().unwrap()];
        let options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        self.servers[index].process = Some(JavaProcess::start(&class_path("pom.xml"), &options, &words, &log));
    }

    fn configuration(&self, index: usize, data: &std::path::Path) -> String {
        let client = self.servers[index].client;
        let mut text = format!(
            "tickTime={TICK_MS}\ninitLimit=20\nsyncLimit=10\ndataDir={}\nclientPortAddress={}\nclientPort={}\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
            data.display(),
            client.ip(),
            client.port()
        );
        if self.servers.len() > 1 {
            for (to, server) in self.servers.iter().enumerate() {
                let [data, election] = self.between.get(&(index, to)).map_or(server.peers, |relays| relays.each_ref().map(Relay::addr));
                writeln!(text, "server.{}=127.0.0.1:{}:{}", to + 1, data.port(), election.port()).unwrap();
            }
        }
        text
    }

    async fn until_ready(&mut self, index: usize) {
        let client = self.servers[index].client;
        let ready = wait::until("ZooKeeper serves", Duration::from_secs(60), || async {
            four_letters(client, "srvr").await.filter(|answer| answer.contains("Mode:"))
        });
        ready.await;
        assert!(self.servers[index].process.as_mut().unwrap().runs());
    }

    /// What a server answers to a four-letter command; `None` if it does not within a second.
    pub async fn ask(&self, index: usize, command: &str) -> Option<String> {
        four_letters(self.servers[index].client, command).await
    }

    /// Of the server's process, for what it says.
    pub fn log(&self, index: usize) -> String {
        self.process(index).log()
    }

    pub fn data_dir(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("server-{index}"))
    }

    fn process(&self, index: usize) -> &JavaProcess {
        self.servers[index].process.as_ref().expect("it runs")
    }
}

async fn four_letters(server: SocketAddr, command: &str) -> Option<String> {
    let ask = async {
        let mut stream = TcpStream::connect(server).await.ok()?;
        stream.write_all(command.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    };
    tokio::time::timeout(Duration::from_secs(1), ask).await.ok().flatten()
}
