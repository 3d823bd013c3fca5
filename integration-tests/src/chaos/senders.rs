//! Whether whoever sent a request still waits for its answer.
//!
//! A receiver notices late that the other side has gone: it is woken later than the kernel knows. So at each arrival
//! the kernel is asked, of every request of that key that may still be open, whether its client has closed or lost the
//! connection. What was given up before the next attempt came is no overlap, and that needs no allowance of time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Instant;

use crate::relay::Clients;
use crate::request::Seen;

/// Of one key. More of them are never open at once.
const REMEMBERED_ARRIVALS: usize = 16;

/// A connection of the receiver has one request at a time.
type Arrival = (u64, Instant);

fn arrival(seen: &Seen) -> Arrival {
    (seen.connection, seen.at)
}

pub(super) struct Senders {
    clients: Clients,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// By topic, partition and key.
    recent: HashMap<(String, u32, String), VecDeque<(Arrival, SocketAddr)>>,
    /// Before when the sender had given it up.
    given_up: HashMap<Arrival, Instant>,
    late: HashSet<Arrival>,
}

impl Senders {
    pub(super) fn new(clients: Clients) -> Self {
        Self { clients, book: Mutex::default() }
    }

    /// To be called as soon as a request is there.
    pub(super) fn arrived(&self, seen: &Seen) {
        let Book { recent, given_up, late } = &mut *self.book.lock().unwrap();
        if self.clients.has_gone(seen.peer) {
            late.insert(arrival(seen));
        }
        let key = (seen.topic().to_owned(), seen.partition(), seen.key().unwrap_or_default().to_owned());
        let recent = recent.entry(key).or_default();
        for (former, _) in recent.iter().filter(|(_, peer)| self.clients.has_gone(*peer)) {
            given_up.entry(*former).or_insert(seen.at);
        }
        recent.push_back((arrival(seen), seen.peer));
        if recent.len() > REMEMBERED_ARRIVALS {
            recent.pop_front();
        }
    }

    pub(super) fn evidence(&self) -> Evidence {
        let book = self.book.lock().unwrap();
        Evidence { given_up: book.given_up.clone(), late: book.late.clone() }
    }
}

/// What is known of requests whose sender did not wait for the answer.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    given_up: HashMap<Arrival, Instant>,
    late: HashSet<Arrival>,
}

impl Evidence {
    /// Its sender had gone when `latter` came.
    pub(super) fn given_up_before(&self, former: &Seen, latter: &Seen) -> bool {
        self.given_up.get(&arrival(former)).is_some_and(|before| *before <= latter.at)
    }

    /// Its sender had gone when it came: the network had held it back.
    pub(super) fn came_late(&self, seen: &Seen) -> bool {
        self.late.contains(&arrival(seen))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpStream;

    use super::*;
    use crate::receiver::{Answer, Receiver};
    use crate::relay::{Flow, Relay};
    use crate::wait;

    const PATIENCE: Duration = Duration::from_secs(5);

    struct Scene {
        receiver: Receiver,
        relay: Relay,
        senders: std::sync::Arc<Senders>,
    }

    impl Scene {
        /// Nothing is answered.
        async fn new() -> Self {
            let receiver = Receiver::ok().await;
            let relay = Relay::start(receiver.addr).await;
            let senders = std::sync::Arc::new(Senders::new(relay.clients()));
            let book = senders.clone();
            receiver.script(move |seen| {
                book.arrived(seen);
                Answer::Hang
            });
            Self { receiver, relay, senders }
        }

        async fn send(&self) -> TcpStream {
            let mut sender = TcpStream::connect(self.relay.addr()).await.unwrap();
            let request = "POST / HTTP/1.1\r\nX-Kmq-Topic: t\r\nX-Kmq-Partition: 0\r\nX-Kmq-Partition-Key: k\r\nContent-Length: 0\r\n\r\n";
            sender.write_all(request.as_bytes()).await.unwrap();
            sender
        }

        /// Whether the former had been given up when the latter came.
        async fn given_up(&self) -> bool {
            let seen = self.receiver.until_count(2, PATIENCE).await;
            self.senders.evidence().given_up_before(&seen[0], &seen[1])
        }
    }

    #[tokio::test]
    async fn a_request_that_is_still_waited_for_is_no_excuse() {
        let scene = Scene::new().await;
        let _former = scene.send().await;
        scene.receiver.until_count(1, PATIENCE).await;
        let _latter = scene.send().await;
        assert!(!scene.given_up().await);
    }

    #[tokio::test]
    async fn a_request_whose_sender_closed_or_was_reset_was_given_up() {
        for reset in [false, true] {
            let scene = Scene::new().await;
            let former = scene.send().await;
            scene.receiver.until_count(1, PATIENCE).await;
            if reset {
                scene.relay.reset();
            }
            drop(former);
            wait::until("the relay notices", PATIENCE, || async {
                scene.receiver.look(|seen| scene.relay.clients().has_gone(seen[0].peer)).then_some(())
            })
            .await;
            let _latter = scene.send().await;
            assert!(scene.given_up().await);
        }
    }

    #[tokio::test]
    async fn a_request_that_the_network_held_until_its_sender_had_gone_came_late() {
        let scene = Scene::new().await;
        scene.relay.to_server(Flow::Hold);
        let sender = scene.send().await;
        drop(sender);
        scene.relay.to_server(Flow::Pass);
        let seen = scene.receiver.until_count(1, PATIENCE).await;
        assert!(scene.senders.evidence().came_late(&seen[0]));
    }
}
