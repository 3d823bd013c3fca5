//! The admin port among clients that say nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::gateway::Gateway;

const SILENT: usize = 1_500;
const UPLOADS: usize = 300;

const UPLOAD: &str = "PUT /v1/topics/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n";
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn opened(gateway: &Gateway, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&gateway.admin).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

fn rest(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// An operator's answer to a health check that fails is a restart.
#[test]
fn healthz_answers_whoever_sits_on_the_port_and_says_nothing() {
    let gateway = Gateway::start(&[]);
    let mut uploads: Vec<_> = (0..UPLOADS).map(|_| opened(&gateway, UPLOAD)).collect();
    let begun = Instant::now();
    let silent: Vec<_> = (0..SILENT).map(|_| opened(&gateway, "")).collect();
    for _ in 0..3 {
        let asked = Instant::now();
        assert!(rest(&mut opened(&gateway, HEALTH)).ends_with("ok\n"));
        assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    }
    let refused = rest(&mut uploads.pop().unwrap());
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("too_many_in_flight"), "{refused}");
    let late = rest(&mut uploads[0]);
    assert!(late.starts_with("HTTP/1.1 408 ") && late.contains("connection: close") && late.contains("body_timeout"), "{late}");
    assert!((8..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    drop(silent);
}
