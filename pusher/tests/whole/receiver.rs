//! A receiver that keeps what it was sent and answers as it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) topic: String,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) attempt: u32,
    pub(crate) body: String,
    pub(crate) at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    After(Duration, u16),
    /// The connection stays open without an answer.
    Hang,
}

type Script = Box<dyn Fn(&Received) -> Answer + Send + Sync>;

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    log: Mutex<Vec<Received>>,
    answered: Mutex<Vec<Received>>,
    script: Mutex<Script>,
    count: watch::Sender<usize>,
}

impl Receiver {
    pub(crate) async fn answering(script: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            log: Mutex::default(),
            answered: Mutex::default(),
            script: Mutex::new(Box::new(script)),
            count: watch::channel(0).0,
        });
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(listener, shared.clone(), stop.clone())));
        Self { address, shared, _stop: stop.drop_guard() }
    }

    pub(crate) async fn ok() -> Self {
        Self::answering(|_| Answer::Status(200)).await
    }

    pub(crate) fn script(&self, script: impl Fn(&Received) -> Answer + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Box::new(script);
    }

    /// In the order of arrival, attempts that are still open included.
    pub(crate) fn log(&self) -> Vec<Received> {
        self.shared.log.lock().unwrap().clone()
    }

    /// Those that were answered.
    pub(crate) fn answered(&self) -> Vec<Received> {
        self.shared.answered.lock().unwrap().clone()
    }

    /// Waits for so many requests.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Received> {
        let mut seen = self.shared.count.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(20), seen.wait_for(|seen| *seen >= count)).await;
        assert!(waited.is_ok(), "{} of {count} requests came: {:?}", self.log().len(), self.log().last());
        self.log()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let shared = shared.clone();
        let service = service_fn(move |request| answer(shared.clone(), request));
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(stop.clone().run_until_cancelled_owned(connection));
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> hyper::Result<Response<Empty<Bytes>>> {
    let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
    let (topic, partition, offset, attempt) =
        (header("x-kmq-topic"), header("x-kmq-partition"), header("x-kmq-offset"), header("x-retry-times"));
    let body = request.into_body().collect().await?.to_bytes();
    let received = Received {
        topic,
        partition: partition.parse().unwrap(),
        offset: offset.parse().unwrap(),
        attempt: attempt.parse().unwrap(),
        body: String::from_utf8_lossy(&body).into_owned(),
        at: Instant::now(),
    };
    shared.log.lock().unwrap().push(received.clone());
    let answer = (shared.script.lock().unwrap())(&received);
    shared.count.send_modify(|count| *count += 1);
    let status = match answer {
        Answer::Status(status) => status,
        Answer::After(delay, status) => {
            tokio::time::sleep(delay).await;
            status
        }
        Answer::Hang => std::future::pending().await,
    };
    shared.answered.lock().unwrap().push(received);
    Ok(Response::builder().status(status).body(Empty::new()).unwrap())
}
