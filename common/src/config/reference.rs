//! The sections as tables for `docs/configuration.md`.

use super::file::File;
use super::leaf::{Kind, size};
use super::section::{Field, Retired, Section};

/// A heading and a table for every section, in Markdown.
pub fn reference() -> String {
    let mut text = String::new();
    section("", File::about(), &File::fields(), File::retired(), &mut text);
    text
}

fn section(path: &str, about: &str, fields: &[Field], retired: &[(&str, Retired)], text: &mut String) {
    let title = if path.is_empty() { "The file".to_owned() } else { format!("`{path}`") };
    text.push_str(&format!("### {title}\n\n{about}\n\n| field | type | default | bounds | meaning |\n|---|---|---|---|---|\n"));
    for field in fields {
        let default = field.default.as_deref().map_or("required".to_owned(), shown_default);
        let row = format!("| `{}` | {} | {default} | {} | {} |\n", field.name, type_name(&field.kind), bounds(&field.kind), field.about);
        text.push_str(&row);
    }
    text.push('\n');
    retired_table(retired, text);
    for field in fields {
        nested(path, field, text);
    }
}

fn nested(path: &str, field: &Field, text: &mut String) {
    let path = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
    match &field.kind {
        Kind::Object { about, fields, retired } => section(&path, about, fields, retired, text),
        Kind::List { of, .. } => {
            if let Kind::Object { about, fields, retired } = &**of {
                section(&format!("{path}[]"), about, fields, retired, text);
            }
        }
        _ => {}
    }
}

fn retired_table(retired: &[(&str, Retired)], text: &mut String) {
    if retired.is_empty() {
        return;
    }
    text.push_str("| also known | what becomes of it |\n|---|---|\n");
    for (name, why) in retired {
        let fate = match why {
            Retired::Ignored(instead) => format!("accepted with a warning: {instead}"),
            Retired::Refused(why) => format!("refused: it {why}"),
            Retired::Foreign(what) => format!("accepted: {what}"),
        };
        text.push_str(&format!("| `{name}` | {fate} |\n"));
    }
    text.push('\n');
}

/// Defaults that are values are set as code, others are words.
fn shown_default(default: &str) -> String {
    if serde_json::from_str::<serde_json::Value>(default).is_ok() { format!("`{default}`") } else { default.to_owned() }
}

fn type_name(kind: &Kind) -> String {
    match kind {
        Kind::Flag => "boolean".to_owned(),
        Kind::Integer { .. } => "whole number".to_owned(),
        Kind::Duration { .. } => "duration".to_owned(),
        Kind::Size { .. } => "size".to_owned(),
        Kind::Text { what } => (*what).to_owned(),
        Kind::Secret => "secret".to_owned(),
        Kind::Status => "`\"2xx\"` or a status".to_owned(),
        Kind::Choice(_) => "one of".to_owned(),
        Kind::Properties => "object of texts, numbers and booleans".to_owned(),
        Kind::Nullable(inner) => format!("{} or `null`", type_name(inner)),
        Kind::Unset(inner) => format!("{}, `\"\"` or `null`", type_name(inner)),
        Kind::List { of, .. } => format!("list: {}", type_name(of)),
        Kind::Object { .. } => "object".to_owned(),
    }
}

fn bounds(kind: &Kind) -> String {
    match kind {
        Kind::Integer { min, max } => format!("{min} to {max}"),
        Kind::Duration { min, max, zero } => format!("{}{min} to {max}", if *zero { "0s, " } else { "" }),
        Kind::Size { min, max } => format!("{} to {}", size::spell(*min), size::spell(*max)),
        Kind::Status => "200 to 299".to_owned(),
        Kind::Choice(names) => names.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", "),
        Kind::Nullable(inner) | Kind::Unset(inner) => bounds(inner),
        Kind::List { least, .. } if *least > 0 => format!("at least {least}"),
        Kind::Flag | Kind::Text { .. } | Kind::Secret | Kind::Properties | Kind::List { .. } | Kind::Object { .. } => String::new(),
    }
}
