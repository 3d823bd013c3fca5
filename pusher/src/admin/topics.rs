//! `GET topics`, `PUT topics/{topic}` and `DELETE topics/{topic}`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use common::admin::Path;
use common::ids::{Partition, Topic};
use common::problem::{Kind, Problem};
use common::queue::{CreateTopicError, TopicInfo};
use http::StatusCode;

use super::view::{LogView, NewTopic, TopicList, TopicView};
use super::{Admin, create_refused, queue_refused};

pub(super) async fn list(State(admin): State<Admin>) -> Result<Json<TopicList>, Problem> {
    let mut topics = Vec::new();
    for info in admin.queue.topics().await.map_err(|error| queue_refused(&error))? {
        // One that was deleted since it was listed is left out.
        topics.extend(view(&admin, info).await.ok());
    }
    Ok(Json(TopicList { topics }))
}

/// 201; 200 if it exists already with that number of partitions; 409 with another one.
pub(super) async fn create(
    State(admin): State<Admin>,
    Path(name): Path<String>,
    common::admin::Json(new): common::admin::Json<NewTopic>,
) -> Result<Response, Problem> {
    let topic = legal(&name)?;
    let (status, info) = match admin.queue.create_topic(&topic, new.partitions).await {
        Ok(info) => (StatusCode::CREATED, info),
        Err(CreateTopicError::Exists(info)) if info.partitions == new.partitions => (StatusCode::OK, info),
        Err(error) => return Err(create_refused(&error)),
    };
    Ok((status, Json(view(&admin, info).await?)).into_response())
}

pub(super) async fn delete(State(admin): State<Admin>, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    let topic = legal(&name)?;
    match admin.queue.delete_topic(&topic).await {
        Ok(true) => Ok(StatusCode::NO_CONTENT),
        Ok(false) => Err(Problem::new(Kind::UnknownTopic, format!("topic {topic} does not exist"))),
        Err(error) => Err(queue_refused(&error)),
    }
}

pub(super) fn legal(name: &str) -> Result<Topic, Problem> {
    Topic::new(name).map_err(|error| Problem::new(Kind::IllegalTopic, error.to_string()))
}

async fn view(admin: &Admin, info: TopicInfo) -> Result<TopicView, Problem> {
    let mut partitions = Vec::new();
    for number in 0..info.partitions {
        let log = admin.queue.watermarks(&info.topic, Partition(number)).await.map_err(|error| queue_refused(&error))?;
        partitions.push(LogView { partition: number, first: log.first.0, end: log.end.0 });
    }
    Ok(TopicView { topic: info.topic, id: info.id.map(|id| id.to_string()), partitions })
}
