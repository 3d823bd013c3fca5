//! What a receiver saw, as it came over the wire.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;

/// One request, complete.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub target: String,
    /// As received: order and case kept.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// When its last byte had come.
    pub at: Instant,
    /// When its answer began to be written; `None` while it is open, or if it got none.
    pub answered: Option<Instant>,
    /// When it was over without a scripted answer: the other side had gone, or the script said so.
    pub broken_off: Option<Instant>,
    /// The status answered, if one was.
    pub status: Option<u16>,
    /// Which of the receiver's connections it came on, from 0.
    pub connection: u64,
    /// The other end of that connection.
    pub peer: SocketAddr,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    fn number(&self, name: &str) -> u64 {
        let value = self.header(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers));
        value.parse().unwrap_or_else(|_| panic!("{name}: {value:?} is no number"))
    }

    pub fn topic(&self) -> &str {
        self.header("X-Kmq-Topic").expect("every push names its topic")
    }

    pub fn partition(&self) -> u32 {
        u32::try_from(self.number("X-Kmq-Partition")).unwrap()
    }

    pub fn offset(&self) -> u64 {
        self.number("X-Kmq-Offset")
    }

    pub fn attempt(&self) -> u64 {
        self.number("X-Retry-Times")
    }

    pub fn epoch(&self) -> u64 {
        self.number("X-Kmq-Epoch")
    }

    pub fn key(&self) -> Option<&str> {
        self.header("X-Kmq-Partition-Key")
    }

    pub fn id(&self) -> &str {
        self.header("Webhook-Id").expect("every push has an id")
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or("(binary)")
    }

    /// When it was over, one way or the other; `None` while it is open.
    pub fn ended(&self) -> Option<Instant> {
        self.answered.or(self.broken_off)
    }

    /// Topic, partition and offset.
    pub fn place(&self) -> (String, u32, u64) {
        (self.topic().to_owned(), self.partition(), self.offset())
    }

    /// Answered 2xx.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|s| (200..300).contains(&s))
    }
}
