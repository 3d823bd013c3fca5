//! What is known of topics, and the messages that wait until it is known.

use std::time::{Duration, Instant};

use foldhash::HashMap;

use super::native::Description;
use super::producer::Waiting;
use crate::ids::{Topic, TopicId};
use crate::record::Message;

/// How long "there is no such topic" is believed.
const MISSING_FOR: Duration = Duration::from_millis(500);
/// Topics that are looked for, or were missing lately. Known ones are the cluster's, and so bounded by it.
const MAX_UNKNOWN_TOPICS: usize = 10_000;
/// Messages to topics that are being looked for.
const MAX_WAITING_MESSAGES: usize = 10_000;
const MAX_WAITING_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) partitions: u32,
    pub(super) id: Option<TopicId>,
    /// When the cluster said so last.
    pub(super) seen: Instant,
    /// Once a message was too large for it.
    pub(super) limit: Option<Limit>,
}

/// What a topic allows a batch to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) bytes: usize,
    /// When the cluster said so. It may be raised.
    pub(super) seen: Instant,
}

pub(super) struct Pending {
    pub(super) message: Message,
    /// `None`: answered with the handing over.
    pub(super) waiting: Waiting,
    pub(super) ack: crate::queue::Ack,
}

enum State {
    Known(Known),
    Sought {
        waiting: Vec<Pending>,
        /// It was known, but the client doubts it. Then "there is none" takes more than an answer.
        former: Option<Known>,
    },
    Missing(Instant),
}

/// Where a message to a topic is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Known(Known),
    Missing,
    Unclear,
}

/// What an answer of the cluster has told of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    None,
    Appeared,
    /// It has more partitions, or is another one of that name.
    Changed,
}

/// What became of a message whose topic is not known.
pub(super) enum Enlisted {
    /// It waits, and somebody looks for the topic.
    Waits,
    /// It waits, and whoever gets this has to look for the topic.
    LookFor,
    Full(Pending),
    /// In the meantime.
    Known(Known, Pending),
}

#[derive(Default)]
pub(super) struct Topics {
    states: HashMap<Topic, State>,
    unknown: usize,
    waiting_messages: usize,
    waiting_bytes: usize,
}

impl Topics {
    pub(super) fn standing(&self, topic: &Topic, now: Instant) -> Standing {
        match self.states.get(topic) {
            Some(State::Known(known)) => Standing::Known(*known),
            Some(State::Missing(since)) if now.duration_since(*since) < MISSING_FOR => Standing::Missing,
            _ => Standing::Unclear,
        }
    }

    /// Also of a topic that is doubted.
    pub(super) fn known(&self, topic: &Topic) -> Option<Known> {
        match self.states.get(topic) {
            Some(State::Known(known)) => Some(*known),
            Some(State::Sought { former, .. }) => *former,
            _ => None,
        }
    }

    /// The client does not know a topic that is known here: whoever writes to it waits from now on.
    pub(super) fn doubt(&mut self, topic: &Topic) {
        if let Some(state) = self.states.get_mut(topic)
            && let State::Known(known) = *state
        {
            *state = State::Sought { waiting: Vec::new(), former: Some(known) };
            self.unknown += 1;
        }
    }

    pub(super) fn enlist(&mut self, pending: Pending, now: Instant) -> Enlisted {
        let bytes = pending.message.payload.size_bytes();
        let full = self.waiting_messages >= MAX_WAITING_MESSAGES || self.waiting_bytes + bytes > MAX_WAITING_BYTES;
        let is_new = match self.states.get_mut(&pending.message.topic) {
            Some(State::Known(known)) => return Enlisted::Known(*known, pending),
            _ if full => return Enlisted::Full(pending),
            Some(State::Sought { waiting, .. }) => {
                waiting.push(pending);
                self.waiting_messages += 1;
                self.waiting_bytes += bytes;
                return Enlisted::Waits;
            }
            Some(State::Missing(_)) => false,
            None => true,
        };
        if is_new && !self.make_room(now) {
            return Enlisted::Full(pending);
        }
        self.unknown += usize::from(is_new);
        self.waiting_messages += 1;
        self.waiting_bytes += bytes;
        self.states.insert(pending.message.topic.clone(), State::Sought { waiting: vec![pending], former: None });
        Enlisted::LookFor
    }

