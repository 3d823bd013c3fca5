//! Which route a path is.

use crate::metrics::Dialect;

/// Topic names as they stand in the path, not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// `/topics/{topic}`
    Plain(&'a str),
    /// `/topics/{topic}/batch`
    Batch(&'a str),
    /// `/produce`
    Original,
    /// Nothing is there; the text helps.
    Missing(&'static str),
}

impl<'a> Target<'a> {
    pub(crate) fn of(path: &'a str) -> Self {
        let Some(rest) = path.strip_prefix("/topics/") else { return Self::other(path) };
        match rest.split_once('/') {
            _ if rest.is_empty() => Self::Missing("the topic's name is missing: /topics/{topic}"),
            None => Self::Plain(rest),
            Some((topic, "batch")) if !topic.is_empty() => Self::Batch(topic),
            Some((_, rest)) if rest.is_empty() || rest.ends_with('/') => Self::Missing(NO_SLASH),
            Some((_, rest)) if rest.starts_with("partitions/") => {
                Self::Missing("the Kafka REST dialect is not built yet; /topics/{topic}?partition=N writes to one partition")
            }
            Some(_) => Self::Missing(ROUTES),
        }
    }

    fn other(path: &str) -> Self {
        match path {
            "/produce" => Self::Original,
            "/produce/" => Self::Missing(NO_SLASH),
            "/events" => Self::Missing(NO_EVENTS),
            _ if path.starts_with("/events/") => Self::Missing(NO_EVENTS),
            "/topics" => Self::Missing("the topic's name is missing: /topics/{topic}; the admin port lists topics at /v1/topics"),
            "/metrics" | "/healthz" | "/readyz" => Self::Missing("this is the port for producing; the admin port has that"),
            _ => Self::Missing(ROUTES),
        }
    }

    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Plain(_) => Dialect::Plain,
            Self::Batch(_) => Dialect::Batch,
            Self::Original => Dialect::Original,
            Self::Missing(_) => Dialect::None,
        }
    }
}

const NO_SLASH: &str = "the path is right but for the slash at its end";
const NO_EVENTS: &str = "CloudEvents are not built yet; /topics/{topic} takes any body, and X-Kmq-Header-ce_type a type";
const ROUTES: &str = "there are POST /topics/{topic}, POST /topics/{topic}/batch and POST /produce";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_shapes_are_routes() {
        assert_eq!(Target::of("/topics/a"), Target::Plain("a"));
        assert_eq!(Target::of("/topics/batch"), Target::Plain("batch"));
        assert_eq!(Target::of("/topics/a%2Fb/batch"), Target::Batch("a%2Fb"));
        assert_eq!(Target::of("/produce"), Target::Original);
    }

    #[test]
    fn a_slash_at_the_end_is_another_path_and_told_so() {
        for path in ["/topics/a/", "/topics/a/batch/", "/produce/", "/topics/a//"] {
            assert_eq!(Target::of(path), Target::Missing(NO_SLASH), "{path}");
        }
    }

    #[test]
    fn everything_else_is_missing() {
        for path in ["", "*", "/", "/topics", "/topics/", "/topics//batch", "/topics/a/b", "/topics/a/partitions/0", "/events", "/events/t"]
        {
            assert!(matches!(Target::of(path), Target::Missing(_)), "{path}");
        }
    }
}
