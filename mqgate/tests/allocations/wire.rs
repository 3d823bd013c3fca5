//! HTTP over blocking sockets, with buffers that are allocated once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longer than any head and body of these tests.
const BUFFER_BYTES: usize = 256 << 10;

/// A connection, from either side.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: vec![0; BUFFER_BYTES] }
    }

    /// Head and body of the next message; `None` at the end. Nothing may follow before it is answered.
    fn read(&mut self) -> Option<&[u8]> {
        let mut filled = 0;
        loop {
            let got = self.stream.read(&mut self.buffer[filled..]).unwrap_or(0);
            if got == 0 {
                assert_eq!(filled, 0, "the connection ended within a message");
                return None;
            }
            filled += got;
            if whole(&self.buffer[..filled]) {
                return Some(&self.buffer[..filled]);
            }
        }
    }
}

fn whole(message: &[u8]) -> bool {
    let Some(head) = find(message, b"\r\n\r\n") else { return false };
    let length = find(&message[..head], b"content-length: ").expect("a length is given") + 16;
    let digits = message[length..].iter().take_while(|byte| byte.is_ascii_digit());
    let body = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    message.len() >= head + 4 + body
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window.eq_ignore_ascii_case(part))
}

pub(crate) struct Client(Connection);

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self(Connection::new(TcpStream::connect(to).unwrap()))
    }

    /// One request, made ready before, and its answer.
    pub(crate) fn ask(&mut self, request: &[u8]) {
        self.0.stream.write_all(request).unwrap();
        let answer = self.0.read().expect("an answer");
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
    }
}

/// Answers 200 to everything, with a thread for each connection.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    answered: Arc<AtomicU32>,
}

impl Receiver {
    /// `before_each` runs before each answer.
    pub(crate) fn start(before_each: impl Fn() + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, answered) = (listener.local_addr().unwrap(), Arc::new(AtomicU32::new(0)));
        let counter = Arc::clone(&answered);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut connection, counter, before_each) = (Connection::new(stream.unwrap()), Arc::clone(&counter), before_each.clone());
                std::thread::spawn(move || {
                    while connection.read().is_some() {
                        before_each();
                        counter.fetch_add(1, Ordering::Relaxed);
                        // Of an answer that nobody waits for any more, nothing is to be known.
                        drop(connection.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
                    }
                });
            }
        });
        Self { address, answered }
    }

    pub(crate) fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }
}
