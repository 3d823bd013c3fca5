//! The ends of many partitions, with one question.

use std::ffi::CString;
use std::ptr;
use std::slice;
use std::time::Duration;

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka_sys as sys;

use super::{Owned, answer, millis};
use crate::ids::Offset;

/// One after the newest committed record of each partition, in that order; `None` where it is not to
/// be had. Blocks for at most `within` and a little more.
pub(in super::super) fn ends<C: ClientContext>(
    client: &Client<C>,
    partitions: &[(CString, i32)],
    within: Duration,
) -> Result<Vec<Option<Offset>>, RDKafkaErrorCode> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let latest = sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64;
    // SAFETY: all handles are live until the end of this function, where they are freed in reverse
    // order; names are copied by the callee; results live as long as their event.
    unsafe {
        let rk = client.native_ptr();
        let list = Owned(
            sys::rd_kafka_topic_partition_list_new(i32::try_from(partitions.len()).unwrap_or(0)),
            sys::rd_kafka_topic_partition_list_destroy,
        );
        for (topic, partition) in partitions {
            (*sys::rd_kafka_topic_partition_list_add(list.0, topic.as_ptr(), *partition)).offset = latest;
        }
        let options = Owned(
            sys::rd_kafka_AdminOptions_new(rk, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS),
            sys::rd_kafka_AdminOptions_destroy,
        );
        sys::rd_kafka_AdminOptions_set_request_timeout(options.0, millis(within), ptr::null_mut(), 0);
        let committed = sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED;
        let refused = sys::rd_kafka_AdminOptions_set_isolation_level(options.0, committed);
        drop(Owned(refused, sys::rd_kafka_error_destroy));
        let queue = Owned(sys::rd_kafka_queue_new(rk), sys::rd_kafka_queue_destroy);
        sys::rd_kafka_ListOffsets(rk, list.0, options.0, queue.0);
        let event = answer(queue.0, within)?;
        let mut count = 0;
        let found = sys::rd_kafka_ListOffsets_result_infos(sys::rd_kafka_event_ListOffsets_result(event.0), &raw mut count);
        if found.is_null() {
            return Err(RDKafkaErrorCode::BadMessage);
        }
        let found = slice::from_raw_parts(found, count).iter().map(|info| {
            let partition = &*sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
            let name = std::ffi::CStr::from_ptr(partition.topic).to_owned();
            let failed = RDKafkaErrorCode::from(partition.err) != RDKafkaErrorCode::NoError;
            ((name, partition.partition), u64::try_from(partition.offset).ok().filter(|_| !failed).map(Offset))
        });
        // In an order of the callee's.
        let found: foldhash::HashMap<_, _> = found.collect();
        Ok(partitions.iter().map(|partition| found.get(partition).copied().flatten()).collect())
    }
}