    /// Forgets what was missing a while ago, if there is too much of it.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.unknown >= MAX_UNKNOWN_TOPICS {
            let before = self.states.len();
            self.states.retain(|_, state| !matches!(state, State::Missing(since) if now.duration_since(*since) >= MISSING_FOR));
            self.unknown -= before - self.states.len();
        }
        self.unknown < MAX_UNKNOWN_TOPICS
    }

    /// The messages that wait for this topic. Until the topic has a state again, nobody may see it.
    pub(super) fn take_waiting(&mut self, topic: &Topic) -> Vec<Pending> {
        let Some(State::Sought { waiting, .. }) = self.states.get_mut(topic) else { return Vec::new() };
        let waiting = std::mem::take(waiting);
        self.waiting_messages -= waiting.len();
        self.waiting_bytes -= waiting.iter().map(|pending| pending.message.payload.size_bytes()).sum::<usize>();
        waiting
    }

    /// Puts back what could not be handed over, before anything that came since.
    pub(super) fn put_back(&mut self, topic: &Topic, mut waiting: Vec<Pending>) {
        if let Some(State::Sought { waiting: since, .. }) = self.states.get_mut(topic) {
            self.waiting_messages += waiting.len();
            self.waiting_bytes += waiting.iter().map(|pending| pending.message.payload.size_bytes()).sum::<usize>();
            waiting.append(since);
            *since = waiting;
        }
    }

    /// A topic that is being looked for stays so: whoever looks will find it.
    pub(super) fn learn(&mut self, topic: &Topic, found: &Description, now: Instant) -> News {
        match self.states.get_mut(topic) {
            Some(State::Sought { .. }) => News::None,
            Some(State::Known(known)) => {
                let same = (known.partitions, known.id) == (found.partitions, found.id);
                let limit = if known.id == found.id { known.limit } else { None };
                *known = Known { partitions: found.partitions, id: found.id, seen: now, limit };
                if same { News::None } else { News::Changed }
            }
            _ => {
                self.establish(topic, found, now);
                News::Appeared
            }
        }
    }

    /// Known from now on; nothing may wait for it.
    pub(super) fn establish(&mut self, topic: &Topic, found: &Description, now: Instant) -> Known {
        let limit = self.known(topic).and_then(|known| known.limit);
        let known = Known { partitions: found.partitions, id: found.id, seen: now, limit };
        if let Some(State::Sought { .. } | State::Missing(_)) = self.states.insert(topic.clone(), State::Known(known)) {
            self.unknown -= 1;
        }
        known
    }

    /// There is none. Gives whatever waited for it.
    pub(super) fn lose(&mut self, topic: &Topic, now: Instant) -> Vec<Pending> {
        let waiting = self.take_waiting(topic);
        match self.states.insert(topic.clone(), State::Missing(now)) {
            Some(State::Sought { .. } | State::Missing(_)) => {}
            Some(State::Known(_)) | None => self.unknown += 1,
        }
        waiting
    }

    /// No answer was to be had: it is what it was before. Gives whatever waited for it.
    pub(super) fn give_up(&mut self, topic: &Topic) -> Vec<Pending> {
        let waiting = self.take_waiting(topic);
        if let Some(State::Sought { former: Some(known), .. }) = self.states.get(topic) {
            let known = *known;
            self.states.insert(topic.clone(), State::Known(known));
            self.unknown -= 1;
        } else if let Some(State::Sought { .. } | State::Missing(_)) = self.states.remove(topic) {
            self.unknown -= 1;
        }
        waiting
    }

    pub(super) fn limit(&mut self, topic: &Topic, bytes: usize, seen: Instant) {
        if let Some(State::Known(known)) = self.states.get_mut(topic) {
            known.limit = Some(Limit { bytes, seen });
        }
    }

    pub(super) fn known_topics(&self) -> Vec<Topic> {
        let known = self.states.iter().filter(|(_, state)| matches!(state, State::Known(_) | State::Sought { former: Some(_), .. }));
        known.map(|(topic, _)| topic.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::queue::Ack;
    use crate::record::Payload;

    fn topic(name: &str) -> Topic {
        Topic::new(name).unwrap()
    }

    fn pending(name: &str, value: &'static str) -> Pending {
        let payload = Payload { value: Some(value.into()), ..Payload::default() };
        let message = Message { topic: topic(name), partition: None, timestamp: None, payload };
        Pending { message, waiting: Waiting::Nobody, ack: Ack::None }
    }

    fn values(waiting: &[Pending]) -> Vec<&[u8]> {
        waiting.iter().map(|pending| pending.message.payload.value.as_deref().unwrap()).collect()
    }

    const FOUND: Description = Description { partitions: 3, id: None };

    #[test]
    fn messages_to_a_topic_that_is_looked_for_keep_their_order() {
        let (mut topics, now) = (Topics::default(), Instant::now());
        assert!(matches!(topics.enlist(pending("t", "1"), now), Enlisted::LookFor));
        assert!(matches!(topics.enlist(pending("t", "2"), now), Enlisted::Waits));
        let waiting = topics.take_waiting(&topic("t"));
        assert!(matches!(topics.enlist(pending("t", "3"), now), Enlisted::Waits));
        topics.put_back(&topic("t"), waiting);
        assert_eq!(values(&topics.take_waiting(&topic("t"))), [b"1", b"2", b"3"]);
        topics.establish(&topic("t"), &FOUND, now);
        assert!(matches!(topics.enlist(pending("t", "4"), now), Enlisted::Known(known, _) if known.partitions == 3));
        assert_eq!((topics.unknown, topics.waiting_messages, topics.waiting_bytes), (0, 0, 0));
    }

    #[test]
    fn a_missing_topic_is_missing_for_a_moment_only() {
        let (mut topics, now) = (Topics::default(), Instant::now());
        assert!(topics.lose(&topic("t"), now).is_empty());
        assert_eq!(topics.standing(&topic("t"), now), Standing::Missing);
        assert_eq!(topics.standing(&topic("t"), now + MISSING_FOR), Standing::Unclear);
        assert!(matches!(topics.enlist(pending("t", "1"), now), Enlisted::LookFor));
        assert_eq!(values(&topics.lose(&topic("t"), now)), [b"1"]);
        let more = Description { partitions: 4, id: None };
        let learned = [&FOUND, &FOUND, &more].map(|found| topics.learn(&topic("t"), found, now));
        assert_eq!(learned, [News::Appeared, News::None, News::Changed]);
        assert_eq!(topics.unknown, 0);
    }

    #[test]
    fn names_that_nobody_has_do_not_pile_up() {
        let (mut topics, now) = (Topics::default(), Instant::now());
        for n in 0..MAX_UNKNOWN_TOPICS {
            topics.lose(&topic(&format!("t{n}")), now);
        }
        assert!(matches!(topics.enlist(pending("new", "1"), now), Enlisted::Full(_)));
        assert!(matches!(topics.enlist(pending("new", "1"), now + MISSING_FOR), Enlisted::LookFor));
        assert_eq!(topics.states.len(), 1);
    }

    #[test]
    fn a_doubted_topic_stays_known_until_it_is_lost() {
        let (mut topics, now) = (Topics::default(), Instant::now());
        let known = topics.establish(&topic("t"), &FOUND, now);
        topics.doubt(&topic("t"));
        assert_eq!((topics.standing(&topic("t"), now), topics.known(&topic("t"))), (Standing::Unclear, Some(known)));
        assert!(matches!(topics.enlist(pending("t", "1"), now), Enlisted::Waits));
        assert_eq!(values(&topics.give_up(&topic("t"))), [b"1"]);
        assert_eq!(topics.standing(&topic("t"), now), Standing::Known(known));
        topics.doubt(&topic("t"));
        topics.lose(&topic("t"), now);
        assert_eq!((topics.known(&topic("t")), topics.unknown), (None, 1));
    }

    #[test]
    fn what_waits_is_bounded() {
        let (mut topics, now) = (Topics::default(), Instant::now());
        for _ in 0..MAX_WAITING_MESSAGES {
            topics.enlist(pending("t", "x"), now);
        }
        assert!(matches!(topics.enlist(pending("t", "x"), now), Enlisted::Full(_)));
        topics.give_up(&topic("t"));
        assert_eq!((topics.unknown, topics.waiting_messages, topics.waiting_bytes), (0, 0, 0));
    }
}
