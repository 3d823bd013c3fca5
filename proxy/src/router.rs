//! Every route, and the order of all that happens to a request.

use std::convert::Infallible;
use std::sync::Arc;

use common::clock;
use common::problem::{Kind, Problem};
use common::queue::Produced;
use http::header::CONTENT_ENCODING;
use http::request::Parts;
use http::{HeaderValue, Method, Request};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::admission::Permit;
use crate::answer::{AnswerBody, Response};
use crate::context::Context;
use crate::decode::plain::Draft;
use crate::decode::{self, batch, original, plain};
use crate::metrics::Dialect;
use crate::render::{self, Connection};
use crate::target::Target;
use crate::upload::{self, Expectation, UploadError, expectation};
use crate::{framing, produce, refusal};

pub(crate) async fn answer(context: Arc<Context>, request: Request<Incoming>) -> Result<Response, Infallible> {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let mut body = Some(body);
    let target = Target::of(head.uri.path());
    let answered = routed(&context, target, &head, &mut body, began).await;
    let response = answered.unwrap_or_else(|problem| refused(target, &head, &problem, body.as_mut()));
    // One in pieces is counted when its last piece, with the status, is known.
    if !matches!(response.body(), AnswerBody::Pieces(_)) {
        context.metrics.answered(target.dialect(), response.status());
    }
    Ok(response)
}

/// The body is taken away by whoever goes on reading it after the answer has begun, and with a refusal
/// if nothing can follow it.
async fn routed(
    context: &Arc<Context>,
    target: Target<'_>,
    head: &Parts,
    body: &mut Option<Incoming>,
    began: Instant,
) -> Result<Response, Problem> {
    if let Err(problem) = framing::check(head) {
        *body = None;
        return Err(problem);
    }
    let permit = admitted(context, target, head)?;
    match target {
        Target::Plain(topic) => {
            let draft = plain::draft(decode::topic_of_path(topic)?, head, clock::now_ms(), &context.ids)?;
            let (topic, ack) = (draft.message.topic.clone(), draft.ack);
            let produced = one(context, draft, body, permit, (Dialect::Plain, began)).await?;
            Ok(render::plain(&topic, produced, ack))
        }
        Target::Original => {
            let draft = original::draft(head, &context.ids)?;
            let topic = draft.message.topic.clone();
            let produced = one(context, draft, body, permit, (Dialect::Original, began)).await?;
            Ok(render::original(&topic, produced))
        }
        Target::Batch(topic) => {
            let plan = batch::plan(decode::topic_of_path(topic)?, head)?;
            crate::batch::answer(context, plan, body, permit).await
        }
        Target::Missing(hint) => {
            let detail = format!("nothing is at {:?}: {hint}", decode::shown(head.uri.path()));
            Err(Problem::new(Kind::NotFound, detail))
        }
    }
}

/// All that can be said before anything of the body is looked at.
fn admitted(context: &Context, target: Target<'_>, head: &Parts) -> Result<Permit, Problem> {
    if head.method != Method::POST && !matches!(target, Target::Missing(_)) {
        let detail = format!("{} does not take {}; POST it", head.uri.path(), head.method);
        return Err(Problem::new(Kind::MethodNotAllowed, detail).allow(HeaderValue::from_static("POST")));
    }
    if context.is_shutting_down() {
        return Err(Problem::new(Kind::ShuttingDown, "this server is shutting down; another one will take it"));
    }
    if expectation(&head.headers, head.version) == Expectation::Unknown {
        return Err(Problem::new(Kind::ExpectationFailed, "the only expectation that is met is 100-continue"));
    }
    if head
        .headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| !coding.is_empty() && !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Problem::new(
            Kind::UnsupportedEncoding,
            "Content-Encoding: bodies are taken as they are, and not decoded; send it as identity",
        ));
    }
    context.admission.admit().map_err(refusal::of_full)
}

/// One message: its body, then the queue.
async fn one(
    context: &Context,
    draft: Draft,
    body: &mut Option<Incoming>,
    mut permit: Permit,
    request: (Dialect, Instant),
) -> Result<Produced, Problem> {
    let Draft { mut message, ack } = draft;
    let incoming = body.as_mut().expect("nobody has taken it yet");
    let beside_bytes = message.payload.size_bytes();
    let declared_bytes = upload::declared_bytes(incoming).unwrap_or(0);
    let max_bytes = context.max_message_bytes.checked_sub(beside_bytes).filter(|max| declared_bytes <= *max);
    let max_bytes =
        max_bytes.ok_or_else(|| refusal::message_too_large(beside_bytes.saturating_add(declared_bytes), context.max_message_bytes))?;
    context.admission.has_room_for(beside_bytes + declared_bytes).map_err(refusal::of_full)?;
    permit.bytes().grow(beside_bytes).map_err(refusal::of_full)?;
    let uploaded = upload::whole(incoming, max_bytes, permit.bytes(), request.1 + context.body_timeout).await;
    let value = uploaded.map_err(|error| upload_refused(context, &error, body))?;
    message.payload.value = Some(value);
    produce::write(context, message, ack, permit, request).await.map_err(|error| refusal::of_produce(&error))
}

/// A refusal of a body, which is gone where the client did not send all of it.
pub(crate) fn upload_refused(context: &Context, error: &UploadError, body: &mut Option<Incoming>) -> Problem {
    if error.is_broken() {
        context.metrics.aborted_uploads.inc();
        *body = None;
    }
    refusal::of_upload(error)
}

fn refused(target: Target<'_>, head: &Parts, problem: &Problem, body: Option<&mut Incoming>) -> Response {
    let response = match target {
        Target::Original => render::original_refusal(&original::asked_topic(head), problem),
        Target::Plain(_) | Target::Batch(_) | Target::Missing(_) => problem.clone().into_http(),
    };
    // A client that waits for 100 would get it if its body were looked at.
    let waits = expectation(&head.headers, head.version) != Expectation::None;
    let kept = problem.kind != Kind::ShuttingDown && !waits && body.is_some_and(upload::is_spent);
    render::ending(response, if kept { Connection::Kept } else { Connection::Closed })
}
