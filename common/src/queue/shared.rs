//! Readers of the same partition that share what is fetched.
//!
//! A partition that one group reads has a reader, and nothing else. Once there are several, a reader
//! becomes the hub of all who are near its place: it is read once, into a bounded ring. A group that
//! falls behind the ring, or begins elsewhere, has a reader of its own until it comes near.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use foldhash::HashMap;

use self::hub::{Hub, Hubs, Seat};
use self::ring::Taken;
use super::{Batch, Queue, ReadError, Reader};
use crate::ids::{Epoch, Offset, Partition, Topic, TopicId};

mod hub;
mod ring;
#[cfg(test)]
mod tests;

/// What is read. A topic that was made again is another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    pub topic: Topic,
    pub id: Option<TopicId>,
    pub partition: Partition,
}

/// Of one queue.
pub struct SharedReaders {
    queue: Arc<dyn Queue>,
    places: Mutex<HashMap<Place, Weak<Readers>>>,
    hubs: Hubs,
}

impl SharedReaders {
    pub fn new(queue: Arc<dyn Queue>) -> Self {
        Self { queue, places: Mutex::default(), hubs: Hubs::default() }
    }

    /// A reader that begins at `from`. It may be dropped at any time, or not be polled: nobody waits for it.
    ///
    /// # Errors
    /// As [`Queue::open`]. Where others read the same partition, an error may come with the first read instead.
    pub async fn open(&self, place: Place, from: Offset, epoch: Epoch) -> Result<Box<dyn Reader>, ReadError> {
        let opener = Opener { queue: Arc::clone(&self.queue), place, epoch, hubs: self.hubs.clone() };
        let one = OneMore::of(self.readers(&opener.place));
        let way = match one.company() {
            Company::None => Way::Alone(opener.open(from).await?, from),
            Company::Others => Way::Shared(one.readers.seat(&opener, from)),
        };
        Ok(Box::new(SharedReader { way, opener, one }))
    }

    fn readers(&self, place: &Place) -> Arc<Readers> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(readers) = places.get(place).and_then(Weak::upgrade) {
            return readers;
        }
        places.retain(|_, readers| readers.strong_count() > 0);
        let readers = Arc::<Readers>::default();
        places.insert(place.clone(), Arc::downgrade(&readers));
        readers
    }
}

struct Opener {
    queue: Arc<dyn Queue>,
    place: Place,
    epoch: Epoch,
    hubs: Hubs,
}

impl Opener {
    fn open(&self, from: Offset) -> impl Future<Output = Result<Box<dyn Reader>, ReadError>> + Send + use<> {
        let (queue, place, epoch) = (Arc::clone(&self.queue), self.place.clone(), self.epoch);
        async move { queue.open(&place.topic, place.partition, from, epoch).await }
    }
}

/// Those of one place.
#[derive(Default)]
struct Readers(Mutex<Known>);

#[derive(Default)]
struct Known {
    count: usize,
    /// In the order in which they came to be.
    hubs: Vec<Weak<Hub>>,
}

impl Readers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At a hub near `from`, or at a new one there.
    fn seat(&self, opener: &Opener, from: Offset) -> Seat {
        let mut known = self.known();
        known.near(from).unwrap_or_else(|| known.add(Hub::start(opener.open(from), from, &opener.hubs), from))
    }

    /// The same for one who has a reader, of which the hub is made.
    fn bring(&self, reader: Box<dyn Reader>, from: Offset, hubs: &Hubs) -> Seat {
        let mut known = self.known();
        known.near(from).unwrap_or_else(|| known.add(Hub::start(std::future::ready(Ok(reader)), from, hubs), from))
    }

    /// A seat at another hub for one who waits at the head of its own: one that is further on, or older.
    fn better(&self, seat: &Seat) -> Option<Seat> {
        let mut known = self.known();
        if known.hubs.len() < 2 {
            return None;
        }
        let (position, mut older) = (seat.position(), true);
        known.live().find_map(|hub| {
            older &= !Arc::ptr_eq(&hub, seat.hub());
            if older || hub.head() > position { hub.join(position) } else { None }
        })
    }
}

impl Known {
    fn live(&mut self) -> impl Iterator<Item = Arc<Hub>> {
        self.hubs.retain(|hub| hub.strong_count() > 0);
        self.hubs.iter().filter_map(Weak::upgrade)
    }

    fn near(&mut self, from: Offset) -> Option<Seat> {
        self.live().find_map(|hub| hub.join(from))
    }

    fn add(&mut self, hub: Hub, at: Offset) -> Seat {
        let hub = Arc::new(hub);
        self.hubs.push(Arc::downgrade(&hub));
        hub.join(at).expect("it was made for this place")
    }
}

enum Company {
    None,
    Others,
}

/// Counts one reader of a place. Dropped, it counts it no more.
struct OneMore {
    readers: Arc<Readers>,
}

impl OneMore {
    fn of(readers: Arc<Readers>) -> Self {
        readers.known().count += 1;
        Self { readers }
    }

    fn company(&self) -> Company {
        if self.readers.known().count > 1 { Company::Others } else { Company::None }
    }
}

impl Drop for OneMore {
    fn drop(&mut self) {
        self.readers.known().count -= 1;
    }
}

enum Way {
    /// With the position after what was read.
    Alone(Box<dyn Reader>, Offset),
    Shared(Seat),
    /// To be found, from here on.
    None(Offset),
}

struct SharedReader {
    way: Way,
    opener: Opener,
    one: OneMore,
}

impl SharedReader {
    /// Others have come: what this one reads alone becomes what all of them read.
    fn share(&mut self, position: Offset) {
        if let Way::Alone(reader, _) = std::mem::replace(&mut self.way, Way::None(position)) {
            self.way = Way::Shared(self.one.readers.bring(reader, position, &self.opener.hubs));
        }
    }
}

#[async_trait]
impl Reader for SharedReader {
    async fn next(&mut self, max_bytes: usize) -> Result<Batch, ReadError> {
        loop {
            match &mut self.way {
                Way::Alone(reader, position) => match self.one.company() {
                    Company::None => {
                        let batch = reader.next(max_bytes).await?;
                        *position = batch.next_offset;
                        return Ok(batch);
                    }
                    Company::Others => {
                        let position = *position;
                        self.share(position);
                    }
                },
                Way::None(from) => self.way = Way::Shared(self.one.readers.seat(&self.opener, *from)),
                Way::Shared(seat) => match seat.take(max_bytes) {
                    Taken::Batch(batch) => return Ok(batch),
                    Taken::Behind => self.way = Way::None(seat.position()),
                    Taken::AtHead => match self.one.readers.better(seat) {
                        Some(better) => self.way = Way::Shared(better),
                        None => seat.more().await?,
                    },
                },
            }
        }
    }
}
