//! An old tool: a session of its own that reads and writes nodes as they are, by the wire protocol,
//! so that no library of the product vouches for itself.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_CHILDREN: i32 = 8;
const CLOSE: i32 = -11;
const NO_NODE: i32 = -101;

/// What a request can be answered with, other than what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

/// What `ZooKeeper` says of a node.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    /// By the server's clock, which is this machine's.
    pub written_at: SystemTime,
    /// Since it was created.
    pub writes: u64,
    pub bytes: u64,
}

/// Dropped, its session is closed.
pub struct Tool {
    stream: TcpStream,
    xid: i32,
}

impl Tool {
    /// Tries for 10 s: a server that has just found its ensemble again closes its first connections.
    pub fn connect(server: SocketAddr) -> Self {
        let started = Instant::now();
        loop {
            match open(server) {
                Ok(stream) => return Self { stream, xid: 0 },
                Err(error) => assert!(started.elapsed() < Duration::from_secs(10), "no session with {server}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The text of a node; `None` where there is none.
    pub fn get(&mut self, path: &str) -> Option<String> {
        match self.ask(GET_DATA, &unwatched(path)) {
            Ok(answer) => Some(String::from_utf8(bytes_of(&answer)).unwrap()),
            Err(Code(NO_NODE)) => None,
            Err(code) => panic!("{path}: {code:?}"),
        }
    }

    pub fn stat(&mut self, path: &str) -> Option<Stat> {
        let answer = self.ask(GET_DATA, &unwatched(path)).ok()?;
        let data = bytes_of(&answer);
        let stat = &answer[4 + data.len()..];
        // After czxid, mzxid and ctime.
        let milliseconds = i64::from_be_bytes(stat[24..32].try_into().unwrap());
        let writes = i32::from_be_bytes(stat[32..36].try_into().unwrap());
        let written_at = UNIX_EPOCH + Duration::from_millis(milliseconds.unsigned_abs());
        Some(Stat { written_at, writes: writes.unsigned_abs().into(), bytes: data.len() as u64 })
    }

    /// Many at once: behind a server's writes each answer may take a sync of its disk.
    pub fn get_all(&mut self, paths: &[String]) -> Vec<Option<String>> {
        for path in paths {
            self.send(GET_DATA, &unwatched(path));
        }
        let text = |answer: Result<Vec<u8>, Code>| answer.ok().map(|answer| String::from_utf8(bytes_of(&answer)).unwrap());
        paths.iter().map(|_| text(self.receive())).collect()
    }

    pub fn children(&mut self, path: &str) -> Vec<String> {
        let Ok(answer) = self.ask(GET_CHILDREN, &unwatched(path)) else { return Vec::new() };
        let count = i32::from_be_bytes(answer[..4].try_into().unwrap());
        let mut rest = &answer[4..];
        (0..count)
            .map(|_| {
                let name = bytes_of(rest);
                rest = &rest[4 + name.len()..];
                String::from_utf8(name).unwrap()
            })
            .collect()
    }

    /// Creates it with everything above it, or sets it.
    pub fn put(&mut self, path: &str, text: &str) {
        if self.get(path).is_some() {
            return self.set(path, text).unwrap();
        }
        for (slash, _) in path.match_indices('/').skip(1) {
            let _ = self.create(&path[..slash], "", Kind::Persistent);
        }
        self.create(path, text, Kind::Persistent).unwrap();
    }

    pub fn set(&mut self, path: &str, text: &str) -> Result<(), Code> {
        let mut body = Vec::new();
        put_bytes(&mut body, path.as_bytes());
        put_bytes(&mut body, text.as_bytes());
        body.extend((-1i32).to_be_bytes());
        self.ask(SET_DATA, &body).map(drop)
    }

    pub fn create(&mut self, path: &str, text: &str, kind: Kind) -> Result<(), Code> {
        self.ask(CREATE, &creation(path, text, kind)).map(drop)
    }

    /// Many at once, whose parents are there.
    pub fn create_all(&mut self, nodes: &[(String, String)]) {
        for some in nodes.chunks(1_000) {
            some.iter().for_each(|(path, text)| self.send(CREATE, &creation(path, text, Kind::Persistent)));
            some.iter().for_each(|_| drop(self.receive().unwrap()));
        }
    }

    pub fn delete(&mut self, path: &str) -> Result<(), Code> {
        let mut body = Vec::new();
        put_bytes(&mut body, path.as_bytes());
        body.extend((-1i32).to_be_bytes());
        self.ask(DELETE, &body).map(drop)
    }

    fn ask(&mut self, operation: i32, body: &[u8]) -> Result<Vec<u8>, Code> {
        self.send(operation, body);
        self.receive()
    }

    fn send(&mut self, operation: i32, body: &[u8]) {
        self.xid += 1;
        let mut request = Vec::new();
        request.extend(self.xid.to_be_bytes());
        request.extend(operation.to_be_bytes());
        request.extend(body);
        send(&mut self.stream, &request).unwrap();
    }

    fn receive(&mut self) -> Result<Vec<u8>, Code> {
        let answer = receive(&mut self.stream).unwrap();
        let code = i32::from_be_bytes(answer[12..16].try_into().unwrap());
        if code == 0 { Ok(answer[16..].to_vec()) } else { Err(Code(code)) }
    }
}

fn creation(path: &str, text: &str, kind: Kind) -> Vec<u8> {
    let mut body = Vec::new();
    put_bytes(&mut body, path.as_bytes());
    put_bytes(&mut body, text.as_bytes());
    // One entry: world, anyone, all.
    body.extend(1i32.to_be_bytes());
    body.extend(31i32.to_be_bytes());
    put_bytes(&mut body, b"world");
    put_bytes(&mut body, b"anyone");
    body.extend(match kind {
        Kind::Persistent => 0i32.to_be_bytes(),
        Kind::Ephemeral => 1i32.to_be_bytes(),
    });
    body
}

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Persistent,
    Ephemeral,
}

impl Drop for Tool {
    fn drop(&mut self) {
        let mut request = Vec::new();
        request.extend((self.xid + 1).to_be_bytes());
        request.extend(CLOSE.to_be_bytes());
        let length = i32::try_from(request.len()).unwrap();
        let _ = self.stream.write_all(&length.to_be_bytes()).and_then(|()| self.stream.write_all(&request));
    }
}

/// A connection on which a session has begun.
fn open(server: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut hello = Vec::new();
    hello.extend(0i32.to_be_bytes());
    hello.extend(0i64.to_be_bytes());
    hello.extend(30_000i32.to_be_bytes());
    hello.extend(0i64.to_be_bytes());
    put_bytes(&mut hello, &[0; 16]);
    send(&mut stream, &hello)?;
    receive(&mut stream)?;
    Ok(stream)
}

fn send(stream: &mut TcpStream, packet: &[u8]) -> io::Result<()> {
    stream.write_all(&i32::try_from(packet.len()).unwrap().to_be_bytes())?;
    stream.write_all(packet)
}

fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut packet = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut packet)?;
    Ok(packet)
}

/// A question about a node, without a watch.
fn unwatched(path: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put_bytes(&mut body, path.as_bytes());
    body.push(0);
    body
}

fn put_bytes(packet: &mut Vec<u8>, bytes: &[u8]) {
    packet.extend(i32::try_from(bytes.len()).unwrap().to_be_bytes());
    packet.extend(bytes);
}

/// Those at the beginning; null reads as none.
fn bytes_of(packet: &[u8]) -> Vec<u8> {
    let length = usize::try_from(i32::from_be_bytes(packet[..4].try_into().unwrap())).unwrap_or(0);
    packet[4..4 + length].to_vec()
}
