//! The example program does what its first lines say.
#![allow(unreachable_pub)]

use std::sync::{Arc, Mutex};

#[path = "../examples/catalog.rs"]
mod catalog;

#[tokio::test]
async fn the_catalog_follows_all_changes_in_order_of_their_subject() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let scrape = catalog::run(said.clone()).await;
    let said = String::from_utf8(said.lock().unwrap().clone()).unwrap();
    let place = |line: &str| said.lines().position(|said| said == line).unwrap_or_else(|| panic!("no {line:?} in\n{said}"));
    let in_order =
        ["table orders: created (attempt 0)", "owner of orders: alice", "owner of orders: bob", "table orders: widened (attempt 0)"];
    assert!(in_order.map(place).is_sorted(), "{said}");
    assert!(place("table customers: the index is busy, later") < place("table customers: created (attempt 1)"));
    place("offset 5 given up after 1 attempt(s): no such table");
    assert_eq!(said.lines().last(), Some("released at offset 8"));
    for series in [
        "catalog_indexed_tables 4",
        r#"catalog_delivered_total{group="catalog",topic="changes"} 6"#,
        r#"catalog_bypassed_total{group="catalog",topic="changes",reason="unknown_subject"} 1"#,
        r#"catalog_skipped_records_total{group="catalog",topic="changes",reason="not_for_us"} 1"#,
        r#"catalog_process_seconds_count{group="catalog",event_type="table"} 5"#,
    ] {
        assert!(scrape.lines().any(|line| line == series), "no {series:?} in\n{scrape}");
    }
}
