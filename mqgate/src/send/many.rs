//! Many messages in one request. Results come while lines are sent, so that whatever happens it is
//! known which lines were answered.

use super::answer::{self, Show};
use super::remainder::Remainder;
use super::results::{Line, Lines, Summary};
use super::tally::Tally;
use super::upload::Source;
use super::{Args, new_id, progress, topic_url};
use crate::failure::Failure;
use crate::http::{self, Answer};
use crate::output::{self, grouped};

/// How the exchange ended.
enum End {
    Whole(Summary),
    /// No line was looked at.
    Refused(Answer),
    /// Nothing arrived there.
    Unreached(Failure),
    /// Before the summary; why.
    BrokenOff(String),
}

pub(super) async fn send(args: &Args, source: Source, show: Show) -> Result<(), Failure> {
    let remainder = match (&args.failed, &args.file) {
        (Some(failed), Some(file)) => Some(Remainder::open(file, failed)?),
        _ => None,
    };
    let id = args.id.clone().unwrap_or_else(new_id);
    let mut tally = Tally::new(remainder);
    let meter = source.meter(progress::Unit::Lines);
    let end = exchange(args, source, &id, &meter, &mut tally).await?;
    meter.finish();
    verdict(args, end, tally, &id, show)
}

async fn exchange(args: &Args, source: Source, id: &str, meter: &progress::Meter, tally: &mut Tally) -> Result<End, Failure> {
    let mut url = topic_url(args, "/batch");
    url.set_query(Some(if args.raw { "raw&results=all" } else { "results=all" }));
    let request = http::client(&args.proxy)?.post(url).header("content-type", "application/x-ndjson").header("idempotency-key", id);
    let mut response = match request.body(source.into_body(meter)).send().await {
        Ok(response) => response,
        Err(error) if error.is_connect() || error.is_builder() => return Ok(End::Unreached(http::unanswered(&args.proxy, &error))),
        Err(error) => return Ok(End::BrokenOff(http::cause(&error))),
    };
    if !response.status().is_success() {
        let answer = Answer::read(response).await;
        return Ok(answer.map_or_else(|error| End::BrokenOff(http::cause(&error)), End::Refused));
    }
    let (mut lines, mut summary) = (Lines::default(), None);
    loop {
        let chunk = match response.chunk().await {
            Ok(chunk) => chunk,
            Err(error) => return Ok(End::BrokenOff(http::cause(&error))),
        };
        match &chunk {
            Some(chunk) => lines.push(chunk),
            None => lines.end(),
        }
        while let Some(line) = lines.next() {
            match line.map_err(|why| answer::foreign(response.status(), why))? {
                Line::Settled(settled) => tally.settled(&settled),
                Line::Summary(last) => summary = Some(last),
            }
        }
        if chunk.is_none() {
            return Ok(summary.map_or_else(|| End::BrokenOff("the answer ended without its summary".to_owned()), End::Whole));
        }
    }
}

fn verdict(args: &Args, end: End, mut tally: Tally, id: &str, show: Show) -> Result<(), Failure> {
    match end {
        End::Whole(summary) => {
            match show {
                Show::Json => output::line(&summary.text)?,
                Show::Text => output::line(format_args!("{} accepted, {} failed", grouped(summary.accepted), grouped(summary.failed)))?,
            }
            if summary.failed == 0 {
                return Ok(());
            }
            if summary.failed > tally.failed {
                tally.cut_off(&summary.errors);
            }
            tell(&tally, summary.failed);
            anstream::eprintln!("send the failed lines again, not the whole: the others are written");
        }
        End::Refused(answer) => {
            tally.keep_the_rest();
            return Err(answer::refused(&answer, &format!("send it again with --id {id}, so that receivers can tell a repeat")));
        }
        End::Unreached(failure) => {
            tally.keep_the_rest();
            return Err(failure);
        }
        End::BrokenOff(why) => {
            tally.keep_the_rest();
            tell(&tally, tally.failed);
            anstream::eprintln!("{}", broken_off(&tally, args, &why));
        }
    }
    anstream::eprintln!("{}", advice(&mut tally, id));
    Err(Failure::Reported)
}

fn tell(tally: &Tally, failed: u64) {
    for text in &tally.told {
        anstream::eprintln!("{text}");
    }
    let more = failed.saturating_sub(tally.told.len() as u64);
    if more > 0 {
        anstream::eprintln!("and {} more, which are not shown", grouped(more));
    }
}

fn broken_off(tally: &Tally, args: &Args, why: &str) -> String {
    let at = args.proxy.as_str().trim_end_matches('/');
    let answered = match tally.answered_up_to {
        0 => "no line was answered, and any may".to_owned(),
        last => format!(
            "lines up to {} were answered ({} accepted, {} failed); the others may",
            grouped(last),
            grouped(tally.accepted),
            grouped(tally.failed)
        ),
    };
    format!("the connection to {at} broke off ({why}): {answered} or may not have been written")
}

/// How to go on. A line's number makes its id, so whatever is sent again keeps its place.
fn advice(tally: &mut Tally, id: &str) -> String {
    let mut advice = match tally.remainder() {
        Ok(Some(path)) => format!(
            "  What has to be sent again is in {path}, each line at its old place: repeat the command with --file {path} --id {id} and another --failed.",
            path = path.display()
        ),
        Ok(None) => format!(
            "  Repeat it with --id {id}, and with empty lines for those that are written: line N gets the id {id}_N, now as then. \
             With --file, --failed FILE makes such a file."
        ),
        Err(why) => format!("  {why}. Repeat the whole with --id {id}: line N gets the id {id}_N, now as then."),
    };
    if tally.kinds.may_be_written > 0 {
        let lines = output::counted(tally.kinds.may_be_written, "line");
        advice.push_str(&format!("\n  After a 504 ({lines}) a message may have been written; by its id receivers can tell a repeat."));
    }
    if tally.kinds.at_fault > 0 {
        let lines = output::counted(tally.kinds.at_fault, "line");
        advice.push_str(&format!("\n  Mend first what would fail again as it stands: {lines}."));
    }
    advice
}
