//! `mqgate send` against a proxy that says what a real one says only on a bad day.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::{JoinHandle, spawn};

use crate::gateway::Said;
use crate::process::mqgate;

const END_OF_CHUNKS: &[u8] = b"\r\n0\r\n\r\n";

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nRetry-After: 7\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Takes one request whole, does something, and gives this answer. Returns how many bytes came.
fn proxy(answer: String, before_answering: impl FnOnce() + Send + 'static) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let taken = spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let bytes = read_chunked(&mut connection);
        before_answering();
        connection.write_all(answer.as_bytes()).unwrap();
        bytes
    });
    (address, taken)
}

fn read_chunked(connection: &mut TcpStream) -> usize {
    let (mut buffer, mut tail, mut bytes) = (vec![0; 1 << 20], Vec::new(), 0);
    while !tail.ends_with(END_OF_CHUNKS) {
        let length = connection.read(&mut buffer).unwrap();
        assert!(length > 0, "the request broke off after {bytes} bytes");
        bytes += length;
        tail.extend_from_slice(&buffer[..length]);
        tail.drain(..tail.len().saturating_sub(END_OF_CHUNKS.len()));
    }
    bytes
}

fn send(arguments: &[&str], answer: String) -> Said {
    let (address, taken) = proxy(answer, || {});
    let mut command = mqgate();
    command.args(["send", "orders", "--proxy", &address]).args(arguments).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"value\":1}\n").unwrap();
    let said = Said::from(&child.wait_with_output().unwrap());
    taken.join().unwrap();
    said
}

#[test]
fn after_a_503_it_says_when_to_try_again() {
    let said = send(&[], answer("503 x", r#"{"code":"disk_full","detail":"2 MB of 5 GB are left"}"#));
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    assert!(said.err.contains("503 Service Unavailable (disk_full): 2 MB of 5 GB are left"), "{said:?}");
    assert!(said.err.contains("certainly not written; try again in 7 s"), "{said:?}");
}

#[test]
fn after_a_504_it_says_how_to_repeat_without_a_second_copy() {
    let said = send(&["--id", "order:7"], answer("504 x", "{}"));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("It may have been written") && said.err.contains("--id order:7"), "{said:?}");
}

#[test]
fn a_batch_that_is_refused_whole_is_a_failure() {
    let said = send(&["--ndjson"], answer("503 x", r#"{"code":"too_many_in_flight"}"#));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("(too_many_in_flight)"), "{said:?}");
}

#[test]
fn an_answer_of_another_server_is_no_success() {
    for many in [&[][..], &["--ndjson"]] {
        let said = send(many, answer("200 OK", "<html>"));
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("not mqgate's") && said.err.contains("--proxy"), "{said:?}");
    }
}

#[test]
fn after_lines_with_504_it_says_the_id_that_keeps_each_lines_id() {
    let results = "{\"line\":1,\"status\":504,\"code\":\"produce_timeout\"}\n{\"accepted\":0,\"failed\":1,\"status\":504}\n";
    let said = send(&["--ndjson", "--id", "import-7"], answer("200 OK", results));
    assert_eq!((said.code, said.out.as_str()), (Some(1), "0 accepted, 1 failed\n"), "{said:?}");
    for told in
        ["line 1: 504", "--id import-7", "line N gets the id import-7_N", "After a 504 (1 line) a message may have been written; by its id"]
    {
        assert!(said.err.contains(told), "{told}: {}", said.err);
    }
}

/// Answers the first lines while the rest is still to come, and is gone.
fn proxy_that_dies(results: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let _ = connection.read(&mut [0; 1 << 10]).unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
        write!(connection, "{head}{:x}\r\n{results}\r\n", results.len()).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        // What is sent is taken until the other side has read the answer: a reset would throw it away.
        let _ = std::io::copy(&mut connection, &mut std::io::sink());
    });
    address
}

#[test]
fn when_the_gateway_dies_it_says_what_was_answered_and_keeps_the_rest() {
    let address =
        proxy_that_dies("{\"line\":1,\"status\":200}\n{\"line\":2,\"status\":503,\"code\":\"disk_full\"}\n{\"line\":4,\"status\":200}\n");
    let folder = tempfile::tempdir().unwrap();
    let (file, rest) = (folder.path().join("all"), folder.path().join("rest"));
    let lines: String = (1..=100_000).map(|n| if n == 3 { "\n".to_owned() } else { format!("{{\"value\":{n}}}\n") }).collect();
    std::fs::write(&file, &lines).unwrap();
    let mut command = mqgate();
    command.args(["send", "orders", "--ndjson", "--id", "k", "--proxy", &address, "--file"]).arg(&file).arg("--failed").arg(&rest);
    let said = Said::by(&mut command);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    for told in [
        "line 2: 503 Service Unavailable (disk_full)",
        "lines up to 4 were answered (2 accepted, 1 failed); the others may or may not have been written",
        &format!("repeat the command with --file {} --id k", rest.display()),
    ] {
        assert!(said.err.contains(told), "{told}: {}", said.err);
    }
    let (kept, sent) = (std::fs::read_to_string(rest).unwrap(), lines.split_inclusive('\n').collect::<Vec<_>>());
    assert!(kept == format!("\n{}\n\n{}", sent[1], sent[4..].concat()), "every line that is not known to be written, at its place");
}

#[test]
fn a_connection_that_breaks_off_is_not_taken_for_a_refusal() {
    let said = send(&[], "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<h".to_owned());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("broke off before an answer came"), "{said:?}");
}

#[test]
fn any_length_is_sent_in_bounded_memory() {
    const LINES: usize = 300_000;
    let line = format!("{{\"value\":\"{}\"}}\n", "x".repeat(1_000));
    let mut command = mqgate();
    let (pid, known) = std::sync::mpsc::channel::<u32>();
    let (peak, measured) = std::sync::mpsc::channel();
    let measure = move || peak.send(peak_resident_kib(known.recv().unwrap())).unwrap();
    let (address, taken) = proxy(answer("200 OK", r#"{"accepted":300000,"failed":0}"#), measure);
    command.args(["send", "orders", "--ndjson", "--proxy", &address]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    pid.send(child.id()).unwrap();
    let mut input = child.stdin.take().unwrap();
    (0..LINES).for_each(|_| input.write_all(line.as_bytes()).unwrap());
    drop(input);
    let said = Said::from(&child.wait_with_output().unwrap());
    assert_eq!(said.out, "300,000 accepted, 0 failed\n");
    assert!(taken.join().unwrap() > LINES * line.len());
    let peak = measured.recv().unwrap();
    assert!(peak < 64 << 10, "{peak} KiB for {} MB", LINES * line.len() / 1_000_000);
}

fn peak_resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_mqgate")).args(["completions", "bash"]).stdout(writer).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
