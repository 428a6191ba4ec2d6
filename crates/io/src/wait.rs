//! Waiting for readiness with `epoll(7)`, edge-triggered: each descriptor is registered once and never modified.
//!
//! Owns: the epoll instance and the meaning of its tokens. Does not own the descriptors.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Names a registered descriptor. `index` is what the owner looks it up by; `generation` tells apart descriptors that
/// had the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Where the owner keeps it.
    pub index: u32,
    /// Which of its successive owners.
    pub generation: u32,
}

/// The events of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Which descriptor.
    pub token: Token,
    /// Receiving will not wait: bytes, an end or an error are there.
    pub readable: bool,
    /// Sending will not wait.
    pub writable: bool,
    /// The peer has closed its side or the connection failed: after the bytes that are there comes the end.
    pub ending: bool,
    /// The connection has failed, or both sides are closed: nothing can be sent any more.
    pub failed: bool,
}

/// A set of descriptors that are waited for together.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// Events taken at once. Enough to amortise the call, few enough that the first does not wait long for its turn.
const EVENTS_MAX: usize = 256;

impl Poll {
    /// An empty set.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn new() -> Result<Poll, Errno> {
        Ok(Poll { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// For threads that do not wait themselves to register connections with.
    ///
    /// # Errors
    /// No descriptors.
    pub fn registrar(&self) -> Result<Registrar, Errno> {
        Ok(Registrar { epoll: rustix::io::fcntl_dupfd_cloexec(&self.epoll, 0)? })
    }

    /// Registers a connection for both directions. What is possible already is reported as well.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn add_connection(&self, connection: BorrowedFd<'_>, token: Token) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let _step = step_timer::step(Step::Wait);
        epoll::add(&self.epoll, connection, data(token), flags)
    }

    /// Registers a connection for receiving only, for the thread that receives where another sends.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn add_receiver(&self, connection: BorrowedFd<'_>, token: Token) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, connection, data(token), flags)
    }

    /// Registers a connection for sending only, for the thread that sends where another receives.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn add_sender(&self, connection: BorrowedFd<'_>, token: Token) -> Result<(), Errno> {
        let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
        match epoll::add(&self.epoll, connection, data(token), flags) {
            // It was here before, under another token.
            Err(Errno::EXIST) => epoll::modify(&self.epoll, connection, data(token), flags),
            added => added,
        }
    }

    /// Registers an eventfd that interrupts a wait once for each write and need not be read.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn add_notifier(&self, notifier: BorrowedFd<'_>, token: Token) -> Result<(), Errno> {
        epoll::add(&self.epoll, notifier, data(token), epoll::EventFlags::IN | epoll::EventFlags::ET)
    }

    /// Registers a listening socket; of several workers that wait for it, one is woken.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn add_listener(&self, listener: BorrowedFd<'_>, token: Token) -> Result<(), Errno> {
        epoll::add(&self.epoll, listener, data(token), epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE)
    }

    /// Registers an eventfd or pipe that wakes this worker.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn add_waker(&self, waker: BorrowedFd<'_>, token: Token) -> Result<(), Errno> {
        epoll::add(&self.epoll, waker, data(token), epoll::EventFlags::IN)
    }

    /// No longer waits for `descriptor`.
    pub fn remove(&self, descriptor: impl AsFd) {
        // It fails only for what is not registered, which is what was wanted.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Waits for events at most `timeout_ms`, or as long as it takes.
    ///
    /// # Errors
    /// Never for an interrupted call, which returns no events.
    pub fn wait(&mut self, timeout_ms: Option<u64>) -> Result<(), Errno> {
        let _step = step_timer::step(Step::Wait);
        let timeout = timeout_ms.map(timespec);
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// How many events the last wait returned.
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// One of them.
    pub fn event(&self, index: usize) -> Event {
        let event = &self.events[index];
        let flags = event.flags;
        let failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        let ending = failed || flags.contains(epoll::EventFlags::RDHUP);
        Event {
            token: token_of(event.data),
            readable: ending || flags.contains(epoll::EventFlags::IN),
            writable: failed || flags.contains(epoll::EventFlags::OUT),
            ending,
            failed,
        }
    }
}

/// The events that a connection waits for while no thread drives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Something to receive, or an end.
    pub readable: bool,
    /// Its peer to take what is sent.
    pub writable: bool,
}

