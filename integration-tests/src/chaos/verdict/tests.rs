//! What the ledger must and must not call broken.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::*;
use crate::chaos::faults::{Fault, Kind};
use crate::chaos::orders::{Moved, Pause, Replay};
use crate::chaos::senders::Senders;
use crate::chaos::world::ORDERS;
use crate::gateway::{Setup, group};
use crate::ledger::hash;
use crate::load::Load;
use crate::producer::Producer;
use crate::receiver::{Answer, Receiver};
use crate::relay::Relay;

const GROUP: &str = "slow";
const MS: Duration = Duration::from_millis(1);

struct Scene {
    began: Instant,
    seen: Vec<Seen>,
    sent: Sent,
    owners: Owners,
    done: Done,
}

impl Scene {
    /// Messages of one key at offsets 0, 1, …, all acknowledged at once.
    fn new(messages: u64) -> Self {
        let began = Instant::now();
        let acked = |offset: u64| {
            let digest = hash(offset.to_string().as_bytes());
            (Acked { topic: ORDERS.into(), partition: 0, offset, key: Some("k".into()), digest }, began)
        };
        let sent = Sent { acked: (0..messages).map(acked).collect(), refused: 0, unknown: 0 };
        Self { began, seen: Vec::new(), sent, owners: Owners::default(), done: Done::default() }
    }

    /// An attempt that was open from one millisecond to another; `None`: broken off.
    fn attempt(&mut self, offset: u64, epoch: u64, (from, to): (u32, u32), status: Option<u16>) {
        let headers = [
            ("X-Kmq-Topic", ORDERS.to_owned()),
            ("X-Kmq-Partition", "0".to_owned()),
            ("X-Kmq-Offset", offset.to_string()),
            ("X-Kmq-Epoch", epoch.to_string()),
            ("X-Kmq-Partition-Key", "k".to_owned()),
            ("X-Retry-Times", "0".to_owned()),
        ];
        let (at, ended) = (self.began + from * MS, self.began + to * MS);
        self.seen.push(Seen {
            method: "POST".into(),
            target: "/".into(),
            headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
            body: offset.to_string().into(),
            at,
            answered: status.map(|_| ended),
            broken_off: status.is_none().then_some(ended),
            status,
            connection: self.seen.len() as u64,
            peer: ([127, 0, 0, 1], 1).into(),
        });
    }

    fn fault(&mut self, kind: Kind, deed: Deed, whom: &str, (from, to): (u32, u32)) {
        self.done.faults.push(Fault { kind, deed, whom: whom.into(), from: self.began + from * MS, to: self.began + to * MS });
    }

    /// A replay that was answered, asked for and answered at these milliseconds.
    fn replay(&mut self, (old, new): (u64, u64), (asked, answered): (u32, u32)) {
        let moved = Moved { topic: ORDERS.into(), partition: 0, old: Some(old), new };
        let (asked, answered) = (self.began + asked * MS, self.began + answered * MS);
        self.done.replays.push(Replay { group: GROUP, asked, answered, moved: Some(vec![moved]) });
    }

