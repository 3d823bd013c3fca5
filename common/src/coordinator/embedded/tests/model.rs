//! Random histories of one group on one topic, against a model that knows sets of offsets only.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::super::Began;
use super::*;

const PARTITIONS: u32 = 2;

#[derive(Clone, Debug)]
enum Step {
    Append { records: u64 },
    Trim { records: u64 },
    RecreateTopic,
    Claim { partition: u32 },
    Commit { partition: u32, claim: Which, moves: u64, done: Vec<u64> },
    Release { partition: u32, claim: Which, moves: u64 },
    Adopt { partition: u32, claim: Which },
    Replay { id: u8, partition: u32, to: u64 },
    Pause(bool),
    Restart,
}

/// Under which epoch a verb is tried.
#[derive(Clone, Copy, Debug)]
enum Which {
    Latest,
    Former,
}

fn steps() -> impl Strategy<Value = Step> {
    let partition = 0..PARTITIONS;
    let which = prop_oneof![4 => Just(Which::Latest), 1 => Just(Which::Former)];
    let offsets = prop::collection::vec(1u64..12, 0..5);
    prop_oneof![
        3 => (1u64..10).prop_map(|records| Step::Append { records }),
        1 => (1u64..6).prop_map(|records| Step::Trim { records }),
        1 => Just(Step::RecreateTopic),
        5 => partition.clone().prop_map(|partition| Step::Claim { partition }),
        6 => (partition.clone(), which.clone(), 0u64..5, offsets).prop_map(|(partition, claim, moves, done)| Step::Commit { partition, claim, moves, done }),
        3 => (partition.clone(), which.clone(), 0u64..5).prop_map(|(partition, claim, moves)| Step::Release { partition, claim, moves }),
        2 => (partition.clone(), which).prop_map(|(partition, claim)| Step::Adopt { partition, claim }),
        2 => (0u8..20, partition, 0u64..20).prop_map(|(id, partition, to)| Step::Replay { id, partition, to }),
        1 => any::<bool>().prop_map(Step::Pause),
        2 => Just(Step::Restart),
    ]
}

/// What is to be.
struct Model {
    topic: u128,
    first: u64,
    end: u64,
    paused: bool,
    replays: Vec<String>,
    partitions: Vec<PartitionModel>,
    last_epoch: Epoch,
}

#[derive(Default)]
struct PartitionModel {
    pair: Option<Pair>,
    owner: Option<Owner>,
    former: Option<Epoch>,
}

#[derive(Clone)]
struct Pair {
    topic: u128,
    cursor: u64,
    done: BTreeSet<u64>,
}

struct Owner {
    epoch: Epoch,
    topic: u128,
    moved: bool,
}

impl Model {
    fn log(&self) -> Log {
        Log { topic_id: Some(topic_id(self.topic)), first: Offset(self.first), end: Offset(self.end), past_end: None }
    }

    /// What a claim begins with: nothing that the log has is passed over that was not done.
    fn begin(&self, partition: u32) -> (Progress, Began) {
        let Some(Pair { topic, cursor, done }) = self.partitions[partition as usize].pair.clone() else {
            return (as_progress(self.first, &BTreeSet::new()), Began::AtBirth);
        };
        let (first, end) = (self.first, self.end);
        if topic != self.topic {
            return (as_progress(first, &BTreeSet::new()), Began::TopicRecreated { abandoned: Offset(cursor) });
        }
        let highest = done.last().map_or(cursor, |last| last + 1);
        let began = if cursor < first {
            let skipped = (cursor..first).filter(|offset| !done.contains(offset)).count() as u64;
            Began::BelowFirst { skipped }
        } else if highest > end {
            Began::LogTruncated { from: Offset(highest) }
        } else {
            Began::AtCursor
        };
        (as_progress(cursor.clamp(first, end), &done.range(..end).copied().collect()), began)
    }

    fn epoch(&self, partition: u32, which: Which) -> Epoch {
        let PartitionModel { owner, former, .. } = &self.partitions[partition as usize];
        match which {
            Which::Latest => owner.as_ref().map(|owner| owner.epoch).or(*former),
            Which::Former => *former,
        }
        .unwrap_or_default()
    }

    /// Progress that an owner could have made.
    fn onward(&self, partition: u32, moves: u64, above: &[u64]) -> Pair {
        let PartitionModel { pair, owner, .. } = &self.partitions[partition as usize];
        let topic = owner.as_ref().map_or(self.topic, |owner| owner.topic);
        let from = pair.as_ref().map_or(self.first, |pair| pair.cursor);
        let cursor = from + moves;
        let done = above.iter().map(|offset| cursor + offset).collect();
        Pair { topic, cursor, done }
    }

