//! A pusher that ends in the middle of a drain, and how many messages come once more.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::goals::Goal;
use crate::keys::{Labels, Spread};
use crate::load::fill;
use crate::message::SIZE_BYTES;
use crate::push::{IN_FLIGHT, KEYS, PARTITIONS};
use crate::receiver::{Manner, Receiver};
use crate::run::{Options, Results};
use crate::stage::{Backend, Servers, Stage};

const PATIENCE: Duration = Duration::from_secs(120);

enum End {
    Kill,
    Terminate,
}

struct Case {
    name: &'static str,
    end: End,
    commit_interval: &'static str,
    most_repeated: f64,
}

const CASES: &[Case] = &[
    Case { name: "kill -9, commit_interval 1 s", end: End::Kill, commit_interval: "1s", most_repeated: 45_000.0 },
    Case { name: "kill -9, commit_interval 100 ms", end: End::Kill, commit_interval: "100ms", most_repeated: 4_500.0 },
    Case { name: "SIGTERM", end: End::Terminate, commit_interval: "1s", most_repeated: 0.0 },
];

pub(crate) async fn run(options: &Options, backend: Backend, servers: &Servers, results: &mut Results) -> anyhow::Result<()> {
    let receiver = Receiver::start()?;
    for case in CASES.iter().filter(|case| options.asks_for(case.name)) {
        let repeated = repeated(case, options.messages, servers, &receiver).await?;
        let what = format!("{} drain, {} in the middle: delivered again", backend.name(), case.name);
        results.goals.push(Goal::at_most(what, repeated as f64, case.most_repeated));
    }
    Ok(())
}

async fn repeated(case: &Case, messages: u64, servers: &Servers, receiver: &Receiver) -> anyhow::Result<u64> {
    let mut stage = Stage::new(servers, PARTITIONS).await?;
    fill(&stage.target, Labels::new(Spread::Even, KEYS), messages, SIZE_BYTES).await?;
    receiver.set(Manner::default()).await?;
    let policy: BTreeMap<&str, Value> =
        BTreeMap::from([("worker_num", json!(IN_FLIGHT)), ("timeout", json!("30s")), ("commit_interval", json!(case.commit_interval))]);
    let group = stage.group("bench", &receiver.url(), &policy);
    stage.push(vec![group]).await;
    let before = receiver.until_done(messages / 2, PATIENCE).await?;
    anyhow::ensure!(before.done < messages, "all was delivered before it could be disturbed: give more with --messages");
    match case.end {
        End::Kill => stage.pusher_mut().kill(),
        End::Terminate => {
            let ended = stage.pusher_mut().terminate(PATIENCE).await;
            anyhow::ensure!(ended.success(), "mqgate ended with {ended}");
        }
    }
    stage.pusher_mut().restart().await;
    let seen = receiver.until_done(messages, PATIENCE).await?;
    seen.check_whole(messages)?;
    Ok(seen.repeated)
}
