//! Questions to the cluster. librdkafka answers them by blocking, so they are asked from threads
//! that may block, a bounded number at a time.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset as At;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::context::Said;
use super::joint::Joint;
use super::metrics::Role;
use super::native::{self, Description};
use super::settings::admin;
use super::site::Site;
use super::statistics::Statistics;
use crate::ids::{Offset, Partition, Topic};
use crate::queue::{QueueError, Watermarks};
use crate::record::TimestampMs;

pub(super) type Consumer = BaseConsumer<Said>;

/// Questions under way at a time, each with a thread.
const QUESTIONS: usize = 8;
const ANSWER_WITHIN: Duration = Duration::from_millis(1_500);
/// With the wait for a thread. `Queue::topic` promises 2 s.
const GIVE_UP_AFTER: Duration = Duration::from_millis(1_900);
const ADMIN_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct Cluster {
    client: Arc<Consumer>,
    site: Arc<Site>,
    questions: Arc<Semaphore>,
    /// A pusher that takes a topic of a thousand partitions asks for it a thousand times.
    descriptions: Joint<Result<Option<Description>, QueueError>>,
}

impl Cluster {
    pub(super) fn new(client: Arc<Consumer>, site: Arc<Site>) -> Self {
        Self { client, site, questions: Arc::new(Semaphore::new(QUESTIONS)), descriptions: Joint::new() }
    }

