//! The server name in a ClientHello (RFC 6066 3), looked up before the handshake begins.
//!
//! Owns: finding the name, nothing else. Which certificate, and which certificates of clients, belong to a handshake depends on the
//! name, so it has to be known before rustls is given the message. rustls judges the message: here, what cannot be read has no name.

use std::borrow::Cow;

use super::alert::Failure;
use super::record::{HEADER_BYTES, PLAINTEXT_BYTES_MAX, record_length};

/// What the first bytes of a connection say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello<'b> {
    /// The message is not all there.
    Incomplete,
    /// It is there, with this name if any.
    Complete(Option<Cow<'b, str>>),
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const APPLICATION_PROTOCOLS: u16 = 16;

/// Looks at what has been received of a ClientHello.
///
/// # Errors
/// It is no TLS, or longer than the handshake of any client.
pub fn look(received: &[u8]) -> Result<Hello<'_>, Failure> {
    let Some(length) = record_length(received)?.filter(|length| *length <= received.len()) else {
        return Ok(Hello::Incomplete);
    };
    let first = &received[HEADER_BYTES..length];
    if received[0] != HANDSHAKE || first.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Ok(Hello::Complete(None));
    }
    match message(first) {
        Some(message) => Ok(Hello::Complete(name(message).map(Cow::Borrowed))),
        None => joined(received),
    }
}

/// Whether a message that [`look`] has found complete offers `protocol` and no other (RFC 7301 3.1).
pub fn offers_only(received: &[u8], protocol: &[u8]) -> bool {
    let of_message = |content: &[u8]| {
        let mut names = Reader(Reader(extension(content, APPLICATION_PROTOCOLS)?).vector(2)?);
        Some(names.vector(1)? == protocol && names.0.is_empty())
    };
    let all: Vec<u8> = records(received).flatten().copied().collect();
    message(&all).and_then(of_message).unwrap_or(false)
}

/// The contents of the records that are all there.
fn records(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = record_length(rest).ok()?.filter(|length| *length <= rest.len())?;
        let (record, after) = rest.split_at(length);
        rest = after;
        record.get(HEADER_BYTES..)
    })
}

/// The content of the message that `bytes` begin with, if it is all there.
fn message(bytes: &[u8]) -> Option<&[u8]> {
    let [_, high, middle, low, content @ ..] = bytes else { return None };
    content.get(..usize::try_from(u32::from_be_bytes([0, *high, *middle, *low])).ok()?)
}

/// A message that comes in several records.
fn joined(received: &[u8]) -> Result<Hello<'_>, Failure> {
    let (mut bytes, mut rest) = (Vec::new(), received);
    while let Some(length) = record_length(rest)?.filter(|length| *length <= rest.len()) {
        if rest[0] != HANDSHAKE || bytes.len() > PLAINTEXT_BYTES_MAX {
            return Ok(Hello::Complete(None));
        }
        bytes.extend_from_slice(&rest[HEADER_BYTES..length]);
        if let Some(message) = message(&bytes) {
            return Ok(Hello::Complete(name(message).map(|name| Cow::Owned(name.to_owned()))));
        }
        rest = &rest[length..];
    }
    Ok(Hello::Incomplete)
}

/// The host name in the content of a ClientHello, in the case that it was sent in.
fn name(content: &[u8]) -> Option<&str> {
    let mut names = Reader(Reader(extension(content, SERVER_NAME)?).vector(2)?);
    while !names.0.is_empty() {
        let (kind, name) = (names.number(1)?, names.vector(2)?);
        if kind == 0 {
            return std::str::from_utf8(name).ok();
        }
    }
    None
}

/// The first extension of this kind in the content of a ClientHello.
fn extension(content: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut reader = Reader(content);
    // Version and random.
    reader.take(2 + 32)?;
    // Session identifier, cipher suites, compression methods.
    reader.vector(1)?;
    reader.vector(2)?;
    reader.vector(1)?;
    let mut extensions = Reader(reader.vector(2)?);
    while !extensions.0.is_empty() {
        let (kind, extension) = (extensions.number(2)?, extensions.vector(2)?);
        if kind == usize::from(wanted) {
            return Some(extension);
        }
    }
    None
}

