//! `io_uring(7)`: operations that are handed to the kernel and come back when they are done.
//!
//! Owns: the ring, the buffers that the kernel receives into, and everything that an operation under way refers to:
//! what is being sent, read into or opened belongs to the ring from the call until [`Ring::next_completion`] gives it
//! back. That is what makes the interface safe: no owner can free or touch memory that the kernel uses. Guarantees:
//! waits only in [`Ring::submit_and_wait`]; an [`OpId`] never names a successor. Needs Linux 6.1. Does not own sockets:
//! their owner must keep them open until all their operations have come back, or an operation may meet another file.
#![allow(unsafe_code)]

mod buffers;
mod outgoing;

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd, OpenHow, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::fs::{OFlags, ResolveFlags};
use rustix::io::Errno;

pub use self::outgoing::Outgoing;
use buffers::{Buffers, LARGE, SMALL};

/// A ring, for the thread that made it. `T` is what its owner names operations by, `G` what a [`Buffer`] keeps besides
/// its bytes.
pub struct Ring<T: Copy, G> {
    io: IoUring,
    operations: Vec<Operation<T, G>>,
    /// Indices of operations that are not under way.
    free: Vec<u32>,
    /// Operations that have not found room in the submission queue.
    waiting: VecDeque<squeue::Entry>,
    buffers: Buffers,
    /// For connections that send much, once there is one.
    large_buffers: Option<Buffers>,
}

/// Bytes that are received at once at most, into a small buffer.
pub const RECEIVED_BYTES: usize = SMALL.bytes;
/// And into a large one.
pub const RECEIVED_BYTES_MAX: usize = LARGE.bytes;

/// Names an operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpId {
    index: u32,
    generation: u32,
}

/// An operation that has come back.
#[derive(Debug)]
pub struct Completion<T, G> {
    /// The name that its owner gave it.
    pub tag: T,
    /// The result.
    pub event: Event<G>,
    /// It goes on: it will come back again.
    pub more: bool,
}

/// Memory that a file is read into.
#[derive(Debug)]
pub struct Buffer<G> {
    /// The memory. Its length is how much is read.
    pub bytes: Vec<u8>,
    /// A value that its owner keeps as long as the memory is in use.
    pub guard: G,
}

/// The result of an operation.
#[derive(Debug)]
pub enum Event<G> {
    /// A connection. After an error it has to be asked for again.
    Accepted(Result<OwnedFd, Errno>),
    /// Bytes, or nothing if the peer has closed its side. [`Errno::NOBUFS`]: all buffers were lent out.
    Received(Result<Option<Received>, Errno>),
    /// So many of the unsent bytes were taken.
    Sent(Box<Outgoing>, Result<usize, Errno>),
    /// So many bytes were read to the start of the room; fewer than asked for need not mean the end of the file.
    Read(Buffer<G>, Result<usize, Errno>),
    /// A file.
    Opened(Result<OwnedFd, Errno>),
    /// The awaited event has happened, or the descriptor has failed.
    Polled,
    /// Something has changed at a socket: whether it has failed, or both its sides are closed.
    Changed(bool),
}

/// Bytes that were received, in a buffer that belongs to the ring: to be [given back](Ring::give_back) soon.
#[derive(Debug)]
#[must_use = "the kernel receives into it again once it has been given back"]
pub struct Received {
    buffer: u16,
    length: u32,
    is_large: bool,
}

struct Operation<T, G> {
    generation: u32,
    under_way: Option<(T, Held<G>)>,
}

/// Resources that the kernel may use until the operation has come back.
enum Held<G> {
    Accept,
    Receive,
    ReceiveOnce { is_large: bool },
    Poll,
    Watch,
    Send(Box<Outgoing>),
    Read { room: Buffer<G>, _file: Arc<OwnedFd> },
    Open { name: CString, how: Box<OpenHow>, directory: Arc<OwnedFd> },
}

/// Operations handed over with one call; more in a turn cost further calls.
const SUBMISSIONS: u32 = 512;
/// Room for completions. More are kept by the kernel until there is room.
const COMPLETIONS: u32 = 4096;
/// The name of cancellations, whose completions are ignored.
const CANCELLATION: u64 = u64::MAX;
/// How long a ring that ends waits for its operations before it leaves their memory to the kernel.
const END_TIME_MAX: Duration = Duration::from_secs(1);

