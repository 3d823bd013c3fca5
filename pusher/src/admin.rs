//! The admin API below `/v1`.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post, put};
use common::coordinator::CoordinatorError;
use common::problem::{Kind, Problem};
use common::queue::{CreateTopicError, Queue, QueueError};

use crate::readout::Readout;
use crate::roster::Roster;

mod control;
mod cursors;
mod groups;
mod messages;
mod policy;
mod replay;
mod topics;
pub mod view;

/// What the handlers answer from.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) roster: Roster,
    pub(crate) readout: Readout,
    pub(crate) instance: Arc<str>,
    /// Of the routes about topics.
    pub(crate) queue: Arc<dyn Queue>,
}

/// Every route. Guard, token and content type are the admin port's, before any of these.
pub(crate) fn routes(admin: Admin) -> Router {
    Router::new()
        .route("/groups", get(groups::list))
        .route("/groups/{group}", get(groups::detail))
        .route("/groups/{group}/cursors", get(cursors::list))
        .route("/groups/{group}/pause", post(control::pause))
        .route("/groups/{group}/resume", post(control::resume))
        .route("/groups/{group}/replay", post(replay::replay))
        .route("/groups/{group}/failures", get(later))
        .route("/topics", get(topics::list))
        .route("/topics/{topic}", put(topics::create).delete(topics::delete))
        .route("/topics/{topic}/messages", get(messages::list))
        .with_state(admin)
}

/// Named rather than missing, so that nobody looks for a spelling mistake.
async fn later() -> Problem {
    Problem::new(Kind::NotFound, "failures come in a later version; this one does not have them")
}

fn queue_refused(error: &QueueError) -> Problem {
    let kind = match error {
        QueueError::UnknownTopic(_) => Kind::UnknownTopic,
        QueueError::UnknownPartition(..) => Kind::UnknownPartition,
        QueueError::Unavailable(_) => Kind::Unavailable,
        QueueError::Storage(_) => Kind::StorageFailed,
    };
    Problem::new(kind, error.to_string())
}

fn create_refused(error: &CreateTopicError) -> Problem {
    match error {
        CreateTopicError::Exists(_) => Problem::new(Kind::Exists, error.to_string()),
        CreateTopicError::TooMany(_) => Problem::new(Kind::TooManyTopics, error.to_string()),
        CreateTopicError::Partitions { .. } => Problem::new(Kind::Malformed, error.to_string()),
        CreateTopicError::Queue(error) => queue_refused(error),
    }
}

fn coordinator_refused(error: &CoordinatorError) -> Problem {
    let kind = match error {
        CoordinatorError::Unavailable(_) => Kind::Unavailable,
        CoordinatorError::InstanceTaken(_) | CoordinatorError::Refused(_) => Kind::Internal,
    };
    Problem::new(kind, error.to_string())
}
