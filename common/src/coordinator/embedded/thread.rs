//! The thread that owns the session. Verbs come to it as functions; it does as many as wait,
//! commits what they wrote in one batch, and only then are they answered.

use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot, watch};

use super::CoordinatorError;
use super::session::Session;
use super::transaction::Transaction;
use crate::store::StoreError;

/// Callers beyond it wait.
const MAX_WAITING_VERBS: usize = 1024;
const MAX_BATCH_VERBS: usize = 256;

/// Does its part, and leaves the answer for after the commit.
type Verb = Box<dyn FnOnce(&mut Session, &mut Transaction) -> Answer + Send>;
type Answer = Box<dyn FnOnce(&Result<(), StoreError>) + Send>;

pub(super) struct Thread {
    /// `None` only while it is dropped.
    verbs: Option<mpsc::Sender<Verb>>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    pub(super) fn start(session: Session, transaction: Transaction, hint: watch::Sender<u64>) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING_VERBS);
        let run = move || run(receiver, session, transaction, &hint);
        let handle = std::thread::Builder::new().name("coordinator".into()).spawn(run).expect("a thread can be started at start-up");
        Self { verbs: Some(sender), handle: Some(handle) }
    }

    /// Done whether or not the answer is awaited.
    pub(super) async fn ask<T, E, V>(&self, verb: V) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<CoordinatorError> + Send + 'static,
        V: FnOnce(&mut Session, &mut Transaction) -> Result<T, E> + Send + 'static,
    {
        let (answered, answer) = oneshot::channel();
        let verb: Verb = Box::new(move |session, transaction| {
            let done = verb(session, transaction);
            Box::new(move |committed| {
                let done = match committed {
                    Ok(()) => done,
                    Err(error) => Err(CoordinatorError::from(error.clone()).into()),
                };
                // The asker may have gone.
                let _ = answered.send(done);
            })
        });
        let ended = || CoordinatorError::Unavailable("its thread has ended; restart".into());
        let verbs = self.verbs.as_ref().expect("nobody asks while it is dropped");
        verbs.send(verb).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.verbs = None;
        if let Some(handle) = self.handle.take() {
            // A panic has been reported already, by its hook.
            let _ = handle.join();
        }
    }
}

fn run(mut verbs: mpsc::Receiver<Verb>, mut session: Session, mut transaction: Transaction, hint: &watch::Sender<u64>) {
    while let Some(first) = verbs.blocking_recv() {
        let rest = std::iter::from_fn(|| verbs.try_recv().ok()).take(MAX_BATCH_VERBS - 1);
        let answers: Vec<Answer> = std::iter::once(first).chain(rest).map(|verb| verb(&mut session, &mut transaction)).collect();
        let committed = transaction.commit();
        if let Err(error) = &committed {
            tracing::error!(%error, verbs = answers.len(), "cursors could not be stored; nothing more is until a restart");
        }
        if session.take_changed() {
            hint.send_modify(|changes| *changes += 1);
        }
        for answer in answers {
            answer(&committed);
        }
    }
}
