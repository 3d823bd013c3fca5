//! The model test of the protocol: random histories of pushers that come, go, crash and freeze over
//! servers and networks that lose, delay and forget, with the protocol's invariants checked after
//! every step.
//!
//! Real: the fleet with its births, membership, looks and keepers, the committer, the engine, and the `ZooKeeper`
//! coordinator with all that belongs to it. Not of the pusher: configuration, reload, admin port, and HTTP with dead
//! letters, in the place of which `process` has receivers. What is simulated is in `common`, module
//! `coordinator::zookeeper::model`.

use common::coordinator::zookeeper::model::{Broken, Course, Flow, Setup, Step, What, history};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use self::process::Running;
use self::steps::histories;
use crate::backoff;

mod process;
mod steps;

/// Of all shards together.
const HISTORIES: u32 = 10_000;
const SHARDS: u32 = 16;
const MAX_STEPS: usize = 30;

fn runner(seed: u64, cases: u32, max_shrink_iters: u32) -> TestRunner {
    let config = Config { cases, max_shrink_iters, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// `MQGATE_MODEL_SEED` begins other histories than CI's; `MQGATE_MODEL_HISTORIES` runs more.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

fn course(setup: &Setup, steps: &[Step], broken: Option<Broken>) -> Result<Course, String> {
    backoff::simulated::begin();
    history::<Running>(setup, steps, broken)
}

fn run(seed: u64, cases: u32, broken: Option<Broken>, max_shrink_iters: u32) -> Result<(), String> {
    let checked = runner(seed, cases, max_shrink_iters)
        .run(&histories(MAX_STEPS), |(setup, steps)| course(&setup, &steps, broken).map(drop).map_err(TestCaseError::fail));
    match checked {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, (setup, steps))) => Err(format!("{reason}\n{setup:?}\n{steps:?}")),
        Err(TestError::Abort(reason)) => Err(reason.to_string()),
    }
}

fn shard(number_of: u32) {
    let seed = number("MQGATE_MODEL_SEED", 1) * u64::from(SHARDS) + u64::from(number_of);
    let cases = u32::try_from(number("MQGATE_MODEL_HISTORIES", u64::from(HISTORIES))).unwrap() / SHARDS;
    if let Err(violation) = run(seed, cases, None, 2000) {
        panic!("THE GUARANTEE IS BROKEN in the model, seed {seed}: {violation}");
    }
}

/// Many, so that none takes long: they run beside each other.
mod every_history_keeps_the_invariants {
    macro_rules! shards {
        ($($name:ident: $number:literal)*) => {
            $(#[test]
            fn $name() {
                super::shard($number);
            })*
        };
    }

    shards! {
        shard_0: 0 shard_1: 1 shard_2: 2 shard_3: 3 shard_4: 4 shard_5: 5 shard_6: 6 shard_7: 7
        shard_8: 8 shard_9: 9 shard_10: 10 shard_11: 11 shard_12: 12 shard_13: 13 shard_14: 14 shard_15: 15
    }
}

/// A rule left out is found out by one of `invariants`.
fn caught(broken: Broken, invariants: &[u32]) {
    let violation = run(1, 3000, Some(broken), 0).expect_err("nobody noticed that the rule was broken");
    assert!(invariants.iter().any(|number| violation.contains(&format!("invariant {number}:"))), "{violation}");
}

#[test]
fn a_pair_that_is_not_written_at_once_is_caught() {
    caught(Broken::PairApart, &[1, 2, 6, 9]);
}

#[test]
fn a_lease_by_the_clients_own_expiry_is_caught() {
    caught(Broken::LeaseByExpired, &[4, 5]);
}

#[test]
fn an_owner_known_by_its_text_is_caught() {
    caught(Broken::OwnerByText, &[3, 4, 5, 6, 9]);
}

#[test]
fn a_missing_birth_is_caught() {
    caught(Broken::BirthMissing, &[1]);
}

#[test]
fn a_lease_that_rests_on_a_write_that_the_leader_has_not_heard_of_is_caught() {
    caught(Broken::LeaseUnsettled, &[4, 5]);
}

#[test]
fn a_next_in_rank_that_does_not_wait_for_its_turn_is_caught() {
    caught(Broken::NextTooEarly, &[9]);
}

#[test]
fn a_partition_that_is_left_to_who_cannot_claim_it_is_caught() {
    caught(Broken::NextNever, &[9]);
}

#[test]
fn a_partition_that_is_given_back_to_who_cannot_claim_it_is_caught() {
    caught(Broken::NextForgets, &[9]);
}

#[test]
fn a_pause_that_is_ignored_is_caught() {
    caught(Broken::PauseIgnored, &[7]);
}

#[test]
fn a_version_that_is_ignored_is_caught() {
    caught(Broken::VersionIgnored, &[1, 2, 3, 6]);
}

/// What fails can be looked at, and be made smaller. Nearly: see the module in `common`.
#[test]
fn a_history_is_the_same_each_time() {
    const HISTORIES: usize = 100;
    let mut runner = runner(1, 0, 0);
    let is_the_same = |_: &usize| {
        let (setup, steps) = histories(MAX_STEPS).new_tree(&mut runner).unwrap().current();
        course(&setup, &steps, None) == course(&setup, &steps, None)
    };
    let same = (0..HISTORIES).filter(is_the_same).count();
    assert!(same >= HISTORIES * 9 / 10, "{same} of {HISTORIES}");
}

/// Found by the model test: a claim that came during a look at what is vacant.
#[test]
fn who_claims_while_others_look_keeps_its_turn() {
    let setup = Setup { processes: 3, ends: vec![0, 0, 7], inherited: vec![None; 3], at_most: 1, bypass: false };
    let deleted = Step::Delete { partition: 1, what: What::Owner };
    let steps = [Step::Pass(2500), Step::Waver(1, 2500), Step::Network(0, Flow::Mute), deleted, Step::Pass(7000)];
    course(&setup, &steps, None).unwrap();
}

/// Found by the model test: a commit whose answer was lost, an owner node that was deleted, and then a foreign cursor.
#[test]
fn a_foreign_cursor_is_not_written_over_although_the_owner_node_is_gone() {
    let setup = Setup { processes: 2, ends: vec![0], inherited: vec![None], at_most: 1, bypass: false };
    let before = [Step::Crash(0), Step::Pass(250), Step::Pass(7000), Step::Pass(250), Step::Append { partition: 0, records: 2 }];
    let deleted = Step::Delete { partition: 0, what: What::Owner };
    let after = [Step::Pass(500), Step::RecreateTopic, deleted, Step::Network(1, Flow::Mute)];
    let last = [Step::Append { partition: 0, records: 3 }, Step::Pass(2500), Step::ForeignSet { partition: 0, to: 2 }];
    course(&setup, &[&before[..], &after, &last].concat(), None).unwrap();
}
