//! The header by which a proxy names the client for which it has connected, before anything else on a connection, TLS
//! included.
//!
//! Owns: the part of it that has arrived, and the way of the bytes behind it. Guarantees: the core and TLS never see
//! it; no more than [`proxy::BYTES_MAX`] bytes wait for its end; a peer that is no trusted proxy, or sends none, gets
//! no further.

use std::mem::take;

use lamna_proto::parse::proxy::{self, Parsed, Source};

use super::transport::Received;

/// The header of one connection.
#[derive(Debug)]
pub(super) struct ProxyHeader {
    state: State,
    /// Bytes that have arrived, while the end of the header has not.
    arrived: Vec<u8>,
}

#[derive(Debug)]
enum State {
    /// The peer may not send one.
    Untrusted,
    Awaited,
    /// It is over. This is the client for which the proxy has connected, until it has been taken.
    Over(Option<Source>),
}

impl ProxyHeader {
    /// That of a peer that is trusted, or not.
    pub(super) fn new(is_trusted: bool) -> ProxyHeader {
        let state = if is_trusted { State::Awaited } else { State::Untrusted };
        ProxyHeader { state, arrived: Vec::new() }
    }

    /// Whether its end has not arrived.
    pub(super) fn is_awaited(&self) -> bool {
        !matches!(self.state, State::Over(_))
    }

    /// Bytes of memory that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.arrived.capacity()
    }

    /// The client for which the proxy has connected. Returned once.
    pub(super) fn take_source(&mut self) -> Option<Source> {
        match &mut self.state {
            State::Over(source) => source.take(),
            State::Untrusted | State::Awaited => None,
        }
    }

    /// Takes bytes back that have arrived and were not looked at. The next time that something is received they come
    /// first.
    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// Takes the header away from what was received into `space`. What stands behind it moves to the front.
    pub(super) fn strip(&mut self, space: &mut [u8], received: Received) -> Received {
        match self.state {
            State::Over(_) => return received,
            State::Untrusted => return Received::Broken,
            State::Awaited => {}
        }
        match received {
            Received::Bytes(bytes) => self.arrived.extend_from_slice(&space[..bytes]),
            // What was put back may be all of it.
            Received::Nothing | Received::End if !self.arrived.is_empty() => {}
            other => return other,
        }
        match proxy::parse(&self.arrived) {
            Ok(Parsed::Partial) if received == Received::End => Received::End,
            Ok(Parsed::Partial) => Received::Bytes(0),
            Ok(Parsed::Complete(length, source)) => {
                let arrived = take(&mut self.arrived);
                let rest = &arrived[length..];
                let Some(front) = space.get_mut(..rest.len()) else { return Received::Broken };
                front.copy_from_slice(rest);
                self.state = State::Over(Some(source));
                Received::Bytes(rest.len())
            }
            Err(proxy::Malformed) => Received::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\r\n";

    fn receive(header: &mut ProxyHeader, bytes: &[u8]) -> (Received, Vec<u8>) {
        let mut space = [0; 2048];
        space[..bytes.len()].copy_from_slice(bytes);
        let received = header.strip(&mut space, Received::Bytes(bytes.len()));
        let rest = if let Received::Bytes(rest) = received { space[..rest].to_vec() } else { Vec::new() };
        (received, rest)
    }

    #[test]
    fn however_it_arrives_it_is_taken_away_and_what_follows_is_not() {
        let whole = [HEADER, b"GET / HTTP/1.1\r\n"].concat();
        for cut in 0..whole.len() {
            let mut header = ProxyHeader::new(true);
            let (first, mut rest) = receive(&mut header, &whole[..cut]);
            assert!(matches!(first, Received::Bytes(_)));
            rest.extend(receive(&mut header, &whole[cut..]).1);
            assert_eq!(rest, b"GET / HTTP/1.1\r\n", "{cut}");
            let named = "192.0.2.1".parse().map(Source::Client).ok();
            assert_eq!((header.take_source(), header.held_bytes()), (named, 0));
            assert_eq!((header.take_source(), header.is_awaited()), (None, false));
        }
    }

    #[test]
    fn what_was_put_back_comes_first_whether_more_arrives_or_not() {
        for then in [Received::Nothing, Received::End] {
            let mut header = ProxyHeader::new(true);
            header.put_back(&[HEADER, b"abc"].concat());
            let mut space = [0; 64];
            assert_eq!(header.strip(&mut space, then), Received::Bytes(3));
            assert_eq!(&space[..3], b"abc");
            assert_eq!(header.strip(&mut space, then), then);
        }
    }

    #[test]
    fn who_is_not_trusted_or_sends_something_else_gets_no_further() {
        assert_eq!(receive(&mut ProxyHeader::new(false), HEADER).0, Received::Broken);
        assert_eq!(receive(&mut ProxyHeader::new(true), b"GET / HTTP/1.1\r\n").0, Received::Broken);
        let mut header = ProxyHeader::new(true);
        assert_eq!(receive(&mut header, b"PROXY ").0, Received::Bytes(0));
        assert_eq!(header.strip(&mut [0; 8], Received::End), Received::End);
    }
}
