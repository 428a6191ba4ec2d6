//! How far a [`Gateway`](super::Gateway) is, as states: of its connection, of the content of the request, and of what
//! the client has been told.
//!
//! Owns: [`UpstreamConnection`], [`Phase`], [`Upload`], [`Told`] and what else a gateway decides by. Guarantees: what
//! belongs to a connection ends with it, so the next one begins anew.

use crate::upstream::link::Link;

/// The connection that carries the request and its answer.
#[derive(Debug)]
pub(super) struct UpstreamConnection {
    pub(super) link: Link,
    pub(super) source: Source,
    pub(super) phase: Phase,
}

impl UpstreamConnection {
    /// Over a connection on which nothing has been said.
    pub(super) fn new(mut link: Link, source: Source) -> UpstreamConnection {
        link.watch();
        UpstreamConnection { link, source, phase: Phase::Unsent }
    }
}

/// Where a connection has come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It has carried requests before: the application may just have closed it.
    Reused,
    /// It was opened for this request.
    Dialled,
}

/// The use of a connection at the moment.
///
/// ```text
/// Unsent --bytes leave--> Sent --it takes no more--> Deaf
///    |                      |                          |
///    +----------------------+--- 101, or 2xx to a ---->+--> Tunnel --the client's last word,--> TunnelHalfClosed
///                                stream for a tunnel                 or it takes no more
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing of the request has left.
    Unsent,
    /// Something has left, or may have: the request may have an effect.
    Sent,
    /// The application takes no more of the request. It may have answered.
    Deaf,
    /// The bytes exchanged are not HTTP any more.
    Tunnel,
    /// The same, and nothing more is sent to the application.
    TunnelHalfClosed,
}

impl Phase {
    pub(super) fn is_tunnel(self) -> bool {
        matches!(self, Phase::Tunnel | Phase::TunnelHalfClosed)
    }

    /// Something has left.
    pub(super) fn handle_sent(&mut self) {
        if *self == Phase::Unsent {
            *self = Phase::Sent;
        }
    }

    /// Nothing more is sent.
    pub(super) fn end_sending(&mut self) {
        *self = if self.is_tunnel() { Phase::TunnelHalfClosed } else { Phase::Deaf };
    }
}

/// How much of the content the client has sent, and whether it can be sent to another place.
///
/// ```text
/// Awaited --a piece goes on--> Passing --the end--> Passed
///    |
///    +--all is buffered, or there is none--> Whole
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upload {
    /// Nothing has gone on to an application.
    Awaited,
    /// Something has, and is not here any more.
    Passing,
    /// All has.
    Passed,
    /// All of it is here, to be sent as often as necessary.
    Whole,
}

impl Upload {
    /// Whether the client may send more of it.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Upload::Awaited | Upload::Passing)
    }

    /// Whether nothing of it is lost if the connection is.
    pub(super) fn is_at_hand(self) -> bool {
        matches!(self, Upload::Awaited | Upload::Whole)
    }

    /// A piece goes on as it has come; `is_last` if nothing follows.
    pub(super) fn pass(&mut self, content: &[u8], is_last: bool) {
        *self = match (*self, content.is_empty(), is_last) {
            (Upload::Awaited, true, true) => Upload::Whole,
            (Upload::Awaited | Upload::Passing, _, true) => Upload::Passed,
            (Upload::Awaited, false, false) => Upload::Passing,
            (upload, ..) => upload,
        };
    }
}

/// The part of the answer that the client has been given. It only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    /// Nothing: the request may be tried again.
    Nothing,
    /// An interim answer.
    Interim,
    /// The head of the answer: no other can be given any more.
    Head,
}

/// Whom a gateway waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The application, which has to make progress.
    Application,
    /// The client alone, whose time is not the application's.
    Client,
}

/// The use of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The client gets it, under the rules of the route.
    Answer,
    /// It says whether a request is let in, and is not passed on as it is.
    AuthRequest,
}

/// Which connections are good for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// One that was kept, if there is one.
    Allowed,
    /// A new one: one that was kept had been closed.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pieces: &[(&[u8], bool)]) -> Upload {
        let mut upload = Upload::Awaited;
        pieces.iter().for_each(|(content, is_last)| upload.pass(content, *is_last));
        upload
    }

    #[test]
    fn content_that_has_gone_on_cannot_be_sent_again() {
        assert_eq!(after(&[(b"", false)]), Upload::Awaited);
        assert_eq!(after(&[(b"", true)]), Upload::Whole);
        assert_eq!(after(&[(b"a", false), (b"", false)]), Upload::Passing);
        assert_eq!(after(&[(b"a", false), (b"", true)]), Upload::Passed);
        assert_eq!(after(&[(b"a", true), (b"", true)]), Upload::Passed);
        let at_hand = [Upload::Awaited, Upload::Passing, Upload::Passed, Upload::Whole].map(Upload::is_at_hand);
        assert_eq!(at_hand, [true, false, false, true]);
    }

    #[test]
    fn a_connection_that_takes_no_more_is_still_what_it_was() {
        let ended =
            [Phase::Unsent, Phase::Sent, Phase::Deaf, Phase::Tunnel, Phase::TunnelHalfClosed].map(|mut phase| {
                phase.end_sending();
                phase
            });
        let (deaf, half_closed) = (Phase::Deaf, Phase::TunnelHalfClosed);
        assert_eq!(ended, [deaf, deaf, deaf, half_closed, half_closed]);
    }
}
