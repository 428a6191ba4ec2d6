//! How the proactor moves the bytes of a connection, and has done what it needs.
//!
//! Owns: the choice between what is in memory, which is done at once, and the ring. Guarantees: what the ring has taken
//! counts as sent, and one connection has one operation under way to its peer. Does not translate: [`super::disk`] has
//! that done.

use std::os::fd::AsFd;
use std::sync::Arc;

use lamna_io::send::Sent;
use lamna_io::wait::Token;
use lamna_proto::exchange::program::{Input, Program, StepResult};
use lamna_proto::time::Instant;
use lamna_proto::transmit::{Segment, Transmit};
use lamna_site::cache::Entry;
use lamna_site::cache::leased_buffer;
use lamna_sys::metrics::memory_accounting::Reservation;
use lamna_sys::ring::{Outgoing, Ring};

use super::Tag;
use super::disk::Disk;
use super::ring_connection::{End, Out, RingConnection};
use crate::worker::connection_state::ConnectionState;
use crate::worker::context::{FileRange, TranslationTarget, WorkerContext};
use crate::worker::drive::{Io, Moved};
use crate::worker::executor::{Completed, Executor, PendingId, make_ready_now, run_elsewhere};
use crate::worker::shared::Shared;
use crate::worker::transport::{Encrypted, Received};
use crate::worker::turn_budget::within_turn;

/// The ring, the disk and the connection's own operations, borrowed for one turn of one connection.
pub(super) struct RingHands<'h> {
    pub(super) ring: &'h mut Ring<Tag, Option<Reservation>>,
    pub(super) disk: &'h mut Disk,
    pub(super) ring_connection: &'h mut RingConnection,
    pub(super) token: Token,
    #[expect(clippy::vec_box, reason = "moved to the ring and back as they are, without copying or allocating")]
    pub(super) spare_outgoing: &'h mut Vec<Box<Outgoing>>,
}

impl Io for RingHands<'_> {
    /// Hands the connection what has arrived.
    fn receive(&mut self, connection: &mut ConnectionState, now: Instant) {
        connection.begin_receiving();
        let ConnectionState { transport, http, .. } = connection;
        let ring_connection = &mut *self.ring_connection;
        let received = transport.receive_from(http, now, |space| match ring_connection.take(space) {
            0 => match ring_connection.end {
                Some(End::Closed) => Received::End,
                Some(End::Failed) => Received::Broken,
                None => Received::Nothing,
            },
            bytes => {
                ring_connection.leaving = false;
                Received::Bytes(bytes)
            }
        });
        let has_more = matches!(received, Received::Bytes(_)) && ring_connection.is_readable();
        connection.take_client();
        connection.readable = has_more || connection.transport.has_buffered_input();
    }

    /// Bytes that the ring has taken count as sent: they will be, or the connection ends.
    fn send(&mut self, connection: &mut ConnectionState, context: &mut WorkerContext<'_>, used: u64) -> Option<Moved> {
        if connection.transport.is_secured() {
            return self.send_secured(connection, context, used);
        }
        let content = connection.http.segment_buffer();
        let mut transmit = connection.http.poll_transmit()?;
        let socket = connection.transport.as_fd();
        let weight = within_turn(&mut transmit, used);
        if matches!(transmit.segment, Some(Segment::File { .. })) {
            let sent = context.sender.send(socket, &transmit);
            if sent == Sent::Part(0) {
                self.ring_connection.out = Some(Out::Poll(self.ring.poll_writable(socket, Tag::Out(self.token))));
            }
            return Some(Moved { sent, weight });
        }
        let mut outgoing = self.spare_outgoing.pop().unwrap_or_default();
        outgoing.begin(transmit.bytes, transmit.more);
        if let Some((buffer, offset)) = content {
            let offset = offset as usize;
            outgoing.add(buffer, offset..offset + length_of(&transmit));
        }
        let bytes = outgoing.length() as u64;
        let id = self.ring.send(socket, outgoing, Tag::Out(self.token));
        self.ring_connection.begin_sending(id, context.now);
        connection.writable = false;
        Some(Moved { sent: Sent::All(bytes), weight: 1 })
    }
}

impl RingHands<'_> {
    /// Bytes that a session has encrypted are handed to the ring when its buffer is full or nothing follows.
    fn send_secured(
        &mut self,
        connection: &mut ConnectionState,
        context: &mut WorkerContext<'_>,
        used: u64,
    ) -> Option<Moved> {
        let ConnectionState { transport, http, writable, .. } = connection;
        let output = match transport.encrypted(http, &mut context.sender, used, context.now) {
            Encrypted::Plain => return None,
            Encrypted::Taken(sent, weight) => return Some(Moved { sent, weight }),
            Encrypted::Output(output) => output,
        };
        if output.is_empty() {
            return None;
        }
        let mut outgoing = self.spare_outgoing.pop().unwrap_or_default();
        outgoing.begin(output, false);
        transport.handle_sent(outgoing.length());
        let id = self.ring.send(transport.as_fd(), outgoing, Tag::Out(self.token));
        self.ring_connection.begin_sending(id, context.now);
        *writable = false;
        Some(Moved { sent: Sent::All(0), weight: 1 })
    }
}

fn length_of(transmit: &Transmit<'_>) -> usize {
    transmit.segment.map_or(0, |segment| segment.length()) as usize
}

impl Executor for RingHands<'_> {
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        pending: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        self.disk.translate(self.ring, context, Some(pending), target)
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget) {
        self.disk.translate(self.ring, context, None, target);
    }

    /// At once if it is in memory. A range that is not is read by the ring.
    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        if let Some(completed) = make_ready_now(shared, pending, &range) {
            return Some(completed);
        }
        let Some(file) = range.representation.file.clone() else { return Some(Completed::Failed(pending)) };
        let buffer = leased_buffer::lend_or_small(range.length, &shared.store);
        self.ring.read(file, buffer, range.offset, Tag::FileRange(pending));
        self.ring_connection.reading.push((pending.exchange, range));
        None
    }

    fn run(
        &mut self,
        pending: PendingId,
        program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, StepResult)> {
        run_elsewhere(program, input, |program, input| self.disk.runners.submit(pending, program, input))
    }
}
