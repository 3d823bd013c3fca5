//! Many messages in one request: reading, handing over and settling go on side by side, each within
//! its bound, so that a body of any length needs the same memory.

use std::sync::Arc;

use bytes::Bytes;
use common::problem::Problem;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::report::Report;
use self::run::Run;
use crate::admission::Permit;
use crate::answer::{AnswerBody, Response};
use crate::context::Context;
use crate::decode::batch::{Plan, Results};
use crate::metrics::Dialect;
use crate::render::{self, Connection};
use crate::router::upload_refused;
use crate::upload;

mod report;
mod run;
mod tally;
mod window;

/// Pieces of the answer that wait for the client to read.
const MAX_WAITING_PIECES: usize = 4;

pub(crate) async fn answer(context: &Arc<Context>, plan: Plan, body: &mut Option<Incoming>, permit: Permit) -> Result<Response, Problem> {
    let results = plan.results;
    let run = Run::new(Arc::clone(context), plan, permit);
    let incoming = body.as_mut().expect("nobody has taken it yet");
    match results {
        Results::Summary => Ok(summary(run, incoming).await),
        Results::All => {
            // An answer's head would swallow the 100 that a client may be waiting for, and looking at the
            // body brings it out.
            let deadline = Instant::now() + context.body_timeout;
            let first = upload::piece(incoming, deadline).await.map_err(|error| upload_refused(context, &error, body))?;
            let incoming = body.take().expect("nobody has taken it yet");
            Ok(streamed(run, first, incoming))
        }
    }
}

async fn summary(mut run: Run, body: &mut Incoming) -> Response {
    let end = run.drive(body, None).await;
    let (status, headers, json) = run.into_tally().summary();
    // Whatever of a broken upload is still to come is no next request.
    let connection = if end.is_ok() { Connection::Kept } else { Connection::Closed };
    render::ending(render::summary(status, headers, json), connection)
}

fn streamed(mut run: Run, first: Option<Bytes>, mut body: Incoming) -> Response {
    let (sender, pieces) = mpsc::channel(MAX_WAITING_PIECES);
    run.report_to(Report::new(sender));
    tokio::spawn(async move {
        // How it ended stands in the summary, and a client that is gone reads none.
        let _ = run.drive(&mut body, first).await;
        let metrics = run.metrics();
        let status = run.finish_report().await;
        metrics.answered(Dialect::Batch, status);
    });
    render::lines(AnswerBody::Pieces(pieces))
}
