//! Sockets of programs, waited for in the same epoll set as the connections that the programs answer.
//!
//! Owns: which exchange waits for which socket. Guarantees: each wait is reported at most once; a socket that no
//! exchange waits for, or that has gone to another worker, wakes no connection. Does not own the sockets: a program
//! does, and closes one as it likes.

use std::os::fd::{AsRawFd, BorrowedFd};

use lamna_io::wait::{Awaited, Event, Token, await_once};
use lamna_io::watch::{self, Watching};
use lamna_proto::exchange::program::SocketWait;
use rustix::io::Errno;

use crate::worker::connection_state::ConnectionState;
use crate::worker::executor::PendingId;

/// The waits of one epoll set.
#[derive(Debug, Default)]
pub struct SocketWaits {
    /// By descriptor number.
    waits: Vec<Wait>,
    /// How many of them are waited for.
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    pending: Option<PendingId>,
    /// A socket with this number has been registered. It may have been closed since, and the number be another's.
    was_registered: bool,
}

/// The token of events of the socket with this number.
fn name(number: u32) -> Token {
    Token { index: SOCKET | number, generation: 0 }
}

/// Among tokens of the generation that is the driver's own: the rest of the index is the number of a program's socket.
const SOCKET: u32 = 1 << 31;

impl SocketWaits {
    /// Has those sockets of this thread that are waited for again and again registered with the set `epoll` as long as
    /// this is kept.
    ///
    /// # Errors
    /// No descriptors.
    pub fn watch(epoll: BorrowedFd<'_>) -> Result<Watching, Errno> {
        watch::begin(epoll, name)
    }

    /// An event of a socket has come, whether an exchange waits for it or not.
    pub fn note(event: &Event) {
        watch::handle_event(event.token.index & !SOCKET, event);
    }

    /// Waits for what the programs of `connection`, which is that of `token`, wait for, with the set `epoll`.
    ///
    /// # Errors
    /// No memory, or the limit on watches: a program would wait for ever.
    pub fn begin(
        &mut self,
        connection: &mut ConnectionState,
        token: Token,
        epoll: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        while let Some((exchange, wait)) = connection.http.poll_socket() {
            self.add(PendingId { token, exchange }, wait, epoll)?;
        }
        Ok(())
    }

    /// Waits for one of them, which is `pending`'s.
    ///
    /// # Errors
    /// As `begin`.
    pub fn add(&mut self, pending: PendingId, wait: SocketWait<'_>, epoll: BorrowedFd<'_>) -> Result<(), Errno> {
        let number = wait.socket.as_raw_fd();
        let index = number as usize;
        if index >= self.waits.len() {
            self.waits.resize(index + 1, Wait::default());
        }
        let awaited = Awaited { readable: wait.readable, writable: wait.writable };
        if !watch::await_again(wait.socket, awaited)? {
            await_once(epoll, wait.socket, name(number as u32), self.waits[index].was_registered, awaited)?;
            self.waits[index].was_registered = true;
        }
        let before = self.waits[index].pending.replace(pending);
        self.count += usize::from(before.is_none());
        Ok(())
    }

    /// Whether an event of the driver's own generation, with this index, is that of a program's socket. The index of no
    /// waker may be taken for one.
    pub fn is_socket(index: u32) -> bool {
        index & SOCKET != 0 && index != u32::MAX
    }

    /// Ends the wait for the socket of an event with this index. Returns the exchange that waited, if one still did.
    pub fn end(&mut self, index: u32) -> Option<PendingId> {
        let pending = self.waits.get_mut((index & !SOCKET) as usize)?.pending.take();
        self.count -= usize::from(pending.is_some());
        pending
    }

    /// Whether anybody waits.
    pub fn is_waiting(&self) -> bool {
        self.count > 0
    }

    /// No exchange waits any more. Registered sockets may still be reported, and are ignored.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.count) > 0 {
            self.waits.iter_mut().for_each(|wait| wait.pending = None);
        }
    }
}
