//! One coordinator's groups: decides which of their partitions this process keeps, from fresh reads,
//! whenever something may have changed: a hint of a queue or of the coordinator, a keeper that
//! ended, and every 10 s.
//!
//! One task owns it. Everything that may have to wait for somebody (preparing a group, joining,
//! reading) goes on beside its loop, which is always there to pass a lost lease on.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use common::coordinator::vacancy::Vacancies;
use common::coordinator::{Coordinator, Lease, Losses};
use common::ids::{GroupName, GroupPartition};
use engine::task::Permission;
use futures_util::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::charges::Charges;
use self::event::Event;
use self::kept::Kept;
use self::looking::{Depth, Hints, Looking, Seen};
use self::membership::Membership;
use self::wanted::{Controls, Crew, Question, Serving, Turns, View, Wanted};
use crate::committer::Committer;
use crate::directory::{Directory, Entry};
use crate::group::Group;
use crate::keeper::{Command, KeeperHandle};
use crate::member::Me;
use crate::metrics::Metrics;
use crate::prepare::{Faults, StartError};

mod charges;
mod event;
mod kept;
mod looking;
mod membership;
mod wanted;

/// Orders that wait for the fleet's loop; it never keeps one waiting for long.
const MAX_WAITING: usize = 4;

/// A coordinator that does not answer holds up nobody's end for longer.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(4);

/// What the partitions of a fleet share.
pub(crate) struct Shared {
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) committer: Committer,
    pub(crate) metrics: Metrics,
    /// How long open attempts may go on once their partition is let go.
    pub(crate) grace: Duration,
    /// Once this process, or at least this fleet, has to end.
    pub(crate) draining: CancellationToken,
    pub(crate) drain_began: OnceLock<Instant>,
}

pub(crate) enum Order {
    /// These groups from now on, and no others.
    Serve(Vec<Charge>),
    /// Let go of everything, and end.
    End,
}

#[derive(Clone)]
pub(crate) struct Charge {
    pub(crate) group: Arc<Group>,
    /// Whether it is written down where the group starts.
    pub(crate) prepared: bool,
}

/// What a fleet says of itself.
#[derive(Clone)]
pub(crate) struct Report {
    pub(crate) directory: Directory,
    /// For `/readyz`; empty once every group is served.
    pub(crate) missing: Arc<[String]>,
}

/// The side of whoever gives the orders.
pub(crate) struct FleetHandle {
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) report: watch::Receiver<Report>,
}

impl FleetHandle {
    /// One that has ended needs no orders.
    pub(crate) async fn order(&self, order: Order) {
        let _ = self.orders.send(order).await;
    }

    /// Until nothing of what the group was is kept any more.
    pub(crate) fn let_go_of(&self, group: &Arc<Group>) -> impl Future<Output = ()> + use<> {
        let (mut report, group) = (self.report.clone(), group.clone());
        async move {
            let of_it = |entry: &Entry| Arc::ptr_eq(&entry.keeper.group, &group);
            // A fleet that has ended keeps nothing.
            let _ = report.wait_for(|report| !report.directory.iter().any(of_it)).await;
        }
    }
}

pub(crate) struct Fleet {
    shared: Arc<Shared>,
    lease: Lease,
    /// As last said, and passed on to the groups.
    held: bool,
    losses: Losses,
    stage: Stage,
    charges: Charges,
    membership: Membership,
    kept: Kept,
    looking: Looking,
    hints: Hints,
    /// As last read; of a group without one nobody knows whether it is paused.
    controls: Controls,
    /// Epochs of which is known that their cursor is still their own.
    looked_at: BTreeSet<Serving>,
    /// What nobody owns although somebody is to, and whose turn has passed.
    vacancies: Vacancies,
    /// Of the last view: instances, each with what its node in the fleet is known by.
    crew: Crew,
    orders: mpsc::Receiver<Order>,
    report: watch::Sender<Report>,
    /// What of [`Kept::revision`] the report is.
    published: Option<u64>,
    committing: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    Draining,
}

/// What a fleet is made of besides its groups.
pub(crate) struct Parts {
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) metrics: Metrics,
    pub(crate) grace: Duration,
    pub(crate) me: Me,
    pub(crate) faults: Faults,
    /// Grows whenever a cluster's topics changed.
    pub(crate) topic_changes: watch::Receiver<u64>,
}

impl Fleet {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(parts: Parts) -> (Self, FleetHandle) {
        let Parts { coordinator, metrics, grace, me, faults, topic_changes } = parts;
        let (committer, committing) = Committer::spawn(coordinator.clone());
        let (orders, ordered) = mpsc::channel(MAX_WAITING);
        let membership = Membership::new(coordinator.clone(), me, faults);
        let (report, reported) =
            watch::channel(Report { directory: Directory::default(), missing: membership.missing().into_iter().collect() });
        let fleet = Self {
            lease: coordinator.lease(),
            held: true,
            losses: Losses::default(),
            stage: Stage::Serving,
            charges: Charges::new(faults),
            membership,
            kept: Kept::default(),
            looking: Looking::new(),
            hints: Hints { coordinator: coordinator.hints(), topics: topic_changes },
            controls: Controls::new(),
            looked_at: BTreeSet::new(),
            vacancies: Vacancies::default(),
            crew: Crew::new(),
            published: None,
            orders: ordered,
            report,
            committing,
            shared: Arc::new(Shared {
                coordinator: coordinator.clone(),
                committer,
                metrics,
                grace,
                draining: CancellationToken::new(),
                drain_began: OnceLock::new(),
            }),
        };
        (fleet, FleetHandle { coordinator, orders, report: reported })
    }

