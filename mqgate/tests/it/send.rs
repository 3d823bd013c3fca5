//! `mqgate send` against a real gateway.

use std::fs::File;
use std::process::Stdio;

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

#[test]
fn every_failed_line_is_kept_and_can_be_sent_again_under_its_id() {
    let gateway = Gateway::start(&[]);
    let line = |n: u64, good: bool| if good { format!("{{\"value\":{n}}}\n") } else { format!("{{\"valu\":{n}}}\n") };
    let lines: String = (1..=30_000).map(|n| line(n, n % 10 != 0)).collect();
    let (file, rest) = (gateway.file("all.ndjson", lines.as_bytes()), gateway.folder().join("rest.ndjson"));
    let (file, rest) = (file.to_str().unwrap(), rest.to_str().unwrap());
    let said = gateway.run(&["send", "orders", "--ndjson", "--file", file, "--failed", rest, "--id", "day"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), "27,000 accepted, 3,000 failed\n"), "{said:?}");
    assert_eq!(said.err.lines().filter(|line| line.starts_with("line ")).count(), 100);
    let advice = format!("repeat the command with --file {rest} --id day");
    for told in ["and 2,900 more, which are not shown", &advice, "Mend first what would fail again as it stands: 3,000 lines."] {
        assert!(said.err.contains(told), "{told}: {}", said.err);
    }
    let kept = std::fs::read_to_string(rest).unwrap();
    assert!(kept == (1..=30_000).map(|n| if n % 10 == 0 { line(n, false) } else { "\n".into() }).collect::<String>());
    let mended = gateway.file("mended.ndjson", kept.replace("valu\"", "value\"").as_bytes());
    let again = gateway.run(&["send", "orders", "--ndjson", "--file", mended.to_str().unwrap(), "--id", "day", "--failed", rest]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), "3,000 accepted, 0 failed\n"), "{again:?}");
    assert_eq!(std::fs::read_to_string(rest).unwrap(), "", "nothing has to be sent again");
}

#[test]
fn the_file_that_is_sent_is_not_overwritten_with_what_failed() {
    let gateway = Gateway::start(&[]);
    let file = gateway.file("all.ndjson", b"{\"value\":1}\n");
    let file = file.to_str().unwrap();
    let said = gateway.run(&["send", "orders", "--ndjson", "--file", file, "--failed", file]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("is the file that is sent"), "{said:?}");
    assert_eq!(std::fs::read(file).unwrap(), b"{\"value\":1}\n");
    let said = gateway.run(&["send", "orders", "--ndjson", "--file", "/dev/null", "--failed", "x"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("a regular file"), "{said:?}");
}

#[test]
fn an_id_or_a_content_type_that_cannot_be_sent_is_bad_usage() {
    for (flag, value, told) in [("--content-type", "a\nb", "visible ASCII in one line"), ("--id", "a\nb", "1 to 256 of A-Z a-z 0-9 _ : -")]
    {
        let said = Said::by(crate::process::mqgate().args(["send", "orders", flag, value]));
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains(told), "{said:?}");
    }
}

#[test]
fn a_gateway_killed_midway_leaves_known_what_was_answered() {
    let mut gateway = Gateway::start(&[]);
    let padding = "x".repeat(500);
    let lines: String = (0..200_000).map(|n| format!("{n}{padding}\n")).collect();
    let (file, rest) = (gateway.file("all", lines.as_bytes()), gateway.folder().join("rest"));
    let mut command = gateway.command(&["send", "orders", "--ndjson", "--raw", "--id", "k", "--file"]);
    let sender = command.arg(&file).arg("--failed").arg(&rest).stderr(Stdio::piped()).spawn().unwrap();
    while !gateway.run(&["topics", "list"]).out.contains("orders") {}
    gateway.process.signal("KILL");
    gateway.process.ended();
    let said = Said::from(&sender.wait_with_output().unwrap());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("may or may not have been written") && said.err.contains("--id k"), "{said:?}");
    let kept = std::fs::read_to_string(rest).unwrap();
    let answered = kept.bytes().take_while(|byte| *byte == b'\n').count();
    let told = said.err.split_once("lines up to ").map_or(0, |(_, rest)| rest.split(' ').next().unwrap().replace(',', "").parse().unwrap());
    assert_eq!(answered, told, "{said:?}");
    assert!(kept[answered..] == lines[lines.split_inclusive('\n').take(answered).map(str::len).sum::<usize>()..]);
}
