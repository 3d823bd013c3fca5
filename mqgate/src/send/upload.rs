//! The body of a request, read as it is sent: any length in a few kilobytes of memory.

use std::io::IsTerminal;
use std::path::Path;
use std::pin::Pin;

use anyhow::Context;
use futures_util::StreamExt;
use reqwest::Body;
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;

use super::progress::{Meter, Unit};
use crate::failure::Failure;

const CHUNK_BYTES: usize = 64 << 10;

/// Where the bytes come from.
pub(super) struct Source {
    reader: Pin<Box<dyn AsyncRead + Send>>,
    /// Known of regular files only.
    bytes: Option<u64>,
}

impl Source {
    /// No path and `-` are standard input.
    pub(super) async fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            if std::io::stdin().is_terminal() {
                anstream::eprintln!("Type what to send; Ctrl-D on a line of its own ends it.");
            }
            return Ok(Self { reader: Box::pin(tokio::io::stdin()), bytes: None });
        };
        let unreadable = || format!("{} cannot be read", path.display());
        let file = tokio::fs::File::open(path).await.with_context(unreadable)?;
        let about = file.metadata().await.with_context(unreadable)?;
        if about.is_dir() {
            return Err(Failure::usage(format_args!("{} is a directory", path.display())));
        }
        let bytes = about.is_file().then_some(about.len());
        Ok(Self { reader: Box::pin(file), bytes })
    }

    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    pub(super) fn meter(&self, unit: Unit) -> Meter {
        Meter::new(self.bytes, unit)
    }

    pub(super) fn into_body(self, meter: &Meter) -> Body {
        let meter = meter.clone();
        let chunks = ReaderStream::with_capacity(self.reader, CHUNK_BYTES);
        Body::wrap_stream(chunks.inspect(move |chunk| {
            if let Ok(chunk) = chunk {
                meter.sent(chunk);
            }
        }))
    }
}
