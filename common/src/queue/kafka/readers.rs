//! The clients that readers share, and the one thread that assigns partitions to them.
//!
//! A partition can be assigned once to a client; further readers of it go to further clients. All
//! calls that change an assignment come from here, one after the other. Records never do: each
//! reader takes its own from its partition's queue. What is fetched and not taken is bounded in
//! total: the partitions that nobody has read for longest are given back, and assigned anew when
//! somebody reads on.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::Consumer as _;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset as At;
use tokio::sync::oneshot;
use tracing::{debug, warn};

use self::client::{Client, Number, Taken};
use self::pasts::{MAX_PLACES, Pasts};
use super::cluster::{Consumer, c_name, number};
use super::line::Line;
use super::metrics::Reopening;
use super::native::{self, known_end};
use super::options::OptionsError;
use super::site::Site;
use super::statistics::Statistics;
use crate::ids::{Offset, Partition, Topic, TopicId};
use crate::queue::QueueError;

mod client;
mod pasts;

/// Each has a handful of threads. So many readers of one partition at a time, of either pace.
const MAX_CLIENTS: usize = 64;
/// How often what the clients say of themselves is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Without a wait, a look ends with the first thing that a client says, such as a line for the log.
const LOOK_FOR: Duration = Duration::from_millis(1);
/// What lies unread for so many looks counts as left alone.
const UNREAD_LOOKS: u32 = 2;
/// A partition of which nothing is taken for so many looks does not catch up. Longer than its reader, if it reads, needs to
/// find that out.
const IDLE_LOOKS: u32 = 80;
/// Each is asked for up to a hundred times a second.
const MAX_CATCHING_UP: usize = 64;

pub(super) type Place = (Topic, Partition);

/// How a client asks for its partitions. A broker answers one fetch after the other, and one that finds nothing after a while.
/// A partition of which enough was fetched is not asked for, so that the answer may be waited for on behalf of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// For what is read to its end: a fetch waits long.
    Tail,
    /// For what has much ahead: it waits only shortly.
    CatchUp,
}

/// A partition assigned to a client, for one reader. Dropped, it is given back.
pub(super) struct Seat {
    pub(super) line: Arc<Line>,
    /// Of the client: another one than was wanted, where that could not be had.
    pub(super) pace: Pace,
    pub(super) since: Instant,
    topic: CString,
    partition: i32,
    place: Place,
    desk: Desk,
}

impl Seat {
    /// As of the last fetch. Asks nobody.
    pub(super) fn known_end(&self) -> Option<Offset> {
        known_end(self.line.client().client(), &self.topic, self.partition)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.desk.end(&self.place, Arc::clone(&self.line), Reopening::GivenBack);
    }
}

/// A reader that waits where it waited the last time.
pub(super) struct Quiet {
    pub(super) place: Place,
    pub(super) line: Arc<Line>,
    pub(super) position: Offset,
}

/// A partition to be read.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) place: Place,
    /// Of its topic.
    pub(super) partitions: u32,
    pub(super) id: Option<TopicId>,
    pub(super) pace: Pace,
}

enum Command {
    Open { wanted: Wanted, from: Offset, answer: oneshot::Sender<Result<Seat, QueueError>> },
    End { place: Place, line: Arc<Line>, why: Reopening },
    Survey(oneshot::Sender<Vec<Quiet>>),
    Introduce(String),
    Stop,
}

/// The thread.
pub(super) struct Readers {
    desk: Desk,
    thread: Option<JoinHandle<()>>,
}

/// The way to the thread.
#[derive(Clone)]
pub(super) struct Desk(Sender<Command>);

impl Desk {
    pub(super) async fn open(&self, wanted: &Wanted, from: Offset) -> Result<Seat, QueueError> {
        let (answer, seat) = oneshot::channel();
        let stopped = || QueueError::Unavailable("the queue is closing".to_owned());
        self.0.send(Command::Open { wanted: wanted.clone(), from, answer }).map_err(|_| stopped())?;
        seat.await.map_err(|_| stopped())?
    }

    /// Ends the assignment, if it has not ended yet. Does not wait for it.
    pub(super) fn end(&self, place: &Place, line: Arc<Line>, why: Reopening) {
        // Refused only when everything ends.
        drop(self.0.send(Command::End { place: place.clone(), line, why }));
    }

    /// Readers that have waited since the last survey.
    pub(super) async fn survey(&self) -> Vec<Quiet> {
        let (answer, quiet) = oneshot::channel();
        drop(self.0.send(Command::Survey(answer)));
        quiet.await.unwrap_or_default()
    }

    /// Tells the clients where brokers are.
    pub(super) fn introduce(&self, brokers: String) {
        drop(self.0.send(Command::Introduce(brokers)));
    }
}

