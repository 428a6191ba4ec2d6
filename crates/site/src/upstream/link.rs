//! A connection to an upstream: its socket, and TLS over it if the upstream is asked by `https`.
//!
//! Owns: [`Link`]. Guarantees: no call waits. Where the thread has an event loop, that watches it. What is encrypted
//! and not sent, and what is decrypted and not read, is bounded.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use lamna_io::watch::Watch;
use lamna_proto::exchange::program::Holds;
use lamna_tls::client::ClientSession;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

/// See the module.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    session: Option<Box<ClientSession>>,
    /// The state that the event loop which watches the socket knows, if one does. TLS keeps bytes that no event tells
    /// of.
    watch: Option<Arc<Watch>>,
}

impl Link {
    /// Over a socket that is connected. With a session, [`Link::handshake`] comes first.
    pub fn new(socket: OwnedFd, session: Option<ClientSession>) -> Link {
        Link { socket, session: session.map(Box::new), watch: None }
    }

    /// It is about to be talked over: has the event loop of this thread, if it has one, watch the socket from now on.
    pub fn watch(&mut self) {
        if self.session.is_none() {
            self.watch = Watch::begin(self.socket.as_fd(), self.watch.take());
        }
    }

    /// To wait for.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on with the handshake. Whether it is finished, or none is needed.
    ///
    /// # Errors
    /// It failed, and why.
    pub fn handshake(&mut self) -> io::Result<bool> {
        match &mut self.session {
            None => Ok(true),
            Some(session) => session.handshake(&mut Stream(self.socket.as_fd())),
        }
    }

    /// Sends what the socket takes. Returns how many bytes.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if it takes nothing; the connection is of no use for sending otherwise.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.session {
            None => send_some(self.socket.as_fd(), bytes),
            Some(session) => match session.write(&mut Stream(self.socket.as_fd()), bytes) {
                Ok(0) => Err(Errno::AGAIN),
                taken => taken.map_err(errno_of),
            },
        }
    }

    /// Sends what has been taken by [`Link::send`] and has not left. Whether that was anything.
    ///
    /// # Errors
    /// The connection is of no use for sending.
    pub fn flush(&mut self) -> Result<bool, Errno> {
        let Some(session) = &mut self.session else { return Ok(false) };
        session.flush(&mut Stream(self.socket.as_fd())).map_err(errno_of)
    }

    /// Its memory and descriptors: its socket, and the buffers of TLS, each for a record.
    pub fn holds(&self) -> Holds {
        const SESSION_BYTES: usize = 40 << 10;
        Holds { bytes: if self.is_secure() { SESSION_BYTES } else { 0 }, descriptors: 1 }
    }

    /// Whether TLS is spoken over it.
    pub fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// Whether something has been taken that has not left.
    pub fn wants_write(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Appends what has come, up to the capacity of `into`. 0 at the end.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if nothing is there.
    pub fn receive(&mut self, into: &mut Vec<u8>) -> Result<usize, Errno> {
        match &mut self.session {
            None => {
                let room = into.capacity() - into.len();
                if let Some(watch) = &self.watch {
                    watch.begin_receiving();
                }
                let received =
                    rustix::io::retry_on_intr(|| recv(&self.socket, spare_capacity(into), RecvFlags::DONTWAIT));
                let bytes = received.map(|(_, bytes)| bytes)?;
                if let Some(watch) = self.watch.as_ref().filter(|_| bytes == room) {
                    watch.note_filled();
                }
                Ok(bytes)
            }
            Some(session) => session.read(&mut Stream(self.socket.as_fd()), into).map_err(errno_of),
        }
    }

    /// Whether something can be received of which no event of the socket tells.
    pub fn has_plaintext(&mut self) -> bool {
        self.session.as_mut().is_some_and(|session| session.has_plaintext())
    }

    /// Whether the peer has neither closed nor said anything: an unrequested answer must not reach a client. The event
    /// loop that watches it knows what had come about before its last wait, without a system call; `looks` has it
    /// looked at as well.
    pub fn is_quiet(&mut self, looks: bool) -> bool {
        let is_known = self.watch.as_ref().is_some_and(|watch| watch.is_silent() && watch.is_here());
        match &mut self.session {
            None if is_known && !looks => true,
            None => {
                let looked = recv(&self.socket, &mut [0_u8], RecvFlags::PEEK | RecvFlags::DONTWAIT);
                matches!(looked.map(|(_, bytes)| bytes), Err(Errno::AGAIN | Errno::INTR))
            }
            Some(session) => session.is_quiet(&mut Stream(self.socket.as_fd())),
        }
    }

    /// Says that nothing more is sent. Of a TLS connection the socket stays open in both directions: the other side may
    /// have to answer.
    pub fn end_sending(&mut self) {
        match &mut self.session {
            // One that has ended by itself needs no end.
            None => drop(shutdown(&self.socket, Shutdown::Write)),
            Some(session) => {
                session.end_sending();
                // If it cannot be sent now, it is with the next call of `flush`.
                let _ = session.flush(&mut Stream(self.socket.as_fd()));
            }
        }
    }

    /// RFC 8446 6.1: the closing side says so before.
    fn end_session(&mut self) {
        if self.session.is_some() {
            self.end_sending();
        }
    }
}

impl Drop for Link {
    /// Ends it for all that still wait for it: a ring holds what it waits for.
    fn drop(&mut self) {
        self.end_session();
        // One that has ended by itself needs no end.
        let _ = shutdown(&self.socket, Shutdown::Both);
        if let Some(watch) = &self.watch {
            watch.end();
        }
    }
}