    async fn ask<T: Send + 'static>(
        &self,
        within: Duration,
        question: impl FnOnce(&Consumer) -> T + Send + 'static,
    ) -> Result<T, QueueError> {
        let (client, questions) = (Arc::clone(&self.client), Arc::clone(&self.questions));
        let asked = async {
            let permit = questions.acquire_owned().await.expect("the semaphore is never closed");
            spawn_blocking(move || {
                let answer = question(&client);
                drop(permit);
                answer
            })
            .await
        };
        match timeout(within, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(stopped)) => Err(QueueError::Unavailable(format!("asking Kafka stopped: {stopped}"))),
            Err(_) => Err(self.silent()),
        }
    }

    pub(super) fn silent(&self) -> QueueError {
        let trouble = format!("no answer in time from {}", self.site.brokers.describe());
        QueueError::Unavailable(self.site.health.with_heard(trouble))
    }

    fn failed(&self, code: RDKafkaErrorCode) -> QueueError {
        match code {
            RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::RequestTimedOut => self.silent(),
            code => QueueError::Unavailable(self.site.health.with_heard(format!("{}: {code}", self.site.brokers.describe()))),
        }
    }

    fn told<T>(&self, answer: KafkaResult<T>) -> Result<T, QueueError> {
        answer.map_err(|error| self.failed(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)))
    }

    /// One topic as it is now; creates none.
    pub(super) async fn describe(&self, topic: &Topic) -> Result<Option<Description>, QueueError> {
        let question = async {
            let mut found = self.describe_all(std::slice::from_ref(topic)).await?;
            found.pop().unwrap_or(Ok(None))
        };
        self.descriptions.ask(topic, question).await
    }

    /// One answer a topic, in that order.
    pub(super) async fn describe_all(&self, topics: &[Topic]) -> Result<Vec<Result<Option<Description>, QueueError>>, QueueError> {
        let names: Vec<CString> = topics.iter().map(c_name).collect();
        let answers = self.ask(GIVE_UP_AFTER, move |client| native::describe(client.client(), &names, ANSWER_WITHIN)).await?;
        let read = |answer| match answer {
            Ok(found) => Ok(Some(found)),
            Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::InvalidTopic) => Ok(None),
            Err(code) => Err(self.failed(code)),
        };
        Ok(answers.map_err(|code| self.failed(code))?.into_iter().map(read).collect())
    }

    /// The names of all topics that are not Kafka's own.
    pub(super) async fn names(&self) -> Result<Vec<Topic>, QueueError> {
        let listed = self.ask(GIVE_UP_AFTER, |client| {
            let metadata = client.fetch_metadata(None, ANSWER_WITHIN)?;
            let own = |name: &&str| !matches!(*name, "__consumer_offsets" | "__transaction_state" | "__share_group_state");
            Ok(metadata
                .topics()
                .iter()
                .map(rdkafka::metadata::MetadataTopic::name)
                .filter(own)
                .filter_map(|name| Topic::new(name).ok())
                .collect())
        });
        let listed = listed.await?;
        self.told(listed)
    }

    /// The end is that of committed records.
    pub(super) async fn watermarks(&self, topic: &Topic, partition: Partition) -> Result<Watermarks, QueueError> {
        let (name, number) = (topic.as_str().to_owned(), number(partition));
        let answer = self.ask(GIVE_UP_AFTER, move |client| client.fetch_watermarks(&name, number, ANSWER_WITHIN)).await?;
        let (first, end) = self.told(answer)?;
        Ok(Watermarks { first: offset(first), end: offset(end) })
    }

    /// The ends, as of [`Self::watermarks`], of as many partitions as there are; `None` where it is not to be had.
    pub(super) async fn ends(&self, places: &[(Topic, Partition)]) -> Result<Vec<Option<Offset>>, QueueError> {
        let partitions: Vec<_> = places.iter().map(|(topic, partition)| (c_name(topic), number(*partition))).collect();
        let answer = self.ask(GIVE_UP_AFTER, move |client| native::ends(client.client(), &partitions, ANSWER_WITHIN)).await?;
        answer.map_err(|code| self.failed(code))
    }

    /// `None`: every record is older.
    pub(super) async fn offset_for_time(
        &self,
        topic: &Topic,
        partition: Partition,
        time: TimestampMs,
    ) -> Result<Option<Offset>, QueueError> {
        let (name, number) = (topic.as_str().to_owned(), number(partition));
        let answer = self.ask(GIVE_UP_AFTER, move |client| {
            let mut times = TopicPartitionList::new();
            times.add_partition_offset(&name, number, At::Offset(time.max(0)))?;
            let found = client.offsets_for_times(times, ANSWER_WITHIN)?;
            let found = found.elements_for_topic(&name);
            found.first().map_or(Ok(At::End), |found| found.error().map(|()| found.offset()))
        });
        let answer = answer.await?;
        Ok(match self.told(answer)? {
            At::Offset(at) => Some(offset(at)),
            _ => None,
        })
    }

    /// An administrator's client of its own, so that its thread lives no longer than the question.
    async fn administer<T, F>(&self, question: impl FnOnce(AdminClient<Said>, AdminOptions) -> F + Send + 'static) -> Result<T, QueueError>
    where
        T: Send + 'static,
        F: Future<Output = KafkaResult<T>>,
    {
        let config = admin(&self.site.options, &self.site.brokers.list()).map_err(|error| QueueError::Unavailable(error.to_string()))?;
        let (runtime, said) = (Handle::current(), Said::of(&self.site, Role::Reader, Statistics::None));
        let answer = self.ask(ADMIN_WITHIN + Duration::from_secs(1), move |_| {
            let client = AdminClient::from_config_and_context(&config, said)?;
            let options = AdminOptions::new().request_timeout(Some(ADMIN_WITHIN)).operation_timeout(Some(Duration::from_secs(5)));
            runtime.block_on(question(client, options))
        });
        let answer = answer.await?;
        self.told(answer)
    }

    /// With as many replicas as the cluster makes by default; and partitions, if it is not said how many.
    pub(super) async fn create(&self, topic: &Topic, partitions: Option<u32>) -> Result<Result<(), RDKafkaErrorCode>, QueueError> {
        let partitions = partitions.map_or(-1, |partitions| i32::try_from(partitions).unwrap_or(i32::MAX));
        let name = topic.as_str().to_owned();
        self.administer(move |client, options| async move {
            let new = NewTopic::new(&name, partitions, TopicReplication::Fixed(-1));
            Ok(of_one(client.create_topics(&[new], &options).await?))
        })
        .await
    }

    pub(super) async fn delete(&self, topic: &Topic) -> Result<Result<(), RDKafkaErrorCode>, QueueError> {
        let name = topic.as_str().to_owned();
        self.administer(move |client, options| async move { Ok(of_one(client.delete_topics(&[&name], &options).await?)) }).await
    }

    /// `max.message.bytes` of a topic; `None` if it may not be asked for.
    pub(super) async fn limit_bytes(&self, topic: &Topic) -> Option<usize> {
        let name = topic.as_str().to_owned();
        let answer = self.administer(move |client, options| async move {
            let configs = client.describe_configs(&[ResourceSpecifier::Topic(&name)], &options).await?;
            let config = configs.into_iter().next().ok_or(KafkaError::AdminOp(RDKafkaErrorCode::BadMessage))?;
            let config = config.map_err(KafkaError::AdminOp)?;
            Ok(config.get("max.message.bytes").and_then(|entry| entry.value.as_ref()?.parse().ok()))
        });
        answer.await.ok().flatten()
    }
}

fn of_one(results: Vec<Result<String, (String, RDKafkaErrorCode)>>) -> Result<(), RDKafkaErrorCode> {
    results.into_iter().next().map_or(Err(RDKafkaErrorCode::BadMessage), |result| result.map(drop).map_err(|(_, code)| code))
}

pub(super) fn c_name(topic: &Topic) -> CString {
    CString::new(topic.as_str()).expect("a topic name has no NUL")
}

pub(super) fn number(partition: Partition) -> i32 {
    i32::try_from(partition.0).unwrap_or(i32::MAX)
}

fn offset(raw: i64) -> Offset {
    Offset(u64::try_from(raw).unwrap_or(0))
}