    fn may_write(&self, partition: u32, epoch: Epoch) -> Result<(), CommitError> {
        match &self.partitions[partition as usize].owner {
            Some(owner) if owner.epoch == epoch && owner.moved => Err(CommitError::Moved),
            Some(owner) if owner.epoch == epoch => Ok(()),
            _ => Err(CommitError::EpochOver),
        }
    }

    fn give_up(&mut self, partition: u32) {
        let partition = &mut self.partitions[partition as usize];
        partition.former = partition.owner.take().map(|owner| owner.epoch).or(partition.former);
    }

    fn took(&mut self, partition: u32, claim: &Claim) {
        assert!(claim.epoch > self.last_epoch, "{} after {}", claim.epoch, self.last_epoch);
        self.last_epoch = claim.epoch;
        let done = claim.progress.done.runs().iter().cloned().flatten().collect();
        let pair = Pair { topic: self.topic, cursor: claim.progress.cursor.0, done };
        self.give_up(partition);
        let topic = self.topic;
        let partition = &mut self.partitions[partition as usize];
        partition.pair = Some(pair);
        partition.owner = Some(Owner { epoch: claim.epoch, topic, moved: false });
    }
}

fn as_progress(cursor: u64, done: &BTreeSet<u64>) -> Progress {
    let cursor = (cursor..).find(|offset| !done.contains(offset)).unwrap();
    let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
    for offset in done.range(cursor..) {
        match runs.last_mut() {
            Some(run) if run.end == *offset => run.end += 1,
            _ => runs.push(*offset..offset + 1),
        }
    }
    Progress { cursor: Offset(cursor), done: DoneSet::from_runs(runs).unwrap(), ..Progress::default() }
}

struct Run {
    folder: Folder,
    scene: Scene,
    coordinator: Option<EmbeddedCoordinator>,
    model: Model,
}

impl Run {
    async fn start() -> Self {
        let partitions = (0..PARTITIONS).map(|_| PartitionModel::default()).collect();
        let model = Model { topic: 1, first: 0, end: 0, paused: false, replays: Vec::new(), partitions, last_epoch: Epoch(0) };
        let mut run = Self { folder: folder(), scene: Scene::new("g", "t"), coordinator: None, model };
        run.open().await;
        run
    }

    async fn open(&mut self) {
        self.coordinator = None;
        let coordinator = self.folder.coordinator();
        coordinator.join(member("here")).await.unwrap();
        let at = self.scene.at(0);
        coordinator.birth(&at.group, &at.topic, Birth { topic_id: None, start: vec![] }, &[]).await.unwrap();
        self.coordinator = Some(coordinator);
    }

