//! The HTTP client of the commands that talk to a running mqgate, and its errors in words.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;

use crate::failure::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// More of an answer than this is not read.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Reads `host:port` as well as a whole URL. Only `http` and `https` pass.
pub(crate) fn base_url(text: &str) -> Result<Url, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let mut url = Url::parse(&whole).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{}:// is not spoken here; use http:// or https://", url.scheme()));
    }
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    Ok(url)
}

/// For requests to `base`. The machine's certificates are read only where they are needed.
pub(crate) fn client(base: &Url) -> Result<Client, Failure> {
    // Fails only when one is installed already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().no_proxy().connect_timeout(CONNECT_TIMEOUT).redirect(reqwest::redirect::Policy::none());
    let builder = if base.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
    builder.build().map_err(|error| Failure::Failed(anyhow::Error::new(error).context("the HTTP client cannot be set up")))
}

/// A request that got no answer, in words: above all, whether anything listens there.
pub(crate) fn unanswered(base: &Url, error: &reqwest::Error) -> Failure {
    let at = base.as_str().trim_end_matches('/');
    if error.is_connect() {
        return Failure::failed(format_args!(
            "no mqgate answers at {at} ({}). Is it running? Start it with: mqgate standalone",
            cause(error)
        ));
    }
    if error.is_builder() {
        return Failure::usage(format_args!("this cannot be asked of {at}: {}", cause(error)));
    }
    if error.is_timeout() {
        return Failure::failed(format_args!("{at} took the request but did not answer in time"));
    }
    Failure::failed(format_args!("the connection to {at} broke off before an answer came: {}", cause(error)))
}

/// The innermost error, which names the operating system's reason.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// An answer, read whole.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) async fn read(mut response: Response) -> Result<Self, reqwest::Error> {
        let status = response.status();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER_BYTES {
                break;
            }
        }
        Ok(Self { status, retry_after, body })
    }

    /// The answer itself if it is a success.
    pub(crate) fn or_refused(self) -> Result<Self, Failure> {
        if self.status.is_success() { Ok(self) } else { Err(Failure::failed(self.problem().sentence(self.status))) }
    }

    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.body.trim_ascii_end())
    }

    /// What the server says is wrong; its bare status if it says nothing readable.
    pub(crate) fn problem(&self) -> Problem {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// `application/problem+json`, as far as it is shown.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) title: String,
    pub(crate) detail: String,
    pub(crate) code: String,
}

impl Problem {
    /// `404 Not Found (unknown_topic): …`
    pub(crate) fn sentence(&self, status: StatusCode) -> String {
        let code = if self.code.is_empty() { String::new() } else { format!(" ({})", self.code) };
        let text = if self.detail.is_empty() { &self.title } else { &self.detail };
        if text.is_empty() { format!("{status}{code}") } else { format!("{status}{code}: {text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_short_or_a_whole_url() {
        assert_eq!(base_url("127.0.0.1:9091").unwrap().as_str(), "http://127.0.0.1:9091/");
        assert_eq!(base_url("localhost:9091").unwrap().as_str(), "http://localhost:9091/");
        assert_eq!(base_url("https://gate.example/mq").unwrap().as_str(), "https://gate.example/mq/");
        assert!(base_url("ftp://gate.example").unwrap_err().contains("http://"));
    }

    #[test]
    fn a_problem_reads_as_a_sentence() {
        let problem: Problem =
            serde_json::from_str(r#"{"title":"Unknown topic","detail":"topic a does not exist","code":"unknown_topic"}"#).unwrap();
        assert_eq!(problem.sentence(StatusCode::NOT_FOUND), "404 Not Found (unknown_topic): topic a does not exist");
        assert_eq!(Problem::default().sentence(StatusCode::BAD_GATEWAY), "502 Bad Gateway");
    }
}
