//! The ledger: what was acknowledged to producers against what a receiver got.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use md5::{Digest, Md5};

use crate::request::Seen;

/// What `./test` looks for: a test that says this gets no second try.
const BROKEN: &str = "THE GUARANTEE IS BROKEN";

pub fn hash(body: &[u8]) -> [u8; 16] {
    Md5::digest(body).into()
}

/// A message that was answered 200.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acked {
    pub topic: String,
    pub partition: u32,
    pub offset: u64,
    pub key: Option<String>,
    pub digest: [u8; 16],
}

type Place = (String, u32, u64);

/// What the ledger found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Acknowledged, and never delivered.
    pub lost: Vec<Place>,
    /// Delivered with another body or key than acknowledged.
    pub altered: Vec<Place>,
    /// Successes beyond the first of each record.
    pub repeats: usize,
    /// First successes of a key out of offset order.
    pub reordered: Vec<Place>,
    /// Attempts of a key that began before the former one had ended.
    pub overlapping: Vec<Place>,
    /// First successes.
    pub delivered: usize,
}

impl Verdict {
    /// Everything but repeats, which each test bounds by itself.
    #[track_caller]
    pub fn assert_nothing_lost_or_reordered(&self) {
        let bad = [("lost", &self.lost), ("altered", &self.altered), ("reordered", &self.reordered), ("overlapping", &self.overlapping)];
        for (what, places) in bad {
            assert!(places.is_empty(), "{BROKEN}: {} {what}, such as {:?}", places.len(), &places[..places.len().min(5)]);
        }
    }
}

/// Compares. `seen` is one receiver's log of one group, in the order of arrival.
pub fn judge(acked: &[Acked], seen: &[Seen]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut first: BTreeMap<Place, &Seen> = BTreeMap::new();
    for request in seen.iter().filter(|s| s.succeeded()) {
        let place = (request.topic().to_owned(), request.partition(), request.offset());
        if first.insert(place.clone(), request).is_some() {
            verdict.repeats += 1;
        }
    }
    verdict.delivered = first.len();
    for message in acked {
        let place = (message.topic.clone(), message.partition, message.offset);
        match first.get(&place) {
            None => verdict.lost.push(place),
            Some(s) if hash(&s.body) != message.digest || s.key() != message.key.as_deref() => verdict.altered.push(place),
            Some(_) => {}
        }
    }
    keys(seen, &mut verdict);
    verdict
}

/// Order and overlap of each key of each partition.
fn keys(seen: &[Seen], verdict: &mut Verdict) {
    let mut by_key: HashMap<(&str, u32, &str), Vec<&Seen>> = HashMap::new();
    for request in seen {
        if let Some(key) = request.key() {
            by_key.entry((request.topic(), request.partition(), key)).or_default().push(request);
        }
    }
    for attempts in by_key.values() {
        let mut done = BTreeSet::new();
        for request in attempts.iter().filter(|s| s.succeeded()) {
            let is_first = done.insert(request.offset());
            if is_first && done.last() != Some(&request.offset()) {
                verdict.reordered.push(place_of(request));
            }
        }
        for pair in attempts.windows(2) {
            if pair[0].answered.is_some_and(|ended| pair[1].at < ended) {
                verdict.overlapping.push(place_of(pair[1]));
            }
        }
    }
}

fn place_of(request: &Seen) -> Place {
    (request.topic().to_owned(), request.partition(), request.offset())
}
