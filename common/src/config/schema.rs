//! The sections as a JSON schema, for editors that complete and check while one writes.

use serde_json::{Map, Value, json};

use super::file::File;
use super::leaf::Kind;
use super::section::{Field, Retired, Section};

/// The JSON schema (draft 2020-12) of a configuration file. Editors that know it should be told
/// that comments and trailing commas are allowed.
pub fn json_schema() -> Value {
    let mut schema = object(File::about(), &File::fields(), File::retired());
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mqgate configuration",
    });
    if let (Value::Object(head), Value::Object(body)) = (head, &mut schema) {
        let body = std::mem::replace(body, head);
        schema.as_object_mut().expect("it was one a line above").extend(body);
    }
    schema
}

/// The sections that have a field of that name, as paths.
pub(super) fn sections_with(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    visit("", &File::fields(), &mut |path, field| {
        if field.name == name {
            let section = path.rsplit_once('.').map_or("the file's outermost object", |(section, _)| section);
            found.push(if section.contains(' ') { section.to_owned() } else { format!("`{section}`") });
        }
    });
    found
}

/// Every field with its path, such as `proxy.listen` or `consumer_groups[].url`.
pub(super) fn visit(above: &str, fields: &[Field], each: &mut impl FnMut(&str, &Field)) {
    for field in fields {
        let path = if above.is_empty() { field.name.to_owned() } else { format!("{above}.{}", field.name) };
        each(&path, field);
        match &field.kind {
            Kind::Object { fields, .. } => visit(&path, fields, each),
            Kind::List { of, .. } => {
                if let Kind::Object { fields, .. } = &**of {
                    visit(&format!("{path}[]"), fields, each);
                }
            }
            _ => {}
        }
    }
}

fn object(about: &str, fields: &[Field], retired: &[(&str, Retired)]) -> Value {
    let mut properties: Map<String, Value> = fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    for (name, why) in retired {
        match why {
            Retired::Ignored(instead) => {
                properties.insert((*name).to_owned(), json!({ "deprecated": true, "description": format!("No effect: {instead}.") }))
            }
            Retired::Foreign(what) => properties.insert((*name).to_owned(), json!({ "type": "string", "description": what })),
            Retired::Refused(_) => None,
        };
    }
    let required: Vec<&str> = fields.iter().filter(|field| field.default.is_none()).map(|field| field.name).collect();
    let mut schema = json!({ "type": "object", "description": about, "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(field: &Field) -> Value {
    let mut schema = kind(&field.kind);
    let default = field.default.as_deref().map_or("Must be given.".to_owned(), |text| format!("Default: {text}."));
    schema["description"] = match &field.kind {
        Kind::Object { .. } => json!(field.about),
        _ => json!(format!("{} {default}", field.about)),
    };
    if let Some(default) = field.default.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        schema["default"] = default;
    }
    schema
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Duration { .. } => json!({ "type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$" }),
        Kind::Size { min, max } => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": "^[0-9]+(B|[KMGT]i?B)$" },
        ] }),
        Kind::Text { .. } => json!({ "type": "string", "minLength": 1 }),
        Kind::Secret => json!({ "type": "string", "minLength": 1, "examples": ["env:NAME", "file:PATH"] }),
        Kind::Status => json!({ "anyOf": [{ "const": "2xx" }, { "type": "integer", "minimum": 200, "maximum": 299 }] }),
        Kind::Choice(names) => json!({ "enum": names }),
        Kind::Properties => json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } }),
        Kind::Nullable(inner) => json!({ "anyOf": [self::kind(inner), { "type": "null" }] }),
        Kind::Unset(inner) => json!({ "anyOf": [self::kind(inner), { "enum": ["", null] }] }),
        Kind::List { of, least } => json!({ "type": "array", "items": self::kind(of), "minItems": least }),
        Kind::Object { about, fields, retired } => object(about, fields, retired),
    }
}