    /// Until `drain` or the order to end, by which everything has been given up when this
    /// returns, and the coordinator has been left.
    pub(crate) async fn run(mut self, drain: CancellationToken) -> Result<(), StartError> {
        let served = self.serve(&drain).await;
        self.let_everything_go().await;
        let left = tokio::time::timeout(LEAVE_TIMEOUT, self.shared.coordinator.leave()).await;
        let trouble = left.map_or_else(|_| Some("no answer".to_owned()), |left| left.err().map(|error| error.to_string()));
        if let Some(error) = trouble {
            warn!(error, "leaving the fleet failed; what was owned stays so until the session ends");
        }
        // Nobody commits any more; the coordinator is to be free for whoever closes it.
        self.committing.abort();
        drop(self.committing.await);
        served
    }

    async fn serve(&mut self, drain: &CancellationToken) -> Result<(), StartError> {
        loop {
            self.pursue();
            match self.next_event(drain).await {
                Event::Drain => return Ok(()),
                Event::Ordered(Order::Serve(groups)) => self.take_charge_of(groups),
                Event::Ordered(Order::End) => return Ok(()),
                Event::LeaseChanged => self.permit(),
                Event::Prepared(prepared) => self.charges.prepared(prepared)?,
                Event::Joined(joined) => {
                    self.membership.joined(joined, self.charges.len())?;
                    self.looking.soon();
                }
                Event::Seen(Seen::Controls(controls)) => self.heed(controls),
                Event::Seen(Seen::View(read)) => {
                    if let Some(view) = self.looking.viewed(read) {
                        self.apply(view);
                    }
                }
                Event::Ended(ended) => {
                    // Until somebody else has it, its time without an owner is counted.
                    for at in self.kept.ended(ended) {
                        self.vacancies.suspect(at.group, at.topic);
                    }
                    self.looking.soon();
                }
                Event::Hinted => self.looking.soon(),
                Event::Due => {}
            }
        }
    }

    /// Begins what is due, and tells the world how things stand.
    fn pursue(&mut self) {
        let now = Instant::now();
        self.membership.pursue(&self.charges, now);
        if self.membership.is_in() {
            let Self { looking, shared, charges, kept, controls, looked_at, vacancies, .. } = self;
            looking.pursue(now, |depth| {
                let serving: BTreeSet<Serving> = kept.serving().into_iter().collect();
                let is_known = |serving: &Serving| depth == Depth::WhatChanged && looked_at.contains(serving);
                let (looked_at_before, first_looked_at) = serving.iter().cloned().partition(is_known);
                *looked_at = serving;
                let vacant = match depth {
                    Depth::Whole => charges.topics(|_, _| true),
                    Depth::WhatChanged => charges.topics(|group, topic| vacancies.concern(group, topic)),
                };
                let question = Question { known: controls.clone(), first_looked_at, looked_at: looked_at_before, vacant };
                wanted::look(shared.coordinator.clone(), charges.names(), question)
            });
        }
        self.publish();
    }

    /// Groups that stay as they are notice nothing. Of the others everything is let go; a changed
    /// one is kept anew once the former of the same partition has ended.
    fn take_charge_of(&mut self, groups: Vec<Charge>) {
        self.charges.replace(groups);
        let charges = &self.charges;
        let not_ours = |_: &GroupPartition, keeper: &KeeperHandle| !charges.contains(&keeper.group);
        self.kept.let_go(not_ours);
        self.controls.retain(|group, _| charges.get(group).is_some());
        self.vacancies.retain(|group| charges.get(group).is_some());
        self.permit();
        self.looking.soon();
    }

    /// Before all else that is read: a partition that is taken must find out at once that its group is paused.
    fn heed(&mut self, controls: Controls) {
        self.controls.extend(controls.into_iter().filter(|(group, _)| self.charges.get(group).is_some()));
        self.permit();
    }

    /// What is to be taken but not given up yet waits for the end of its former keeper.
    fn apply(&mut self, view: View) {
        self.look_closer_after_a_change(&view);
        let (judged, wanted) = self.wanted(&view);
        let lost = |at: &GroupPartition, keeper: &KeeperHandle| {
            let as_wanted = |wanted: &Wanted| wanted.topic_id == keeper.topic_id && Arc::ptr_eq(&wanted.group, &keeper.group);
            judged.contains(&at.group) && !wanted.get(at).is_some_and(as_wanted)
        };
        let let_go = self.kept.let_go(lost);
        for (at, epoch) in view.moved {
            if !self.kept.tell(&at, Command::Adopt(epoch)) {
                self.looking.wholly();
            }
        }
        let taken = self.kept.take(wanted, &self.shared);
        if taken > 0 || let_go > 0 {
            info!(taken, let_go, now = self.kept.staying(), "the partitions that this process is to serve changed");
        }
    }

