//! Stalls of a peer that does not take data, and their end.
//!
//! Owns: for whom it is waited, at the three places where what is sent may have to wait for the peer: the socket, the
//! window of the connection, the window of a stream. Guarantees: each has a
//! [`SendDeadline`](crate::conn::SendDeadline), which no frame that arrives and no step of ours moves; a stream that is
//! as late as that is ended, whatever else goes on. Who waits for an application, for a disk or for its turn among
//! streams is not late.

use super::frame::ErrorCode;
use super::stream::Stream;
use super::{Connection, DRIVEN};
use crate::limits::{Limits, STALLS_MAX, STREAMS_PER_SEND_BYTES_MIN};
use crate::tally::Abuse;
use crate::time::Instant;

impl Connection {
    /// Notes for whom it is waited. Called whenever something may have changed.
    pub(super) fn note_stalls(&mut self) {
        let (now, room) = (self.now, self.window.room());
        let mut waits_for_window = false;
        for stream in &mut self.streams {
            let has_left = stream.has_content_left();
            match (has_left, stream.window.room()) {
                (true, 0) => stream.taking.run(now),
                (true, _) => {
                    stream.taking.pause(now);
                    waits_for_window |= room == 0;
                }
                // What its program has given has been taken, or its answer has not begun.
                (false, _) => stream.taking.clear(),
            }
        }
        let is_amid = self.streams.iter().any(Stream::has_content_left);
        match (waits_for_window, is_amid) {
            (true, _) => self.window_taking.run(now),
            (false, true) => self.window_taking.pause(now),
            (false, false) => self.window_taking.clear(),
        }
        match self.has_output() {
            true => self.output_taking.run(now),
            false => self.output_taking.clear(),
        }
    }

    /// The bytes that the peer has to take of all streams together in each `send_timeout_ms`.
    pub(super) fn least_taken(&self) -> u64 {
        let least = self.workspace.as_ref().expect(DRIVEN).output_buffer.limits.send_bytes_min;
        let count = self.streams.len() as u64;
        match count <= STREAMS_PER_SEND_BYTES_MIN {
            true => u64::from(least),
            false => {
                let waiting = self.streams.iter().filter(|one| one.has_content_left()).count() as u64;
                u64::from(least) * waiting.div_ceil(STREAMS_PER_SEND_BYTES_MIN).max(1)
            }
        }
    }

    /// Until when the peer has to take more of what has been written.
    pub(super) fn output_patience(&self, limits: &Limits) -> Option<Instant> {
        let from_now = || self.now.after_ms(limits.send_timeout_ms);
        self.has_output().then(|| self.output_taking.until(limits.send_timeout_ms).unwrap_or_else(from_now))
    }

    /// Until when the peer has to open the window of a stream, that which is due first.
    pub(super) fn stream_patience(&self, limits: &Limits) -> Option<Instant> {
        self.streams.iter().filter_map(|one| one.taking.until(limits.send_timeout_ms)).min()
    }

    /// The peer does not open the window of the connection: nothing can be sent on any stream.
    pub(super) fn end_stalled_connection(&mut self) {
        self.count(Abuse::Stalled);
        self.close(ErrorCode::FlowControl, "nothing was allowed to be sent for too long");
    }

    /// The peer does not open the windows of streams. Where there are no others, but for those that wait for the memory
    /// of these, it does not go on at all.
    pub(super) fn end_stalled_streams(&mut self, limits: &Limits, now: Instant) {
        let is_late = |one: &Stream| one.taking.until(limits.send_timeout_ms).is_some_and(|until| until <= now);
        if self.streams.iter().all(|one| is_late(one) || one.waits_behind_others()) {
            return self.end_stalled_connection();
        }
        while let Some(at) = self.streams.iter().position(|one| is_late(one) && !one.is_reset) {
            self.stalls += 1;
            if self.stalls > STALLS_MAX {
                return self.end_stalled_connection();
            }
            self.count(Abuse::Stalled);
            let cost = self.streams[at].cost();
            self.reset_stream(at, ErrorCode::Cancel);
            self.count_reset(cost);
        }
    }
}
