//! Real `ZooKeeper`.

use std::time::Duration;

use integration_tests::wait;
use integration_tests::zookeeper::ZooKeeper;

#[tokio::test]
async fn the_harness_freezes_kills_and_restarts_one_of_three_servers() {
    let mut servers = ZooKeeper::ensemble(3).await;
    servers.freeze(0);
    assert_eq!(servers.ask(0, "ruok").await, None);
    servers.thaw(0);
    wait::until("it answers again", Duration::from_secs(5), async || servers.ask(0, "ruok").await).await;
    servers.kill(1);
    assert_eq!(servers.ask(1, "ruok").await, None);
    servers.restart(1).await;
}
