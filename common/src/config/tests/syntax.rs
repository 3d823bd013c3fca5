//! C66: comments, texts, byte order marks and duplicates, and where each fault is said to be.

use super::*;
use crate::config::tree;

const C66: &str = "{\"url\":\"http://rx:9900//a?b=//c\",//x\r\n\"e\":\"\",\"u2\":\"https://h\",\"q\":\"a\\\"//b\",\"p\":\"C:\\\\\",//\"off\":1,\r\n\"l\":[ // note\r\n1]}//end";

fn plain(value: &jsonc_parser::ast::Value<'_>) -> serde_json::Value {
    use jsonc_parser::ast::Value;
    match value {
        Value::Object(object) => object.properties.iter().map(|p| (p.name.as_str().to_owned(), plain(&p.value))).collect(),
        Value::Array(array) => array.elements.iter().map(plain).collect(),
        Value::StringLit(text) => text.value.as_ref().into(),
        Value::NumberLit(number) => serde_json::from_str(number.value).unwrap(),
        Value::BooleanLit(boolean) => boolean.value.into(),
        Value::NullKeyword(_) => serde_json::Value::Null,
    }
}

/// The tree as plain JSON, whatever the fields mean.
fn values(bytes: &[u8]) -> serde_json::Value {
    let source = Source::new("t.json", bytes).unwrap();
    let mut report = Report::new(Some(&source));
    let value = tree::parse(&source, &mut report).map(|root| plain(&root)).unwrap_or_default();
    report.finish().unwrap_or_else(|faults| panic!("{faults}"));
    value
}

#[test]
fn texts_that_look_like_comments_stay_whole() {
    let expected = serde_json::json!({
        "url": "http://rx:9900//a?b=//c", "e": "", "u2": "https://h", "q": "a\"//b", "p": "C:\\", "l": [1],
    });
    assert_eq!(values(C66.as_bytes()), expected);
    assert_eq!(values(format!("\u{feff}{C66}").as_bytes()), expected, "with a byte order mark");
    assert_eq!(values(C66.replace("//x", "/* x */").as_bytes()), expected, "with a block comment");
    assert_eq!(values(C66.replace("1]}", "1,],}").as_bytes()), expected, "with trailing commas");
    assert_eq!(values(format!("{C66}\n/* after */\n// the end").as_bytes()), expected, "with comments behind");
    let mut latin1 = C66.as_bytes().to_vec();
    latin1.extend(b" caf\xE9");
    assert_eq!(values(&latin1), expected, "with a comment in another encoding");
}

#[test]
fn every_unknown_field_is_refused_where_it_stands() {
    let places = |text: &str| refused(text).into_iter().map(|(line, column, path, _)| (line, column, path)).collect::<Vec<_>>();
    let expected = [(1, 2, "url"), (2, 1, "e"), (2, 8, "u2"), (2, 25, "q"), (2, 38, "p"), (3, 1, "l")];
    let expected = expected.map(|(line, column, path)| (line, column, path.to_owned()));
    assert_eq!(places(C66), expected);
    assert_eq!(places(&format!("\u{feff}{C66}")), expected, "a byte order mark is no column");
}

