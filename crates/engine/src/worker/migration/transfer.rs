//! Connections on their way to another process: a socket on which each message is one of them.
//!
//! Owns: the form of these messages, and both ends of the socket. Guarantees: a connection that was sent is in the
//! socket's queue, in which it outlives the process that sent it, until exactly one process takes it; one that cannot
//! be taken for want of descriptors stays there. Does not decide when a process leaves (`process::upgrade`).
//!
//! # A message
//! One byte that says where the encoded connection is, the bytes or nothing, and descriptors: the connection's socket,
//! the memory that holds the bytes if they are not in the message (memfd_create(2)), and the files of its answers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lamna_io::accept::{DescriptorReserve, client_of};
use lamna_io::log::errors::{self, Level};
use lamna_io::scm_rights;
use lamna_proto::conn::Connection;
use lamna_proto::time::Instant;
use lamna_proto::workspace::PagesByHost;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::{Errno, pread, pwrite};

use crate::worker::connection_state::ConnectionState;

/// The bytes are in the message.
const HERE: u8 = 0;
/// The bytes are in memory whose descriptor follows that of the socket.
const BESIDE: u8 = 1;
/// Bytes of connections that go with the message: few enough that many fit the queue.
const HERE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the longest encoded connection that is taken: far more than the limits on one allow.
const BESIDE_BYTES_MAX: u64 = 1 << 30;
/// How often a full queue is looked at again if nothing says that it has room.
const ROOM_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The end at which connections leave.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    lost: AtomicU64,
}

/// The end at which they arrive. Several threads and processes may take from it.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    over: AtomicBool,
}

/// The result of asking for an arrival.
#[derive(Debug)]
pub enum Arrival {
    /// A connection.
    Connection(Box<ConnectionState>),
    /// Nothing yet.
    Nothing,
    /// There are no descriptors for what may have arrived: it waits.
    Crowded,
    /// Nothing will arrive any more.
    End,
}

impl Sender {
    /// The end of which `socket` is the descriptor.
    pub fn new(socket: OwnedFd) -> Sender {
        Sender { socket, lost: AtomicU64::new(0) }
    }

    /// Sends a connection that is parked, waiting for room in the queue as long as a process may take from it. If none
    /// does any more it is closed, and counted as lost.
    pub fn send(&self, connection: &ConnectionState) {
        if connection.http.interest().is_over() {
            return;
        }
        if !connection.transport.is_transferable() {
            // Whoever gives connections away finishes such a one itself.
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        let sent = message_of(connection).and_then(|message| {
            let passed: Vec<BorrowedFd<'_>> =
                [connection.transport.as_fd()].into_iter().chain(message.files.iter().map(AsFd::as_fd)).collect();
            self.send_message(&message.bytes, &passed)
        });
        if sent.is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Sends on whatever `receiver` still gets, until its other end is gone.
    pub fn mailboxes(&self, receiver: &Receiver) {
        let mut buffer = vec![0; scm_rights::MESSAGE_BYTES_MAX];
        loop {
            match receiver.take_message(&mut buffer, true) {
                Ok((bytes, passed)) if bytes > 0 => {
                    let passed: Vec<BorrowedFd<'_>> = passed.iter().map(AsFd::as_fd).collect();
                    if self.send_message(&buffer[..bytes], &passed).is_err() {
                        self.lost.fetch_add(1, Relaxed);
                    }
                }
                _ => return,
            }
        }
    }

    /// Connections that no process took.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn send_message(&self, message: &[u8], passed: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        loop {
            match scm_rights::send_with(self.socket.as_fd(), message, passed) {
                // ENOBUFS and ENOMEM pass, too.
                Err(Errno::AGAIN) => self.await_room(),
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => thread::sleep(Duration::from_millis(1)),
                result => return result,
            }
        }
    }

