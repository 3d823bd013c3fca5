//! `POST groups/{group}/pause` and `resume`: written state, which every owner obeys from reading it on.

use axum::Json;
use axum::extract::State;
use common::admin::Path;
use common::problem::Problem;
use tracing::info;

use super::groups::find;
use super::view::{GroupState, Stated};
use super::{Admin, coordinator_refused};

pub(super) async fn pause(State(admin): State<Admin>, Path(name): Path<String>) -> Result<Json<Stated>, Problem> {
    set(&admin, name, GroupState::Paused).await
}

pub(super) async fn resume(State(admin): State<Admin>, Path(name): Path<String>) -> Result<Json<Stated>, Problem> {
    set(&admin, name, GroupState::Running).await
}

async fn set(admin: &Admin, name: String, state: GroupState) -> Result<Json<Stated>, Problem> {
    let group = find(admin, &name)?.group;
    let written = group.coordinator.set_paused(&group.config.group, state == GroupState::Paused).await;
    written.map_err(|error| coordinator_refused(&error))?;
    info!(group = name, ?state, "an operator set the group's state, for the whole fleet");
    Ok(Json(Stated { group: name, state }))
}
