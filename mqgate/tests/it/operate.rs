//! `mqgate topics`, `groups` and `check`.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::gateway::{Gateway, Said};
use crate::process::{PATIENCE, mqgate};

#[test]
fn topics_are_made_listed_and_deleted() {
    let gateway = Gateway::start(&[]);
    assert!(gateway.run(&["topics", "list"]).out.starts_with("There is no topic yet"));
    assert_eq!(gateway.run(&["topics", "create", "orders", "--partitions", "6"]).out, "created orders with 6 partitions\n");
    let same = gateway.run(&["topics", "create", "orders", "--partitions", "6"]);
    assert_eq!((same.code, same.out.as_str()), (Some(0), "orders exists already, with 6 partitions; nothing was changed\n"));
    let again = gateway.run(&["topics", "create", "orders"]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("409 Conflict (exists)"), "{again:?}");
    assert_eq!(
        gateway.run(&["topics", "list"]).out,
        "TOPIC   PARTITIONS  MESSAGES KEPT  WRITTEN\norders           6              0        0\n"
    );
    let json: Value = serde_json::from_str(&gateway.run(&["topics", "list", "--json"]).out).unwrap();
    assert_eq!(json["topics"][0]["topic"], "orders");
    assert_eq!(gateway.run(&["topics", "delete", "orders"]).code, Some(2), "there is no terminal to ask on");
    assert_eq!(gateway.run(&["topics", "delete", "orders", "--yes"]).out, "deleted orders\n");
    assert_eq!(gateway.run(&["topics", "delete", "orders", "--yes"]).code, Some(1));
}

#[test]
fn a_group_that_cannot_deliver_shows_its_lag_and_why() {
    // Nothing listens there: port 1 is for nobody.
    let gateway = Gateway::start(&["--push", "orders=http://127.0.0.1:1/"]);
    let file = gateway.file("lines", b"1\n2\n3\n");
    assert_eq!(gateway.run(&["send", "orders", "--ndjson", "--raw", "--file", file.to_str().unwrap()]).code, Some(0));
    let group = until(|| {
        let said = gateway.run(&["groups", "--json"]);
        let json: Value = serde_json::from_str(&said.out).unwrap();
        (json["groups"][0]["lag"] == 3).then(|| json["groups"][0]["group"].as_str().unwrap().to_owned())
    });
    let table = gateway.run(&["groups"]).out;
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, [&group, "running", "orders", "4", "of", "4", "3", "http://127.0.0.1:1/"]);
    until(|| gateway.run(&["groups", &group]).out.contains("failed once: ").then_some(()));
    let unknown = gateway.run(&["groups", "nobody"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.err.contains("(unknown_group)"), "{unknown:?}");
}

#[test]
fn a_group_is_paused_resumed_and_its_cursors_are_shown_and_moved() {
    let gateway = Gateway::start(&["--push", "orders=http://127.0.0.1:1/"]);
    let file = gateway.file("lines", b"1\n2\n3\n");
    assert_eq!(gateway.run(&["send", "orders", "--ndjson", "--raw", "--file", file.to_str().unwrap()]).code, Some(0));
    let group = until(|| {
        let json: Value = serde_json::from_str(&gateway.run(&["cursor", "list", "--json"]).out).unwrap();
        let cursors = json["groups"][0]["cursors"].as_array().unwrap();
        let born = !cursors.is_empty() && cursors.iter().all(|at| at["owner"].is_string() && at["cursor"].is_u64());
        born.then(|| json["groups"][0]["group"].as_str().unwrap().to_owned())
    });
    let table = gateway.run(&["cursor", "list"]).out;
    assert_eq!(
        table.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["GROUP", "TOPIC", "PARTITION", "CURSOR", "END", "LAG"]
    );
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(gateway.run(&["cursor", "show", &group]).out.contains("DONE ABOVE"));

    assert_eq!(gateway.run(&["pause", &group]).out, format!("{group} is paused: no attempt starts until `mqgate resume`.\n"));
    assert!(gateway.run(&["groups"]).out.contains("paused"));
    assert_eq!(gateway.run(&["resume", &group]).out, format!("{group} is running.\n"));
    assert_eq!(gateway.run(&["pause", "nobody"]).code, Some(1));

    let dry = gateway.run(&["replay", &group, "--from", "2020-01-01T00:00:00Z", "--dry-run"]);
    assert!(dry.out.contains("Nothing was moved (--dry-run).") && dry.out.contains("orders"), "{dry:?}");
    let moved = gateway.run(&["replay", &group, "--offset", "orders:0=0", "--id", "fix-1"]);
    assert!(moved.out.ends_with("Moved, under the id fix-1.\n"), "{moved:?}");
    let again = gateway.run(&["replay", &group, "--offset", "orders:0=0", "--id", "fix-1"]);
    assert_eq!(again.out, "The replay fix-1 was done before; nothing was written.\n");
    assert_eq!(gateway.run(&["replay", &group]).code, Some(2), "it does not say from where");
    assert_eq!(gateway.run(&["replay", &group, "--from", "yesterday"]).code, Some(2), "nor does a time without a zone");
}

#[test]
fn check_gives_the_verdict_and_the_values_in_effect() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("configs");
    let said = Said::by(mqgate().arg("check").arg(configs.join("standalone.json")));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("standalone.json: valid") && said.out.contains("\"produce_timeout\": \"5s\""), "{said:?}");
    let json = Said::by(mqgate().args(["check", "--json"]).arg(configs.join("standalone.json")));
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap()["proxy"]["listen"], "127.0.0.1:9090");
}

#[test]
fn check_reads_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.json");
    for (text, code, said) in [("{}", 0, "standard input: valid"), ("{\"prosy\": 1}", 2, "standard input:1:2: error")] {
        std::fs::write(&file, text).unwrap();
        let output = mqgate().args(["check", "-"]).stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
        let output = Said::from(&output);
        assert_eq!(output.code, Some(code), "{output:?}");
        assert!(format!("{}{}", output.out, output.err).contains(said), "{output:?}");
    }
}

#[test]
fn check_ends_with_2_and_shows_the_line_of_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mqgate.json");
    std::fs::write(&file, "{\n  \"consumer_group\": []\n}\n").unwrap();
    let said = Said::by(mqgate().arg("check").arg(&file));
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
    assert!(said.err.contains("mqgate.json:2:3: error") && said.err.contains("consumer_groups"), "{said:?}");
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = Said::by(mqgate().args(["completions", shell]));
        assert!(said.code == Some(0) && said.out.contains("standalone"), "{shell}: {said:?}");
    }
}

fn until<T>(mut holds: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = holds() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "it does not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}