    /// A line of a pusher's log, as it is.
    fn owned(&mut self, pusher: usize, epoch: u64) {
        let line = format!(r#"{{"level":"DEBUG","group":"{GROUP}","topic":"{ORDERS}","partition":0,"cursor":"0","epoch":{epoch}}}"#);
        self.owners.read(pusher, &format!("{line}\n{{\"epoch\":5, cut sho"));
    }

    fn judge(&self, cursor: u64) -> Verdict {
        let case = Case { group: GROUP, seen: &self.seen, evidence: Evidence::default(), owners: &self.owners, done: &self.done };
        judge(&case, &self.sent, |acked| acked.offset < cursor)
    }
}

const OK: Option<u16> = Some(200);

#[test]
fn what_is_missing_is_lost_only_once_the_cursor_has_passed_it() {
    let mut scene = Scene::new(3);
    scene.attempt(0, 1, (0, 1), OK);
    let verdict = scene.judge(2);
    assert_eq!((verdict.lost, verdict.late), (vec!["orders/0 offset 1".to_owned()], vec!["orders/0 offset 2".to_owned()]));
}

#[test]
fn first_successes_out_of_order_are_found_and_a_repeat_is_none() {
    let mut scene = Scene::new(3);
    for (offset, epoch, from) in [(0, 1, 0), (2, 1, 10), (1, 2, 20), (2, 2, 30)] {
        scene.attempt(offset, epoch, (from, from + 1), OK);
    }
    let verdict = scene.judge(3);
    assert_eq!((verdict.reordered.len(), verdict.delivered), (1, 3));
    assert_eq!(verdict.repeats.values().sum::<usize>(), 1);
}

#[test]
fn attempts_at_the_same_time_overlap_however_the_former_ends() {
    for status in [OK, Some(500), None] {
        let mut scene = Scene::new(2);
        scene.attempt(0, 1, (0, 30), status);
        scene.attempt(1, 1, (20, 40), OK);
        scene.attempt(1, 1, (40, 50), OK);
        assert_eq!(scene.judge(2).overlaps.live.len(), 1, "{status:?}");
    }
}

#[test]
fn only_the_frozen_pusher_itself_is_excused() {
    for (frozen, live) in [("1", 0), ("2", 1)] {
        let mut scene = Scene::new(1);
        scene.owned(1, 7);
        scene.owned(2, 8);
        scene.fault(Kind::Pusher, Deed::Freeze, frozen, (5, 9_000));
        scene.attempt(0, 8, (8_990, 9_020), OK);
        scene.attempt(0, 7, (9_010, 9_050), OK);
        let overlaps = scene.judge(1).overlaps;
        assert_eq!((overlaps.live.len(), overlaps.frozen), (live, 1 - live), "{frozen}");
    }
}

#[test]
fn a_repeat_is_put_down_to_what_was_done_to_its_former_owner() {
    let mut scene = Scene::new(2);
    scene.owned(3, 7);
    scene.fault(Kind::Pusher, Deed::Kill, "3", (10, 12));
    scene.fault(Kind::Pusher, Deed::Terminate, "2", (11, 13));
    scene.fault(Kind::Pusher, Deed::Slow, "3", (13, 5_000));
    scene.attempt(0, 7, (0, 1), OK);
    scene.attempt(1, 7, (2, 3), OK);
    scene.attempt(1, 7, (4, 5), OK);
    scene.attempt(0, 8, (6_000, 6_001), OK);
    let expected = BTreeMap::from([(Cause::AnswerLost, 1), (Cause::Takeover(Deed::Kill), 1)]);
    assert_eq!(scene.judge(2).repeats, expected);
}

#[test]
fn everything_from_the_target_of_a_replay_on_must_come_again() {
    let mut scene = Scene::new(3);
    (0..3).for_each(|offset| scene.attempt(offset, 1, (10, 11), OK));
    scene.replay((3, 1), (20, 21));
    scene.attempt(2, 2, (30, 31), OK);
    let verdict = scene.judge(3);
    assert_eq!((verdict.not_replayed, verdict.lost), (vec!["orders/0 offset 1".to_owned()], Vec::new()));
    assert_eq!(verdict.repeats, BTreeMap::from([(Cause::Replay, 1)]));
    scene.replay((0, 2), (25, 26));
    assert!(scene.judge(3).not_replayed.is_empty(), "a later replay skips what the former asked for");
}

#[test]
fn what_only_a_replay_brought_was_lost() {
    let mut scene = Scene::new(2);
    scene.attempt(0, 1, (10, 11), OK);
    scene.replay((2, 0), (20, 21));
    (0..2).for_each(|offset| scene.attempt(offset, 2, (30, 31), OK));
    let verdict = scene.judge(2);
    assert_eq!(verdict.lost, ["orders/0 offset 1: only a replay brought it"]);
    scene.done.replays[0].moved.as_mut().unwrap()[0].old = Some(1);
    assert!(scene.judge(2).lost.is_empty(), "the cursor still waited for it");
}

#[test]
fn an_owner_has_a_while_to_read_that_its_group_is_paused_and_no_more() {
    let mut scene = Scene::new(3);
    scene.owned(1, 7);
    let (answered, resumed) = (scene.began, scene.began + 15_000 * MS);
    scene.done.pauses.push(Pause { group: GROUP, answered, resumed });
    scene.attempt(0, 7, (11_000, 11_001), OK);
    scene.attempt(1, 7, (12_500, 12_501), OK);
    scene.attempt(2, 7, (15_500, 15_501), OK);
    let verdict = scene.judge(3);
    assert_eq!((verdict.while_paused.len(), verdict.obeyed.as_slice()), (1, [12_500 * MS].as_slice()));
    scene.fault(Kind::Pusher, Deed::Freeze, "1", (11_500, 12_400));
    assert_eq!(scene.judge(3).obeyed, [11_000 * MS], "what it had begun before it was frozen");
}

#[test]
fn a_takeover_lasts_from_the_kill_to_the_first_attempt_of_the_next_owner() {
    let mut scene = Scene::new(2);
    scene.owned(3, 7);
    scene.fault(Kind::Pusher, Deed::Kill, "3", (10, 12));
    scene.attempt(0, 7, (0, 1), OK);
    scene.attempt(1, 9, (6_010, 6_011), OK);
    let case = |scene: &Scene| {
        takeover::times(&Case { group: GROUP, seen: &scene.seen, evidence: Evidence::default(), owners: &scene.owners, done: &scene.done })
    };
    assert_eq!(case(&scene), [Duration::from_secs(6)]);
    scene.fault(Kind::Receiver, Deed::Freeze, GROUP, (5_000, 6_500));
    assert!(case(&scene).is_empty());
}

#[test]
fn a_partition_without_anything_to_do_makes_no_pause() {
    let mut scene = Scene::new(2);
    scene.sent.acked[1].1 += 5_000 * MS;
    scene.attempt(0, 7, (30, 31), OK);
    scene.attempt(1, 7, (5_200, 5_201), OK);
    let pauses = scene.judge(2).pauses;
    assert_eq!(pauses[&(ORDERS.to_owned(), 0)], 200 * MS);
}

/// The real pusher: on a connection that is reset it tries again at once, sooner than a receiver may have noticed.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_connection_is_reset_has_ended_before_the_next_begins() {
    const RESETS: u32 = 60;
    let receiver = Receiver::ok().await;
    let relay = Relay::start(receiver.addr).await;
    let senders = Arc::new(Senders::new(relay.clients()));
    let book = senders.clone();
    receiver.script(move |seen| {
        book.arrived(seen);
        Answer::Status(200).after(Duration::from_millis(seen.offset() * 37 % 120))
    });
    let policy = json!({"worker_num": 32, "timeout": "2s", "retry_times": 2, "retry_backoff": {"initial": "50ms", "max": "200ms"}});
    let gateway = Setup::groups([group(GROUP, ORDERS, &format!("http://{}/", relay.addr()), &policy)]).start().await;
    let load = Load::start(Producer::new(gateway.api, ORDERS), 200, 20);
    for _ in 0..RESETS {
        tokio::time::sleep(60 * MS).await;
        relay.reset();
    }
    let acked = load.stop().await;
    let delivered = |seen: &[Seen]| crate::ledger::judge(&acked, seen).lost.is_empty();
    crate::wait::until("all of it", Duration::from_secs(30), || async { receiver.look(delivered).then_some(()) }).await;
    let seen = receiver.seen();
    let case = Case { group: GROUP, seen: &seen, evidence: senders.evidence(), owners: &Owners::default(), done: &Done::default() };
    let overlaps = overlap::find(&case);
    let broken_off = seen.iter().filter(|seen| seen.broken_off.is_some()).count();
    println!("{} requests, {broken_off} of them broken off, {} of these noticed late", seen.len(), overlaps.given_up);
    assert!(broken_off > RESETS as usize / 2, "{broken_off}");
    assert_eq!(overlaps.live, Vec::<String>::new());
}
