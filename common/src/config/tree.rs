//! From text to a tree of JSON values that know where they stand. Strict JSON, but for comments
//! and trailing commas; the library's own idea of strictness is tightened here.

use std::collections::HashMap;

use jsonc_parser::ast::{Object, StringLit, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, CommentMap, ParseOptions, parse_to_ast};

use super::fault::{Origin, Report, Spot};
use super::source::Source;

const STRICT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The root value. `None`: a syntax error, which is reported; there is nothing to look at behind it.
pub(super) fn parse<'a>(source: &'a Source<'_>, report: &mut Report<'_>) -> Option<Value<'a>> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::Separate, tokens: false };
    match parse_to_ast(&source.text, &collect, &STRICT) {
        Ok(parsed) => {
            check_bytes(source, &parsed.comments.unwrap_or_default(), report);
            let Some(root) = parsed.value else {
                report.fault(Range::new(0, 0), "$", "there is nothing in this file; the least is `{}`, which takes every default");
                return None;
            };
            Walk { text: &source.text, report }.value(&root, "$");
            Some(root)
        }
        Err(error) => {
            report.fault(error.range(), "$", explain(&error));
            None
        }
    }
}

/// The path of a field or an element of what is at `path`.
pub(super) fn below(path: &str, name: &str) -> String {
    match (path, name.starts_with('[')) {
        ("$", false) => name.to_owned(),
        (_, true) => format!("{path}{name}"),
        (_, false) => format!("{path}.{name}"),
    }
}

/// Other encodings are forgiven in comments only: there they change nothing.
fn check_bytes(source: &Source<'_>, comments: &CommentMap<'_>, report: &mut Report<'_>) {
    let mut commented: Vec<(usize, usize)> = comments.values().flat_map(|list| list.iter()).map(|c| (c.start(), c.end())).collect();
    commented.sort_unstable();
    let is_commented = |at: usize| {
        let before = commented.partition_point(|(start, _)| *start <= at);
        before > 0 && at < commented[before - 1].1
    };
    let place = |at: usize| Range::new(at, at + char::REPLACEMENT_CHARACTER.len_utf8());
    let (forgiven, wrong): (Vec<usize>, Vec<usize>) = source.not_utf8.iter().partition(|at| is_commented(**at));
    if let Some(first) = forgiven.first() {
        report.warning(place(*first), "$", "a comment holds bytes that are not UTF-8; save the file as UTF-8");
    }
    for at in wrong {
        report.fault(place(at), "$", "these bytes are not UTF-8; save the file as UTF-8");
    }
}

/// What the library lets pass: duplicate fields, and control characters inside strings.
struct Walk<'r, 's> {
    text: &'r str,
    report: &'r mut Report<'s>,
}

impl Walk<'_, '_> {
    fn value(&mut self, value: &Value<'_>, path: &str) {
        match value {
            Value::Object(object) => self.object(object, path),
            Value::Array(array) => {
                for (at, element) in array.elements.iter().enumerate() {
                    self.value(element, &below(path, &format!("[{at}]")));
                }
            }
            Value::StringLit(text) => self.string(text.range, path),
            Value::NumberLit(_) | Value::BooleanLit(_) | Value::NullKeyword(_) => {}
        }
    }

    fn object(&mut self, object: &Object<'_>, path: &str) {
        let mut seen: HashMap<&str, Range> = HashMap::new();
        for property in &object.properties {
            let name = property.name.as_str();
            let path = below(path, name);
            self.string(property.name.range(), &path);
            match seen.get(name) {
                Some(first) => {
                    let mention = |range| self.report.mention(&Spot { path: path.clone(), origin: Origin::Given(range) });
                    let (first, second) = (mention(*first), mention(property.name.range()));
                    self.report.fault(
                        property.name.range(),
                        &path,
                        format!("`{name}` is given twice, in {first} and in {second}; keep one"),
                    );
                }
                None => {
                    seen.insert(name, property.name.range());
                }
            }
            self.value(&property.value, &path);
        }
    }

    fn string(&mut self, range: Range, path: &str) {
        let raw = &self.text[range.start..range.end];
        if let Some((at, control)) = raw.char_indices().find(|(_, c)| c.is_ascii_control() && *c != '\x7f') {
            let at = range.start + at;
            let message = format!("a raw control character inside a string; write it as {:?}, or close the string", control.to_string());
            self.report.fault(Range::new(at, at + 1), path, message);
        }
    }
}

/// The field of that name; of two, which is reported elsewhere, the first.
pub(super) fn field<'o, 'a>(object: &'o Object<'a>, name: &str) -> Option<&'o Value<'a>> {
    object.properties.iter().find(|property| property.name.as_str() == name).map(|property| &property.value)
}

/// A value in the words of messages: its kind, and itself if it is short.
pub(super) fn spoken(value: &Value<'_>) -> String {
    match value {
        Value::StringLit(StringLit { value, .. }) if value.chars().count() <= 40 => format!("the text {value:?}"),
        Value::StringLit(_) => "a text".to_owned(),
        Value::NumberLit(number) => format!("the number {}", number.value.chars().take(40).collect::<String>()),
        Value::BooleanLit(boolean) => format!("`{}`", boolean.value),
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::NullKeyword(_) => "`null`".to_owned(),
    }
}

fn explain(error: &ParseError) -> String {
    match error.kind() {
        ParseErrorKind::UnterminatedObject => "this object is never closed; `}` is missing".to_owned(),
        ParseErrorKind::UnterminatedArray => "this list is never closed; `]` is missing".to_owned(),
        ParseErrorKind::UnterminatedCommentBlock => "this comment is never closed; `*/` is missing".to_owned(),
        ParseErrorKind::ExpectedComma => "a comma is missing here".to_owned(),
        ParseErrorKind::ExpectedStringObjectProperty => "a field's name needs double quotes".to_owned(),
        ParseErrorKind::ExpectedColonAfterObjectKey => "a colon is missing after the field's name".to_owned(),
        ParseErrorKind::MultipleRootJsonValues => "something follows the end of the configuration".to_owned(),
        ParseErrorKind::SingleQuotedStringsNotAllowed => "texts need double quotes, not single ones".to_owned(),
        ParseErrorKind::UnexpectedWord => "a word without quotes; texts need double quotes".to_owned(),
        ParseErrorKind::NestingDepthExceeded => "nested too deeply".to_owned(),
        other => {
            let text = other.to_string();
            let mut characters = text.chars();
            characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
        }
    }
}
