//! The promises that every backend keeps.

use super::World;

async fn fresh() -> World {
    World::fresh().await
}

common::coordinator_conformance!(fresh);
