//! From the POST's answer to the webhook.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};

use crate::clock::now_ns;
use crate::goals::Goal;
use crate::load::{Connection, Target};
use crate::message::{Label, SIZE_BYTES};
use crate::receiver::{Manner, Receiver};
use crate::run::{Options, Results};
use crate::stage::{Backend, Servers, Stage};
use crate::table::Row;
use crate::usage::Meter;

const PARTITIONS: u32 = 8;
const CONNECTIONS: u32 = 64;
const KEYS_EACH: u32 = 100;
const SETTLED: Duration = Duration::from_secs(60);

/// When each message was answered.
type Answered = HashMap<Label, u64>;

/// As fast as it is answered, or at a steady pace of so many a second in all.
#[derive(Clone, Copy)]
enum Pace {
    Full,
    Steady(f64),
}

/// The keys of one connection are its own, so that each key's messages are sent one after the other.
async fn post(target: Arc<Target>, connection: u32, pace: Pace, duration: Duration) -> anyhow::Result<Answered> {
    let mut wire = Connection::open(target.server).await?;
    let mut answered = Answered::new();
    let (began, gap) = match pace {
        Pace::Full => (Instant::now(), Duration::from_nanos(1)),
        Pace::Steady(per_second) => {
            let gap = Duration::from_secs_f64(f64::from(CONNECTIONS) / per_second);
            (Instant::now() + gap * connection / CONNECTIONS, gap)
        }
    };
    let mut ticks = tokio::time::interval_at(began, gap);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for n in 0_u32.. {
        if let Pace::Steady(_) = pace {
            ticks.tick().await;
        }
        if began.elapsed() > duration {
            break;
        }
        let label = Label { key: connection * KEYS_EACH + n % KEYS_EACH, number: n / KEYS_EACH };
        let status = wire.exchange(&target.single(label, SIZE_BYTES)).await?;
        anyhow::ensure!(status == 200, "a message was answered {status}");
        answered.insert(label, now_ns());
    }
    Ok(answered)
}

struct Way<'a> {
    stage: Stage<'a>,
    receiver: Receiver,
}

impl<'a> Way<'a> {
    async fn start(servers: &'a Servers) -> anyhow::Result<Self> {
        let receiver = Receiver::start()?;
        let mut stage = Stage::new(servers, PARTITIONS).await?;
        let group = stage.group("bench", &receiver.url(), &BTreeMap::from([("worker_num", json!(100))]));
        stage.push(vec![group]).await;
        stage.pusher().until_served("bench", PARTITIONS as usize).await;
        Ok(Self { stage, receiver })
    }

    /// All of it, each delivered once: how many, how many a second to the last webhook, and the latencies in µs.
    async fn at(&self, pace: Pace, duration: Duration) -> anyhow::Result<(u64, f64, Histogram<u64>)> {
        self.receiver.set(Manner { note_arrivals: true, ..Manner::default() }).await?;
        let began = now_ns();
        let posting: Vec<_> = (0..CONNECTIONS).map(|n| tokio::spawn(post(Arc::clone(&self.stage.target), n, pace, duration))).collect();
        let mut answered = Answered::new();
        for task in posting {
            answered.extend(task.await??);
        }
        let seen = self.receiver.until_done(answered.len() as u64, SETTLED).await?;
        seen.check(answered.len() as u64)?;
        let (arrivals, mut latency_us) = (self.receiver.arrivals().await?, Histogram::new(3)?);
        for (label, answered_ns) in &answered {
            // The webhook may be there before the answer is read: that is no time at all.
            latency_us.record(arrivals[label].saturating_sub(*answered_ns) / 1_000)?;
        }
        Ok((seen.done, seen.done as f64 / ((seen.last_ns - began) as f64 / 1e9), latency_us))
    }
}

/// Servers that compile while they run are slow in their first seconds.
pub(crate) async fn warm_up(servers: &Servers, duration: Duration) -> anyhow::Result<()> {
    Way::start(servers).await?.at(Pace::Full, duration).await.map(drop)
}

pub(crate) async fn run(options: &Options, backend: Backend, servers: &Servers, results: &mut Results) -> anyhow::Result<()> {
    // A topic for each pace, since each numbers its messages from 0.
    let name = backend.name();
    let capacity = Way::start(servers).await?.at(Pace::Full, options.duration()).await?.1;
    results.rows.push(Row::new(format!("{name} POST to webhook, at capacity"), "mqgate").rate(capacity));
    for percent in [20, 50, 80] {
        let way = Way::start(servers).await?;
        let meter = Meter::start(way.stage.pusher_pid())?;
        let (count, per_second, latency_us) = way.at(Pace::Steady(capacity * f64::from(percent) / 100.0), options.duration()).await?;
        let usage = meter.read()?;
        let ms = |quantile| latency_us.value_at_quantile(quantile) as f64 / 1_000.0;
        let row = Row::new(format!("{name} POST to webhook, {percent} % of capacity"), "mqgate");
        results.rows.push(row.latency(vec![ms(0.5), ms(0.99), ms(0.999)]).rate(per_second).used(&usage, count));
        let (p50, p99) = if backend == Backend::Embedded { (1.0, 5.0) } else { (2.0, 10.0) };
        match percent {
            20 => {
                results.goals.push(Goal::at_most(format!("{name} POST to webhook at 20 %: p50 in ms"), ms(0.5), p50));
                results.goals.push(Goal::at_most(format!("{name} POST to webhook at 20 %: p99 in ms"), ms(0.99), p99));
            }
            80 => results.goals.push(Goal::at_most(format!("{name} POST to webhook at 80 %: p99 in ms"), ms(0.99), 50.0)),
            _ => {}
        }
    }
    Ok(())
}