impl Awaited {
    fn once(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::ONESHOT;
        flags.set(epoll::EventFlags::IN | epoll::EventFlags::RDHUP, self.readable);
        flags.set(epoll::EventFlags::OUT, self.writable);
        flags
    }
}

/// Has one event reported by the set `epoll` when what `socket` waits for is there, or an error; at once if it is
/// already. `was_registered` is whether one of its number probably has been: a wrong guess costs a system call.
///
/// # Errors
/// No memory, or the limit on watches.
pub fn await_once(
    epoll: BorrowedFd<'_>,
    socket: BorrowedFd<'_>,
    token: Token,
    was_registered: bool,
    awaited: Awaited,
) -> Result<(), Errno> {
    let flags = awaited.once();
    let _step = step_timer::step(Step::Wait);
    if was_registered {
        match epoll::modify(epoll, socket, data(token), flags) {
            Err(Errno::NOENT) => epoll::add(epoll, socket, data(token), flags),
            modified => modified,
        }
    } else {
        match epoll::add(epoll, socket, data(token), flags) {
            Err(Errno::EXIST) => epoll::modify(epoll, socket, data(token), flags),
            added => added,
        }
    }
}

/// Sockets of programs that a thread waits for beside one connection, with `poll(2)`: it is readable while one of them
/// is ready.
#[derive(Debug)]
pub struct SocketSet {
    epoll: OwnedFd,
}

/// Sockets that are looked at together. More are reported the next time.
const SOCKETS_MAX: usize = 16;

impl SocketSet {
    /// An empty set.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn new() -> Result<SocketSet, Errno> {
        Ok(SocketSet { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Tells `report` of those that are ready, by token, without waiting.
    pub fn take(&self, mut report: impl FnMut(Token)) {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); SOCKETS_MAX];
        // An interrupted call is like one that found nothing: the set stays readable.
        let Ok((ready, _)) = epoll::wait(&self.epoll, &mut events, Some(&timespec(0))) else { return };
        ready.iter().for_each(|event| report(token_of(event.data)));
    }
}

impl AsFd for SocketSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Registers connections with a [`Poll`] from any thread.
#[derive(Debug)]
pub struct Registrar {
    epoll: OwnedFd,
}

impl Registrar {
    /// Has one event reported when what `connection` waits for is there, or an error; at once if it is already.
    /// `registered` is whether it has been registered before.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn await_once(
        &self,
        connection: BorrowedFd<'_>,
        token: Token,
        registered: bool,
        awaited: Awaited,
    ) -> Result<(), Errno> {
        let flags = awaited.once();
        let _step = step_timer::step(Step::Wait);
        match registered {
            true => epoll::modify(&self.epoll, connection, data(token), flags),
            false => epoll::add(&self.epoll, connection, data(token), flags),
        }
    }
}

/// Listening sockets that are waited for together, by who then tries them all.
#[derive(Debug)]
pub struct ListenerPoll {
    epoll: OwnedFd,
}

impl ListenerPoll {
    /// An empty set.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn new() -> Result<ListenerPoll, Errno> {
        Ok(ListenerPoll { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Registers a listening socket; of several workers that wait for it, one is woken.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn add_listener(&self, listener: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&self.epoll, listener, epoll::EventData::new_u64(0), flags)
    }

    /// Registers an eventfd or pipe that ends the wait.
    ///
    /// # Errors
    /// No memory, or the limit on watches.
    pub fn add_waker(&self, waker: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, waker, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }

    /// Waits until one of them is readable, at most `timeout_ms`, or as long as it takes.
    ///
    /// # Errors
    /// `EINTR`, and what cannot happen to a set of its own.
    pub fn wait(&self, timeout_ms: Option<u64>) -> Result<(), Errno> {
        let _step = step_timer::step(Step::Wait);
        let mut event = [MaybeUninit::uninit()];
        epoll::wait(&self.epoll, &mut event, timeout_ms.map(timespec).as_ref()).map(drop)
    }
}

fn timespec(ms: u64) -> Timespec {
    Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 }
}

/// A set can itself be waited for: it is readable while it has events.
impl AsFd for Poll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

pub(super) fn data(token: Token) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(token.generation) << 32 | u64::from(token.index))
}

fn token_of(data: epoll::EventData) -> Token {
    let bits = data.u64();
    Token { index: bits as u32, generation: (bits >> 32) as u32 }
}
