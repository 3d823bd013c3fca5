//! `mqgate standalone`: what it says, what it refuses, and how it ends. What it does with messages
//! under load and after crashes is for the integration tests.

use std::net::TcpListener;

use crate::gateway::{Gateway, Said};
use crate::process::mqgate;

#[test]
fn ends_with_success_when_asked_to() {
    for signal in ["TERM", "INT"] {
        let mut gateway = Gateway::start(&[]);
        gateway.process.signal(signal);
        gateway.process.stderr_until("drained");
        assert_eq!(gateway.process.ended().code(), Some(0));
    }
}

#[test]
fn a_hangup_without_a_file_changes_nothing_and_says_so() {
    let gateway = Gateway::start(&[]);
    gateway.process.signal("HUP");
    gateway.process.stderr_until("there is no file to read again");
    assert_eq!(gateway.run(&["topics", "list"]).code, Some(0));
}

#[test]
fn every_fault_of_file_and_flags_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mqgate.json");
    std::fs::write(&file, "{\"proxy\": {\"lisen\": \"127.0.0.1:0\"},\n \"consumer_groups\": [{\"url\": \"http://a/\"}]}").unwrap();
    let mut command = mqgate();
    let said = Said::by(command.args(["standalone", "--admin", "nowhere", "-c"]).arg(&file));
    assert_eq!(said.code, Some(2), "{said:?}");
    for fault in ["lisen", "mqgate.json:1:", "topics", "mqgate.json:2:", "--admin"] {
        assert!(said.err.contains(fault), "{fault}: {}", said.err);
    }
}

#[test]
fn a_folder_in_use_is_named() {
    let gateway = Gateway::start(&[]);
    let mut second = mqgate();
    second.args(["standalone", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir"]).arg(gateway.folder().join("data"));
    let said = Said::by(&mut second);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("in use by another mqgate process"), "{said:?}");
}

#[test]
fn a_taken_port_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, free) in [("--listen", "--admin"), ("--admin", "--listen")] {
        let mut command = mqgate();
        command.args(["standalone", flag, &address, free, "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
        let said = Said::by(&mut command);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains(&format!("cannot listen on {address}")), "{said:?}");
        assert!(!folder.path().join("data").exists());
    }
}

#[test]
fn off_loopback_needs_a_word_in_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = mqgate();
    command.args(["standalone", "--listen", "0.0.0.0:0", "--admin", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
    let said = Said::by(&mut command);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("allow_anonymous"), "{said:?}");
}
