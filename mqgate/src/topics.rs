//! `mqgate topics`: what topics there are, made and removed.

use std::io::{IsTerminal, Write};

use clap::Subcommand;
use common::ids::Topic;
use pusher::admin::view::{NewTopic, TopicList, TopicView};
use reqwest::{Method, StatusCode};

use crate::admin::Admin;
use crate::failure::Failure;
use crate::output::{self, Column, grouped};

/// List, create and delete topics
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mqgate topics list
  mqgate topics create orders --partitions 6
  mqgate topics delete orders --yes")]
pub(crate) struct Args {
    #[command(flatten)]
    admin: Admin,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show every topic
    List,
    /// Make a topic
    Create {
        /// The topic's name
        #[arg(value_parser = Topic::new)]
        topic: Topic,
        /// How many partitions; they can be read in parallel, and a key stays in one
        #[arg(long, short, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
        partitions: u32,
    },
    /// Delete a topic and every message in it
    Delete {
        /// The topic's name
        #[arg(value_parser = Topic::new)]
        topic: Topic,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    match args.action {
        Action::List => list(&args.admin).await,
        Action::Create { topic, partitions } => create(&args.admin, &topic, partitions).await,
        Action::Delete { topic, yes } => delete(&args.admin, &topic, yes).await,
    }
}

async fn list(admin: &Admin) -> Result<(), Failure> {
    let (listing, answer) = admin.get::<TopicList>(&["topics"]).await?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    if listing.topics.is_empty() {
        return Ok(output::line(
            "There is no topic yet. A topic comes into being with its first message, or with `mqgate topics create`.",
        )?);
    }
    let columns = [Column::Text("TOPIC"), Column::Number("PARTITIONS"), Column::Number("MESSAGES KEPT"), Column::Number("WRITTEN")];
    let row = |topic: TopicView| {
        let kept = topic.partitions.iter().map(|p| p.end.saturating_sub(p.first)).sum();
        let written = topic.partitions.iter().map(|p| p.end).sum();
        vec![topic.topic.to_string(), topic.partitions.len().to_string(), grouped(kept), grouped(written)]
    };
    Ok(output::table(&columns, listing.topics.into_iter().map(row))?)
}

async fn create(admin: &Admin, topic: &Topic, partitions: u32) -> Result<(), Failure> {
    let body = serde_json::json!(NewTopic { partitions });
    let answer = admin.ask(Method::PUT, &["topics", topic.as_str()], Some(body)).await?.or_refused()?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    let partitions = output::counted(partitions.into(), "partition");
    match answer.status {
        StatusCode::CREATED => output::line(format_args!("created {topic} with {partitions}"))?,
        _ => output::line(format_args!("{topic} exists already, with {partitions}; nothing was changed"))?,
    }
    Ok(())
}

async fn delete(admin: &Admin, topic: &Topic, yes: bool) -> Result<(), Failure> {
    if !yes && !confirmed(topic)? {
        return Err(Failure::failed("nothing was deleted"));
    }
    let answer = admin.ask(Method::DELETE, &["topics", topic.as_str()], None).await?.or_refused()?;
    if admin.json {
        return Ok(output::line(answer.text())?);
    }
    Ok(output::line(format_args!("deleted {topic}"))?)
}

fn confirmed(topic: &Topic) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage(format_args!(
            "deleting {topic} takes every message in it; without a terminal to ask on, say so with --yes"
        )));
    }
    anstream::eprint!("Delete {topic} and every message in it, delivered or not? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
