//! `mqgate listen`, spoken to over a bare connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::process::{PATIENCE, Process, mqgate};

fn listening(arguments: &[&str]) -> (Process, String) {
    printing_to(Stdio::piped(), arguments)
}

fn printing_to(stdout: Stdio, arguments: &[&str]) -> (Process, String) {
    let process = Process::with_stdout(mqgate().args(["listen", "--port", "0"]).args(arguments), stdout);
    let line = process.stderr_until("Listening at").pop().unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    (process, address)
}

/// Sends it as it is and returns all that is answered until the connection is closed.
fn exchange(address: &str, request: &[u8]) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(request).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn shows_headers_as_they_were_sent_and_json_indented() {
    let (process, address) = listening(&[]);
    let request = b"POST /hook?x=1 HTTP/1.1\r\nX-Kmq-Topic: orders\r\nHost: a\r\nContent-Length: 7\r\nConnection: close\r\n\r\n{\"n\":1}";
    assert!(exchange(&address, request).starts_with("HTTP/1.1 200 OK\r\n"));
    let shown = process.stdout_until("answered");
    let expected =
        ["POST /hook?x=1 HTTP/1.1", "X-Kmq-Topic: orders", "Host: a", "Content-Length: 7", "Connection: close", "", "{", "  \"n\": 1", "}"];
    assert_eq!(shown[1..shown.len() - 1], expected);
    assert_eq!(shown[shown.len() - 1], "answered 200 OK");
}

#[test]
fn every_request_of_a_connection_is_shown_with_its_own_headers() {
    let (process, address) = listening(&[]);
    let mut connection = TcpStream::connect(&address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    for number in ["One", "Two", "Three"] {
        write!(connection, "POST / HTTP/1.1\r\nHost: a\r\nX-Is-{number}: y\r\nContent-Length: 3\r\n\r\nabc").unwrap();
        let mut answer = [0; 512];
        let length = connection.read(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answer[..length]));
        let shown = process.stdout_until("answered");
        assert!(shown.contains(&format!("X-Is-{number}: y")), "{shown:#?}");
    }
}

#[test]
fn requests_sent_without_waiting_are_all_shown() {
    let (process, address) = listening(&[]);
    let one = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    let last = "POST /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = exchange(&address, format!("{one}{one}{last}").as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 3, "{answer}");
    let shown = process.stdout_until("POST /b");
    assert_eq!(shown.iter().filter(|line| line.starts_with("POST /a")).count(), 2, "{shown:#?}");
}

#[test]
fn answers_the_status_it_is_told_after_the_delay_it_is_told() {
    let (_process, address) = listening(&["--status", "503", "--delay", "300ms"]);
    let started = Instant::now();
    let answer = exchange(&address, b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
}

#[test]
fn ends_with_success_when_interrupted_or_terminated() {
    for signal in ["INT", "TERM"] {
        let (mut process, address) = listening(&[]);
        exchange(&address, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        process.signal(signal);
        process.stderr_until("1 request received.");
        assert_eq!(process.ended().code(), Some(0), "{signal}");
    }
}

#[test]
fn ends_when_nobody_reads_what_it_prints() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (mut process, address) = printing_to(writer.into(), &[]);
    exchange(&address, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(process.ended().success());
}

#[test]
fn a_taken_port_is_named() {
    let (_process, address) = listening(&[]);
    let port = address.rsplit(':').next().unwrap();
    let output = mqgate().args(["listen", "--port", port]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{said}");
}
