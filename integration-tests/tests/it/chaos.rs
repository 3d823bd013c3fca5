//! The guarantee under faults: three minutes of the chaos run. `--bin chaos` plays longer ones.

use std::time::Duration;

use integration_tests::chaos::Chaos;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_reordered_while_everything_is_broken() {
    let report = Chaos { seed: 4, duration: Duration::from_secs(150) }.play(|line| println!("{line}")).await;
    println!("{report}");
    assert!(report.faults() >= 30 && report.acked() > 3_000, "too little happened:\n{report}");
    // Overlaps are judged by whoever reads the table: a receiver notices late that a connection was reset.
    assert_eq!(report.lost() + report.reordered(), 0, "THE GUARANTEE IS BROKEN:\n{report}");
}
