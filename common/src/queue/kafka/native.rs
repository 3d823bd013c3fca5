//! The calls of librdkafka that its Rust binding does not offer: whether a message that failed may
//! have been written, brokers added later, ids of topics, the ends of many partitions at once, and
//! taking records from a partition's queue with the offset at which the partition ended.
//!
//! The one place with `unsafe`. Each block says what it relies on.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int};
use std::time::Duration;

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::BorrowedMessage;
use rdkafka_sys as sys;

use crate::ids::Offset;

pub(super) use self::ends::ends;
pub(super) use self::queue::{Queue, TAKE_RECORDS, Taken};
pub(super) use self::topics::{Description, describe};

mod ends;
mod queue;
mod topics;

/// Whether a message that was not delivered may be in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persisted {
    No,
    Maybe,
}

pub(super) fn persisted(message: &BorrowedMessage<'_>) -> Persisted {
    // SAFETY: the pointer is that of a live message.
    match unsafe { sys::rd_kafka_message_status(message.ptr()) } {
        sys::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => Persisted::No,
        _ => Persisted::Maybe,
    }
}

/// Frees what it holds, as the function says that came with it.
struct Owned<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by librdkafka, freed once, by the function that belongs to it.
            unsafe { (self.1)(self.0) }
        }
    }
}

/// Waits for the answer of an administrator's question.
///
/// # Safety
/// `queue` is live.
unsafe fn answer(queue: *mut sys::rd_kafka_queue_t, within: Duration) -> Result<Owned<sys::rd_kafka_event_t>, RDKafkaErrorCode> {
    // The client's own timer comes first, and says more.
    let millis = millis(within).saturating_add(200);
    // SAFETY: as the caller promises; the event is ours.
    let event = unsafe { Owned(sys::rd_kafka_queue_poll(queue, millis), sys::rd_kafka_event_destroy) };
    if event.0.is_null() {
        return Err(RDKafkaErrorCode::OperationTimedOut);
    }
    // SAFETY: it is live.
    match RDKafkaErrorCode::from(unsafe { sys::rd_kafka_event_error(event.0) }) {
        RDKafkaErrorCode::NoError => Ok(event),
        failed => Err(failed),
    }
}

fn millis(within: Duration) -> c_int {
    c_int::try_from(within.as_millis()).unwrap_or(c_int::MAX)
}

/// Tells a client of brokers, `host:port,host:port`, beside those that it knows.
pub(super) fn add_brokers<C: ClientContext>(client: &Client<C>, brokers: &str) {
    let brokers = CString::new(brokers).unwrap_or_default();
    // SAFETY: the client is live, and copies what it is told.
    unsafe { sys::rd_kafka_brokers_add(client.native_ptr(), brokers.as_ptr()) };
}

/// The end of a partition as of its last fetch; `None` before there was one. Asks nobody.
pub(super) fn known_end<C: ClientContext>(client: &Client<C>, topic: &CStr, partition: i32) -> Option<Offset> {
    let (mut low, mut high) = (0, 0);
    // SAFETY: the client is live, and the numbers are ours.
    unsafe { sys::rd_kafka_get_watermark_offsets(client.native_ptr(), topic.as_ptr(), partition, &raw mut low, &raw mut high) };
    u64::try_from(high).ok().map(Offset)
}
