//! Which text format a scraper gets.

use http::HeaderValue;
use prometheus_client::encoding::prometheus_text;

/// A text format of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exposition {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus text 0.0.4: what everybody reads, hence the default.
    Prometheus,
}

impl Exposition {
    /// By the values of `Accept`: OpenMetrics only for who asks for it by name, and no less than
    /// for plain text.
    pub fn preferred<'a>(accept: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let (mut open_metrics, mut plain) = (0.0, 0.0);
        for media in accept.into_iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')) {
            let (name, weight) = media_range(media);
            match name.as_str() {
                "application/openmetrics-text" => open_metrics = weight.max(open_metrics),
                "text/plain" | "text/*" => plain = weight.max(plain),
                _ => {}
            }
        }
        if open_metrics > 0.0 && open_metrics >= plain { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        })
    }
}

/// Name in lower case, and weight: 1 where none is given, 0 where it cannot be read.
fn media_range(text: &str) -> (String, f32) {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    (name, weight.map_or(1.0, |q| q.parse().unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferred(accept: &[&'static str]) -> Exposition {
        let values: Vec<_> = accept.iter().map(|text| HeaderValue::from_static(text)).collect();
        Exposition::preferred(&values)
    }

    #[test]
    fn plain_text_unless_open_metrics_is_asked_for_by_name() {
        for accept in [&[][..], &["*/*"], &["text/plain"], &["application/json, */*;q=0.1"]] {
            assert_eq!(preferred(accept), Exposition::Prometheus, "{accept:?}");
        }
    }

    #[test]
    fn what_prometheus_itself_sends_gets_open_metrics() {
        let sent = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                    application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(preferred(&[sent]), Exposition::OpenMetrics);
    }

    #[test]
    fn weights_decide_also_over_several_headers() {
        assert_eq!(preferred(&["application/openmetrics-text;q=0.2", "text/plain;q=0.7"]), Exposition::Prometheus);
        assert_eq!(preferred(&["text/plain;q=0.2", "Application/OpenMetrics-Text; Q=0.7"]), Exposition::OpenMetrics);
        assert_eq!(preferred(&["application/openmetrics-text;q=0"]), Exposition::Prometheus);
        assert_eq!(preferred(&["application/openmetrics-text;q=x"]), Exposition::Prometheus);
    }
}
