//! What a message costs in allocations, on its way in and on its way out, against what it may cost.
//!
//! The parts of `mqgate standalone` run in this process, on a real socket over the embedded log,
//! while an allocator counts. Clients and receivers are threads that allocate nothing, so that all
//! that is counted is ours; one request at a time where that makes the count independent of timing.
//! With `MQGATE_HEAP_PROFILE=FOLDER` each way writes where it allocates, too.
#![allow(clippy::unwrap_used)]

mod cost;
mod gateway;
mod limit;
mod ways;
mod wire;

use std::sync::{Mutex, PoisonError};

use cost::Cost;
use limit::Limit;
use ways::Receiver;

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

/// Debug and release builds count the same. Whoever makes a way cheaper writes down the new figures.
const POST: Limit = Limit { way: "a POST with a key", at: Cost { allocations: 18.2, bytes: 3_980.0 } };
const BATCH: Limit = Limit { way: "a message of a raw batch of 100", at: Cost { allocations: 4.4, bytes: 3_480.0 } };
const DELIVERY: Limit = Limit { way: "a delivery", at: Cost { allocations: 12.2, bytes: 16_680.0 } };

/// The counter is the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn no_message_costs_more_allocations_than_it_did() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let measured = [(POST, ways::post()), (BATCH, ways::batch()), (DELIVERY, ways::delivery(Receiver::Frugal))];
    let verdicts = measured.map(|(limit, cost)| {
        println!("{limit}; measured: {cost}");
        limit.judge(cost)
    });
    let broken: Vec<String> = verdicts.into_iter().filter_map(Result::err).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn what_allocates_twice_as_much_is_found() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a handful")]
    let as_many_again = DELIVERY.at.allocations as usize;
    let refused = DELIVERY.judge(ways::delivery(Receiver::Wasteful { allocations: as_many_again })).unwrap_err();
    assert!(refused.contains("a delivery"), "{refused}");
}
