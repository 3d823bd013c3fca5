//! `mqgate cursor`: what stands in the store about every partition, whoever owns it.

use pusher::admin::view::{CursorList, CursorView, GroupList};
use serde_json::json;

use crate::admin::Admin;
use crate::failure::Failure;
use crate::output::{self, Column, PLACE, grouped};

/// Show the stored cursors of the whole fleet
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate cursor list               every cursor of every group
  mqgate cursor show shop          one group's, with what is done above them and who owns them
  mqgate cursor show shop --json   for scripts

A cursor is the next offset to deliver. All before it is delivered, given up on purpose, or skipped
on record. What is stored lags behind by up to a commit_interval; `mqgate groups` asks the owner.")]
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
    Show {
        /// The group's name
        group: String,
    },
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    match &args.action {
        Action::List => list(&args.admin).await,
        Action::Show { group } => show(&args.admin, group).await,
    }
}

async fn list(admin: &Admin) -> Result<(), Failure> {
    let (listing, _) = admin.get::<GroupList>(&["groups"]).await?;
    let mut all = Vec::with_capacity(listing.groups.len());
    for group in &listing.groups {
        all.push(admin.get::<CursorList>(&["groups", &group.group, "cursors"]).await?.0);
    }
    if admin.json {
        return Ok(output::line(json!({"groups": all}))?);
    }
    let columns = [&[Column::Text("GROUP")][..], &PLACE].concat();
    let rows = all.iter().flat_map(|list| list.cursors.iter().map(|at| [vec![list.group.clone()], place(at)].concat()));
    Ok(output::table(&columns, rows)?)
}

async fn show(admin: &Admin, group: &str) -> Result<(), Failure> {
    let (list, answer) = admin.get::<CursorList>(&["groups", group, "cursors"]).await?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    let columns = [&PLACE[..], &[Column::Number("DONE ABOVE"), Column::Text("OWNER")]].concat();
    Ok(output::table(&columns, list.cursors.iter().map(with_owner))?)
}

fn place(at: &CursorView) -> Vec<String> {
    output::place(&at.topic, at.partition, [at.cursor, at.end, at.lag])
}

fn with_owner(at: &CursorView) -> Vec<String> {
    [place(at), vec![grouped(at.done_records), output::owner(at.owner.as_ref())]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_yet_is_not_shown_as_zero() {
        let topic = common::ids::Topic::new("orders").unwrap();
        let (done, owner) = (vec![[1_009, 1_009]], Some("b".to_owned()));
        let at = CursorView { topic, partition: 3, cursor: Some(1_007), done, done_records: 1, end: Some(1_010), lag: Some(3), owner };
        assert_eq!(with_owner(&at).join(" "), "orders 3 1,007 1,010 3 1 b");
        let unowned = CursorView { owner: None, cursor: None, lag: None, done: Vec::new(), done_records: 0, ..at };
        assert_eq!(with_owner(&unowned).join(" "), "orders 3 ? 1,010 ? 0 nobody");
    }
}