/// Sends what is to stand before everything on a new connection. It is short, and a new connection has room for it.
///
/// # Errors
/// The connection is of no use.
pub fn send_preface(socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() || send_some(socket.as_fd(), bytes)? == bytes.len() { Ok(()) } else { Err(Errno::NOBUFS) }
}

fn send_some(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT))
}

fn errno_of(error: io::Error) -> Errno {
    match error.kind() {
        ErrorKind::WouldBlock => Errno::AGAIN,
        ErrorKind::UnexpectedEof => Errno::CONNRESET,
        // What is not the socket's is a record that is malformed.
        _ => Errno::from_io_error(&error).unwrap_or(Errno::PROTO),
    }
}

/// A socket as a session sees it.
struct Stream<'a>(BorrowedFd<'a>);

impl Read for Stream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let received = rustix::io::retry_on_intr(|| recv(self.0, &mut *into, RecvFlags::DONTWAIT));
        Ok(received.map(|(_, bytes)| bytes)?)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send_some(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread::{self, JoinHandle};

    use rustix::event::{PollFd, PollFlags, poll};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;
    use lamna_tls::client::Trust;
    use lamna_tls::crypto::provider;
    use lamna_tls::testing::{Made, pair};

    type ServerStream = StreamOwned<ServerConnection, TcpStream>;

    /// A link to a server with the name `app.test`, asked for as `name`, by a client that trusts `trusted`.
    fn link_to(
        name: &str,
        made: &Made,
        trusted: &Made,
        serve: impl FnOnce(ServerStream) + Send + 'static,
    ) -> (Link, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let certificate = CertificateDer::from_pem_slice(made.certificate_pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(made.key_pem.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let server = thread::spawn(move || {
            let accepted = listener.accept().unwrap().0;
            serve(StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), accepted));
        });
        let roots = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(roots.path(), &trusted.certificate_pem).unwrap();
        let session = Trust::of(Some(roots.path())).unwrap().begin(name).unwrap();
        stream.set_nonblocking(true).unwrap();
        (Link::new(stream.into(), Some(session)), server)
    }

    fn wait(link: &Link, reads: bool) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, reads);
        flags.set(PollFlags::OUT, link.wants_write() || !reads);
        let socket = link.socket();
        poll(&mut [PollFd::from_borrowed_fd(socket, flags)], None).unwrap();
    }

    fn shake(link: &mut Link) -> io::Result<()> {
        while !link.handshake()? {
            wait(link, true);
        }
        Ok(())
    }

    /// Sends all, and reads to the end.
    fn converse(link: &mut Link, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
        let (mut sent, mut got, mut buffer) = (0, Vec::new(), Vec::with_capacity(10_000));
        let mut has_ended = false;
        loop {
            while sent < bytes.len() {
                match link.send(&bytes[sent..]) {
                    Ok(taken) => sent += taken,
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error),
                }
            }
            if sent == bytes.len() && !has_ended {
                link.end_sending();
                has_ended = true;
            }
            link.flush()?;
            match link.receive(&mut buffer) {
                Ok(0) => return Ok(got),
                Ok(_) => got.append(&mut buffer),
                Err(Errno::AGAIN) => wait(link, true),
                Err(error) => return Err(error),
            }
            assert!(buffer.capacity() <= 10_000, "no more is taken than there is room for");
        }
    }

    #[test]
    fn what_is_sent_over_tls_comes_back_whole_and_so_does_the_end() {
        let made = pair("app.test");
        let (mut link, server) = link_to("app.test", &made, &made, |mut stream| {
            let mut piece = [0; 5_000];
            loop {
                let bytes = stream.read(&mut piece).unwrap();
                if bytes == 0 {
                    break;
                }
                stream.write_all(&piece[..bytes]).unwrap();
            }
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        });
        shake(&mut link).unwrap();
        let sent: Vec<u8> = (0..700_000_u32).map(|number| (number / 7) as u8).collect();
        assert!(converse(&mut link, &sent).unwrap() == sent);
        server.join().unwrap();
    }

    #[test]
    fn who_is_not_trusted_or_called_otherwise_is_not_talked_to() {
        let (made, other) = (pair("app.test"), pair("app.test"));
        for (name, trusted) in [("app.test", &other), ("other.test", &made)] {
            let (mut link, server) = link_to(name, &made, trusted, |mut stream| {
                // It is told that it is not trusted: no byte of a request comes.
                assert!(stream.read(&mut [0]).is_err());
            });
            let error = shake(&mut link).unwrap_err().to_string();
            assert!(error.contains("certificate"), "{name}: {error}");
            drop(link);
            server.join().unwrap();
        }
    }

    #[test]
    fn whoever_drops_it_ends_it_although_a_ring_still_holds_its_socket() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let held = ours.try_clone().unwrap();
        drop(Link::new(ours.into(), None));
        theirs.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        drop(held);
    }

    #[test]
    fn an_end_that_the_server_does_not_say_is_an_error() {
        let made = pair("app.test");
        let (mut link, server) = link_to("app.test", &made, &made, |mut stream| {
            stream.write_all(b"half").unwrap();
            let mut rest = Vec::new();
            let _ = stream.sock.shutdown(std::net::Shutdown::Write).and_then(|()| stream.sock.read_to_end(&mut rest));
        });
        shake(&mut link).unwrap();
        assert_eq!(converse(&mut link, b""), Err(Errno::CONNRESET));
        drop(link);
        server.join().unwrap();
    }
}
