//! Every bound that the reference states is the bound that is kept, on both sides.

use super::leaf::{Kind, size, span};
use super::section::Section;
use super::*;

/// What is just in and just out of bounds, as one would write it.
struct Edges {
    inside: Vec<String>,
    outside: Vec<String>,
}

fn edges(kind: &Kind) -> Option<Edges> {
    let quoted = |text: String| format!("{text:?}");
    match kind {
        Kind::Nullable(inner) => edges(inner).map(|mut edges| {
            edges.inside.push("null".to_owned());
            edges
        }),
        Kind::Integer { min, max } => Some(Edges {
            inside: vec![min.to_string(), max.to_string()],
            outside: vec![(i128::from(*min) - 1).to_string(), (max + 1).to_string()],
        }),
        Kind::Size { min, max } => Some(Edges {
            inside: vec![min.to_string(), max.to_string(), quoted(size::spell(*min)), quoted(size::spell(*max))],
            outside: vec![(i128::from(*min) - 1).to_string(), (max + 1).to_string(), quoted(format!("{}B", max + 1))],
        }),
        Kind::Duration { min, max, zero } => {
            let ms = Duration::from_millis(1);
            let [least, most] = [min, max].map(|text| span::parse(text).unwrap());
            let mut edges = Edges { inside: vec![format!("{min:?}"), format!("{max:?}")], outside: vec![quoted(span::spell(most + ms))] };
            if least > ms {
                edges.outside.push(quoted(span::spell(least - ms)));
            }
            if *zero { &mut edges.inside } else { &mut edges.outside }.push("\"0s\"".to_owned());
            Some(edges)
        }
        _ => None,
    }
}

/// A file with one value at `path`, such as `consumer_groups[].retry_backoff.max`.
fn file_with(path: &str, value: &str) -> String {
    let mut text = value.to_owned();
    for name in path.rsplit('.') {
        text = match name.strip_suffix("[]") {
            Some(list) => format!(r#"{{ "{list}": [{}] }}"#, with_required(&text)),
            None => format!(r#"{{ "{name}": {text} }}"#),
        };
    }
    text
}

/// A group with what it lacks.
fn with_required(group: &str) -> String {
    let lacking =
        [("url", r#""http://rx/""#), ("topics", r#"["t"]"#)].into_iter().filter(|(name, _)| !group.contains(&format!("\"{name}\":")));
    let fields: String = lacking.map(|(name, value)| format!("\"{name}\": {value}, ")).collect();
    group.replacen('{', &format!("{{ {fields}"), 1)
}

/// The faults of that value alone; others may follow from it, such as a connect_timeout beyond timeout.
fn out_of_bounds(path: &str, value: &str) -> bool {
    let path = path.replace("[]", "[0]");
    let words = ["out of bounds", "less than the least", "more than the most", "zero has no meaning", "not negative"];
    let is_one = |fault: &Fault| fault.path == path && words.iter().any(|word| fault.message.contains(word));
    read(&file_with(&path.replace("[0]", "[]"), value)).is_err_and(|faults| faults.0.iter().any(is_one))
}

#[test]
fn bounds_are_kept_on_both_sides() {
    let mut checked = 0;
    schema::visit("", &File::fields(), &mut |path, field| {
        let Some(edges) = edges(&field.kind) else { return };
        checked += 1;
        for value in edges.inside {
            assert!(!out_of_bounds(path, &value), "{path}: {value} should be accepted");
        }
        for value in edges.outside {
            assert!(out_of_bounds(path, &value), "{path}: {value} should be refused");
        }
    });
    assert!(checked > 25, "{checked}");
}

/// Defaults are texts in the declarations: each must itself be a legal value.
#[test]
fn every_default_can_be_written() {
    schema::visit("", &File::fields(), &mut |path, field| {
        let Some(default) = &field.default else { return };
        if serde_json::from_str::<serde_json::Value>(default).is_ok() && !matches!(field.kind, Kind::Object { .. }) {
            let verdict = read(&file_with(path, default));
            assert!(verdict.is_ok(), "{path}: {default}: {}", verdict.unwrap_err());
        }
    });
}

#[test]
fn any_other_type_is_refused_in_the_same_words() {
    schema::visit("", &File::fields(), &mut |path, field| {
        let wrong = match &field.kind {
            Kind::Flag => "5",
            Kind::Object { .. } | Kind::List { .. } => "\"text\"",
            Kind::Nullable(inner) if matches!(**inner, Kind::List { .. }) => "\"text\"",
            _ => "[true]",
        };
        let shown = path.replace("[]", "[0]");
        let verdict = read(&file_with(path, wrong));
        let hit = verdict.is_err_and(|faults| faults.0.iter().any(|fault| fault.path == shown && fault.message.starts_with("expected ")));
        assert!(hit, "{path}: {wrong}");
    });
}
