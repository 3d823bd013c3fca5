//! The clients that readers share, and the one thread that assigns partitions to them.
//!
//! A partition can be assigned once to a client; further readers of it go to further clients. All
//! calls that change an assignment come from here, one after the other. Records never do: each
//! reader takes its own from its partition's queue.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use rdkafka::TopicPartitionList;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::Consumer as _;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset as At;
use tokio::sync::{Notify, oneshot};
use tracing::{debug, warn};

use super::cluster::{Consumer, c_name, number};
use super::context::Said;
use super::native;
use super::options::{Options, OptionsError, reader as settings};
use crate::ids::{Offset, Partition, Topic};
use crate::queue::QueueError;

/// Each has a handful of threads. So many readers of one partition at a time.
const MAX_CLIENTS: usize = 64;
/// How often what the clients say of themselves is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A partition assigned to a client, for one reader.
pub(super) struct Seat {
    // In this order they are dropped: queues go before their client.
    pub(super) records: native::Queue,
    _split: PartitionQueue<Said>,
    pub(super) client: Arc<Consumer>,
    pub(super) wake: Arc<Notify>,
    /// A record of it came by another way; only a new assignment is certain to have it again.
    pub(super) astray: Arc<AtomicBool>,
    pub(super) topic: CString,
    pub(super) partition: i32,
    place: (Topic, Partition),
    client_number: usize,
}

enum Command {
    Open { place: (Topic, Partition), from: Offset, answer: oneshot::Sender<Result<Seat, QueueError>> },
    Close(Box<Seat>),
    Stop,
}

/// The way to the thread.
pub(super) struct Readers {
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
pub(super) struct Returns(Sender<Command>);

impl Returns {
    /// Ends the assignment. Does not wait for it.
    pub(super) fn give_back(&self, seat: Seat) {
        // Refused only when everything ends.
        drop(self.0.send(Command::Close(Box::new(seat))));
    }
}

impl Readers {
    /// Gives the first client, too, which also answers questions.
    pub(super) fn start(options: &Options) -> Result<(Self, Arc<Consumer>), OptionsError> {
        let first = Arc::new(connect(options)?);
        let (commands, todo) = channel();
        let mut pool = Pool { options: options.clone(), clients: vec![Client::new(Arc::clone(&first))] };
        let thread = std::thread::Builder::new().name("kafka-readers".to_owned()).spawn(move || pool.run(&todo));
        let thread = thread.expect("a thread can be started while the program starts");
        Ok((Self { commands, thread: Some(thread) }, first))
    }

    pub(super) async fn open(&self, topic: &Topic, partition: Partition, from: Offset) -> Result<Seat, QueueError> {
        let (answer, seat) = oneshot::channel();
        let stopped = || QueueError::Unavailable("the queue is closing".to_owned());
        self.commands.send(Command::Open { place: (topic.clone(), partition), from, answer }).map_err(|_| stopped())?;
        seat.await.map_err(|_| stopped())?
    }

