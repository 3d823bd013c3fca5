//! An address that takes no connection and refuses none.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Listens with a backlog that is full, so that the kernel drops whoever else knocks.
#[derive(Debug)]
pub struct BlackHole {
    pub addr: SocketAddr,
    _listener: Socket,
    _waiting: Vec<Socket>,
}

impl BlackHole {
    pub fn dig() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let addr = listener.local_addr().unwrap().as_socket().unwrap();
        let knock = |_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _in_progress = socket.connect(&addr.into());
            socket
        };
        let waiting: Vec<Socket> = (0..8).map(knock).collect();
        while TcpStream::connect_timeout(&addr, Duration::from_millis(50)).is_ok() {}
        Self { addr, _listener: listener, _waiting: waiting }
    }
}