    fn coordinator(&self) -> &EmbeddedCoordinator {
        self.coordinator.as_ref().unwrap()
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Append { records } => self.model.end += records,
            Step::Trim { records } => self.model.first = (self.model.first + records).min(self.model.end),
            Step::RecreateTopic => {
                (self.model.topic, self.model.first, self.model.end) = (self.model.topic + 1, 0, 0);
            }
            Step::Claim { partition } => self.claim(partition).await,
            Step::Adopt { partition, claim } => self.adopt(partition, claim).await,
            Step::Commit { partition, claim, moves, done } => self.write(partition, claim, moves, &done, Then::Keep).await,
            Step::Release { partition, claim, moves } => self.write(partition, claim, moves, &[], Then::GiveUp).await,
            Step::Replay { id, partition, to } => self.replay(&id.to_string(), partition, to).await,
            Step::Pause(paused) => {
                self.coordinator().set_paused(&self.scene.at(0).group, paused).await.unwrap();
                self.model.paused = paused;
            }
            Step::Restart => {
                self.open().await;
                (0..PARTITIONS).for_each(|partition| self.model.give_up(partition));
            }
        }
    }

    /// What stands past the log's end is refused once.
    async fn with_log(&self, claim: impl AsyncFn(Log) -> Result<Claim, ClaimError>) -> Result<Claim, ClaimError> {
        match claim(self.model.log()).await {
            Err(ClaimError::PastEnd(highest)) => claim(Log { past_end: Some(highest), ..self.model.log() }).await,
            claimed => claimed,
        }
    }

    async fn claim(&mut self, partition: u32) {
        let at = self.scene.at(partition);
        let claimed = self.with_log(async |log| self.coordinator().claim(&at, log).await).await;
        if self.model.partitions[partition as usize].owner.is_some() {
            return assert_eq!(claimed, Err(ClaimError::Held("here".into())));
        }
        self.began(partition, &claimed.unwrap());
    }

    async fn adopt(&mut self, partition: u32, which: Which) {
        let epoch = self.model.epoch(partition, which);
        let at = self.scene.at(partition);
        let adopted = self.with_log(async |log| self.coordinator().adopt(&at, epoch, log).await).await;
        if self.model.may_write(partition, epoch) == Err(CommitError::EpochOver) {
            return assert_eq!(adopted, Err(ClaimError::EpochOver));
        }
        self.began(partition, &adopted.unwrap());
    }

    fn began(&mut self, partition: u32, claim: &Claim) {
        assert_eq!((claim.progress.clone(), claim.began), self.model.begin(partition));
        self.model.took(partition, claim);
    }

    async fn write(&mut self, partition: u32, which: Which, moves: u64, above: &[u64], then: Then) {
        let epoch = self.model.epoch(partition, which);
        let pair = self.model.onward(partition, moves, above);
        let commit = Commit { at: self.scene.at(partition), epoch, progress: as_progress(pair.cursor, &pair.done) };
        let written = match then {
            Then::Keep => self.coordinator().commit(std::slice::from_ref(&commit)).await.remove(0),
            Then::GiveUp => self.coordinator().release(&commit).await,
        };
        assert_eq!(written, self.model.may_write(partition, epoch));
        if written.is_ok() {
            self.model.partitions[partition as usize].pair = Some(pair);
            if then == Then::GiveUp {
                self.model.give_up(partition);
            }
        }
    }

    async fn replay(&mut self, id: &str, partition: u32, to: u64) {
        let topic_id = Some(topic_id(self.model.topic));
        let GroupPartition { group, topic, partition: target } = self.scene.at(partition);
        let targets = vec![super::super::super::ReplayTarget { topic, partition: target, to: Offset(to), topic_id }];
        let answer = self.coordinator().replay(&Replay { group, id: id.into(), asked_at: 1, targets }).await.unwrap();
        if self.model.replays.iter().rev().take(16).any(|seen| seen == id) {
            return assert_eq!(answer, Replayed::Repeated);
        }
        let topic = self.model.topic;
        let at = &mut self.model.partitions[partition as usize];
        let before = at.pair.replace(Pair { topic, cursor: to, done: BTreeSet::new() });
        assert_eq!(answer, Replayed::Moved(vec![(before.map(|pair| Offset(pair.cursor)), Offset(to))]));
        if let Some(owner) = &mut at.owner {
            owner.moved = true;
        }
        self.model.replays.push(id.into());
    }

    /// Everything that can be read is as it is to be.
    async fn check(&self) {
        let all: Vec<_> = (0..PARTITIONS).map(|partition| self.scene.at(partition)).collect();
        let standing = self.coordinator().standing(&all).await.unwrap();
        for (stands, model) in standing.into_iter().zip(&self.model.partitions) {
            let written = model.pair.as_ref().map(|pair| (Offset(pair.cursor), pair.done.clone()));
            let read = stands.progress.map(|progress| (progress.cursor, progress.done.runs().iter().cloned().flatten().collect()));
            let filled = |(cursor, done): (Offset, BTreeSet<u64>)| as_progress(cursor.0, &done);
            assert_eq!(read.map(filled), written.map(filled));
            assert_eq!(stands.owner.is_some(), model.owner.is_some());
        }
        let control = self.coordinator().control(&all[0].group).await.unwrap();
        assert_eq!(control.paused, self.model.paused);
        let owned: Vec<_> = all.iter().map(|at| (at.clone(), self.model.epoch(at.partition.0, Which::Latest))).collect();
        let moved = self.coordinator().moved(&owned).await.unwrap();
        let is_moved =
            |at: &&GroupPartition| self.model.partitions[at.partition.0 as usize].owner.as_ref().is_some_and(|owner| owner.moved);
        assert_eq!(moved.iter().collect::<Vec<_>>(), all.iter().filter(is_moved).collect::<Vec<_>>());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Keep,
    GiveUp,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn every_history_ends_where_the_model_says(steps in prop::collection::vec(steps(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut run = Run::start().await;
            for step in steps {
                run.step(step).await;
                run.check().await;
            }
        });
    }
}