/// Whether the first cipher suite of a ClientHello, which is there in one record, is one of ChaCha20: who has no instructions for AES
/// says so by this order.
pub fn prefers_chacha20(received: &[u8]) -> bool {
    /// For TLS 1.3, and for TLS 1.2 with ECDSA and with RSA (RFC 8446, RFC 7905).
    const CHACHA20: [usize; 3] = [0x1303, 0xcca9, 0xcca8];
    let first = || {
        let mut reader = Reader(message(received.get(HEADER_BYTES..)?)?);
        reader.take(2 + 32)?;
        reader.vector(1)?;
        let mut suites = Reader(reader.vector(2)?);
        // Some clients begin with a value that means nothing (RFC 8701).
        let is_grease = |suite: usize| suite & 0x0f0f == 0x0a0a && suite >> 8 == suite & 0xff;
        let first = suites.number(2)?;
        if is_grease(first) { suites.number(2) } else { Some(first) }
    };
    first().is_some_and(|suite| CHACHA20.contains(&suite))
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// What a length of so many bytes stands before.
    fn vector(&mut self, length_bytes: usize) -> Option<&'b [u8]> {
        let length = self.number(length_bytes)?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::testing;
    use proptest::prelude::*;

    #[test]
    fn the_name_that_a_client_asks_for_is_found() {
        for name in ["example.org", "a.b.c.example.net", "xn--bcher-kva.example"] {
            let hello = testing::client_hello(name);
            assert_eq!(look(&hello), Ok(Hello::Complete(Some(name.into()))));
        }
    }

    #[test]
    fn a_client_without_a_name_has_none() {
        assert_eq!(look(&testing::client_hello("192.0.2.1")), Ok(Hello::Complete(None)));
    }

    #[test]
    fn a_message_in_many_records_is_one() {
        let hello = testing::client_hello("example.org");
        let content = &hello[HEADER_BYTES..];
        let mut records = Vec::new();
        for part in content.chunks(50) {
            records.extend_from_slice(&[22, 3, 1, 0, part.len() as u8]);
            records.extend_from_slice(part);
            let is_whole = records.len() >= content.len() + content.len().div_ceil(50) * HEADER_BYTES;
            match look(&records) {
                Ok(Hello::Complete(name)) if is_whole => assert_eq!(name.as_deref(), Some("example.org")),
                found => assert_eq!((found, is_whole), (Ok(Hello::Incomplete), false)),
            }
        }
    }

    #[test]
    fn the_only_protocol_of_a_client_is_found() {
        let hello = |protocols: &[&[u8]]| {
            let mut config = testing::client_config(&[], rustls::ALL_VERSIONS);
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            let mut hello = Vec::new();
            testing::client(&std::sync::Arc::new(config), "example.org").write_tls(&mut hello).unwrap();
            hello
        };
        assert!(offers_only(&hello(&[b"acme-tls/1"]), b"acme-tls/1"));
        for others in ["", "h2", "acme-tls/1,h2", "h2,acme-tls/1", "acme-tls/11"] {
            let protocols: Vec<&[u8]> = others.split(',').filter(|name| !name.is_empty()).map(str::as_bytes).collect();
            assert!(!offers_only(&hello(&protocols), b"acme-tls/1"), "{others}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_cause_more_than_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = (look(&bytes), offers_only(&bytes, b"h2"));
        }

        #[test]
        fn a_damaged_message_causes_no_more_than_another_answer(at in 0_usize..400, byte: u8, cut in 0_usize..600) {
            let mut hello = testing::client_hello("example.org");
            let length = hello.len();
            hello[at % length] = byte;
            hello.truncate(cut);
            let _ = (look(&hello), offers_only(&hello, b"h2"));
        }
    }
}
