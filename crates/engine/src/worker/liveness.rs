//! The invariant that whatever can go on has something that wakes it: asked, in builds with debug assertions, of every
//! connection that a driver leaves.
//!
//! ```text
//!  decrypted and unread ─── the next turn receives: `readable`, and a turn to come
//!  received and unread, made and unsent, ahead with room, ended and untold ─── the core could go on: `Connection::standstill`
//!  waits for the peer ───── the driver is told of input, or of room; and a deadline
//!  waits for a program's socket ─── that is waited for
//!  could go on without all that ─── a queue
//! ```
//!
//! Owns: [`assert_woken`], which every driver calls when it leaves a connection, and [`Arranged`], by which the driver
//! says how it will be woken. Does not wake anybody.

use lamna_proto::conn::{Fate, Interest};
use lamna_proto::time::Instant;

use crate::worker::connection_state::ConnectionState;

#[cfg(test)]
mod tests;

/// Arrangements of a driver for a connection that it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Arranged {
    /// It goes on without an event: after others, or with another stage.
    pub is_queued: bool,
    /// The driver is told when something can be received.
    pub tells_input: bool,
    /// The driver is told when the peer takes more.
    pub tells_room: bool,
    /// Whatever else it waits for is looked at when what it has to send has left.
    pub is_room_first: bool,
    /// When it is looked at in any case.
    pub deadline: Option<Instant>,
}

/// Asserts that `connection`, which is parked and waits for `interest`, is woken by what is arranged.
#[track_caller]
pub fn assert_woken(connection: &mut ConnectionState, interest: Interest, arranged: Arranged) {
    if cfg!(debug_assertions)
        && let Some(why) = standstill(connection, interest, arranged)
    {
        panic!("a connection is left that nothing wakes: {why}: {interest:?} {arranged:?} {connection:?}");
    }
}

/// Why nothing would wake it.
fn standstill(connection: &mut ConnectionState, interest: Interest, arranged: Arranged) -> Option<&'static str> {
    if arranged.is_queued || interest.is_over() {
        return None;
    }
    if connection.transport.has_buffered_input() && !connection.readable {
        return Some("what has been decrypted is not looked at");
    }
    if interest.send && connection.writable {
        return Some("there is room for what is to be sent");
    }
    if interest.send && !arranged.tells_room {
        return Some("nobody tells when there is room");
    }
    let waits_for_peer = interest.send || interest == Interest::RECEIVE || interest.fate == Fate::Linger;
    if waits_for_peer && arranged.deadline.is_none() {
        return Some("the peer is waited for without a bound");
    }
    if interest.send && arranged.is_room_first || connection.transport.is_handshaking() {
        return None;
    }
    let may_receive = interest.receive && (connection.writable || interest.send);
    if may_receive && connection.readable {
        return Some("something can be received");
    }
    if may_receive && !arranged.tells_input {
        return Some("nobody tells when something can be received");
    }
    if !connection.writable && arranged.tells_room {
        // What has been handed to the kernel has to leave before it goes on.
        return None;
    }
    connection.http.standstill()
}
