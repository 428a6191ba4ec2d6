//! The floor: an event loop that parses nothing and answers whatever arrives with the same bytes.
//!
//! Owns: a server of one thread for comparison. What a small cached answer costs in the kernel is what it costs here; a
//! web server can come close to that, not below it with the same system calls. Not a web server: each arrival counts as
//! one request, so clients have to wait for each answer.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, acceptfrom_with, recv, send, sockopt};

const EVENTS_MAX: usize = 512;
const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// The data of the listening socket's events; those of connections have their descriptor numbers.
const LISTENER: u64 = u64::MAX;

/// Serves `content` on 127.0.0.1 until the process ends.
///
/// # Errors
/// If the port cannot be bound, or the kernel has no descriptors left.
pub fn serve(content: &[u8], port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    // A second time, for a longer queue than the library asks for.
    rustix::net::listen(&listener, 4096)?;
    Floor::new(listener, content)?.run()
}

struct Floor {
    listener: TcpListener,
    epoll: OwnedFd,
    connections: Vec<Option<OwnedFd>>,
    message: Vec<u8>,
}

impl Floor {
    fn new(listener: TcpListener, content: &[u8]) -> io::Result<Floor> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: text/html\r\n\
             Content-Length: {}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"0-0\"\r\n\r\n",
            content.len()
        );
        Ok(Floor { listener, epoll, connections: Vec::new(), message: [head.as_bytes(), content].concat() })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut request = vec![0; REQUEST_BYTES_MAX];
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(&mut request),
                    index => self.answer(index as usize, &mut request),
                }
            }
        }
    }

    fn accept(&mut self, request: &mut [u8]) {
        while let Ok((socket, _)) = acceptfrom_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            let index = socket.as_raw_fd() as usize;
            let added = sockopt::set_tcp_nodelay(&socket, true)
                .and_then(|()| epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN));
            if added.is_err() {
                continue;
            }
            if index >= self.connections.len() {
                self.connections.resize_with(index + 1, || None);
            }
            self.connections[index] = Some(socket);
            self.answer(index, request);
        }
    }

    fn answer(&mut self, index: usize, request: &mut [u8]) {
        let Some(socket) = self.connections.get(index).and_then(Option::as_ref) else { return };
        let received = match recv(socket, &mut *request, RecvFlags::empty()) {
            Ok((_, received)) => received,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => 0,
        };
        let is_last = received == 0 || is_last(&request[..received]);
        // A client that has read the answer before has room for this one, up to the size of the socket's buffer.
        let sent = if received == 0 { Ok(0) } else { send(socket, &self.message, SendFlags::NOSIGNAL) };
        if is_last || sent != Ok(self.message.len()) {
            self.connections[index] = None;
        }
    }
}

/// Whether the client expects the connection to end with the answer.
fn is_last(request: &[u8]) -> bool {
    let has = |text: &[u8]| request.windows(text.len()).any(|bytes| bytes == text);
    has(b"Connection: close") || has(b" HTTP/1.0\r\n")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::*;

    #[test]
    fn every_arrival_is_answered_with_the_same_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        listener.set_nonblocking(true).expect("it is a socket");
        let address = listener.local_addr().expect("it is bound");
        let floor = Floor::new(listener, b"hello").expect("there are descriptors");
        // It ends with the process.
        thread::spawn(|| floor.run());
        let mut stream = TcpStream::connect(address).expect("it listens");
        for _ in 0..2 {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it reads");
            let mut answer = vec![0; 512];
            let bytes = stream.read(&mut answer).expect("it answers");
            let answer = String::from_utf8_lossy(&answer[..bytes]).into_owned();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
        }
        stream.write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("it closes");
        assert!(rest.ends_with("hello"), "{rest}");
    }
}
