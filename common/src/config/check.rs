//! The verdict of `mqgate check`.

use super::effective::time;
use super::leaf::{size, span, url};
use super::render::Colour;
use super::{Config, CoordinatorConfig, EmbeddedQueueConfig, GroupConfig, InitialFrom, Loaded, QueueConfig, Role};

/// A valid configuration for people: the verdict, the warnings, and what will run, in aligned
/// columns. Several lines, ending with a line break. What is in effect in full is
/// [`Config::effective`]'s.
pub fn verdict(name: &str, loaded: &Loaded, colour: Colour) -> String {
    let warnings: String = loaded.warnings.iter().map(|warning| warning.render(colour)).collect();
    let count = match loaded.warnings.len() {
        0 => String::new(),
        1 => ", with 1 warning".to_owned(),
        n => format!(", with {n} warnings"),
    };
    let role = match loaded.config.role {
        Role::Standalone => String::new(),
        role => format!(" for `mqgate {role}`"),
    };
    let mut text = format!("{name}: valid{role}{count}\n{warnings}\n{}", columns(&servers(&loaded.config)));
    if loaded.config.role == Role::Proxy {
        return text;
    }
    if loaded.config.groups.is_empty() {
        text.push_str("\nno consumer groups: nothing is pushed\n");
    } else {
        text.push('\n');
        text.push_str(&columns(&groups(&loaded.config.groups)));
    }
    text
}

fn servers(config: &Config) -> Vec<Vec<String>> {
    let produce = format!("http://{}", config.proxy.listen);
    let queue = match &config.queue {
        QueueConfig::Embedded(queue) => embedded(queue),
        QueueConfig::Kafka(queue) => format!("Kafka, {}", queue.brokers),
    };
    let cursors = match &config.coordinator {
        CoordinatorConfig::Embedded { dir } => format!("embedded in {}", dir.display()),
        CoordinatorConfig::ZooKeeper(zookeeper) => format!("ZooKeeper, {}", zookeeper.ensemble),
    };
    let admin = match config.role {
        Role::Proxy => config.proxy.admin,
        Role::Standalone | Role::Pusher => config.pusher.admin,
    };
    let rows = match config.role {
        Role::Standalone => vec![("produce", produce), ("admin", format!("http://{admin}")), ("queue", queue), ("cursors", cursors)],
        Role::Proxy => vec![("produce", produce), ("admin", format!("http://{admin}")), ("queue", queue)],
        Role::Pusher => vec![("admin", format!("http://{admin}")), ("queue", queue), ("cursors", cursors)],
    };
    rows.into_iter().map(|(name, text)| vec![name.to_owned(), text]).collect()
}

fn embedded(queue: &EmbeddedQueueConfig) -> String {
    let bound = queue.retention_bytes.map_or("the disk".to_owned(), size::spell);
    format!(
        "embedded in {}, {} partitions a topic, messages kept {}, at most {bound}",
        queue.dir.display(),
        queue.partitions,
        span::spell(queue.retention),
    )
}

/// With the columns of Kafka where there is one.
fn groups(groups: &[GroupConfig]) -> Vec<Vec<String>> {
    let mut head = vec!["group", "topics", "url", "begins", "order", "workers", "attempts", "timeout", "then"];
    if groups.iter().any(|group| group.brokers.is_some()) {
        head.extend(["brokers", "cursors"]);
    }
    let head = head.into_iter().map(str::to_owned).collect();
    std::iter::once(head).chain(groups.iter().map(group)).collect()
}

fn group(group: &GroupConfig) -> Vec<String> {
    let topics: Vec<&str> = group.topics.iter().map(|topic| topic.as_str()).collect();
    let begins = match group.initial_from {
        InitialFrom::Oldest => "oldest".to_owned(),
        InitialFrom::Newest => "newest".to_owned(),
        InitialFrom::Time(ms) => time(ms),
    };
    let then = match (group.bypass_failed, &group.dead_letter_topic) {
        (true, Some(topic)) => format!("dead letter to {topic}"),
        (true, None) => "give up".to_owned(),
        (false, _) => format!("again after {}", span::spell(group.failed_sleep)),
    };
    let mut cells = vec![
        group.group.to_string(),
        topics.join(","),
        url::shown(&group.url.to_string()),
        begins,
        group.order.name().to_owned(),
        group.worker_num.to_string(),
        (u64::from(group.retry_times) + 1).to_string(),
        span::spell(group.timeout),
        then,
    ];
    if let Some(brokers) = &group.brokers {
        let cursors = group.ensemble.as_ref().map_or("embedded".to_owned(), |ensemble| format!("ZooKeeper, {ensemble}"));
        cells.extend([brokers.to_string(), cursors]);
    }
    cells
}

/// Every column as wide as its widest cell; the last one is not filled up.
fn columns(rows: &[Vec<String>]) -> String {
    let cells = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..cells).map(width).collect();
    let line = |row: &Vec<String>| {
        let line: String = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  ")).collect();
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}
