//! A receiver as a process of its own, killed and frozen as any other.
//!
//! It takes the connections and answers. What it is sent it hands to the ledger, which says what the answer is, outlives
//! it, and therefore is in the process of the run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{ports, wait};

/// The command, followed by where it listens and where the ledger is.
pub const RECEIVER: &str = "receiver";

const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// Dropped, it is killed.
pub(super) struct Process {
    program: PathBuf,
    pub(super) addr: SocketAddr,
    ledger: SocketAddr,
    child: Option<Child>,
}

impl Process {
    /// `program` is the one that has the command [`RECEIVER`].
    pub(super) async fn start(program: &Path, ledger: SocketAddr) -> Self {
        let mut process = Self { program: program.to_owned(), addr: ports::free(), ledger, child: None };
        process.spawn().await;
        process
    }

    /// Returns once it takes connections.
    pub(super) async fn spawn(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg(RECEIVER).args([self.addr, self.ledger].map(|addr| addr.to_string()));
        // It ends with this process, whose end it sees there.
        self.child = Some(command.stdin(Stdio::piped()).spawn().expect("the chaos run can be started once more"));
        wait::until("a receiver takes connections", STARTS_WITHIN, || async { TcpStream::connect(self.addr).await.ok() }).await;
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(super) fn freeze(&self) {
        crate::freeze::freeze(self.pid());
    }

    pub(super) fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("it runs"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What such a process does, until whoever started it has gone.
pub async fn receive(addr: SocketAddr, ledger: SocketAddr) {
    let listener = wait::until("the receiver's port", STARTS_WITHIN, || async { TcpListener::bind(addr).await.ok() }).await;
    let (mut starter, mut nothing) = (tokio::io::stdin(), [0]);
    tokio::select! {
        () = serve(listener, ledger) => {}
        _ = starter.read(&mut nothing) => {}
    }
}

async fn serve(listener: TcpListener, ledger: SocketAddr) {
    loop {
        let Ok((client, peer)) = listener.accept().await else { continue };
        tokio::spawn(converse(client, peer, ledger));
    }
}

/// Until either side has ended; the first line tells the ledger whose connection it is.
async fn converse(client: TcpStream, peer: SocketAddr, ledger: SocketAddr) -> std::io::Result<()> {
    let mut ledger = TcpStream::connect(ledger).await?;
    let here = client.local_addr()?;
    for stream in [&client, &ledger] {
        stream.set_nodelay(true)?;
    }
    let whose = format!("PROXY TCP4 {} {} {} {}\r\n", peer.ip(), here.ip(), peer.port(), here.port());
    ledger.write_all(whose.as_bytes()).await?;
    let ((mut from_client, mut to_client), (mut from_ledger, mut to_ledger)) = (client.into_split(), ledger.into_split());
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_ledger) => {}
        _ = tokio::io::copy(&mut from_ledger, &mut to_client) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver::Receiver;
    use crate::relay::Relay;

    #[tokio::test]
    async fn the_ledger_answers_and_knows_whose_each_connection_is() {
        let ledger = Receiver::ok().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::start(listener.local_addr().unwrap()).await;
        tokio::spawn(serve(listener, ledger.addr));
        let mut sender = TcpStream::connect(relay.addr()).await.unwrap();
        for requests in 1..=2 {
            sender.write_all(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            let mut answer = [0; 64];
            let read = sender.read(&mut answer).await.unwrap();
            assert!(answer[..read].starts_with(b"HTTP/1.1 200"));
            let seen = ledger.until_count(requests, STARTS_WITHIN).await;
            assert!(!relay.clients().has_gone(seen[requests - 1].peer), "it waits for the answer");
        }
        let peer = ledger.seen()[0].peer;
        drop(sender);
        wait::until("the sender has gone", STARTS_WITHIN, || async { relay.clients().has_gone(peer).then_some(()) }).await;
    }
}