impl<T: Copy, G> Ring<T, G> {
    /// A ring for this thread, whose operations that have to wait for a disk occupy at most `workers_max` threads.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM` or `EINVAL` where io_uring is missing, forbidden or too old; no descriptors or memory.
    pub fn new(workers_max: u32) -> Result<Ring<T, G>, Errno> {
        let io = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)
            .map_err(errno)?;
        let buffers = Buffers::new(SMALL);
        // SAFETY: the entries are page-aligned, of that number, and stay where they are until after the ring is gone:
        // `Drop` leaks them if an operation might still use them, and the ring's descriptor is closed before them.
        unsafe { buffers.register(&io.submitter()) }.map_err(errno)?;
        let (operations, free, waiting) = (Vec::new(), Vec::new(), VecDeque::new());
        let ring = Ring { io, operations, free, waiting, buffers, large_buffers: None };
        // Regular files, and everything else.
        ring.io.submitter().register_iowq_max_workers(&mut [workers_max, workers_max]).map_err(errno)?;
        Ok(ring)
    }

    /// Accepts a connection, or as many as come until it fails: however many those are.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, many: bool, tag: T) -> OpId {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let listener = Fd(listener.as_raw_fd());
        let entry = match many {
            true => opcode::AcceptMulti::new(listener).flags(flags).build(),
            false => opcode::Accept::new(listener, std::ptr::null_mut(), std::ptr::null_mut()).flags(flags).build(),
        };
        self.start(tag, Held::Accept, |_| entry)
    }

    /// Receives until the peer closes its side, it fails or there is no buffer.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, tag: T) -> OpId {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), SMALL.id).build();
        self.start(tag, Held::Receive, |_| entry)
    }

    /// Receives once, as much as there is and fits a large buffer. For peers that send much: the large buffers are few.
    pub fn receive_much(&mut self, socket: BorrowedFd<'_>, tag: T) -> OpId {
        let is_large = self.have_large_buffers();
        let group = if is_large { LARGE } else { SMALL };
        let receive = opcode::Recv::new(Fd(socket.as_raw_fd()), std::ptr::null_mut(), group.bytes as u32);
        let entry = receive.buf_group(group.id).build().flags(squeue::Flags::BUFFER_SELECT);
        self.start(tag, Held::ReceiveOnce { is_large }, |_| entry)
    }

    /// Whether there are large buffers. They are made when they are needed for the first time.
    fn have_large_buffers(&mut self) -> bool {
        if self.large_buffers.is_none() {
            let buffers = Buffers::new(LARGE);
            // SAFETY: as in `new`. If the kernel refuses them, it does not know them.
            let registered = unsafe { buffers.register(&self.io.submitter()) };
            self.large_buffers = registered.is_ok().then_some(buffers);
        }
        self.large_buffers.is_some()
    }

    /// Sends what is unsent of `outgoing`, or as much of it as the socket takes once it takes something.
    pub fn send(&mut self, socket: BorrowedFd<'_>, outgoing: Box<Outgoing>, tag: T) -> OpId {
        let socket = socket.as_raw_fd();
        self.start(tag, Held::Send(outgoing), |held| match held {
            Held::Send(outgoing) => outgoing.entry(socket),
            _ => unreachable!("it was handed over just now"),
        })
    }

    /// Reads into `room` from `offset` of `file` on, waiting for the disk where need be.
    pub fn read(&mut self, file: Arc<OwnedFd>, room: Buffer<G>, offset: u64, tag: T) -> OpId {
        let descriptor = file.as_raw_fd();
        self.start(tag, Held::Read { room, _file: file }, |held| match held {
            Held::Read { room, .. } => {
                let length = u32::try_from(room.bytes.len()).unwrap_or(u32::MAX);
                let entry = opcode::Read::new(Fd(descriptor), room.bytes.as_mut_ptr(), length).offset(offset);
                // Always in a thread of the kernel's: tried in line first, as the kernel would, it waits there for the
                // inode when the content is in memory and only the time of the last access has to be written.
                entry.build().flags(squeue::Flags::ASYNC)
            }
            _ => unreachable!("it was handed over just now"),
        })
    }

    /// Opens `name` beneath `directory`, waiting for the disk where need be.
    pub fn open(
        &mut self,
        directory: Arc<OwnedFd>,
        name: CString,
        flags: OFlags,
        resolve: ResolveFlags,
        tag: T,
    ) -> OpId {
        let how = Box::new(OpenHow::new().flags(u64::from(flags.bits())).resolve(resolve.bits()));
        self.start(tag, Held::Open { name, how, directory }, |held| match held {
            Held::Open { name, how, directory } => {
                opcode::OpenAt2::new(Fd(directory.as_raw_fd()), name.as_ptr(), &raw const **how).build()
            }
            _ => unreachable!("it was handed over just now"),
        })
    }

    /// Waits until receiving from `descriptor` gives something.
    pub fn poll_readable(&mut self, descriptor: BorrowedFd<'_>, tag: T) -> OpId {
        self.poll(descriptor.as_raw_fd(), libc::POLLIN, tag)
    }

    /// Waits until sending to `descriptor` takes something.
    pub fn poll_writable(&mut self, descriptor: BorrowedFd<'_>, tag: T) -> OpId {
        self.poll(descriptor.as_raw_fd(), libc::POLLOUT, tag)
    }

    /// Waits until what is asked for is possible with `socket`, or until it fails.
    pub fn poll_socket(&mut self, socket: BorrowedFd<'_>, readable: bool, writable: bool, tag: T) -> OpId {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let events = flag(readable, libc::POLLIN | libc::POLLRDHUP) | flag(writable, libc::POLLOUT);
        self.poll(socket.as_raw_fd(), events, tag)
    }

    /// Tells of changes at `socket`, of which one may be that it has failed, again and again until it is cancelled.
    /// That its peer has closed its side is one of them, and tells no more than once.
    pub fn watch_failure(&mut self, socket: BorrowedFd<'_>, tag: T) -> OpId {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), 0).multi(true).build();
        self.start(tag, Held::Watch, |_| entry)
    }

    fn poll(&mut self, descriptor: RawFd, events: libc::c_short, tag: T) -> OpId {
        let entry = opcode::PollAdd::new(Fd(descriptor), events as u32).build();
        self.start(tag, Held::Poll, |_| entry)
    }

    /// Ends an operation early: it comes back as soon as it can, perhaps with `ECANCELED`. Nothing if it has come back.
    pub fn cancel(&mut self, id: OpId) {
        let operation = &self.operations[id.index as usize];
        if operation.generation == id.generation && operation.under_way.is_some() {
            let entry = opcode::AsyncCancel::new(id.user_data()).build();
            self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(CANCELLATION));
        }
    }

    /// Hands over what has been started and waits for the first completion, at most `timeout_ms`, or as long as it
    /// takes.
    ///
    /// # Errors
    /// An error that makes the ring useless.
    pub fn submit_and_wait(&mut self, timeout_ms: Option<u64>) -> Result<(), Errno> {
        let timeout_ms = if self.hand_over_waiting() { timeout_ms } else { Some(0) };
        let submitter = self.io.submitter();
        let result = match timeout_ms {
            None => submitter.submit_and_wait(1),
            Some(0) => submitter.submit_and_wait(0),
            Some(ms) => {
                let time = Timespec::new().sec(ms / 1000).nsec((ms % 1000 * 1_000_000) as u32);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match result.map_err(errno) {
            // BUSY and AGAIN: the kernel has no room for more until completions have been taken.
            Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// How many completions there are.
    pub fn completion_count(&mut self) -> usize {
        self.io.completion().len()
    }

    /// The next completion, if there is one.
    pub fn next_completion(&mut self) -> Option<Completion<T, G>> {
        loop {
            let entry = self.io.completion().next()?;
            if entry.user_data() != CANCELLATION {
                return Some(self.complete(&entry));
            }
        }
    }

    /// How many operations are under way.
    pub fn under_way(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    /// The bytes that were received.
    pub fn bytes(&self, received: &Received) -> &[u8] {
        let buffers = if received.is_large { self.large_buffers.as_ref() } else { Some(&self.buffers) };
        buffers.map_or(&[], |buffers| buffers.lent(received.buffer, received.length))
    }

    /// The bytes have been used: their buffer may be received into again.
    pub fn give_back(&mut self, received: Received) {
        if let Some(buffers) = self.buffers_of(received.is_large) {
            buffers.give_back(received.buffer);
        }
    }

    fn buffers_of(&mut self, is_large: bool) -> Option<&mut Buffers> {
        if is_large { self.large_buffers.as_mut() } else { Some(&mut self.buffers) }
    }

    fn complete(&mut self, entry: &cqueue::Entry) -> Completion<T, G> {
        let more = cqueue::more(entry.flags());
        let id = OpId::from_user_data(entry.user_data());
        let operation = &mut self.operations[id.index as usize];
        assert_eq!(operation.generation, id.generation, "an operation comes back no more once it has said so");
        let (tag, held) = operation.under_way.take().expect("the kernel completes what was started");
        let result = match entry.result() {
            value @ 0.. => Ok(value as u32),
            error => Err(Errno::from_raw_os_error(-error)),
        };
        if more {
            operation.under_way = Some((tag, again(&held)));
        } else {
            operation.generation = operation.generation.wrapping_add(1);
            self.free.push(id.index);
        }
        let event = match held {
            // SAFETY: the kernel has just made this descriptor for us alone.
            Held::Accept => Event::Accepted(result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })),
            // SAFETY: as above.
            Held::Open { .. } => Event::Opened(result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })),
            Held::Receive => Event::Received(self.received(result, entry.flags(), false)),
            Held::ReceiveOnce { is_large } => Event::Received(self.received(result, entry.flags(), is_large)),
            Held::Send(outgoing) => Event::Sent(outgoing, result.map(|bytes| bytes as usize)),
            Held::Read { room, .. } => Event::Read(room, result.map(|bytes| bytes as usize)),
            Held::Poll => Event::Polled,
            Held::Watch => {
                let failures = (libc::POLLERR | libc::POLLHUP) as u32;
                Event::Changed(result.is_ok_and(|mask| mask & failures != 0))
            }
        };
        Completion { tag, event, more }
    }

    fn received(&mut self, result: Result<u32, Errno>, flags: u32, is_large: bool) -> Result<Option<Received>, Errno> {
        let Some(buffers) = self.buffers_of(is_large) else { return result.map(|_| None) };
        let buffer = cqueue::buffer_select(flags);
        if let Some(buffer) = buffer {
            buffers.lend(buffer);
        }
        match (result, buffer) {
            (Ok(length @ 1..), Some(buffer)) => Ok(Some(Received { buffer, length, is_large })),
            (result, buffer) => {
                if let Some(buffer) = buffer {
                    buffers.give_back(buffer);
                }
                if result == Err(Errno::NOBUFS) {
                    buffers.grow();
                }
                result.map(|_| None)
            }
        }
    }

    /// Keeps what the operation refers to, and queues the entry that `entry` makes of it.
    fn start(&mut self, tag: T, held: Held<G>, entry: impl FnOnce(&mut Held<G>) -> squeue::Entry) -> OpId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.operations.push(Operation { generation: 0, under_way: None });
            self.operations.len() as u32 - 1
        });
        let operation = &mut self.operations[index as usize];
        let id = OpId { index, generation: operation.generation };
        let (_, held) = operation.under_way.insert((tag, held));
        let entry = entry(held).user_data(id.user_data());
        self.push(&entry);
        id
    }

    fn push(&mut self, entry: &squeue::Entry) {
        if !self.waiting.is_empty() || !self.queue(entry) {
            self.waiting.push_back(entry.clone());
            self.hand_over_waiting();
        }
    }

    /// Queues what waits for room, as far as the kernel takes what is before it. Whether that was all.
    fn hand_over_waiting(&mut self) -> bool {
        while let Some(entry) = self.waiting.pop_front() {
            if !self.queue(&entry) {
                // What is wrong with the ring itself, the next wait will report.
                let _ = self.io.submit();
                if !self.queue(&entry) {
                    self.waiting.push_front(entry);
                    return false;
                }
            }
        }
        true
    }

    /// Queues `entry` if there is room.
    fn queue(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: everything that an entry points to is kept in `operations` until the kernel has said that it is done
        // with it, at an address that does not change when `operations` grows: pointers go to the heap blocks of its
        // `Box`, `Vec` and `CString` values and of shared representations, and no reference to them exists meanwhile.
        unsafe { self.io.submission().push(entry) }.is_ok()
    }
}

