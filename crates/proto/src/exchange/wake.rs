//! When the next step of a program is carried out.
//!
//! Owns: what the last step named, and what of it has come about. The same for all versions of HTTP: they say what has
//! arrived and what there is room for. Does not keep the program.

use std::os::fd::BorrowedFd;

use crate::exchange::program::{Next, Program, SocketWait};
use crate::time::Instant;

/// The events that a program waits for.
#[derive(Debug)]
pub(crate) struct Wake {
    next: Next,
    /// Its socket has been handed out for this wait.
    is_asked: bool,
    /// The awaited socket event has come.
    is_ready: bool,
    /// It is as late as it wanted to wait.
    is_late: bool,
    /// It knows that no content follows.
    knows_end: bool,
}

impl Wake {
    /// For the first step.
    pub(crate) fn new(next: Next) -> Wake {
        Wake { next, is_asked: false, is_ready: false, is_late: false, knows_end: false }
    }

    /// A step has been carried out, and named this.
    pub(crate) fn wait_for(&mut self, next: Next) {
        *self = Wake { knows_end: self.knows_end, ..Wake::new(next) };
    }

    /// A step has been carried out that wants to go on: with content, or without if there is none.
    pub(crate) fn go_on(&mut self) {
        *self = Wake::new(Next::CONTENT);
    }

    /// Whether a step may be given content.
    pub(crate) fn wants_content(&self) -> bool {
        self.next.content
    }

    /// Whether nothing but the peer can bring about what is waited for: content.
    pub(crate) fn wants_only_content(&self) -> bool {
        let Next { content, room, readable, writable, until } = self.next;
        content && !(room || readable || writable || until.is_some())
    }

    /// Whether something is waited for that is not the peer's.
    pub(crate) fn waits_elsewhere(&self) -> bool {
        let Next { content, room, readable, writable, until } = self.next;
        readable || writable || until.is_some() || !(content || room)
    }

    /// Until when it waits.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.next.until.filter(|_| !self.is_late)
    }

    /// Whether a step can be carried out. `has_content`: something has arrived, or `has_ended`: nothing more will;
    /// `has_room`: what was given has been sent.
    pub(crate) fn is_due(&self, has_content: bool, has_ended: bool, has_room: bool) -> bool {
        self.is_ready
            || self.is_late
            || self.next.room && has_room
            || self.next.content && (has_content || has_ended && !self.knows_end)
    }

    /// Whether nothing that it waits for can come about. `has_ended`: no more content will arrive.
    pub(crate) fn is_in_vain(&self, program: &dyn Program, has_ended: bool) -> bool {
        let Next { content, room, readable, writable, until } = self.next;
        let awaits_content = content && !(has_ended && self.knows_end);
        let awaits_socket = (readable || writable) && program.socket().is_some();
        !(self.is_ready || self.is_late || room || until.is_some() || awaits_content || awaits_socket)
    }

    /// Why nothing will bring about what it waits for, if its driver has looked for sockets to wait for.
    pub(crate) fn standstill(&self, program: &dyn Program, has_ended: bool) -> Option<&'static str> {
        let awaits_socket = self.next.readable || self.next.writable;
        match () {
            () if self.is_in_vain(program, has_ended) => Some("a program waits for nothing"),
            () if awaits_socket && program.socket().is_some() && !(self.is_asked || self.is_ready) => {
                Some("a program's socket is not waited for")
            }
            () => None,
        }
    }

    /// A step has been told that no content follows.
    pub(crate) fn told_end(&mut self) {
        self.knows_end = true;
    }

    /// Content follows after all, of another kind.
    pub(crate) fn forget_end(&mut self) {
        self.knows_end = false;
    }

    /// The socket to wait for, once for each wait.
    pub(crate) fn ask<'a>(&mut self, program: &'a dyn Program) -> Option<SocketWait<'a>> {
        if self.is_asked || self.is_ready {
            return None;
        }
        let Next { readable, writable, .. } = self.next;
        let socket: BorrowedFd<'a> = program.socket().filter(|_| readable || writable)?;
        self.is_asked = true;
        Some(SocketWait { socket, readable, writable })
    }

    /// The driver that waited for the socket does not any more.
    pub(crate) fn recall(&mut self) {
        self.is_asked = false;
    }

    /// The awaited socket event has come.
    pub(crate) fn handle_socket(&mut self) {
        self.is_ready |= self.next.readable || self.next.writable;
    }

    /// Whether the moment has come that it waits for.
    pub(crate) fn handle_time(&mut self, now: Instant) -> bool {
        let is_over = self.until().is_some_and(|until| until <= now);
        self.is_late |= is_over;
        is_over
    }
}
