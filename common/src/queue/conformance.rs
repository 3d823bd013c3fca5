//! What every backend of the queue seam must do, as tests that any of them can run.
//!
//! ```text
//! common::queue_conformance!(|| async { (my_queue, what_it_needs_to_live) });
//! ```
//! makes one `#[tokio::test]` of each. Topics get names of their own, so one queue, or one
//! cluster, may serve all of them. The queue must allow topics to be created, and must not create
//! them by itself.

pub use self::tests::*;

mod tests;

/// One test per promise of the seam, for the backend that the closure makes: it is called once a
/// test, and gives a future of an `Arc<dyn Queue>` and of what must outlive it, such as its folder.
#[macro_export]
macro_rules! queue_conformance {
    ($make:expr) => {
        $crate::queue_conformance! { @tests $make,
            records_come_back_in_order_and_unchanged
            null_empty_and_absent_are_kept_apart
            repeated_headers_keep_their_order
            one_key_goes_to_one_partition
            records_without_a_key_are_spread
            an_explicit_partition_is_kept
            timestamps_are_the_producers_or_the_clocks
            times_are_found_whatever_their_order
            watermarks_follow_the_log
            a_reader_at_the_end_wakes_for_a_new_record
            a_dropped_call_of_next_loses_nothing
            a_reader_can_be_dropped_and_opened_again
            a_batch_is_bounded_and_says_where_it_ends
            a_record_larger_than_the_bound_is_read
            out_of_range_is_an_error_with_the_watermarks
            what_is_unknown_is_named
            topics_are_created_listed_and_deleted
            a_topic_made_again_is_another
            changes_of_topics_are_hinted
        }
    };
    (@tests $make:expr, $($name:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let make = $make;
            let (queue, _outlives) = make().await;
            $crate::queue::conformance::$name(queue).await;
        })*
    };
}