impl<T: Copy, G> Drop for Ring<T, G> {
    /// Ends all operations. What the kernel does not give back in time stays allocated: it may still be written to.
    fn drop(&mut self) {
        let end = Instant::now() + END_TIME_MAX;
        let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.push(&all.user_data(CANCELLATION));
        while self.under_way() > 0 && Instant::now() < end {
            let waited = self.submit_and_wait(Some(10));
            while self.next_completion().is_some() {}
            if waited.is_err() {
                break;
            }
        }
        if self.under_way() > 0 {
            std::mem::forget(std::mem::take(&mut self.operations));
            self.buffers.leak();
            self.large_buffers.iter_mut().for_each(Buffers::leak);
        }
    }
}

impl OpId {
    fn user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    fn from_user_data(bits: u64) -> OpId {
        OpId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Resources that the kernel goes on using when an operation comes back and is not over.
fn again<G>(held: &Held<G>) -> Held<G> {
    match held {
        Held::Accept => Held::Accept,
        Held::Receive => Held::Receive,
        Held::Watch => Held::Watch,
        _ => unreachable!("nothing else is asked for more than once"),
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation};
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// A ring, or nothing where io_uring is refused: then there is nothing to test.
    fn ring() -> Option<Ring<u32, ()>> {
        Ring::new(4).ok()
    }

    fn next(ring: &mut Ring<u32, ()>) -> Completion<u32, ()> {
        loop {
            if let Some(completion) = ring.next_completion() {
                return completion;
            }
            ring.submit_and_wait(None).unwrap();
        }
    }

    #[test]
    fn what_arrives_is_received_until_the_end() {
        let Some(mut ring) = ring() else { return };
        let (mut near, far) = UnixStream::pair().unwrap();
        ring.receive(far.as_fd(), 7);
        near.write_all(b"abc").unwrap();
        let Completion { tag: 7, event: Event::Received(Ok(Some(received))), more: true } = next(&mut ring) else {
            panic!("bytes come first")
        };
        assert_eq!(ring.bytes(&received), b"abc");
        ring.give_back(received);
        drop(near);
        let Completion { tag: 7, event: Event::Received(Ok(None)), more: false } = next(&mut ring) else {
            panic!("the end comes last")
        };
        assert_eq!(ring.under_way(), 0);
    }

    #[test]
    fn much_is_received_at_once_and_large_buffers_come_back() {
        let Some(mut ring) = ring() else { return };
        let (mut near, far) = UnixStream::pair().unwrap();
        let sent: Vec<u8> = (0..RECEIVED_BYTES_MAX).map(|at| at as u8).collect();
        // More often than there are large buffers.
        for _ in 0..40 {
            near.write_all(&sent).unwrap();
            let mut received_bytes = Vec::new();
            while received_bytes.len() < sent.len() {
                ring.receive_much(far.as_fd(), 7);
                let Completion { tag: 7, event: Event::Received(Ok(Some(received))), more: false } = next(&mut ring)
                else {
                    panic!("there are bytes, and buffers")
                };
                received_bytes.extend_from_slice(ring.bytes(&received));
                ring.give_back(received);
            }
            assert!(received_bytes == sent);
        }
        drop(near);
        ring.receive_much(far.as_fd(), 7);
        assert!(matches!(next(&mut ring).event, Event::Received(Ok(None))));
    }

    #[test]
    fn who_finds_no_large_buffer_is_told_and_finds_one_when_it_is_given_back() {
        let Some(mut ring) = ring() else { return };
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"abc").unwrap();
        let mut held = Vec::new();
        let short = loop {
            ring.receive_much(far.as_fd(), 0);
            match next(&mut ring).event {
                Event::Received(Ok(Some(received))) => held.push(received),
                Event::Received(Err(errno)) => {
                    // There may be more of them from now on.
                    ring.receive_much(far.as_fd(), 0);
                    match next(&mut ring).event {
                        Event::Received(Ok(Some(received))) => held.push(received),
                        Event::Received(Err(_)) => break errno,
                        _ => panic!("nothing else was asked for"),
                    }
                }
                _ => panic!("nothing else was asked for"),
            }
            near.write_all(b"abc").unwrap();
        };
        assert_eq!((short, held.len()), (Errno::NOBUFS, 16));
        ring.give_back(held.swap_remove(3));
        ring.receive_much(far.as_fd(), 0);
        assert!(matches!(next(&mut ring).event, Event::Received(Ok(Some(_)))));
    }

    #[test]
    fn both_parts_are_sent_in_order() {
        let Some(mut ring) = ring() else { return };
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut outgoing = Box::new(Outgoing::default());
        outgoing.begin(b"head ", false);
        let content = Representation::with_content(&Description::of(Status(200)), b"and content").unwrap();
        outgoing.add(Arc::new(content), 0..11);
        ring.send(far.as_fd(), outgoing, 1);
        let Event::Sent(outgoing, Ok(16)) = next(&mut ring).event else { panic!("a socket has room for 16 bytes") };
        assert_eq!(outgoing.length(), 16);
        let mut text = [0; 16];
        near.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"head and content");
    }

