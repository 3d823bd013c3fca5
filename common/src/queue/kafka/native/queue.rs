//! The queue of one partition.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::slice;

use bytes::Bytes;
use bytestring::ByteString;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka_sys as sys;

use super::Owned;
use crate::ids::Offset;
use crate::record::{Header, Payload, Record};

/// What lay in a partition's queue.
#[derive(Debug, PartialEq)]
pub(in super::super) enum Taken {
    Record(Record),
    /// The partition had nothing more from here on. Control records and gaps lie before it.
    End(Offset),
    Failed(RDKafkaErrorCode),
}

/// The queue of one partition of one client.
pub(in super::super) struct Queue(Owned<sys::rd_kafka_queue_t>);

// SAFETY: librdkafka's queues are thread-safe.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

/// At most, by one call of [`Queue::take`].
pub(in super::super) const TAKE_RECORDS: usize = 64;

impl Queue {
    /// The same queue as the one that the binding split off. `None` if there is none.
    pub(in super::super) fn of_partition<C: ClientContext>(client: &Client<C>, topic: &CStr, partition: i32) -> Option<Self> {
        // SAFETY: the client is live, and counts references to its queues.
        let queue = unsafe { sys::rd_kafka_queue_get_partition(client.native_ptr(), topic.as_ptr(), partition) };
        (!queue.is_null()).then_some(Self(Owned(queue, sys::rd_kafka_queue_destroy)))
    }

    /// What lies there now, up to 64 of them, without waiting. The client must be alive.
    pub(in super::super) fn take(&self, mut sink: impl FnMut(Taken)) -> usize {
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

    /// Takes everything, for nobody.
    pub(in super::super) fn discard(self) {
        let mut messages = [ptr::null_mut(); TAKE_RECORDS];
        loop {
            // SAFETY: as above.
            let taken = unsafe { sys::rd_kafka_consume_batch_queue(self.0.0, 0, messages.as_mut_ptr(), messages.len()) };
            let taken = usize::try_from(taken).unwrap_or(0);
            messages[..taken].iter().for_each(|message| drop(Owned(*message, sys::rd_kafka_message_destroy)));
            if taken == 0 {
                return;
            }
        }
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
