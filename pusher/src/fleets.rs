//! The fleets of this process, one for each coordinator, and which groups each of them serves.

use std::sync::Arc;
use std::time::Duration;

use common::config::PusherConfig;
use common::coordinator::Coordinator;
use common::ids::GroupName;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::factory::Factory;
use crate::fleet::{Charge, Fleet, FleetHandle, Order, Parts};
use crate::group::{Group, GroupSetup};
use crate::member::Me;
use crate::prepare::{Faults, StartError};
use crate::roster::{Listed, Roster};

mod reload;

pub use self::reload::{Applied, Reloader};
pub(crate) use self::reload::{Request, Requests};

pub(crate) struct Fleets {
    factory: Factory,
    me: Me,
    grace: Duration,
    groups: Vec<Arc<Group>>,
    fleets: Vec<FleetHandle>,
    /// Without groups, and about to end.
    ending: Vec<FleetHandle>,
    /// Built, and not begun.
    waiting: Vec<Fleet>,
    tasks: JoinSet<Result<(), StartError>>,
    /// Groups that are configured otherwise or no more, once they have let go of everything.
    gone: JoinSet<Arc<Group>>,
    roster: watch::Sender<Arc<[Listed]>>,
    stop: CancellationToken,
}

impl Fleets {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(config: &PusherConfig, setups: &[GroupSetup], registry: &mut Registry) -> Result<Self, StartError> {
        let factory = Factory::new(config, registry);
        let groups = factory.groups(&[], setups)?;
        factory.settle(&groups);
        let mut fleets = Self {
            factory,
            me: Me::this_process(config),
            grace: config.drain_timeout,
            groups,
            fleets: Vec::new(),
            ending: Vec::new(),
            waiting: Vec::new(),
            tasks: JoinSet::new(),
            gone: JoinSet::new(),
            roster: watch::Sender::new(Arc::default()),
            stop: CancellationToken::new(),
        };
        for coordinator in fleets.coordinators() {
            let (fleet, handle) = fleets.fleet(coordinator, Faults::End);
            fleets.waiting.push(fleet);
            fleets.fleets.push(handle);
        }
        fleets.publish();
        Ok(fleets)
    }

    fn fleet(&self, coordinator: Arc<dyn Coordinator>, faults: Faults) -> (Fleet, FleetHandle) {
        let (metrics, topic_changes) = (self.factory.metrics.clone(), self.factory.topic_changes());
        Fleet::new(Parts { coordinator, metrics, grace: self.grace, me: self.me.clone(), faults, topic_changes })
    }

    pub(crate) fn group(&self, name: &GroupName) -> Option<&Arc<Group>> {
        self.groups.iter().find(|group| group.config.group == *name)
    }

    /// Of the groups as they are configured now, each once.
    fn coordinators(&self) -> Vec<Arc<dyn Coordinator>> {
        let mut distinct: Vec<Arc<dyn Coordinator>> = Vec::new();
        for group in &self.groups {
            if !distinct.iter().any(|known| Arc::ptr_eq(known, &group.coordinator)) {
                distinct.push(group.coordinator.clone());
            }
        }
        distinct
    }

    pub(crate) fn roster(&self) -> Roster {
        Roster(self.roster.subscribe())
    }

    pub(crate) fn instance(&self) -> &str {
        self.me.instance()
    }

    fn publish(&self) {
        let report = |group: &Arc<Group>| {
            let fleet = self.fleets.iter().find(|fleet| Arc::ptr_eq(&fleet.coordinator, &group.coordinator));
            fleet.map(|fleet| Listed { group: group.clone(), report: fleet.report.clone() })
        };
        self.roster.send_replace(self.groups.iter().filter_map(report).collect());
    }

    /// Those that have not begun do so: they prepare their groups, join, and serve.
    pub(crate) async fn begin(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        for fleet in waiting {
            self.tasks.spawn(fleet.run(self.stop.clone()));
        }
        for fleet in &self.fleets {
            let ours = self.groups.iter().filter(|group| Arc::ptr_eq(&group.coordinator, &fleet.coordinator));
            fleet.order(Order::Serve(ours.map(|group| Charge { group: group.clone(), prepared: false }).collect())).await;
        }
    }

    /// Until every group of every fleet is served. For ever if a fleet ends before.
    pub(crate) fn all_served(&self) -> impl Future<Output = ()> + use<> {
        let reports: Vec<_> = self.fleets.iter().map(|fleet| fleet.report.clone()).collect();
        async move {
            for mut report in reports {
                let ended = report.wait_for(|report| report.missing.is_empty()).await.is_err();
                if ended {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// When one of them cannot serve, for good. Takes care of what else ends meanwhile.
    pub(crate) async fn failed(&mut self) -> StartError {
        loop {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return error,
                    Err(failed) => std::panic::resume_unwind(failed.into_panic()),
                },
                Some(gone) = self.gone.join_next() => {
                    if let Ok(former) = gone {
                        self.factory.metrics.forget(&former.config, self.group(&former.config.group).map(|group| &group.config));
                    }
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Ends all of them, and waits for it; the first failure among them.
    pub(crate) async fn end(&mut self) -> Result<(), StartError> {
        self.stop.cancel();
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(ended) => result = result.and(ended),
                Err(failed) => error!(error = %failed, "a fleet's task failed, which is a fault in this program"),
            }
        }
        result
    }
}
