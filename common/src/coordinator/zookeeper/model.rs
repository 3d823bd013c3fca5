//! The model test of the protocol: random histories of pushers that come, go, crash and freeze over
//! servers and networks that lose, delay and forget, with the protocol's invariants checked after
//! every step.
//!
//! Real: the coordinator with all of its verbs, the session's task, the lease, the rules of claim,
//! birth, outcome and assignment. Simulated: the servers behind [`super::servers`], time, the log,
//! receivers, and the least of a pusher that keeps partitions (`keeper`). Each process has a runtime
//! of its own whose clock stands still, so a history is the same each time it is run.
//!
//! A server that is cut off from its leader goes on noting of which clients it heard, and once its
//! connection carries again it first answers the pings that waited there (`Learner.ping`); or the
//! connection is lost, and with it those of its clients, who ask the leader for their sessions anew
//! (`Learner.shutdown`, `REVALIDATE`). No client stays connected to a server that has forgotten it.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use self::history::History;
use self::steps::histories;
use self::wire::Broken;

mod history;
mod keeper;
mod process;
mod steps;
mod tree;
mod truth;
mod turns;
mod wire;
mod world;

/// Of all shards together.
const HISTORIES: u32 = 10_000;
const SHARDS: u32 = 4;
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

fn run(seed: u64, cases: u32, broken: Option<Broken>, max_shrink_iters: u32) -> Result<(), String> {
    let checked = runner(seed, cases, max_shrink_iters)
        .run(&histories(MAX_STEPS), |(setup, steps)| History::run(&setup, &steps, broken).map_err(TestCaseError::fail));
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
        panic!("seed {seed}: {violation}");
    }
}

#[test]
fn every_history_keeps_the_invariants_first_shard() {
    shard(0);
}

#[test]
fn every_history_keeps_the_invariants_second_shard() {
    shard(1);
}

#[test]
fn every_history_keeps_the_invariants_third_shard() {
    shard(2);
}

#[test]
fn every_history_keeps_the_invariants_fourth_shard() {
    shard(3);
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
