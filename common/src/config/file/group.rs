//! One entry of `consumer_groups`.

use super::{BROKERS, Servers, ZK_PATH, ZOOKEEPERS};
use crate::config::leaf::url::{self, Callback};
use crate::config::leaf::{Choice, Count, Flag, Leaf, List, Maybe, Size, Span, Status, Text, Unset};
use crate::config::section::{Field, Given, Nested, Reader, Retired, Section, section};
use crate::config::{Order, Serializer};
use crate::ids::{GroupName, Topic};
use crate::record::TimestampMs;

const TOPIC: Text<Topic> = Text { what: "a topic's name", default: None, parse: topic };
const LATER: Retired = Retired::Refused("comes with a later version");

section! {
    /// One group: a callback URL, its topics, its policy.
    Group {
        /// Where every message of the topics is POSTed. http or https; trusted, but never a cloud's metadata service.
        url: Text<Callback> = Text { what: "a URL", default: None, parse: url::parse },
        /// The topics it gets. One that does not exist yet is waited for.
        topics: List<Text<Topic>> = List { of: TOPIC, least: 1 },
        /// The group's name, under which its cursors are kept.
        group: Maybe<Text<GroupName>> = Maybe(Text { what: "a group's name", default: None, parse: group }, "hex MD5 of `url` as written"),
        /// The ensemble where its cursors are kept and its brokers are found.
        zookeepers: Maybe<Servers> = Maybe(ZOOKEEPERS, "the file's"),
        /// The path in it under which everything lies.
        zk_path: Maybe<Text<String>> = Maybe(ZK_PATH, "the file's"),
        /// Some brokers of the cluster that has its topics. Not given: those registered in its `zookeepers` if it names any (or a `zk_path`), else `queue.kafka.brokers`, else those registered in the file's `zookeepers`.
        brokers: Maybe<Servers> = Maybe(BROKERS, "see there"),
        /// Attempts in flight, per process.
        worker_num: Count = Count { default: 16, min: 1, max: 10_000 },
        /// Further attempts after the first, in one round.
        retry_times: Count = Count { default: 0, min: 0, max: 1_000_000 },
        /// `true`: a message whose round failed is given up, on record. `false`: another round follows after `failed_sleep`, for ever.
        bypass_failed: Flag = Flag(false),
        /// Pause between rounds while `bypass_failed` is `false`.
        failed_sleep: Span = Span::new("1s", "100ms", "366d"),
        /// One attempt, from connecting to the last byte of the answer.
        timeout: Span = Span::new("1s", "1ms", "1d"),
        /// Connecting alone, within `timeout`. `timeout` itself where that is shorter than 1 s.
        connect_timeout: Maybe<Span> = Maybe(Span::new("1s", "1ms", "1d"), "\"1s\", at most `timeout`"),
        /// From a round's first attempt; past it the round has failed, without further attempts.
        processing_timeout: Maybe<Span> = Maybe(Span::new("1s", "1ms", "366d"), "none"),
        /// Pause between the attempts of a round.
        retry_backoff: Nested<Backoff> = Nested::new(),
        /// Where a group that has never seen a topic begins: `true` at its beginning, `false` at its end.
        initial_from_oldest: Flag = Flag(false),
        /// Instead of `initial_from_oldest`: at the first message of that time or later (RFC 3339).
        initial_from: Maybe<Text<TimestampMs>> = Maybe(Text { what: "a time such as \"2026-11-28T00:00:00Z\"", default: None, parse: time }, "none"),
        /// `key`: messages of one key one at a time, in order. `partition`: those of one partition. `none`: no order.
        order: Choice<Order> = Choice { default: "key", values: Order::ALL },
        /// The original's word for `order`: `sequential` is `partition`; `sliding_window` and `unbound` are `none`.
        arbiter_name: Maybe<Choice<Arbiter>> = Maybe(Choice { default: "sequential", values: ARBITERS }, "none"),
        /// A message is pushed at its time plus this, at the latest this long after it was first read.
        delay: Maybe<Span> = Maybe(Span::new("0s", "1ms", "366d").or_zero(), "none"),
        /// Where messages that are given up go. None of the group's own topics.
        dead_letter_topic: Maybe<Text<Topic>> = Maybe(TOPIC, "none"),
        /// `raw`: the message is pushed as it came. `json`: it is taken out of the original proxy's envelope.
        serializer: Choice<Serializer> = Choice { default: "raw", values: Serializer::ALL },
        /// The `Content-Type` of every request. An empty one is none, as with the original.
        content_type: Unset<Text<http::HeaderValue>> = Unset(Text { what: "a media type", default: None, parse: content_type }, "the message's own"),
        /// What is sent: `raw` is the message itself. Other formats come with a later version.
        format: Choice<Format> = Choice { default: "raw", values: &[
            ("raw", Format::Raw), ("cloudevents", Format::Later), ("cloudevents-structured", Format::Later), ("batch", Format::Later),
        ] },
        /// Which answers are success: any of 200 to 299, or exactly one.
        success_status: Status = Status,
        /// The longest Retry-After that is obeyed; zero obeys none.
        retry_after_max: Span = Span::new("1h", "1ms", "366d").or_zero(),
        /// How often cursors are stored. What was done since is delivered again after a crash.
        commit_interval: Span = Span::new("1s", "1ms", "1h"),
        /// How long a connection is kept unused: less than receivers keep it (Node and Apache: 5 s).
        idle_timeout: Span = Span::new("4s", "1ms", "1d"),
        /// How old a connection may grow, so that a receiver behind a new address is found.
        connection_max_age: Span = Span::new("5m", "1ms", "366d"),
        /// Messages read but not finished, per partition.
        max_in_flight_records: Count = Count { default: 10_000, min: 1, max: 1_000_000 },
        /// Their bytes, per partition. One message is admitted whatever its size when nothing is unfinished.
        max_in_flight_bytes: Size = Size { default: "16MiB", min: 1, max: 1 << 36 },
    }
    retired {
        "secrets": LATER,
        "headers": LATER,
        "pass_headers": LATER,
        "egress": LATER,
        "event_types": LATER,
        "rate": LATER,
        "final_status": LATER,
        "retry_tiers": LATER,
        "offset": Retired::Ignored("a group goes on at its cursor; a new one begins where `initial_from_oldest` or `initial_from` says"),
        "connection_pool_size": Retired::Ignored("a group has as many connections as attempts in flight, `worker_num`"),
        "stat_server_port": Retired::Ignored("`pusher.admin` is where metrics and state are served"),
        "log_file": Retired::Ignored("logs go to stderr; redirect it, and choose what is logged by RUST_LOG"),
        "log_collect_ratio": Retired::Ignored("every attempt is counted at `/metrics`; RUST_LOG chooses what is logged"),
        "arbiter_config": Retired::Ignored("`worker_num`, `max_in_flight_records` and `order` say it"),
        "transporter_name": Retired::Ignored("messages are pushed over HTTP"),
        "transporter_config": Retired::Ignored("`serializer`, `content_type` and `timeout` say it"),
    }
}

