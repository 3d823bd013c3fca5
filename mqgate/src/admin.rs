//! What `topics`, `groups` and those that change them ask of a running mqgate's admin port.

use std::time::Duration;

use reqwest::{Method, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;
use crate::http::{self, Answer};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How the admin port is reached.
#[derive(clap::Args, Debug)]
pub(crate) struct Admin {
    /// Where the admin port answers
    #[arg(long, value_name = "HOST:PORT", value_parser = http::base_url, default_value = "127.0.0.1:9091", env = "MQGATE_ADMIN", hide_env_values = true, global = true)]
    admin: Url,
    /// The admin port's token, if it has one
    #[arg(long, value_name = "TOKEN", env = "MQGATE_ADMIN_TOKEN", hide_env_values = true, global = true)]
    admin_token: Option<String>,
    /// Print the answer as the server gave it, as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Admin {
    /// `segments` are encoded; the path begins with `/v1/`.
    pub(crate) async fn ask(&self, method: Method, segments: &[&str], body: Option<Value>) -> Result<Answer, Failure> {
        let mut url = self.admin.join("v1").expect("a constant path joins any URL");
        url.path_segments_mut().expect("an http URL has a path").extend(segments);
        let mut request =
            http::client(&self.admin)?.request(method, url).header("content-type", "application/json").timeout(ANSWER_TIMEOUT);
        if let Some(token) = &self.admin_token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let unanswered = |error: reqwest::Error| http::unanswered(&self.admin, &error);
        Answer::read(request.send().await.map_err(unanswered)?).await.map_err(unanswered)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, segments: &[&str]) -> Result<(T, Answer), Failure> {
        self.read(self.ask(Method::GET, segments, None).await?)
    }

    pub(crate) async fn change<T: DeserializeOwned>(&self, segments: &[&str], to: Value) -> Result<(T, Answer), Failure> {
        self.read(self.ask(Method::POST, segments, Some(to)).await?)
    }

    fn read<T: DeserializeOwned>(&self, answer: Answer) -> Result<(T, Answer), Failure> {
        let answer = answer.or_refused()?;
        let read = serde_json::from_slice(&answer.body);
        let read = read
            .map_err(|error| Failure::failed(format_args!("{} answered something unexpected ({error}); is --admin right?", self.admin)))?;
        Ok((read, answer))
    }
}
