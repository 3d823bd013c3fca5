//! `mqgate cursor`: the next offset to deliver of every partition, whoever owns it.

use pusher::admin::view::{GroupDetail, GroupList, PartitionView};
use serde_json::json;

use crate::admin::Admin;
use crate::failure::Failure;
use crate::output::{self, Column, grouped};

/// Show the cursors of the whole fleet
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate cursor list               every cursor of every group
  mqgate cursor show shop          one group's, with what is done above them and who owns them
  mqgate cursor show shop --json   for scripts

A cursor is the next offset to deliver. All before it is delivered, given up on purpose, or skipped
on record.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    admin: Admin,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Every cursor of every group
    List,
    /// One group's, partition by partition
    Show { group: String },
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    match &args.action {
        Action::List => list(&args.admin).await,
        Action::Show { group } => show(&args.admin, group).await,
    }
}

async fn list(admin: &Admin) -> Result<(), Failure> {
    let (listing, _) = admin.get::<GroupList>(&["groups"]).await?;
    let mut details = Vec::with_capacity(listing.groups.len());
    for group in &listing.groups {
        let (detail, _) = admin.get::<GroupDetail>(&["groups", &group.group]).await?;
        details.push(detail);
    }
    if admin.json {
        let cursors: Vec<_> = details.iter().map(|detail| json!({"group": detail.group, "partitions": detail.partitions})).collect();
        return Ok(output::line(json!({"groups": cursors}))?);
    }
    let columns = [
        Column::Text("GROUP"),
        Column::Text("TOPIC"),
        Column::Number("PARTITION"),
        Column::Number("CURSOR"),
        Column::Number("END"),
        Column::Number("LAG"),
    ];
    let rows = details.iter().flat_map(|detail| detail.partitions.iter().map(|at| [vec![detail.group.clone()], place(at)].concat()));
    Ok(output::table(&columns, rows)?)
}

async fn show(admin: &Admin, group: &str) -> Result<(), Failure> {
    let (detail, answer) = admin.get::<GroupDetail>(&["groups", group]).await?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    let columns = [
        Column::Text("TOPIC"),
        Column::Number("PARTITION"),
        Column::Number("CURSOR"),
        Column::Number("END"),
        Column::Number("LAG"),
        Column::Number("DONE ABOVE"),
        Column::Text("OWNER"),
        Column::Text("ITS ADMIN PORT"),
    ];
    Ok(output::table(&columns, detail.partitions.iter().map(with_owner))?)
}

fn place(at: &PartitionView) -> Vec<String> {
    vec![at.topic.to_string(), at.partition.to_string(), known(at.cursor), known(at.end), known(at.lag)]
}

fn with_owner(at: &PartitionView) -> Vec<String> {
    let owner = at.owner.clone().unwrap_or_else(|| "nobody".to_owned());
    let port = at.owner_admin.clone().unwrap_or_else(|| if at.live.is_some() { "this one" } else { "?" }.to_owned());
    [place(at), vec![known(at.live.as_ref().map(|live| live.done_set)), owner, port]].concat()
}

fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "?".to_owned(), grouped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_owner_knows_is_asked_of_the_owner() {
        let at = PartitionView {
            topic: common::ids::Topic::new("orders").unwrap(),
            partition: 3,
            owner: Some("b".into()),
            owner_admin: Some("10.0.0.2:9091".into()),
            cursor: Some(1_007),
            end: Some(1_010),
            lag: Some(3),
            trouble: None,
            live: None,
        };
        assert_eq!(with_owner(&at).join(" "), "orders 3 1,007 1,010 3 ? b 10.0.0.2:9091");
        let unowned = PartitionView { owner: None, owner_admin: None, cursor: None, lag: None, ..at };
        assert_eq!(with_owner(&unowned).join(" "), "orders 3 ? 1,010 ? ? nobody ?");
    }
}
