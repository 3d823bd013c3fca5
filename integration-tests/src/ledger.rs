//! The ledger: what was acknowledged to producers against what a receiver got.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use md5::{Digest, Md5};

use crate::request::Seen;

/// What `./test` looks for: a test that says this gets no second try.
pub const BROKEN: &str = "THE GUARANTEE IS BROKEN";

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

/// Topic, partition and offset.
pub type Place = (String, u32, u64);

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
        let place = request.place();
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
                verdict.reordered.push(request.place());
            }
        }
        let overlapping = attempts.windows(2).filter(|pair| !ended_before(pair[0], pair[1].at));
        verdict.overlapping.extend(overlapping.map(|pair| pair[1].place()));
    }
}

/// A receiver on a busy machine notices a little late that the other side has gone.
const NOTICED_WITHIN: Duration = Duration::from_millis(20);

/// Whoever made the attempts, and in whichever process.
fn ended_before(attempt: &Seen, next: Instant) -> bool {
    match (attempt.answered, attempt.broken_off) {
        (Some(answered), _) => answered <= next,
        (None, Some(broken_off)) => broken_off <= next + NOTICED_WITHIN,
        (None, None) => false,
    }
}

/// What each target, such as `/callback`, got: groups that share a receiver have targets of their own.
pub fn by_target(seen: &[Seen]) -> BTreeMap<String, Vec<Seen>> {
    let mut targets: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    seen.iter().for_each(|request| targets.entry(request.target.clone()).or_default().push(request.clone()));
    targets
}

/// Records of one group that succeeded again after `end`, although they had succeeded more than
/// `before` ahead of it: more than a process that ended there may repeat.
pub fn repeated_too_much(seen: &[Seen], end: Instant, before: Duration) -> Vec<Place> {
    let mut first: HashMap<Place, Instant> = HashMap::new();
    let mut bad = Vec::new();
    for request in seen.iter().filter(|s| s.succeeded()) {
        let (place, at) = (request.place(), request.answered.expect("a success was answered"));
        match first.get(&place) {
            Some(earlier) if at > end && *earlier + before < end => bad.push(place),
            Some(_) => {}
            None => drop(first.insert(place, at)),
        }
    }
    bad
}