    fn await_room(&self) {
        // Whatever it returns, trying tells.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&ROOM_POLL));
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Receiver {
    /// The end of which `socket` is the descriptor.
    pub fn new(socket: OwnedFd) -> Receiver {
        Receiver { socket, over: AtomicBool::new(false) }
    }

    /// Takes the next connection, if there is one. `pages` are those of the workspaces that it will be lent.
    pub fn take(&self, pages: &dyn PagesByHost, now: Instant) -> Arrival {
        if self.is_over() {
            return Arrival::End;
        }
        // A message whose descriptors find no place would be lost.
        if !DescriptorReserve::new().is_whole(&self.socket) {
            return Arrival::Crowded;
        }
        let mut buffer = vec![0; HERE_BYTES_MAX + 1];
        loop {
            let (bytes, passed) = match self.take_message(&mut buffer, false) {
                Ok(received) => received,
                Err(Errno::AGAIN) => return Arrival::Nothing,
                Err(errno) => {
                    errors::report(Level::Warning, format_args!("a connection could not be taken over: {errno}"));
                    return Arrival::Nothing;
                }
            };
            if bytes == 0 {
                self.over.store(true, Relaxed);
                return Arrival::End;
            }
            match connection_of(&buffer[..bytes], passed, pages, now) {
                Some(connection) => return Arrival::Connection(Box::new(connection)),
                None => {
                    let why = "a connection could not be taken over: it is not one that is understood";
                    errors::report(Level::Warning, format_args!("{why}"));
                }
            }
        }
    }

    /// Whether nothing will arrive any more.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Tells the other end that connections can be taken, and something about who takes them.
    ///
    /// # Errors
    /// It is gone.
    pub fn report(&self, message: &[u8]) -> Result<(), Errno> {
        scm_rights::send(self.socket.as_fd(), message, None)
    }

    fn take_message(&self, buffer: &mut [u8], wait: bool) -> Result<(usize, Vec<OwnedFd>), Errno> {
        match scm_rights::receive_with(self.socket.as_fd(), buffer, wait) {
            Err(Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN) => Ok((0, Vec::new())),
            result => result,
        }
    }
}

/// Readable when something has arrived, or nothing will any more.
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

struct Message {
    bytes: Vec<u8>,
    files: Vec<Arc<OwnedFd>>,
}

fn message_of(connection: &ConnectionState) -> Result<Message, Errno> {
    let encoded = connection.http.encode().ok_or(Errno::BUSY)?;
    let mut files = encoded.files;
    if encoded.bytes.len() <= HERE_BYTES_MAX {
        return Ok(Message { bytes: [&[HERE], &*encoded.bytes].concat(), files });
    }
    files.insert(0, Arc::new(memory_of(&encoded.bytes)?));
    Ok(Message { bytes: vec![BESIDE], files })
}

/// Memory with a descriptor, that holds `bytes`.
fn memory_of(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let memory = memfd_create("lamna-connection", MemfdFlags::CLOEXEC)?;
    let mut written = 0;
    while written < bytes.len() {
        written += pwrite(&memory, &bytes[written..], written as u64)?;
    }
    Ok(memory)
}

fn bytes_of(memory: &OwnedFd) -> Option<Vec<u8>> {
    let size = u64::try_from(fstat(memory).ok()?.st_size).ok().filter(|size| *size <= BESIDE_BYTES_MAX)?;
    let mut bytes = vec![0; size as usize];
    let mut read = 0;
    while read < bytes.len() {
        read += pread(memory, &mut bytes[read..], read as u64).ok().filter(|count| *count > 0)?;
    }
    Some(bytes)
}

/// The connection that a message stands for, if it is one.
fn connection_of(
    message: &[u8],
    passed: Vec<OwnedFd>,
    pages: &dyn PagesByHost,
    now: Instant,
) -> Option<ConnectionState> {
    let (kind, here) = message.split_first()?;
    let mut passed = passed.into_iter();
    let socket = passed.next()?;
    let beside;
    let bytes = match *kind {
        HERE => here,
        BESIDE => {
            beside = bytes_of(&passed.next()?)?;
            &beside
        }
        _ => return None,
    };
    let http = Connection::decode(bytes, passed.collect(), pages).ok()?;
    let client = client_of(socket.as_fd());
    let mut connection = ConnectionState::new(socket, client, now);
    connection.http = http;
    Some(connection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::blocking::{Driver, Left};
    use crate::worker::testing;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn ends() -> (Sender, Receiver) {
        let (one, other) = scm_rights::pair().unwrap();
        (Sender::new(one), Receiver::new(other))
    }

    fn connection() -> (UnixStream, ConnectionState) {
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (peer, ConnectionState::new(ours.into(), None, Instant::from_ms(20_000)))
    }

    #[test]
    fn a_request_that_was_half_received_is_answered_where_it_arrives() {
        let (shared, _root) = testing::shared(1, 1);
        let ((sender, receiver), (mut peer, mut connection)) = (ends(), connection());
        connection.http.return_received(b"GET /a HTTP/1.1\r\n", shared.clock.now());
        sender.send(&connection);
        drop((sender, connection));
        peer.write_all(b"Host: x\r\n\r\n").unwrap();
        let Arrival::Connection(mut connection) = receiver.take(&*shared.sites, shared.clock.now()) else {
            panic!("nothing")
        };
        assert_eq!(Driver::new(&shared).serve(&mut connection), Left::Idle);
        drop(connection);
        let mut answer = String::new();
        peer.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
        assert!(matches!(receiver.take(&*shared.sites, shared.clock.now()), Arrival::End) && receiver.is_over());
    }

    #[test]
    fn a_connection_with_much_in_its_hands_arrives_with_all_of_it() {
        let (shared, _root) = testing::shared(1, 1);
        let ((sender, receiver), (_peer, mut connection)) = (ends(), connection());
        connection.http.return_unsent(&vec![b'x'; 3 * HERE_BYTES_MAX]);
        sender.send(&connection);
        let Arrival::Connection(arrived) = receiver.take(&*shared.sites, Instant::from_ms(0)) else {
            panic!("nothing")
        };
        let bytes = |connection: &ConnectionState| connection.http.encode().map(|encoded| encoded.bytes);
        assert_eq!(bytes(&arrived), bytes(&connection));
        assert_eq!(sender.lost(), 0);
    }

    #[test]
    fn what_is_relayed_arrives_as_well() {
        let (shared, _root) = testing::shared(1, 1);
        let ((first, middle), (second, last), (_peer, connection)) = (ends(), ends(), connection());
        first.send(&connection);
        drop(first);
        second.mailboxes(&middle);
        assert!(matches!(last.take(&*shared.sites, Instant::from_ms(0)), Arrival::Connection(_)));
        assert!(matches!(last.take(&*shared.sites, Instant::from_ms(0)), Arrival::Nothing));
    }

    #[test]
    fn without_anybody_to_take_them_connections_are_counted_as_lost() {
        let ((sender, receiver), (_peer, connection)) = (ends(), connection());
        drop(receiver);
        sender.send(&connection);
        assert_eq!(sender.lost(), 1);
    }

    proptest! {
        #[test]
        fn any_message_is_a_connection_or_none(message in proptest::collection::vec(any::<u8>(), 0..60), files in 0..3_usize) {
            let passed = (0..files).map(|_| std::fs::File::open("/dev/null").unwrap().into()).collect();
            // That it does not panic is what is tested: all that begins right is tested by the core.
            let connection = connection_of(&message, passed, &lamna_site::content::answers::pages(|_| Default::default(), Default::default()).unwrap(), Instant::from_ms(0));
            prop_assert!(connection.is_none() || files > 0);
        }
    }
}
