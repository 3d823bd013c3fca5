//! One question for all who ask the same at the same time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::{HashMap, HashMapExt as _};
use tokio::sync::Mutex as AsyncMutex;

use crate::ids::Topic;

/// Those who ask for one topic while it is asked for get the answer of the next question together. So
/// an answer is never older than the wish for it, and however many ask, two questions answer them all.
pub(super) struct Joint<T>(Mutex<HashMap<Topic, Arc<Desk<T>>>>);

struct Desk<T> {
    /// How many questions have been put.
    put: AtomicU64,
    /// The number of the last one that was answered. Held while one is under way.
    answered: AsyncMutex<Option<(u64, T)>>,
}

/// While somebody asks. Nothing is kept of topics that nobody asks for.
struct Asking<'a, T> {
    joint: &'a Joint<T>,
    topic: &'a Topic,
    desk: Arc<Desk<T>>,
}

impl<T> Drop for Asking<'_, T> {
    fn drop(&mut self) {
        let mut desks = self.joint.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nobody_else = Arc::strong_count(&self.desk) == 2;
        if nobody_else {
            desks.remove(self.topic);
        }
    }
}

impl<T: Clone> Joint<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// Cancel safe: what was not answered, the next in line asks.
    pub(super) async fn ask(&self, topic: &Topic, question: impl Future<Output = T>) -> T {
        let asking = self.begin(topic);
        let put_before = asking.desk.put.load(Ordering::SeqCst);
        let mut answered = asking.desk.answered.lock().await;
        if let Some((_, answer)) = answered.as_ref().filter(|(number, _)| *number > put_before) {
            return answer.clone();
        }
        let number = asking.desk.put.fetch_add(1, Ordering::SeqCst) + 1;
        let answer = question.await;
        *answered = Some((number, answer.clone()));
        answer
    }

    fn begin<'a>(&'a self, topic: &'a Topic) -> Asking<'a, T> {
        let mut desks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Desk { put: AtomicU64::new(0), answered: AsyncMutex::new(None) });
        let desk = Arc::clone(desks.entry(topic.clone()).or_insert_with(new));
        Asking { joint: self, topic, desk }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Each question takes a second, and its answer is its number.
    async fn asked(joint: &Joint<u64>, questions: &AtomicU64) -> u64 {
        let question = async {
            let number = questions.fetch_add(1, Ordering::SeqCst) + 1;
            sleep(Duration::from_secs(1)).await;
            number
        };
        joint.ask(&Topic::new("t").unwrap(), question).await
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_ask_two_questions_answer_them_and_no_answer_is_older_than_the_wish() {
        let (joint, questions) = (Joint::new(), AtomicU64::new(0));
        let early = asked(&joint, &questions);
        let late = async {
            sleep(Duration::from_millis(500)).await;
            join_all((0..100).map(|_| asked(&joint, &questions))).await
        };
        let (early, late) = tokio::join!(early, late);
        assert_eq!(early, 1);
        assert!(late.iter().all(|answer| *answer == 2), "{late:?}");
        assert!(joint.0.lock().unwrap().is_empty(), "nothing is kept");
        assert_eq!(asked(&joint, &questions).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_holds_nobody_up() {
        let (joint, questions) = (Joint::new(), AtomicU64::new(0));
        let gives_up = timeout(Duration::from_millis(100), asked(&joint, &questions));
        let (gave_up, answer) = tokio::join!(gives_up, asked(&joint, &questions));
        assert!(gave_up.is_err());
        assert_eq!(answer, 2);
        assert!(joint.0.lock().unwrap().is_empty(), "nothing is kept");
    }
}
