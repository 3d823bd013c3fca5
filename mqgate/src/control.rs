//! `mqgate pause`, `resume` and `replay`: written state, which the whole fleet takes up.

use std::collections::BTreeMap;

use common::ids::Topic;
use pusher::admin::view::{MovedCursor, ReplayAnswer, ReplayRequest, Stated};

use crate::admin::Admin;
use crate::failure::Failure;
use crate::output::{self, Column, grouped};

/// Stop pushing to a group, on the whole fleet and over restarts
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate pause shop     no attempt starts any more; those under way may end
  mqgate resume shop    go on where it stood

Messages are kept meanwhile, as long as the queue's retention allows.")]
pub(crate) struct Pause {
    /// The group's name
    group: String,
    #[command(flatten)]
    admin: Admin,
}

/// Push to a paused group again
#[derive(clap::Args, Debug)]
pub(crate) struct Resume {
    /// The group's name
    group: String,
    #[command(flatten)]
    admin: Admin,
}

/// Move a group's cursors, backwards to deliver again or forwards to skip
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate replay shop --from 2026-11-28T00:00:00Z --dry-run   what would move, and nothing does
  mqgate replay shop --from 2026-11-28T00:00:00Z             everything since then again
  mqgate replay shop --offset orders:0=17 --offset orders:3=9 these partitions only
  mqgate replay shop --from 2026-11-28T00:00:00Z --id fix-1  once, however often it is repeated

All partitions move or none. What is delivered again bears the same Webhook-Id and a greater X-Kmq-Epoch.")]
pub(crate) struct Replay {
    /// The group's name
    group: String,
    /// From the first message of this time on, in every partition (RFC 3339, with its zone)
    #[arg(long, value_name = "TIME", required_unless_present = "offset", conflicts_with = "offset", value_parser = time)]
    from: Option<String>,
    /// Where to go on in a partition; may be repeated
    #[arg(long, value_name = "TOPIC:P=N", value_parser = offset)]
    offset: Vec<(Topic, u32, u64)>,
    /// Say what would move, and move nothing
    #[arg(long)]
    dry_run: bool,
    /// The replay's name: of the last 16 names none is done twice
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    admin: Admin,
}

/// As it was given, since the gateway reads it again.
fn time(text: &str) -> Result<String, String> {
    let wrong = |error| format!("a time with its zone is asked for, such as 2026-11-28T00:00:00Z: {error}");
    text.parse::<jiff::Timestamp>().map(|_| text.to_owned()).map_err(wrong)
}

fn offset(text: &str) -> Result<(Topic, u32, u64), String> {
    let wrong = || "a place is asked for, such as orders:0=17".to_owned();
    let (place, offset) = text.split_once('=').ok_or_else(wrong)?;
    let (topic, partition) = place.rsplit_once(':').ok_or_else(wrong)?;
    let topic = Topic::new(topic).map_err(|error| error.to_string())?;
    Ok((topic, partition.parse().map_err(|_| wrong())?, offset.parse().map_err(|_| wrong())?))
}

pub(crate) async fn pause(args: Pause) -> Result<(), Failure> {
    set(&args.admin, &args.group, "pause", "is paused: no attempt starts until `mqgate resume`").await
}

pub(crate) async fn resume(args: Resume) -> Result<(), Failure> {
    set(&args.admin, &args.group, "resume", "is running").await
}

async fn set(admin: &Admin, group: &str, verb: &str, outcome: &str) -> Result<(), Failure> {
    let (stated, answer) = admin.change::<Stated>(&["groups", group, verb], serde_json::json!({})).await?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    Ok(output::line(format_args!("{} {outcome}.", stated.group))?)
}

pub(crate) async fn replay(args: Replay) -> Result<(), Failure> {
    let Replay { group, from, offset, dry_run, id, admin } = args;
    let offsets = (!offset.is_empty()).then(|| by_topic(offset));
    let request = ReplayRequest { from, offsets, id, dry_run };
    let (moved, answer) = admin.change::<ReplayAnswer>(&["groups", &group, "replay"], serde_json::json!(request)).await?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    if moved.repeated {
        return Ok(output::line(format_args!("The replay {} was done before; nothing was written.", moved.id))?);
    }
    let columns = [Column::Text("TOPIC"), Column::Number("PARTITION"), Column::Number("FROM"), Column::Number("TO")];
    output::table(&columns, moved.partitions.iter().map(row))?;
    Ok(output::line(match dry_run {
        true => "\nNothing was moved (--dry-run).".to_owned(),
        false => format!("\nMoved, under the id {}.", moved.id),
    })?)
}

fn by_topic(places: Vec<(Topic, u32, u64)>) -> BTreeMap<Topic, BTreeMap<u32, u64>> {
    let mut offsets: BTreeMap<Topic, BTreeMap<u32, u64>> = BTreeMap::new();
    for (topic, partition, offset) in places {
        offsets.entry(topic).or_default().insert(partition, offset);
    }
    offsets
}

fn row(moved: &MovedCursor) -> Vec<String> {
    let old = moved.old.map_or_else(|| "its start".to_owned(), grouped);
    vec![moved.topic.to_string(), moved.partition.to_string(), old, grouped(moved.new)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_zone() {
        assert_eq!(time("2026-11-28T00:00:00+02:00").as_deref(), Ok("2026-11-28T00:00:00+02:00"));
        for wrong in ["yesterday", "2026-11-28", "2026-11-28T00:00:00", "1700000000", ""] {
            assert!(time(wrong).unwrap_err().contains("such as 2026-11-28T00:00:00Z"), "{wrong}");
        }
    }

    #[test]
    fn a_place_names_topic_partition_and_offset() {
        assert_eq!(offset("a.b:3=17"), Ok((Topic::new("a.b").unwrap(), 3, 17)));
        for wrong in ["a", "a=1", "a:1", "a:x=1", "a:1=x", "a:1=-1", ":1=1"] {
            assert!(offset(wrong).is_err(), "{wrong}");
        }
    }
}
