//! The receiver's own process.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::tally::Tally;
use crate::clock::now_ns;
use crate::message::Label;

type Shared = Arc<Mutex<Tally>>;
type Answer = Response<Full<Bytes>>;

/// Says its address, and serves until it is killed.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let shared = Shared::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(request: Request<Incoming>, shared: Shared) -> Result<Answer, Infallible> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(match (method, path.as_str()) {
        (Method::PUT, "/manner") => {
            *shared.lock().unwrap() = Tally::new(serde_json::from_slice(&body).expect("it comes from this program"));
            of(200, "")
        }
        (Method::GET, "/seen") => of(200, serde_json::to_vec(&shared.lock().unwrap().seen()).unwrap()),
        (Method::GET, "/arrivals") => of(200, serde_json::to_vec(shared.lock().unwrap().arrivals()).unwrap()),
        _ => match Label::read(&body) {
            Some(label) => delivered(label, &shared).await,
            None => of(400, "not a message of the benchmark"),
        },
    })
}

async fn delivered(label: Label, shared: &Shared) -> Answer {
    let manner = shared.lock().unwrap().begin(label, now_ns());
    if manner.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(manner.delay_ms)).await;
    }
    if shared.lock().unwrap().end(label, now_ns()) { of(200, "ok") } else { of(500, "it fails, as it was told") }
}

fn of(status: u16, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status.try_into().expect("a status");
    answer
}
