//! The calls of librdkafka that its Rust binding does not offer: whether a message that failed may
//! have been written, ids of topics, and taking records from a partition's queue with the offset
//! at which the partition ended.
//!
//! The one place with `unsafe`. Each block says what it relies on.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::slice;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::BorrowedMessage;
use rdkafka_sys as sys;

use crate::ids::{Offset, TopicId};
use crate::record::{Header, Payload, Record};

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

/// One topic as the cluster describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) partitions: u32,
    pub(super) id: Option<TopicId>,
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

/// Asks the cluster for topics, which it does not create; one answer for each name, in that order.
/// Blocks for at most `within` and a little more.
pub(super) fn describe<C: ClientContext>(
    client: &Client<C>,
    names: &[CString],
    within: Duration,
) -> Result<Vec<Result<Description, RDKafkaErrorCode>>, RDKafkaErrorCode> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let millis = c_int::try_from(within.as_millis()).unwrap_or(c_int::MAX);
    let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: all handles are live until the end of this function, where they are freed in reverse
    // order; names are copied by the callee; results live as long as their event.
    unsafe {
        let rk = client.native_ptr();
        let topics = Owned(
            sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()),
            sys::rd_kafka_TopicCollection_destroy,
        );
        let options = Owned(
            sys::rd_kafka_AdminOptions_new(rk, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS),
            sys::rd_kafka_AdminOptions_destroy,
        );
        sys::rd_kafka_AdminOptions_set_request_timeout(options.0, millis, ptr::null_mut(), 0);
        let queue = Owned(sys::rd_kafka_queue_new(rk), sys::rd_kafka_queue_destroy);
        sys::rd_kafka_DescribeTopics(rk, topics.0, options.0, queue.0);
        let event = Owned(sys::rd_kafka_queue_poll(queue.0, millis.saturating_add(200)), sys::rd_kafka_event_destroy);
        if event.0.is_null() {
            return Err(RDKafkaErrorCode::OperationTimedOut);
        }
        let failed = RDKafkaErrorCode::from(sys::rd_kafka_event_error(event.0));
        if failed != RDKafkaErrorCode::NoError {
            return Err(failed);
        }
        let mut count = 0;
        let found = sys::rd_kafka_DescribeTopics_result_topics(sys::rd_kafka_event_DescribeTopics_result(event.0), &raw mut count);
        if found.is_null() || count != names.len() {
            return Err(RDKafkaErrorCode::BadMessage);
        }
        Ok(slice::from_raw_parts(found, count).iter().map(|topic| description(*topic)).collect())
    }
}

/// # Safety
/// `topic` is live.
unsafe fn description(topic: *const sys::rd_kafka_TopicDescription_t) -> Result<Description, RDKafkaErrorCode> {
    // SAFETY: as the caller promises; the parts live as long as the whole.
    unsafe {
        let failed = RDKafkaErrorCode::from(sys::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(topic)));
        if failed != RDKafkaErrorCode::NoError {
            return Err(failed);
        }
        let mut partitions = 0;
        sys::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
        let bits = (sys::rd_kafka_Uuid_most_significant_bits(id), sys::rd_kafka_Uuid_least_significant_bits(id));
        let id = uuid::Uuid::from_u64_pair(bits.0.cast_unsigned(), bits.1.cast_unsigned());
        let id = (!id.is_nil()).then_some(TopicId(id));
        Ok(Description { partitions: u32::try_from(partitions).unwrap_or(u32::MAX), id })
    }
}

/// What lay in a partition's queue.
#[derive(Debug, PartialEq)]
pub(super) enum Taken {
    Record(Record),
    /// The partition had nothing more from here on. Control records and gaps lie before it.
    End(Offset),
    Failed(RDKafkaErrorCode),
}

/// The queue of one partition of one client.
pub(super) struct Queue(Owned<sys::rd_kafka_queue_t>);

// SAFETY: librdkafka's queues are thread-safe.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

const TAKE_RECORDS: usize = 64;