    pub(super) fn returns(&self) -> Returns {
        Returns(self.commands.clone())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.commands.send(Command::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn connect(options: &Options) -> Result<Consumer, OptionsError> {
    Consumer::from_config_and_context(&settings(options)?, Said).map_err(|error| OptionsError::Client(error.to_string()))
}

struct Taken {
    wake: Arc<Notify>,
    astray: Arc<AtomicBool>,
}

struct Client {
    consumer: Arc<Consumer>,
    taken: HashMap<(Topic, Partition), Taken>,
}

impl Client {
    fn new(consumer: Arc<Consumer>) -> Self {
        Self { consumer, taken: HashMap::default() }
    }
}

struct Pool {
    options: Options,
    clients: Vec<Client>,
}

impl Pool {
    fn run(&mut self, todo: &Receiver<Command>) {
        let mut looked = Instant::now();
        loop {
            match todo.recv_timeout(LOOK_EVERY) {
                Ok(Command::Open { place, from, answer }) => {
                    if let Err(Ok(unwanted)) = answer.send(self.open(place, from)) {
                        self.close(unwanted);
                    }
                }
                Ok(Command::Close(seat)) => self.close(*seat),
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if looked.elapsed() >= LOOK_EVERY {
                self.look();
                looked = Instant::now();
            }
        }
    }

    fn open(&mut self, place: (Topic, Partition), from: Offset) -> Result<Seat, QueueError> {
        let client_number = self.client_without(&place)?;
        let client = &mut self.clients[client_number];
        let consumer = &client.consumer;
        let (topic, partition) = (c_name(&place.0), number(place.1));
        let failed = |what: &str| QueueError::Unavailable(format!("{what} of {}/{} failed", place.0, place.1));
        // Before it is assigned, or records could come by the client's main queue.
        let mut split = consumer.split_partition_queue(place.0.as_str(), partition).ok_or_else(|| failed("splitting off the queue"))?;
        let records = native::Queue::of_partition(consumer.client(), &topic, partition).ok_or_else(|| failed("taking the queue"))?;
        let (wake, astray) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let waker = Arc::clone(&wake);
        split.set_nonempty_callback(move || waker.notify_one());
        let from = At::Offset(i64::try_from(from.0).unwrap_or(i64::MAX));
        let assigned = list(&place, from).and_then(|list| consumer.incremental_assign(&list));
        assigned.map_err(|error| QueueError::Unavailable(format!("assigning {}/{} failed: {error}", place.0, place.1)))?;
        client.taken.insert(place.clone(), Taken { wake: Arc::clone(&wake), astray: Arc::clone(&astray) });
        Ok(Seat { records, _split: split, client: Arc::clone(consumer), wake, astray, topic, partition, place, client_number })
    }

    fn client_without(&mut self, place: &(Topic, Partition)) -> Result<usize, QueueError> {
        if let Some(found) = self.clients.iter().position(|client| !client.taken.contains_key(place)) {
            return Ok(found);
        }
        if self.clients.len() == MAX_CLIENTS {
            let (topic, partition) = place;
            return Err(QueueError::Unavailable(format!("{topic}/{partition} has {MAX_CLIENTS} readers already, as many as may be")));
        }
        let consumer = connect(&self.options).map_err(|error| QueueError::Unavailable(error.to_string()))?;
        self.clients.push(Client::new(Arc::new(consumer)));
        debug!(clients = self.clients.len(), "one more Kafka client for readers");
        Ok(self.clients.len() - 1)
    }

    fn close(&mut self, seat: Seat) {
        let Seat { place, client_number, .. } = &seat;
        let client = &mut self.clients[*client_number];
        client.taken.remove(place);
        let place = place.clone();
        // Its queue is the next reader's, too: this one's call-back must be gone before.
        drop(seat);
        let unassigned = list(&place, At::Invalid).and_then(|list| client.consumer.incremental_unassign(&list));
        if let Err(error) = unassigned {
            warn!(topic = %place.0, partition = place.1.0, %error, "a Kafka partition could not be unassigned");
        }
    }

    /// Call-backs are served by this; records should not come this way.
    fn look(&self) {
        for client in &self.clients {
            while let Some(event) = client.consumer.poll(Duration::ZERO) {
                let Ok(message) = event else { continue };
                let Ok(topic) = Topic::new(message.topic()) else { continue };
                let place = (topic, Partition(u32::try_from(message.partition()).unwrap_or(0)));
                if let Some(taken) = client.taken.get(&place) {
                    warn!(topic = %place.0, partition = place.1.0, offset = message.offset(), "a record came past its queue; its reader is opened anew");
                    taken.astray.store(true, Ordering::Release);
                    taken.wake.notify_one();
                }
            }
        }
    }
}

fn list((topic, partition): &(Topic, Partition), at: At) -> rdkafka::error::KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic.as_str(), number(*partition), at)?;
    Ok(list)
}
