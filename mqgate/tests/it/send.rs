//! `mqgate send` against a real gateway.

use std::fs::File;

use serde_json::Value;

use crate::gateway::{Gateway, Said};

#[test]
fn a_message_is_written_and_its_place_is_said() {
    let gateway = Gateway::start(&[]);
    let message = gateway.file("message", b"hello");
    let said = gateway.run(&["send", "orders", "--key", "customer 7&", "--file", message.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.starts_with("written to orders, partition ") && said.out.contains(", offset 0, at 20"), "{said:?}");
    let json = gateway.run(&["send", "orders", "--json", "--key", "customer 7&", "--file", message.to_str().unwrap()]);
    let answer: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&answer["topic"], &answer["offset"]), (&"orders".into(), &1.into()), "one key, one partition: {json:?}");
}

#[test]
fn standard_input_is_the_default() {
    let gateway = Gateway::start(&[]);
    let message = gateway.file("message", b"hello");
    for dash in [&[][..], &["-"], &["--file", "-"]] {
        let mut command = gateway.command(&["send", "orders"]);
        let output = command.args(dash).stdin(File::open(&message).unwrap()).output().unwrap();
        assert!(output.status.success(), "{dash:?}: {output:?}");
    }
}

#[test]
fn a_message_that_is_too_large_is_refused_with_the_reason() {
    let gateway = Gateway::start(&[]);
    let message = gateway.file("message", &vec![b'x'; 1_100_000]);
    let said = gateway.run(&["send", "orders", "--file", message.to_str().unwrap()]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("not accepted: 413 Payload Too Large (too_large)"), "{said:?}");
}

#[test]
fn many_lines_are_counted() {
    let gateway = Gateway::start(&[]);
    let lines: String = (0..20_000).map(|n| format!("{{\"key\":\"{}\",\"value\":{{\"n\":{n}}}}}\n", n % 100)).collect();
    let file = gateway.file("many.ndjson", lines.as_bytes());
    let said = gateway.run(&["send", "orders", "--ndjson", "--file", file.to_str().unwrap()]);
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (Some(0), "20,000 accepted, 0 failed\n", ""),
        "nothing else off a terminal"
    );
}

#[test]
fn lines_that_fail_are_listed_and_the_others_are_written() {
    let gateway = Gateway::start(&[]);
    let file = gateway.file("some.ndjson", b"{\"value\":1}\n{\"key\":\"k\"}\n{\"value\":3}\n");
    let said = gateway.run(&["send", "orders", "--ndjson", "--file", file.to_str().unwrap()]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), "2 accepted, 1 failed\n"), "{said:?}");
    assert!(said.err.contains("line 2: 400 Bad Request"), "{said:?}");
    assert!(said.err.contains("send the failed lines again, not the whole"), "{said:?}");
}

#[test]
fn raw_lines_are_values_as_they_stand() {
    let gateway = Gateway::start(&[]);
    let file = gateway.file("lines", b"{not json\nplain\n");
    let said = gateway.run(&["send", "logs", "--ndjson", "--raw", "--file", file.to_str().unwrap()]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "2 accepted, 0 failed\n"), "{said:?}");
}

#[test]
fn a_folder_is_no_message() {
    let gateway = Gateway::start(&[]);
    let said = Said::by(gateway.command(&["send", "orders", "--file"]).arg(gateway.folder()));
    assert_eq!(said.code, Some(2), "{said:?}");
}
