//! `mqgate groups`: how far every group has come, and one of them partition by partition.

use pusher::admin::view::{GroupDetail, GroupList, GroupState, GroupSummary, Live, PartitionView, Policy};

use crate::admin::Admin;
use crate::failure::Failure;
use crate::output::{self, Column, PLACE, grouped};

/// Show how far the groups have come
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate groups                    every group, with how many messages it has before it
  mqgate groups shop               one, partition by partition
  mqgate groups --json | jq        for scripts

LAG counts the messages from a group's cursor to the end. All before the cursor is delivered, or
given up on purpose.")]
pub(crate) struct Args {
    /// Show this one, partition by partition
    group: Option<String>,
    #[command(flatten)]
    admin: Admin,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    match &args.group {
        Some(group) => one(&args.admin, group).await,
        None => all(&args.admin).await,
    }
}

async fn all(admin: &Admin) -> Result<(), Failure> {
    let (listing, answer) = admin.get::<GroupList>(&["groups"]).await?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    if listing.groups.is_empty() {
        return Ok(output::line(
            "There is no group: nothing is pushed. `mqgate standalone --push TOPIC=URL` makes one, as does \"consumer_groups\" in a file.",
        )?);
    }
    let columns = [
        Column::Text("GROUP"),
        Column::Text("STATE"),
        Column::Text("TOPICS"),
        Column::Text("OWNED"),
        Column::Number("LAG"),
        Column::Text("URL"),
    ];
    Ok(output::table(&columns, listing.groups.into_iter().map(summary))?)
}

fn summary(group: GroupSummary) -> Vec<String> {
    let topics: Vec<&str> = group.topics.iter().map(|topic| topic.as_str()).collect();
    let owned = format!("{} of {}", group.owned, group.partitions);
    vec![group.group, state(group.state).to_owned(), topics.join(","), owned, grouped(group.lag), group.url]
}

async fn one(admin: &Admin, group: &str) -> Result<(), Failure> {
    let (detail, answer) = admin.get::<GroupDetail>(&["groups", group]).await?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    output::line(format_args!("{} is {}: {}\n", detail.group, state(detail.state), policy(&detail.policy)))?;
    if detail.partitions.is_empty() {
        return Ok(output::line("None of its topics exists yet.")?);
    }
    let columns = [&PLACE[..], &[Column::Number("IN FLIGHT"), Column::Number("RETRYING"), Column::Text("OWNER")]].concat();
    output::table(&columns, detail.partitions.iter().map(partition))?;
    for line in detail.partitions.iter().flat_map(remarks) {
        output::line(line)?;
    }
    Ok(())
}

fn state(state: GroupState) -> &'static str {
    match state {
        GroupState::Running => "running",
        GroupState::Paused => "paused",
    }
}

fn policy(policy: &Policy) -> String {
    let then = match (policy.bypass_failed, &policy.dead_letter_topic) {
        (true, Some(topic)) => format!("then written to {topic}"),
        (true, None) => "then given up".to_owned(),
        (false, _) => format!("again after {}, for ever", policy.failed_sleep),
    };
    let order = &policy.order;
    format!(
        "POST {}\n{} at a time, order by {order}, {} of at most {} a round, {then}",
        policy.url,
        policy.worker_num,
        output::counted(u64::from(policy.retry_times) + 1, "attempt"),
        policy.timeout
    )
}

fn partition(partition: &PartitionView) -> Vec<String> {
    let live = |count: fn(&Live) -> usize| output::known(partition.live.as_ref().map(|live| count(live) as u64));
    let place = output::place(&partition.topic, partition.partition, [partition.cursor, partition.end, partition.lag]);
    [place, vec![live(|live| live.in_flight), live(|live| live.pending_retries), output::owner(partition.owner.as_ref())]].concat()
}

/// What is out of the ordinary about a partition.
fn remarks(partition: &PartitionView) -> Vec<String> {
    let at = format!("{}/{}", partition.topic, partition.partition);
    let mut remarks = Vec::new();
    if let Some(trouble) = &partition.trouble {
        remarks.push(format!("\n{at} is not served: {trouble}"));
    }
    if let Some(blocked) = partition.live.as_ref().and_then(|live| live.blocked.as_ref()) {
        remarks.push(format!("\n{at} reads no further: {blocked}"));
    }
    let oldest = partition.live.as_ref().and_then(|live| live.oldest_unfinished.as_ref());
    if let Some((oldest, error)) = oldest.and_then(|oldest| Some((oldest, oldest.last_error.as_ref()?))) {
        let status = error.status.map_or(String::new(), |status| format!(" {status}"));
        remarks.push(format!(
            "\n{at} offset {} has waited {:.1} s and failed {}: {}{status}: {}",
            oldest.offset,
            oldest.age_seconds,
            times(oldest.attempts.into()),
            error.reason,
            error.detail
        ));
    }
    remarks
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { output::counted(number, "time") }
}

#[cfg(test)]
mod tests {
    use pusher::admin::view::{LastError, OldestUnfinished};

    use super::*;

    fn view() -> PartitionView {
        let last_error = LastError { reason: "status".into(), status: Some(500), detail: "Internal Server Error".into() };
        let oldest = OldestUnfinished { offset: 7, age_seconds: 12.34, attempts: 3, last_error: Some(last_error) };
        let live = Live {
            epoch: 1,
            in_flight: 2,
            unfinished: 5,
            unfinished_bytes: 10,
            pending_retries: 1,
            done_set: 4,
            blocked: None,
            oldest_unfinished: Some(oldest),
        };
        PartitionView {
            topic: common::ids::Topic::new("orders").unwrap(),
            partition: 0,
            owner: None,
            owner_admin: None,
            cursor: Some(7),
            end: Some(1_012),
            lag: Some(1_005),
            trouble: None,
            live: Some(live),
        }
    }

    #[test]
    fn what_holds_a_partition_back_is_said() {
        assert_eq!(remarks(&view()), ["\norders/0 offset 7 has waited 12.3 s and failed 3 times: status 500: Internal Server Error"]);
        let quiet = PartitionView { live: None, trouble: Some("the cursor reads \"x\"".into()), ..view() };
        assert_eq!(remarks(&quiet), ["\norders/0 is not served: the cursor reads \"x\""]);
    }

    #[test]
    fn what_is_not_known_is_not_shown_as_zero() {
        let unknown = PartitionView { cursor: None, live: None, ..view() };
        assert_eq!(partition(&unknown).join(" "), "orders 0 ? 1,012 1,005 ? ? nobody");
    }
}
