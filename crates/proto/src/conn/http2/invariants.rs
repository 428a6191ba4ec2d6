//! Invariants of a connection of HTTP/2, between any two things that it is told and whatever its peer has sent.
//!
//! Owns: [`Connection::check_invariants`]. Guarantees: costs nothing in a build without assertions; changes nothing.
//! Where it fails we are wrong, and not the peer.

use super::receive::Reading;
use super::stream::{Receiving, Stream};
use super::{Connection, Ending};
use crate::limits::STREAMS_MAX;

/// So many streams are compared with each other each time.
const COMPARED_MAX: usize = 16;

impl Connection {
    /// Checks that its parts agree, in a build with assertions.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        if cfg!(debug_assertions) && !self.broken {
            self.check_streams();
            self.check_windows();
            self.streams.iter().for_each(|stream| stream.state.check_invariants());
            let (in_flight, output_bytes) = match &self.workspace {
                Some(workspace) => (&workspace.in_flight, workspace.output_buffer.bytes.len()),
                None => (&self.in_flight, self.unsent.len()),
            };
            in_flight.check_invariants(output_bytes);
        }
    }

    /// Flow control: of each window that we give, a byte may be sent, is held, or is owed to the peer; and what is held
    /// is what streams keep, and what is on its way.
    fn check_windows(&self) {
        if self.ending == Ending::Closing {
            return;
        }
        let arriving = |id: Option<u32>| match self.reading {
            Reading::Data { stream, content, .. } if id.is_none_or(|id| id == stream) => content,
            _ => 0,
        };
        let kept: usize = self.streams.iter().map(Stream::kept_bytes).sum();
        assert!(self.receive_window.is_balanced(), "the window of the connection: {:?}", self.receive_window);
        assert_eq!(self.receive_window.held(), kept + arriving(None), "the window of the connection");
        for stream in self.streams.iter().filter(|one| !one.is_reset) {
            if let Receiving::Open(incoming) = &stream.receiving {
                let held = stream.kept_bytes() + arriving(Some(stream.id));
                assert!(incoming.window.is_balanced(), "the window of stream {}: {:?}", stream.id, incoming.window);
                assert_eq!(incoming.window.held(), held, "the window of stream {}", stream.id);
            }
        }
    }

    /// The table of streams: each is there once, was begun by the peer, and stays only for what is still to be done for
    /// it.
    fn check_streams(&self) {
        assert!(self.streams.len() <= STREAMS_MAX, "{} streams", self.streams.len());
        for (at, stream) in self.streams.iter().enumerate() {
            let id = stream.id;
            assert!(!id.is_multiple_of(2) && id <= self.last_id, "stream {id} was not begun, behind {}", self.last_id);
            // Of many, the newest: it is last in the table, and the others were the newest once.
            let is_compared = at <= COMPARED_MAX || at + 1 == self.streams.len();
            let is_there_once = !is_compared || self.streams[..at].iter().all(|one| one.id != id);
            assert!(is_there_once, "stream {id} is there twice");
            assert!(!stream.is_reset || self.sends_file_of(id), "stream {id} was reset, and stays");
            let is_open = matches!(stream.receiving, Receiving::Open(_));
            let awaits_nothing = stream.is_answered() && !is_open;
            assert!(!awaits_nothing, "stream {id} has been answered and received, and stays");
        }
        if let Some((id, left)) = self.file_frame {
            let stream = self.streams.iter().find(|one| one.id == id);
            assert!(left > 0 && stream.is_some(), "a frame of stream {id} is sent, and nothing is left of it");
        } else {
            assert!(self.behind.is_empty(), "something waits behind a frame that is not there");
        }
    }

    fn sends_file_of(&self, id: u32) -> bool {
        self.file_frame.is_some_and(|(of, _)| of == id)
    }
}
