//! `mqgate send`: one message, or a file of them, through the proxy.

use std::path::PathBuf;

use common::ids::Topic;
use reqwest::Url;

use crate::failure::Failure;
use crate::http;
use upload::Source;

mod answer;
mod many;
mod progress;
mod remainder;
mod results;
mod tally;
mod upload;

/// Send a message, or many, through a running mqgate
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  echo hello | mqgate send orders --key customer-7
  mqgate send orders --file order.json --content-type application/json
  mqgate send orders --ndjson --file orders.ndjson     a message a line: {\"key\":\"k\",\"value\":{\"n\":1}}
  mqgate send orders --ndjson --file orders.ndjson --failed rest.ndjson
  mqgate send orders --ndjson --file rest.ndjson --id ID       ID: what the run before has shown
  tail -n 100 app.log | mqgate send logs --ndjson --raw -

Nothing is repeated by itself. After a 503 nothing was written: send it again. After a 504 it may
have been written: send it again with the --id that is shown, so that receivers can tell a repeat.")]
pub(crate) struct Args {
    /// The topic's name
    #[arg(value_parser = Topic::new)]
    topic: Topic,
    /// `-` reads standard input, as does leaving it out
    #[arg(value_name = "-", value_parser = ["-"], hide_possible_values = true, conflicts_with = "file")]
    stdin: Option<String>,
    /// The file with the message or, with --ndjson, the messages; `-` is standard input
    #[arg(long, short, value_name = "F")]
    file: Option<PathBuf>,
    /// The partition key: messages of one key stay in order
    #[arg(long, short, value_name = "K", conflicts_with = "ndjson")]
    key: Option<String>,
    /// The message's id, for a repeat: 1 to 256 of A-Z a-z 0-9 _ : - [default: a new one]. With
    /// --ndjson, line N gets the id `ID_N`
    #[arg(long, value_name = "ID", value_parser = legal_id)]
    id: Option<String>,
    /// What kind of text or data the message is; receivers see it
    #[arg(long, value_name = "TYPE", value_parser = legal_content_type, conflicts_with = "ndjson")]
    content_type: Option<String>,
    /// Every line is a message of its own, with "key", "value" or "value_base64", "headers"
    #[arg(long)]
    ndjson: bool,
    /// With --ndjson: every line is a value as it stands, without a key
    #[arg(long, requires = "ndjson")]
    raw: bool,
    /// With --ndjson and --file: copy the lines that have to be sent again to this file, each at its
    /// old place; it is overwritten
    #[arg(long, value_name = "F", requires = "ndjson", requires = "file")]
    failed: Option<PathBuf>,
    /// Where the proxy listens
    #[arg(long, value_name = "URL", value_parser = http::base_url, default_value = "http://127.0.0.1:9090", env = "MQGATE_PROXY", hide_env_values = true)]
    proxy: Url,
    /// Print the answer as the server gave it, as JSON; with --ndjson its summary
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let source = Source::open(args.file.as_deref()).await?;
    let show = if args.json { answer::Show::Json } else { answer::Show::Text };
    if args.ndjson { many::send(&args, source, show).await } else { one(&args, source, show).await }
}

async fn one(args: &Args, source: Source, show: answer::Show) -> Result<(), Failure> {
    let mut url = topic_url(args, "");
    if let Some(key) = &args.key {
        url.query_pairs_mut().append_pair("key", key);
    }
    let id = args.id.clone().unwrap_or_else(new_id);
    let meter = source.meter(progress::Unit::Bytes);
    let mut request = http::client(&args.proxy)?.post(url).header("idempotency-key", &id);
    if let Some(content_type) = &args.content_type {
        request = request.header("content-type", content_type);
    }
    if let Some(bytes) = source.bytes() {
        request = request.header("content-length", bytes);
    }
    let answer = exchange(args, request.body(source.into_body(&meter))).await?;
    meter.finish();
    answer::one(&args.topic, &answer, &id, show)
}

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn legal_id(text: &str) -> Result<String, String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-');
    let fits = (1..=256).contains(&text.len()) && text.bytes().all(legal);
    if fits { Ok(text.to_owned()) } else { Err("an id is 1 to 256 of A-Z a-z 0-9 _ : -".to_owned()) }
}

fn legal_content_type(text: &str) -> Result<String, String> {
    let legal = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let why = "a content type is visible ASCII in one line, such as application/json";
    if legal { Ok(text.to_owned()) } else { Err(why.to_owned()) }
}

fn topic_url(args: &Args, rest: &str) -> Url {
    args.proxy.join(&format!("topics/{}{rest}", args.topic)).expect("a topic's characters stand in any URL path")
}

async fn exchange(args: &Args, request: reqwest::RequestBuilder) -> Result<http::Answer, Failure> {
    let unanswered = |error: reqwest::Error| http::unanswered(&args.proxy, &error);
    let response = request.send().await.map_err(unanswered)?;
    http::Answer::read(response).await.map_err(unanswered)
}
