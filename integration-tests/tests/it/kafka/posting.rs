//! Messages of one key, posted all the time.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Instant;

use integration_tests::producer::Producer;
use integration_tests::raw::Connection;
use tokio_util::sync::CancellationToken;

use super::*;

/// What was answered so far.
#[derive(Default)]
pub(super) struct Answers {
    /// The bodies that were answered 200.
    pub(super) accepted: BTreeSet<String>,
    /// Of the others: status, after how long, and what `Retry-After` said.
    pub(super) refused: Vec<(u16, Duration, Option<String>)>,
    at: Option<Instant>,
}

impl Answers {
    fn note(&mut self, body: String, status: u16, took: Duration, retry_after: Option<String>) {
        if status == 200 {
            self.accepted.insert(body);
            self.at = Some(Instant::now());
        } else {
            self.refused.push((status, took, retry_after));
        }
    }

    /// Only what a client may repeat was refused, in time, and everything accepted is stored, once and in
    /// the order of the requests.
    pub(super) fn assert_honest(&self, stored: &[String], produce_timeout: Duration) {
        for (status, took, retry_after) in &self.refused {
            assert!(matches!(status, 503 | 504), "{status}");
            assert!(*took < produce_timeout.mul_f64(1.1) + Duration::from_millis(300), "{status} after {took:?}");
            assert!(*status == 504 || retry_after.as_ref().is_some_and(|seconds| seconds.parse::<u64>().unwrap() >= 1));
        }
        assert!(stored.is_sorted(), "one key keeps its order");
        let there: BTreeSet<String> = stored.iter().cloned().collect();
        assert_eq!(there.len(), stored.len(), "nothing is there twice");
        assert!(self.accepted.is_subset(&there), "something accepted is missing");
    }
}

/// `key 000000`, `key 000001` and so on, until it is stopped.
pub(super) struct Posting {
    answers: Arc<Mutex<Answers>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Posting {
    /// Each after the answer to the one before, at most 200 a second.
    pub(super) fn one_by_one(producer: Producer, key: &'static str) -> Self {
        let (answers, stop) = (Arc::<Mutex<Answers>>::default(), CancellationToken::new());
        let (tell, stopped) = (Arc::clone(&answers), stop.clone());
        let task = tokio::spawn(async move {
            let mut pace = tokio::time::interval(Duration::from_millis(5));
            for n in 0.. {
                pace.tick().await;
                if stopped.is_cancelled() {
                    return;
                }
                let (body, began) = (format!("{key} {n:06}"), Instant::now());
                let answer = producer.plain(Some(key), &[], body.clone().into()).await;
                let (status, retry_after) = answer.map_or_else(|refused| (refused.status.unwrap(), refused.retry_after), |_| (200, None));
                tell.lock().unwrap().note(body, status, began.elapsed(), retry_after);
            }
        });
        Self { answers, stop, task }
    }

    /// So many requests at a time on one connection, before any is answered.
    pub(super) fn pipelined(api: SocketAddr, topic: &Topic, key: &'static str, deep: usize) -> Self {
        let (answers, stop) = (Arc::<Mutex<Answers>>::default(), CancellationToken::new());
        let (tell, stopped, topic) = (Arc::clone(&answers), stop.clone(), topic.clone());
        let task = tokio::spawn(async move {
            let mut connection = Connection::open(api).await;
            let mut number = 0;
            while !stopped.is_cancelled() {
                let bodies: Vec<String> = (number..number + deep).map(|n| format!("{key} {n:06}")).collect();
                number += deep;
                let requests: String = bodies.iter().map(|body| request(&topic, key, body)).collect();
                connection.send(requests).await;
                for body in bodies {
                    let began = Instant::now();
                    let reply = connection.reply(PATIENCE).await.expect("every request is answered");
                    let retry_after = reply.header("retry-after").map(str::to_owned);
                    tell.lock().unwrap().note(body, reply.status, began.elapsed(), retry_after);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { answers, stop, task }
    }

    /// When the first message after that moment was accepted.
    pub(super) async fn accepted_after(&self, moment: Instant) -> Instant {
        let accepted = async || self.answers.lock().unwrap().at.filter(|at| *at > moment);
        wait::until("messages are accepted", Duration::from_secs(30), accepted).await
    }

    pub(super) async fn until_refused(&self) {
        let before = self.answers.lock().unwrap().refused.len();
        let refused = async || (self.answers.lock().unwrap().refused.len() > before).then_some(());
        wait::until("messages are refused", Duration::from_secs(30), refused).await;
    }

    pub(super) async fn end(self) -> Answers {
        self.stop.cancel();
        self.task.await.unwrap();
        std::mem::take(&mut *self.answers.lock().unwrap())
    }
}

fn request(topic: &Topic, key: &str, body: &str) -> String {
    format!("POST /topics/{topic}?key={key} HTTP/1.1\r\nHost: gw\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