section! {
    /// Doubling from `initial`, at most `max`, drawn between half and whole.
    Backoff {
        /// Before the first repeat.
        initial: Span = Span::new("100ms", "1ms", "1d"),
        /// At most; not less than `initial`.
        max: Span = Span::new("10s", "1ms", "1d"),
    }
    retired {}
}

/// An order by its name in the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) struct Arbiter(pub(in crate::config) Order);

/// In every spelling that the original knew, but for case.
const ARBITERS: &[(&str, Arbiter)] = &[
    ("sequential", Arbiter(Order::Partition)),
    ("Sequential", Arbiter(Order::Partition)),
    ("seq", Arbiter(Order::Partition)),
    ("sliding_window", Arbiter(Order::None)),
    ("SlidingWindow", Arbiter(Order::None)),
    ("sliding", Arbiter(Order::None)),
    ("unbound", Arbiter(Order::None)),
    ("Unbound", Arbiter(Order::None)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Format {
    Raw,
    Later,
}

impl Group {
    /// Whether it names servers of its own.
    pub(in crate::config) fn names_servers(&self) -> bool {
        self.names_ensemble() || self.brokers.is_set()
    }

    pub(in crate::config) fn names_ensemble(&self) -> bool {
        self.zookeepers.is_set() || self.zk_path.is_set()
    }
}

fn topic(text: &str) -> Result<Topic, String> {
    Topic::new(text).map_err(|error| error.to_string())
}

/// A name stands in tables, paths and logs, where a line break would forge one.
fn group(text: &str) -> Result<GroupName, String> {
    if let Some(odd) = text.chars().find(|c| c.is_control()) {
        return Err(format!("{text:?}: {odd:?} is a control character, which cannot stand in a group's name"));
    }
    GroupName::new(text).map_err(|error| error.to_string())
}

fn content_type(text: &str) -> Result<http::HeaderValue, String> {
    let legal = !text.trim().is_empty() && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    let value = http::HeaderValue::from_str(text.trim()).ok().filter(|_| legal);
    value.ok_or_else(|| format!("{text:?}: a media type is printable ASCII, such as \"application/json\""))
}

fn time(text: &str) -> Result<TimestampMs, String> {
    let why = |error| format!("{text:?}: expected a time by RFC 3339, such as \"2026-11-28T00:00:00Z\" ({error})");
    text.parse::<jiff::Timestamp>().map(|time| time.as_millisecond()).map_err(why)
}