#[test]
fn a_duplicate_field_names_both_lines() {
    let all = refused("{\n  \"pusher\": {},\n  \"proxy\": {},\n  \"pusher\": {}\n}");
    assert_eq!(all, [(4, 3, "pusher".to_owned(), "`pusher` is given twice, in line 2 and in line 4; keep one".to_owned())]);
    let all = refused(r#"{"host":"a","host":"b"}"#);
    assert!(all.iter().any(|(_, column, _, message)| *column == 13 && message.contains("twice, in line 1 and in line 1")), "{all:?}");
}

#[test]
fn duplicates_are_found_however_deep_and_however_spelt() {
    let (path, message) = refusal("{ \"queue\": { \"embedded\": {\n \"dir\": \"a\",\n \"d\\u0069r\": \"b\" } } }");
    assert_eq!(path, "queue.embedded.dir");
    assert!(message.contains("line 2 and in line 3"), "{message}");
}

#[test]
fn other_encodings_are_forgiven_in_comments_and_nowhere_else() {
    let in_comment = parse(JUDGED, "t.json", b"// caf\xE9\n{}", &Overrides::default()).unwrap();
    assert!(in_comment.warnings[0].message.contains("UTF-8"));
    let in_text = parse(JUDGED, "t.json", b"{ \"queue\": { \"embedded\": { \"dir\": \"caf\xE9\" } } }", &Overrides::default());
    let all = seen(&in_text.unwrap_err());
    assert_eq!((all[0].0, all[0].1), (1, 39), "{all:?}");
    assert!(all[0].3.contains("not UTF-8"));
    let utf16 = parse(JUDGED, "t.json", b"\xFF\xFE{\0}\0", &Overrides::default()).unwrap_err();
    assert!(utf16.to_string().contains("save it as UTF-8"), "{utf16}");
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    let cases = [
        ("", 1, 1, "nothing in this file"),
        ("// only a comment", 1, 1, "nothing in this file"),
        ("{", 1, 1, "never closed"),
        ("{\n \"proxy\": {\n", 2, 11, "never closed"),
        ("{ \"proxy\": {} \"pusher\": {} }", 1, 14, "comma is missing"),
        ("{ proxy: {} }", 1, 3, "double quotes"),
        ("{ 'proxy': {} }", 1, 3, "double quotes"),
        ("{}\n{}", 2, 1, "something follows"),
        ("{ \"proxy\": { \"listen\": \"127.0.0.1:1\n\" } }", 1, 36, "control character"),
        ("{ /* ", 1, 3, "`*/` is missing"),
        ("{ \"a\": 0x10 }", 1, 8, "hexadecimal"),
        ("{ \"a\": \"\\x41\" }", 1, 9, "escape"),
        ("{ \"a\": \"\\ud800\" }", 1, 9, "surrogate"),
        ("{,}", 1, 2, "token"),
        ("{ \"consumer_groups\": [,] }", 1, 23, "comma"),
        ("[]", 1, 1, "expected an object, found a list"),
        ("null", 1, 1, "expected an object, found `null`"),
    ];
    for (text, line, column, part) in cases {
        let all = refused(text);
        let hit = all.iter().any(|fault| (fault.0, fault.1) == (line, column) && fault.3.contains(part));
        assert!(hit, "{text:?}: {all:?}");
    }
}

#[test]
fn deep_nesting_is_refused_and_not_a_crash() {
    let text = format!("{{ \"a\": {}{} }}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(refused(&text)[0].3.contains("nested too deeply"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let faults = load(JUDGED, Path::new("/nonexistent/mqgate.json"), &Overrides::default()).unwrap_err();
    assert!(faults.to_string().contains("/nonexistent/mqgate.json"), "{faults}");
    let faults = load(JUDGED, Path::new("/"), &Overrides::default()).unwrap_err();
    assert!(faults.to_string().contains("cannot be read"), "{faults}");
}

#[test]
fn more_faults_than_anybody_reads_are_counted() {
    let text = format!("{{ \"consumer_groups\": [{}] }}", "1,".repeat(3000));
    let all = refused(&text);
    assert_eq!(all.len(), 1001);
    assert!(all[1000].3.contains("and 2000 more faults"), "{:?}", all[1000]);
}

#[test]
fn a_fault_is_shown_with_its_line() {
    let faults =
        read("{\n\t\"consumer_groups\": [\n\t\t{ \"url\": \"http://rx/\", \"topics\": [\"t\"], \"retry_time\": 4 }\n\t]\n}").unwrap_err();
    let expected = "\
t.json:3:43: error: consumer_groups[0].retry_time: there is no field `retry_time` here; did you mean `retry_times`?
  3 |   { \"url\": \"http://rx/\", \"topics\": [\"t\"], \"retry_time\": 4 }
    |                                           ^^^^^^^^^^^^
1 fault";
    assert_eq!(faults.to_string(), expected);
}