    /// Who left may have owned something that is to be another's.
    fn look_closer_after_a_change(&mut self, view: &View) {
        let crew = view.crew();
        if self.crew == crew {
            return;
        }
        self.crew = crew;
        for (group, topic, _) in self.charges.topics(|_, _| true) {
            self.vacancies.suspect(group, topic);
        }
        self.looking.soon();
    }

    /// Of the groups about which everything is known: what is not known changes nothing.
    fn wanted(&mut self, view: &View) -> (HashSet<GroupName>, BTreeMap<GroupPartition, Wanted>) {
        let Self { shared, charges, kept, vacancies, membership, looking, .. } = self;
        let (now, patience) = (Instant::now(), shared.coordinator.patience());
        for group in kept.groups_without_a_backend() {
            vacancies.put_off(&group, now);
        }
        // Without patience nobody else's turn ever passes.
        let mut turns = Turns { instance: membership.instance(), vacancies, patience: patience.unwrap_or(Duration::MAX), now };
        let (mut judged, mut wanted) = (HashSet::new(), BTreeMap::new());
        for group in charges.prepared_groups().filter(|group| view.controls.contains_key(&group.config.group)) {
            if let Some(topics) = group.cluster.topics() {
                judged.insert(group.config.group.clone());
                wanted.extend(view.wanted(group, &topics, &mut turns, |at| kept.holding(at)));
            }
        }
        if let Some(due) = patience.and_then(|patience| vacancies.due(patience)) {
            looking.by(due);
        }
        (judged, wanted)
    }

    /// Tells every group whether it may work.
    fn permit(&mut self) {
        let (holds, losses) = (self.lease.holds(), self.lease.losses());
        if holds != self.held && self.membership.is_in() {
            self.held = holds;
            match holds {
                true => info!("the lease holds again: attempts are made"),
                false => warn!("the lease is lost: open attempts are cut, and none is made until the coordinator answers again"),
            }
        }
        if losses.sessions != self.losses.sessions {
            self.looking.soon();
        }
        self.losses = losses;
        for group in self.charges.groups() {
            let paused = self.controls.get(&group.config.group).map(|control| control.paused || self.stage == Stage::Draining);
            let permission = match (holds, paused) {
                (false, _) | (true, None) => Permission::Cut,
                (true, Some(true)) => Permission::Pause,
                (true, Some(false)) => Permission::Run,
            };
            match (turn(group, permission, losses), permission) {
                _ if self.stage == Stage::Draining => {}
                (Permission::Run, Permission::Pause) => info!(group = %group.config.group, "the group is paused: no attempts are made"),
                (Permission::Pause, Permission::Run) => info!(group = %group.config.group, "the group is resumed"),
                _ => {}
            }
        }
        for group in self.kept.groups_besides(&self.charges) {
            turn(&group, if holds { Permission::Pause } else { Permission::Cut }, losses);
        }
    }

    fn publish(&mut self) {
        let missing: Vec<_> = self.membership.missing().into_iter().chain(self.charges.missing()).collect();
        let before = self.published.replace(self.kept.revision());
        let fresh = (before != self.published).then(|| self.kept.directory());
        self.report.send_if_modified(|report| {
            let changed = *report.missing != *missing || fresh.is_some();
            report.missing = missing.into();
            if let Some(directory) = fresh {
                report.directory = directory;
            }
            changed
        });
    }

    /// No attempt starts from here on; open ones end in time or are cut, and every last cursor is
    /// stored. The others are told first, who take each partition as it is given up. A lease that
    /// ends meanwhile still cuts.
    async fn let_everything_go(&mut self) {
        self.stage = Stage::Draining;
        self.shared.drain_began.get_or_init(Instant::now);
        self.shared.draining.cancel();
        self.permit();
        self.kept.let_go(|_, _| true);
        info!(partitions = self.kept.len(), grace = ?self.shared.grace, "draining: no new attempts; open ones may end");
        let coordinator = self.shared.coordinator.clone();
        let mut withdrawing = coordinator.withdraw().fuse();
        while !self.kept.is_empty() {
            tokio::select! {
                biased;
                _ = self.lease.changed() => self.permit(),
                Err(error) = &mut withdrawing => warn!(%error, "the other members do not know yet that this process leaves the fleet"),
                ended = self.kept.next_ended() => drop(self.kept.ended(ended)),
            }
        }
        self.publish();
    }
}

/// Returns what it might before.
fn turn(group: &Group, permission: Permission, losses: Losses) -> Permission {
    let mut before = permission;
    group.allowed.send_if_modified(|allowed| {
        let was = *allowed;
        before = allowed.turn_to(permission, losses);
        *allowed != was
    });
    before
}
