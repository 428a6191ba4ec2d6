//! How long the peer may take for what.
//!
//! Owns: the waits of a connection, several of which may be under way at once, and what follows when one is over.

use super::frame::ErrorCode;
use super::{Connection, Ending, driven};
use crate::conn::{Fate, Interest};
use crate::limits::{Limits, READ_CONTENT_TIMEOUT_MS};
use crate::time::Instant;

/// The subject of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The peer does not take what has been written.
    Send,
    /// The peer does not open the window of the connection.
    Window,
    /// The peer does not open the window of a stream.
    Stream,
    /// The peer asks for nothing.
    Idle,
    /// The peer does not close.
    Linger,
    /// The PING after the first GOAWAY does not come back.
    Drain,
    /// A frame or a header block does not go on.
    Frame,
    /// The peer does not say that our settings hold.
    Settings,
    /// The content of a request does not go on.
    Content,
    /// The content read for a stream is not taken.
    Read,
    /// A program waits for a moment.
    Program,
    /// Content that comes behind its answer does not end.
    Discard,
}

impl Connection {
    /// Until when the current wait may last; none if it depends on us alone. Changes with every `handle_*`.
    pub fn poll_timeout(&self, limits: &Limits) -> Option<Instant> {
        self.waits(limits).map(|(until, _)| until).min()
    }

    /// The awaited events, and until when each is awaited.
    fn waits(&self, limits: &Limits) -> impl Iterator<Item = (Instant, Wait)> {
        let since = |wait_ms| self.since.after_ms(wait_ms);
        let interest = self.interest();
        let is_open = interest.fate == Fate::Open && !self.broken;
        let is_idle = is_open && interest == Interest::RECEIVE && self.is_idle();
        let announced = match self.ending {
            Ending::Announced(None) => Some(self.since),
            Ending::Announced(Some(at)) => Some(at.after_ms(limits.linger_timeout_ms)),
            _ => None,
        };
        let partial = self.partial_since.filter(|_| interest.receive && is_open);
        let settings = self.settings_sent.filter(|_| is_open && self.is_greeted);
        let content = self.content_patience(limits).filter(|_| interest.receive && is_open);
        let reads = self.streams.iter().filter_map(|one| Some(one.state.answer()?.read.as_ref()?.since)).min();
        let programs = self.streams.iter().filter_map(|one| one.state.running()?.until()).min();
        let discards = self.streams.iter().filter_map(|one| one.discards_until(limits)).min();
        [
            self.output_patience(limits).filter(|_| is_open).map(|at| (at, Wait::Send)),
            self.window_taking.until(limits.send_timeout_ms).filter(|_| is_open).map(|at| (at, Wait::Window)),
            self.stream_patience(limits).filter(|_| is_open).map(|at| (at, Wait::Stream)),
            is_idle.then(|| (since(limits.idle_timeout_ms), Wait::Idle)),
            (interest.fate == Fate::Linger).then(|| (since(limits.linger_timeout_ms), Wait::Linger)),
            announced.filter(|_| is_open).map(|at| (at, Wait::Drain)),
            partial.map(|at| (at.after_ms(limits.head_timeout_ms), Wait::Frame)),
            settings.map(|at| (at.after_ms(limits.head_timeout_ms), Wait::Settings)),
            content.map(|at| (at, Wait::Content)),
            reads.filter(|_| is_open).map(|at| (at.after_ms(READ_CONTENT_TIMEOUT_MS), Wait::Read)),
            programs.filter(|_| is_open).map(|at| (at, Wait::Program)),
            discards.filter(|_| is_open).map(|at| (at, Wait::Discard)),
        ]
        .into_iter()
        .flatten()
    }

    /// A wait that `poll_timeout` named is over. Ignored if none was named: a timer may have been overtaken.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let limits = driven(&mut self.workspace).output_buffer.limits.clone();
        let due: Vec<Wait> = self.waits(&limits).filter(|(until, _)| *until <= now).map(|(_, wait)| wait).collect();
        for wait in due {
            match wait {
                Wait::Linger => self.handle_broken(),
                Wait::Send => self.handle_broken(),
                Wait::Window => self.end_stalled_connection(),
                Wait::Stream => self.end_stalled_streams(&limits, now),
                Wait::Idle => self.close(ErrorCode::NoError, ""),
                Wait::Drain if self.ending == Ending::Announced(None) => self.ending = Ending::Announced(Some(now)),
                Wait::Drain => self.end_draining(),
                Wait::Frame => self.close(ErrorCode::NoError, "a frame did not arrive in time"),
                Wait::Settings => self.close(ErrorCode::SettingsTimeout, "the settings were not acknowledged in time"),
                Wait::Content => self.time_out_content(&limits, now),
                Wait::Program => {
                    for running in self.streams.iter_mut().filter_map(|one| one.state.running_mut()) {
                        running.handle_time(now);
                    }
                }
                Wait::Discard => self.end_discarding(&limits, now),
                Wait::Read => {
                    let is_late = |since: Instant| since.after_ms(READ_CONTENT_TIMEOUT_MS) <= now;
                    for answer in self.streams.iter_mut().filter_map(|one| one.state.answer_mut()) {
                        if answer.read.as_ref().is_some_and(|read| is_late(read.since)) {
                            answer.let_go();
                        }
                    }
                }
            }
        }
        if !self.broken {
            self.pump();
        }
    }
}
