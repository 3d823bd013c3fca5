//! Random histories.

use common::coordinator::zookeeper::model::{Flow, Setup, Step, What};
use proptest::prelude::*;

fn setups() -> impl Strategy<Value = Setup> {
    let partition = (0u64..8, prop::option::weighted(0.2, 0u64..8));
    let partitions = prop::collection::vec(partition, 1..4);
    (1usize..4, partitions, prop_oneof![Just(1usize), Just(3), Just(100)], any::<bool>()).prop_map(
        |(processes, partitions, at_most, bypass)| {
            let ends = partitions.iter().map(|(end, _)| *end).collect();
            let inherited = partitions.iter().map(|(end, cursor)| cursor.map(|cursor| cursor.min(*end))).collect();
            Setup { processes, ends, inherited, at_most, bypass }
        },
    )
}

pub(super) fn histories(max_steps: usize) -> impl Strategy<Value = (Setup, Vec<Step>)> {
    setups().prop_flat_map(move |setup| {
        let steps = prop::collection::vec(steps(setup.processes), 4..max_steps);
        (Just(setup), steps)
    })
}

fn steps(processes: usize) -> impl Strategy<Value = Step> {
    let (slot, partition) = (0..processes, 0..4usize);
    let of = |weight, step: fn(usize) -> Step| (weight, slot.clone().prop_map(step).boxed());
    let mut all = vec![
        (8, (partition.clone(), 1u64..5).prop_map(|(partition, records)| Step::Append { partition, records }).boxed()),
        (1, (partition.clone(), 1u64..3).prop_map(|(partition, records)| Step::Trim { partition, records }).boxed()),
        (1, Just(Step::RecreateTopic).boxed()),
        (1, Just(Step::AddPartition).boxed()),
        (2, Just(Step::DeliverLate).boxed()),
        (1, Just(Step::RestartServers).boxed()),
        (1, (slot.clone(), prop_oneof![Just(2500u64), Just(3500), Just(5000)]).prop_map(|(slot, time)| Step::Waver(slot, time)).boxed()),
        (3, (slot.clone(), flows()).prop_map(|(slot, flow)| Step::Network(slot, flow)).boxed()),
        (1, (slot.clone(), 1u32..4).prop_map(|(slot, fail)| Step::FailReads(slot, fail)).boxed()),
        (2, (slot.clone(), 1u32..3).prop_map(|(slot, lose)| Step::LoseReplies(slot, lose)).boxed()),
        (3, (slot.clone(), partition.clone(), 0u64..12).prop_map(|(slot, partition, to)| Step::Replay { slot, partition, to }).boxed()),
        (1, (slot.clone(), any::<bool>()).prop_map(|(slot, paused)| Step::Pause(slot, paused)).boxed()),
        (1, (partition.clone(), 0u64..14).prop_map(|(partition, to)| Step::ForeignSet { partition, to }).boxed()),
        (1, (partition, nodes()).prop_map(|(partition, what)| Step::Delete { partition, what }).boxed()),
        (12, prop_oneof![Just(250u64), Just(500), Just(1000), Just(2500), Just(4500), Just(7000)].prop_map(Step::Pass).boxed()),
    ];
    all.extend([
        of(3, Step::Start),
        of(2, Step::Crash),
        of(1, Step::Leave),
        of(2, Step::Freeze),
        of(2, Step::Thaw),
        of(1, Step::Disable),
        of(3, |slot| Step::Network(slot, Flow::Pass)),
        of(2, Step::Cut),
        of(1, Step::FallBehind),
        of(1, Step::CatchUp),
        of(1, Step::DeleteMember),
    ]);
    prop::strategy::Union::new_weighted(all)
}

fn flows() -> impl Strategy<Value = Flow> {
    prop_oneof![Just(Flow::Hold), Just(Flow::Mute), Just(Flow::Isolated)]
}

fn nodes() -> impl Strategy<Value = What> {
    prop_oneof![Just(What::Cursor), Just(What::Done), Just(What::Owner)]
}