impl Readers {
    /// Gives the client for questions, too.
    pub(super) fn start(site: &Arc<Site>) -> Result<(Self, Arc<Consumer>), OptionsError> {
        let asked = Client::start(Number(0), Pace::Tail, site, Statistics::Made)?;
        let consumer = Arc::clone(&asked.consumer);
        let (commands, todo) = channel();
        let desk = Desk(commands);
        let (site, pasts) = (Arc::clone(site), Pasts::new(MAX_PLACES));
        let mut pool = Pool { site, desk: desk.clone(), asked, clients: Vec::new(), started: 0, retired: Vec::new(), pasts };
        let thread = std::thread::Builder::new().name("kafka-readers".to_owned()).spawn(move || pool.run(&todo));
        let thread = thread.expect("a thread can be started while the program starts");
        Ok((Self { desk, thread: Some(thread) }, consumer))
    }

    pub(super) fn desk(&self) -> &Desk {
        &self.desk
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.desk.0.send(Command::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Pool {
    site: Arc<Site>,
    /// To ourselves, for the seats.
    desk: Desk,
    /// Reads nothing: a broker answers a connection's requests one after the other, and a fetch
    /// that finds nothing is answered after half a second.
    asked: Client,
    clients: Vec<Client>,
    /// How many there have been.
    started: u64,
    /// Replaced by others. Readers that have not noticed yet may use them.
    retired: Vec<Arc<Consumer>>,
    pasts: Pasts,
}

impl Pool {
    fn run(&mut self, todo: &Receiver<Command>) {
        let mut looked = Instant::now();
        loop {
            match todo.recv_timeout(LOOK_EVERY) {
                Ok(Command::Open { wanted, from, answer }) => {
                    // Not wanted any more, it is dropped, and given back.
                    drop(answer.send(self.open(&wanted, from)));
                }
                Ok(Command::End { place, line, why }) => self.end(&place, &line, why),
                Ok(Command::Survey(answer)) => drop(answer.send(self.survey())),
                Ok(Command::Introduce(brokers)) => {
                    std::iter::once(&mut self.asked).chain(&mut self.clients).for_each(|client| client.introduce(&brokers));
                }
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if looked.elapsed() >= LOOK_EVERY {
                self.look();
                self.end_retired();
                self.give_back_unread();
                looked = Instant::now();
            }
        }
    }

    fn open(&mut self, wanted: &Wanted, from: Offset) -> Result<Seat, QueueError> {
        let desk = self.desk.clone();
        let chosen = self.client_for(wanted)?;
        let client = &mut self.clients[chosen];
        let Wanted { place, partitions, id, .. } = wanted;
        let (topic, partition) = (c_name(&place.0), number(place.1));
        let failed = |what: &str| QueueError::Unavailable(format!("{what} of {}/{} failed", place.0, place.1));
        let consumer = &client.consumer;
        // Before it is assigned, or records could come by the client's main queue.
        let mut split = consumer.split_partition_queue(place.0.as_str(), partition).ok_or_else(|| failed("splitting off the queue"))?;
        let records = native::Queue::of_partition(consumer.client(), &topic, partition).ok_or_else(|| failed("taking the queue"))?;
        let line = Arc::new(Line::new(Arc::clone(consumer), records, from));
        let waker = Arc::clone(&line);
        split.set_nonempty_callback(move || waker.came());
        let from = At::Offset(i64::try_from(from.0).unwrap_or(i64::MAX));
        let assigned = list(place, from).and_then(|list| consumer.incremental_assign(&list));
        assigned.map_err(|error| QueueError::Unavailable(format!("assigning {}/{} failed: {error}", place.0, place.1)))?;
        let seat = Seat { line: Arc::clone(&line), pace: client.pace, since: Instant::now(), topic, partition, place: place.clone(), desk };
        client.take(place, *partitions, Taken::new(line, split));
        self.pasts.is_read(place, *id, client.number);
        self.site.metrics.readers.inc();
        Ok(seat)
    }

    /// Of the pace that is wanted, unless too many catch up or there are too many clients.
    fn client_for(&mut self, wanted: &Wanted) -> Result<usize, QueueError> {
        let Wanted { place, partitions, id, pace } = wanted;
        let ((topic, partition), partitions) = (place, *partitions);
        let catch_up = |client: &&Client| client.pace == Pace::CatchUp;
        let catching_up: usize = self.clients.iter().filter(catch_up).map(|client| client.taken.len()).sum();
        let pace = if catching_up < MAX_CATCHING_UP { *pace } else { Pace::Tail };
        let free = |client: &Client| !client.taken.contains_key(place);
        let shun = |client: &Client| self.pasts.shun(place, *id, client.number);
        let suitable = |client: &Client| client.pace == pace && free(client) && client.has_room(topic, partitions) && !shun(client);
        if let Some(found) = self.clients.iter().position(suitable) {
            return Ok(found);
        }
        // Or topics that are made again and again would need ever more clients.
        if let Some(idle) = self.clients.iter().position(|client| client.pace == pace && client.taken.is_empty()) {
            self.retired.push(self.clients.swap_remove(idle).consumer);
        }
        if self.clients.len() + self.retired.len() >= MAX_CLIENTS {
            if pace == Pace::CatchUp {
                return self.client_for(&Wanted { pace: Pace::Tail, ..wanted.clone() });
            }
            return Err(QueueError::Unavailable(format!("{topic}/{partition} has {MAX_CLIENTS} readers already, as many as may be")));
        }
        // Beyond a bound on what statistics may have, there are none.
        let too_many = self.clients.iter().any(|client| client.pace == pace && free(client) && !client.has_room(topic, partitions));
        let statistics = if too_many { Statistics::None } else { Statistics::Made };
        self.started += 1;
        let client = Client::start(Number(self.started), pace, &self.site, statistics);
        let client = client.map_err(|error| QueueError::Unavailable(error.to_string()))?;
        debug!(clients = self.clients.len() + 1, "one more Kafka client for readers");
        self.clients.push(client);
        Ok(self.clients.len() - 1)
    }

    fn end(&mut self, place: &Place, line: &Arc<Line>, why: Reopening) {
        let mine = |client: &Client| client.taken.get(place).is_some_and(|taken| Arc::ptr_eq(&taken.line, line));
        let Some(client) = self.clients.iter_mut().find(|client| mine(client)) else { return };
        if why == Reopening::StoodStill {
            self.pasts.stood_still(place, client.number);
        }
        let unread = line.end(why);
        // Its queue is the next reader's, too: this one's call-back must be gone before.
        drop(client.taken.remove(place));
        self.site.metrics.readers.dec();
        let unassigned = list(place, At::Invalid).and_then(|list| client.consumer.incremental_unassign(&list));
        if let Err(error) = unassigned {
            warn!(topic = %place.0, partition = place.1.0, %error, "a Kafka partition could not be unassigned");
        }
        // Or it would lie there until somebody opens the partition again.
        if let Some(unread) = unread {
            unread.discard();
        }
    }

    /// Call-backs are served by this; records should not come this way.
    fn look(&mut self) {
        let mut astray = Vec::new();
        for client in std::iter::once(&self.asked).chain(&self.clients) {
            while let Some(event) = client.consumer.poll(LOOK_FOR) {
                let Ok(message) = event else { continue };
                let Ok(topic) = Topic::new(message.topic()) else { continue };
                let place = (topic, Partition(u32::try_from(message.partition()).unwrap_or(0)));
                if let Some(taken) = client.taken.get(&place) {
                    warn!(topic = %place.0, partition = place.1.0, offset = message.offset(), "a record came past its queue; its reader is opened anew");
                    astray.push((place, Arc::clone(&taken.line)));
                }
            }
        }
        for (place, line) in astray {
            self.end(&place, &line, Reopening::Astray);
        }
    }

    /// The end of a client takes a while.
    fn end_retired(&mut self) {
        for consumer in self.retired.extract_if(.., |consumer| Arc::strong_count(consumer) == 1) {
            std::thread::spawn(move || drop(consumer));
        }
    }

    fn give_back_unread(&mut self) {
        let (mut unread, mut idle) = (Vec::new(), Vec::new());
        for client in &mut self.clients {
            for (place, taken) in &mut client.taken {
                taken.look();
                if client.pace == Pace::CatchUp && taken.still_looks >= IDLE_LOOKS {
                    idle.push((place.clone(), Arc::clone(&taken.line)));
                } else if taken.unread_looks >= UNREAD_LOOKS {
                    unread.push((taken.unread_looks, place.clone(), Arc::clone(&taken.line)));
                }
            }
        }
        for (place, line) in idle {
            self.end(&place, &line, Reopening::GivenBack);
        }
        let excess = unread.len().saturating_sub(self.site.options.unread_readers());
        if excess > 0 {
            unread.sort_unstable_by_key(|(looks, ..)| std::cmp::Reverse(*looks));
            debug!(partitions = excess, "too much was fetched that nobody reads; these are fetched again when somebody does");
            for (_, place, line) in unread.into_iter().take(excess) {
                self.end(&place, &line, Reopening::GivenBack);
            }
        }
    }

    fn survey(&mut self) -> Vec<Quiet> {
        let mut all = Vec::new();
        for (place, taken) in self.clients.iter_mut().flat_map(|client| &mut client.taken) {
            // What lies there, its reader does not come for: it does not wait for Kafka.
            let waits_at = taken.line.waits_at().filter(|_| !taken.line.is_unread());
            if let Some(position) = waits_at.filter(|_| waits_at == taken.waited_at) {
                all.push(Quiet { place: place.clone(), line: Arc::clone(&taken.line), position });
            }
            taken.waited_at = waits_at;
        }
        all
    }
}

fn list((topic, partition): &Place, at: At) -> rdkafka::error::KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic.as_str(), number(*partition), at)?;
    Ok(list)
}