    #[test]
    fn files_are_opened_beneath_a_directory_and_read() {
        let Some(mut ring) = ring() else { return };
        let outer = tempfile::tempdir().unwrap();
        std::fs::write(outer.path().join("file"), b"0123456789").unwrap();
        let directory: Arc<OwnedFd> = Arc::new(std::fs::File::open(outer.path()).unwrap().into());
        let mut open = |name: &str| {
            let name = CString::new(name).unwrap();
            ring.open(directory.clone(), name, OFlags::RDONLY | OFlags::CLOEXEC, ResolveFlags::BENEATH, 0);
            next(&mut ring).event
        };
        assert!(matches!(open("../etc"), Event::Opened(Err(Errno::XDEV))));
        let Event::Opened(Ok(file)) = open("file") else { panic!("the file is there") };
        ring.read(Arc::new(file), Buffer { bytes: vec![0; 20], guard: () }, 4, 0);
        let Event::Read(room, Ok(6)) = next(&mut ring).event else { panic!("six bytes are left") };
        assert_eq!(&room.bytes[..6], b"456789");
    }

    #[test]
    fn what_is_cancelled_comes_back() {
        let Some(mut ring) = ring() else { return };
        let (_near, far) = UnixStream::pair().unwrap();
        let id = ring.receive(far.as_fd(), 0);
        ring.cancel(id);
        let Event::Received(Err(Errno::CANCELED)) = next(&mut ring).event else { panic!("it was cancelled") };
        // It is over: cancelling it again must not meet its successor.
        ring.receive(far.as_fd(), 0);
        ring.cancel(id);
        ring.submit_and_wait(Some(1)).unwrap();
        assert!(ring.next_completion().is_none());
    }

    #[test]
    fn more_operations_than_the_queue_has_room_for_are_all_carried_out() {
        let Some(mut ring) = ring() else { return };
        let pairs: Vec<_> = (0..1200).map(|_| UnixStream::pair().unwrap()).collect();
        for (_, far) in &pairs {
            ring.receive(far.as_fd(), 0);
        }
        pairs.iter().for_each(|(near, _)| near.shutdown(std::net::Shutdown::Write).unwrap());
        for _ in 0..pairs.len() {
            assert!(matches!(next(&mut ring).event, Event::Received(Ok(None))));
        }
        assert_eq!(ring.under_way(), 0);
    }

    #[test]
    fn a_ring_can_end_with_operations_under_way() {
        let Some(mut ring) = ring() else { return };
        let (_near, far) = UnixStream::pair().unwrap();
        ring.receive(far.as_fd(), 0);
        ring.poll_readable(far.as_fd(), 0);
        ring.submit_and_wait(Some(0)).unwrap();
        drop(ring);
    }
}
