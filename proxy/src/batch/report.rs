//! `results=all`: one result a line, sent as the lines are settled.

use std::io::Write;

use bytes::Bytes;
use common::problem::Problem;
use common::queue::Produced;
use tokio::sync::mpsc;

use super::tally::LineError;

/// Results are sent together up to here, but never kept back while there is nothing else to do.
const PIECE_BYTES: usize = 16 * 1024;

pub(super) struct Report {
    gathered: Vec<u8>,
    sender: mpsc::Sender<Bytes>,
}

/// Nobody reads the answer any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Report {
    pub(super) fn new(sender: mpsc::Sender<Bytes>) -> Self {
        Self { gathered: Vec::new(), sender }
    }

    pub(super) async fn result(&mut self, line: u64, result: &Result<Produced, Problem>) -> Result<(), Gone> {
        match result {
            Ok(Produced { partition, offset, timestamp }) => {
                let place = format_args!("\"partition\":{partition},\"offset\":{offset},\"timestamp\":{timestamp}");
                writeln!(self.gathered, "{{\"line\":{line},\"status\":200,{place}}}").expect("a vector takes every byte");
            }
            Err(problem) => {
                serde_json::to_writer(&mut self.gathered, &LineError::new(line, problem)).expect("a vector takes every byte");
                self.gathered.push(b'\n');
            }
        }
        if self.gathered.len() < PIECE_BYTES { Ok(()) } else { self.flush().await }
    }

    pub(super) async fn flush(&mut self) -> Result<(), Gone> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.gathered);
        self.sender.send(piece.into()).await.map_err(|_| Gone)
    }

    pub(super) async fn last_line(mut self, line: &[u8]) -> Result<(), Gone> {
        self.gathered.extend_from_slice(line);
        self.flush().await
    }
}
