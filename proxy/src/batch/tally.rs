//! What a batch came to: counts, the first failures, and the status of it all.

use common::problem::Problem;
use common::queue::Produced;
use http::{HeaderMap, StatusCode};
use serde::Serialize;

/// Failures that are told; of the rest only the number is.
const MAX_TOLD_FAILURES: usize = 100;

#[derive(Default)]
pub(super) struct Tally {
    accepted: u64,
    failed: u64,
    told: Vec<LineError>,
    statuses: Statuses,
    /// The upload did not come to its end; its status is that of all.
    broken: Option<StatusCode>,
    /// Of the last failure that is worth repeating.
    retry: HeaderMap,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct LineError {
    line: u64,
    status: u16,
    code: &'static str,
    detail: String,
}

/// As much of the failures' statuses as the contract's rule needs.
#[derive(Default)]
struct Statuses {
    first: Option<StatusCode>,
    differ: bool,
    may_be_written: bool,
    may_be_repeated: bool,
}

#[derive(Serialize)]
struct Summary<'a> {
    accepted: u64,
    failed: u64,
    errors: &'a [LineError],
    errors_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl LineError {
    pub(super) fn new(line: u64, problem: &Problem) -> Self {
        let kind = problem.kind;
        Self { line, status: kind.status().as_u16(), code: kind.code(), detail: problem.detail.clone().into_owned() }
    }
}

impl Tally {
    pub(super) fn count(&mut self, line: u64, result: &Result<Produced, Problem>) {
        match result {
            Ok(_) => self.accepted += 1,
            Err(problem) => self.fail(line, problem),
        }
    }

    fn fail(&mut self, line: u64, problem: &Problem) {
        self.failed += 1;
        self.statuses.add(problem);
        if self.told.len() < MAX_TOLD_FAILURES {
            self.told.push(LineError::new(line, problem));
        }
        if problem.kind.status() == StatusCode::SERVICE_UNAVAILABLE {
            self.retry = problem.headers();
        }
    }

    /// The body broke off in that line, or before it.
    pub(super) fn broken_at(&mut self, line: u64, problem: &Problem) {
        self.fail(line, problem);
        self.broken = Some(problem.kind.status());
    }

    pub(super) fn status(&self) -> StatusCode {
        let Statuses { first, differ, may_be_written, may_be_repeated } = self.statuses;
        match (self.broken, first) {
            (Some(status), _) => status,
            (None, None) => StatusCode::OK,
            (None, Some(status)) if self.accepted == 0 && !differ => status,
            (None, Some(_)) if may_be_written => StatusCode::GATEWAY_TIMEOUT,
            (None, Some(_)) if may_be_repeated => StatusCode::SERVICE_UNAVAILABLE,
            (None, Some(_)) => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    /// The whole answer of the summary form.
    pub(super) fn summary(self) -> (StatusCode, HeaderMap, Vec<u8>) {
        let (status, body) = (self.status(), self.to_json(None));
        let headers = if status == StatusCode::SERVICE_UNAVAILABLE { self.retry } else { HeaderMap::new() };
        (status, headers, body)
    }

    /// The last line of the streamed form.
    pub(super) fn last_line(&self) -> Vec<u8> {
        let mut line = self.to_json(Some(self.status().as_u16()));
        line.push(b'\n');
        line
    }

    fn to_json(&self, status: Option<u16>) -> Vec<u8> {
        let errors_truncated = self.failed > self.told.len() as u64;
        let summary = Summary { accepted: self.accepted, failed: self.failed, errors: &self.told, errors_truncated, status };
        serde_json::to_vec(&summary).expect("texts and numbers are always JSON")
    }
}

impl Statuses {
    fn add(&mut self, problem: &Problem) {
        let status = problem.kind.status();
        self.differ |= self.first.is_some_and(|first| first != status);
        self.first.get_or_insert(status);
        self.may_be_written |= status == StatusCode::GATEWAY_TIMEOUT;
        self.may_be_repeated |= problem.kind.retriable();
    }
}

#[cfg(test)]
mod tests {
    use common::ids::{Offset, Partition};
    use common::problem::Kind;

    use super::*;

    fn tally(results: &[Option<Kind>]) -> Tally {
        let mut tally = Tally::default();
        for (line, result) in (1..).zip(results) {
            let place = Produced { partition: Partition(0), offset: Offset(0), timestamp: 0 };
            tally.count(line, &result.map_or(Ok(place), |kind| Err(Problem::new(kind, "why"))));
        }
        tally
    }

    fn status(results: &[Option<Kind>]) -> u16 {
        tally(results).status().as_u16()
    }

    #[test]
    fn the_status_tells_what_a_script_has_to_know() {
        use Kind::{DiskFull, Malformed, NoAcknowledgement, TooLarge};
        assert_eq!(status(&[]), 200);
        assert_eq!(status(&[None, None]), 200);
        assert_eq!(status(&[Some(TooLarge), Some(TooLarge)]), 413);
        assert_eq!(status(&[Some(DiskFull)]), 503);
        assert_eq!(status(&[Some(TooLarge), None]), 422);
        assert_eq!(status(&[Some(TooLarge), Some(Malformed)]), 422);
        assert_eq!(status(&[Some(TooLarge), Some(DiskFull)]), 503);
        assert_eq!(status(&[None, Some(DiskFull), Some(NoAcknowledgement)]), 504);
        assert_eq!(status(&[None, Some(NoAcknowledgement)]), 504);
    }

    #[test]
    fn a_body_that_broke_off_says_so_whatever_else_there_was() {
        let mut tally = tally(&[None, Some(Kind::DiskFull)]);
        tally.broken_at(3, &Problem::new(Kind::Malformed, "cut"));
        assert_eq!(tally.status(), 400);
    }

    #[test]
    fn the_summary_has_the_shape_of_the_contract() {
        let (status, headers, body) = tally(&[None, Some(Kind::TooLarge)]).summary();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let error = serde_json::json!({"line": 2, "status": 413, "code": "too_large", "detail": "why"});
        assert_eq!(body, serde_json::json!({"accepted": 1, "failed": 1, "errors": [error], "errors_truncated": false}));
        assert_eq!((status.as_u16(), headers.len()), (422, 0));
        let line: serde_json::Value = serde_json::from_slice(&tally(&[]).last_line()).unwrap();
        assert_eq!(line["status"], 200);
    }

    #[test]
    fn told_failures_are_bounded_and_counted_beyond() {
        let body = tally(&[Some(Kind::DiskFull); 250]).summary();
        assert!(body.1.contains_key("retry-after"));
        let body: serde_json::Value = serde_json::from_slice(&body.2).unwrap();
        assert_eq!((&body["failed"], body["errors"].as_array().unwrap().len()), (&250.into(), MAX_TOLD_FAILURES));
        assert_eq!(body["errors_truncated"], true);
    }
}
