//! hyper-util's client, which POSTs messages as fast as they are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::message::{Label, SIZE_BYTES};

type Http = Client<HttpConnector, Full<Bytes>>;

/// Every message is of a key of its own. Says so when all are answered, and stays until it is killed.
pub(crate) async fn send(url: &str, messages: u32, in_flight: u32) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let http: Http = Client::builder(TokioExecutor::new()).build(connector);
    let (url, next): (Uri, _) = (url.parse().context("the URL")?, Arc::new(AtomicU32::new(0)));
    let workers: Vec<_> = (0..in_flight).map(|_| tokio::spawn(work(http.clone(), url.clone(), Arc::clone(&next), messages))).collect();
    for worker in workers {
        worker.await??;
    }
    println!("done");
    std::future::pending().await
}

async fn work(http: Http, url: Uri, next: Arc<AtomicU32>, messages: u32) -> anyhow::Result<()> {
    loop {
        let key = next.fetch_add(1, Ordering::Relaxed);
        if key >= messages {
            return Ok(());
        }
        let body = Full::new(Label { key, number: 0 }.body(SIZE_BYTES));
        let answer = http.request(Request::post(url.clone()).body(body)?).await?;
        anyhow::ensure!(answer.status().is_success(), "{}", answer.status());
        answer.into_body().collect().await?;
    }
}
