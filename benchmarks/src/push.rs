//! A backlog that is drained into a receiver.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::child::Own;
use crate::goals::Goal;
use crate::keys::{Labels, Spread};
use crate::load::fill;
use crate::message::SIZE_BYTES;
use crate::receiver::{Failing, Manner, Receiver, Seen};
use crate::run::{Options, Results};
use crate::stage::{Backend, Servers, Stage};
use crate::table::Row;
use crate::usage::{Meter, Usage};

pub(crate) const PARTITIONS: u32 = 8;
pub(crate) const KEYS: u32 = 10_000;
pub(crate) const IN_FLIGHT: u32 = 100;
/// For one backlog.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Clone, Copy)]
struct Drain {
    name: &'static str,
    spread: Spread,
    manner: Manner,
    messages: u64,
}

/// The slow receiver sets the pace: fewer messages say as much.
const SLOW_MESSAGES: u64 = 50_000;

impl Drain {
    fn instant(messages: u64) -> Self {
        Self { name: "drain, instant receiver", spread: Spread::Even, manner: Manner::default(), messages }
    }

    fn slow(messages: u64) -> Self {
        let manner = Manner { delay_ms: 10, ..Manner::default() };
        Self { name: "drain, 10 ms receiver", spread: Spread::Even, manner, messages: messages.min(SLOW_MESSAGES) }
    }

    fn failing(self, name: &'static str, failing: Failing) -> Self {
        Self { name, manner: Manner { failing, ..self.manner }, ..self }
    }

    fn zipf(self, name: &'static str) -> Self {
        Self { name, spread: Spread::Zipf, ..self }
    }

    /// Those of the keys that do not fail.
    fn expected(&self) -> u64 {
        let labels = Labels::new(self.spread, KEYS).take(usize::try_from(self.messages).expect("it is bounded"));
        labels.filter(|label| !self.manner.failing.has(label.key)).count() as u64
    }
}

struct Drained {
    seen: Seen,
    usage: Usage,
    /// Of one attempt, as the pusher measured it.
    attempt_s: f64,
}

/// Everything but failing keys must come once, and in the order of each key.
async fn drain(drain: Drain, backend: Backend, servers: &Servers, receiver: &Receiver, results: &mut Results) -> anyhow::Result<Drained> {
    let mut stage = Stage::new(servers, PARTITIONS).await?;
    fill(&stage.target, Labels::new(drain.spread, KEYS), drain.messages, SIZE_BYTES).await?;
    receiver.set(drain.manner).await?;
    let policy: BTreeMap<&str, Value> = BTreeMap::from([
        ("worker_num", json!(IN_FLIGHT)),
        ("retry_times", json!(1_000_000)),
        ("timeout", json!("30s")),
        ("retry_backoff", json!({"initial": "1s", "max": "1s"})),
    ]);
    let group = stage.group("bench", &receiver.url(), &policy);
    stage.push(vec![group]).await;
    let meter = Meter::start(stage.pusher_pid())?.since_birth();
    let expected = drain.expected();
    let seen = receiver.until_done(expected, PATIENCE).await?;
    let usage = meter.read()?;
    seen.check(expected)?;
    let of = async |what: &str| stage.pusher().metric(&format!("mqgate_attempt_duration_seconds_{what}"), &[]).await;
    let attempt_s = of("sum").await / of("count").await;
    let row = Row::new(format!("{} {}", backend.name(), drain.name), "mqgate");
    results.rows.push(row.rate(seen.per_second()).used(&usage, seen.done));
    Ok(Drained { seen, usage, attempt_s })
}

/// hyper-util's client alone against the same receiver: messages a second.
async fn limit(name: &str, delay_ms: u64, messages: u64, receiver: &Receiver, results: &mut Results) -> anyhow::Result<f64> {
    receiver.set(Manner { delay_ms, ..Manner::default() }).await?;
    let own = Own::start(&["bare-client", &receiver.url(), &messages.to_string(), &IN_FLIGHT.to_string()])?;
    let meter = Meter::start(own.pid())?.since_birth();
    let (_, _own) = own.next_line().await?;
    let (usage, seen) = (meter.read()?, receiver.seen().await?);
    seen.check(messages)?;
    results.rows.push(Row::new(name, "hyper-util client alone").rate(seen.per_second()).used(&usage, messages));
    Ok(seen.per_second())
}

pub(crate) async fn run(options: &Options, backend: Backend, servers: &Servers, results: &mut Results) -> anyhow::Result<()> {
    let (receiver, messages, name) = (Receiver::start()?, options.messages, backend.name());
    let (instant, slow) = (Drain::instant(messages), Drain::slow(messages));

    let bare = limit("POST, instant receiver", 0, messages, &receiver, results).await?;
    let even = drain(instant, backend, servers, &receiver, results).await?;
    results.goals.push(Goal::at_least(format!("{name} drain: rate beside the bare client's"), even.seen.per_second() / bare, 0.61));
    results.goals.push(Goal::at_most(format!("{name} drain: CPU s per 100k"), even.usage.cpu_s_per_100k(messages), 1.9));
    let memory = if backend == Backend::Embedded { 100.0 } else { 80.0 };
    results.goals.push(Goal::at_most(format!("{name} drain: peak memory in MiB"), even.usage.peak_mib, memory));

    let zipf = drain(instant.zipf("drain, instant receiver, Zipf"), backend, servers, &receiver, results).await?;
    let possible = even.seen.per_second().min(1.0 / (0.102 * zipf.attempt_s));
    results.goals.push(Goal::at_least(
        format!("{name} drain, Zipf: rate beside what the first key allows"),
        zipf.seen.per_second() / possible,
        0.8,
    ));

    let bare = limit("POST, 10 ms receiver", 10, slow.messages, &receiver, results).await?;
    let undisturbed = drain(slow, backend, servers, &receiver, results).await?.seen.per_second();
    results.goals.push(Goal::at_least(format!("{name} drain, 10 ms receiver: rate beside the bare client's"), undisturbed / bare, 0.95));
    for (title, failing) in
        [("drain, 10 ms receiver, a failing key", Failing::First), ("drain, 10 ms receiver, 1 % failing keys", Failing::OneInAHundred)]
    {
        let rate = drain(slow.failing(title, failing), backend, servers, &receiver, results).await?.seen.per_second();
        results.goals.push(Goal::at_least(format!("{name} {title}: rate beside the undisturbed one"), rate / undisturbed, 0.9));
    }
    Ok(())
}