impl Queue {
    /// The same queue as the one that the binding split off. `None` if there is none.
    pub(super) fn of_partition<C: ClientContext>(client: &Client<C>, topic: &CStr, partition: i32) -> Option<Self> {
        // SAFETY: the client is live, and counts references to its queues.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client.native_ptr(), topic.as_ptr(), partition) };
        (!queue.is_null()).then_some(Self(Owned(queue, sys::rd_kafka_queue_destroy)))
    }

    /// What lies there now, up to 64 of them, without waiting. The client must be alive.
    pub(super) fn take(&self, mut sink: impl FnMut(Taken)) -> usize {
        let mut messages = [ptr::null_mut(); TAKE_RECORDS];
        // SAFETY: the array is as long as said.
        let taken = unsafe { sys::rd_kafka_consume_batch_queue(self.0.0, 0, messages.as_mut_ptr(), messages.len()) };
        let taken = usize::try_from(taken).unwrap_or(0);
        for message in &messages[..taken] {
            let message = Owned(*message, sys::rd_kafka_message_destroy);
            // SAFETY: the callee filled so many places, with messages that are ours.
            sink(unsafe { read(message.0) });
        }
        taken
    }
}

/// # Safety
/// `message` is live.
unsafe fn read(message: *mut sys::rd_kafka_message_t) -> Taken {
    // SAFETY: as the caller promises; what it points to lives as long as the message.
    unsafe {
        let offset = Offset(u64::try_from((*message).offset).unwrap_or(0));
        match RDKafkaErrorCode::from((*message).err) {
            RDKafkaErrorCode::NoError => {}
            RDKafkaErrorCode::PartitionEOF => return Taken::End(offset),
            failed => return Taken::Failed(failed),
        }
        let key = bytes((*message).key, (*message).key_len);
        let value = bytes((*message).payload, (*message).len);
        let timestamp = sys::rd_kafka_message_timestamp(message, ptr::null_mut());
        Taken::Record(Record { offset, timestamp, payload: Payload { key, value, headers: headers(message) } })
    }
}

/// # Safety
/// `data` is null or has `len` bytes.
unsafe fn bytes(data: *const c_void, len: usize) -> Option<Bytes> {
    // SAFETY: as the caller promises.
    (!data.is_null()).then(|| Bytes::copy_from_slice(unsafe { slice::from_raw_parts(data.cast(), len) }))
}

/// # Safety
/// `message` is live.
unsafe fn headers(message: *mut sys::rd_kafka_message_t) -> Vec<Header> {
    let mut all = ptr::null_mut();
    // SAFETY: as the caller promises; headers live as long as their message.
    unsafe {
        if RDKafkaErrorCode::from(sys::rd_kafka_message_headers(message, &raw mut all)) != RDKafkaErrorCode::NoError {
            return Vec::new();
        }
        let count = sys::rd_kafka_header_cnt(all);
        let mut headers = Vec::with_capacity(count);
        for index in 0..count {
            let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
            let found = sys::rd_kafka_header_get_all(all, index, &raw mut name, &raw mut value, &raw mut len);
            if RDKafkaErrorCode::from(found) == RDKafkaErrorCode::NoError {
                // Names are text by Kafka's own rule; a header without a value reads as an empty one.
                let name = ByteString::from(CStr::from_ptr(name).to_string_lossy().into_owned());
                headers.push(Header { name, value: bytes(value, len).unwrap_or_default() });
            }
        }
        headers
    }
}

/// The end of a partition as of its last fetch; `None` before there was one. Asks nobody.
pub(super) fn known_end<C: ClientContext>(client: &Client<C>, topic: &CStr, partition: i32) -> Option<Offset> {
    let (mut low, mut high) = (0, 0);
    // SAFETY: the client is live, and the numbers are ours.
    unsafe { sys::rd_kafka_get_watermark_offsets(client.native_ptr(), topic.as_ptr(), partition, &raw mut low, &raw mut high) };
    u64::try_from(high).ok().map(Offset)
}
