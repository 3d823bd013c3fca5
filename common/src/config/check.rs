//! The verdict of `mqgate check`.

use super::effective::{order_name, time};
use super::leaf::{size, span, url};
use super::render::Colour;
use super::{Config, CoordinatorConfig, GroupConfig, InitialFrom, Loaded, QueueConfig};

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
    let mut text = format!("{name}: valid{count}\n{warnings}\n{}", columns(&servers(&loaded.config)));
    if loaded.config.groups.is_empty() {
        text.push_str("\nno consumer groups: nothing is pushed\n");
    } else {
        text.push('\n');
        text.push_str(&columns(&groups(&loaded.config.groups)));
    }
    text
}

fn servers(config: &Config) -> Vec<Vec<String>> {
    let QueueConfig::Embedded(queue) = &config.queue;
    let CoordinatorConfig::Embedded { dir } = &config.coordinator;
    let bound = queue.retention_bytes.map_or("the disk".to_owned(), size::spell);
    let queue = format!(
        "embedded in {}, {} partitions a topic, messages kept {}, at most {bound}",
        queue.dir.display(),
        queue.partitions,
        span::spell(queue.retention),
    );
    let row = |name: &str, text: String| vec![name.to_owned(), text];
    vec![
        row("produce", format!("http://{}", config.proxy.listen)),
        row("admin", format!("http://{}", config.pusher.admin)),
        row("queue", queue),
        row("cursors", format!("embedded in {}", dir.display())),
    ]
}

fn groups(groups: &[GroupConfig]) -> Vec<Vec<String>> {
    let head = ["group", "topics", "url", "begins", "order", "workers", "attempts", "timeout", "then"];
    std::iter::once(head.map(str::to_owned).to_vec()).chain(groups.iter().map(group)).collect()
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
    vec![
        group.group.to_string(),
        topics.join(","),
        url::shown(&group.url.to_string()),
        begins,
        order_name(group.order).to_owned(),
        group.worker_num.to_string(),
        (u64::from(group.retry_times) + 1).to_string(),
        span::spell(group.timeout),
        then,
    ]
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
