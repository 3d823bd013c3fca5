//! Topics as the cluster describes them, with their ids.

use std::ffi::CString;
use std::ptr;
use std::slice;
use std::time::Duration;

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka_sys as sys;

use super::{Owned, answer, millis};
use crate::ids::TopicId;

/// One topic as the cluster describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Description {
    pub(in super::super) partitions: u32,
    pub(in super::super) id: Option<TopicId>,
}

/// Asks the cluster for topics, which it does not create; one answer for each name, in that order.
/// Blocks for at most `within` and a little more.
pub(in super::super) fn describe<C: ClientContext>(
    client: &Client<C>,
    names: &[CString],
    within: Duration,
) -> Result<Vec<Result<Description, RDKafkaErrorCode>>, RDKafkaErrorCode> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
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
        sys::rd_kafka_AdminOptions_set_request_timeout(options.0, millis(within), ptr::null_mut(), 0);
        let queue = Owned(sys::rd_kafka_queue_new(rk), sys::rd_kafka_queue_destroy);
        sys::rd_kafka_DescribeTopics(rk, topics.0, options.0, queue.0);
        let event = answer(queue.0, within)?;
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
