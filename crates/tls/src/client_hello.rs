//! A ClientHello (RFC 8446 4.1.2, RFC 6066 3), looked at before the handshake begins.
//!
//! Owns: finding the name that a client asks for, and what else is decided by before the handshake. Which certificate,
//! and which certificates of clients, belong to a handshake depends on the name, so it has to be known before rustls is
//! given the message. Guarantees: what is not understood is refused, and never taken for a message without a name.
//! rustls reads the same message once more;
//! [`ClientHello::config`] has it refuse whatever it finds another name in.

use std::borrow::Cow;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use rustls::server::ResolvesServerCert;
use rustls::sign::CertifiedKey;

use super::alert::{Alert, Failure};
use super::negotiated::{Alpn, Chosen};
use super::record::{HEADER_BYTES, record_length};

/// The result of reading the first bytes of a connection.
#[derive(Debug)]
pub enum Hello<'b> {
    /// The message is not all there.
    Incomplete,
    /// It is.
    Complete(ClientHello<'b>),
}

/// A whole message.
#[derive(Debug)]
pub struct ClientHello<'b> {
    content: Cow<'b, [u8]>,
    /// In lower case.
    name: Option<Box<str>>,
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: usize = 0;
const APPLICATION_PROTOCOLS: u16 = 16;

/// Bytes before the content of a message: its type and its length.
const MESSAGE_HEADER_BYTES: usize = 4;

/// The longest message. Those of clients have hundreds of bytes, or some thousands with keys that withstand quantum
/// computers.
pub const HELLO_BYTES_MAX: usize = 16 * 1024;

/// Records that a message may be cut into, so that looking at it again whenever more has come stays cheap.
const RECORDS_MAX: usize = 1024;

/// Extensions of a message. Those of clients have a few dozen.
const EXTENSIONS_MAX: usize = 128;

/// Looks at what has been received of a ClientHello.
///
/// # Errors
/// It is none, longer than that of any client, or not understood.
pub fn look(received: &[u8]) -> Result<Hello<'_>, Failure> {
    let mut header = [0; MESSAGE_HEADER_BYTES];
    let (mut there, mut records_seen, mut rest) = (0, 0, received);
    // Nothing is put together before it is all there.
    while let Some(length) = record_length(rest)?.filter(|length| *length <= rest.len()) {
        let (record, after) = rest.split_at(length);
        if record[0] != HANDSHAKE {
            return Err(Failure::of(Alert::UnexpectedMessage));
        }
        let content = &record[HEADER_BYTES..];
        records_seen += 1;
        // RFC 8446 5.1: no fragment of a handshake message is empty.
        if content.is_empty() || records_seen > RECORDS_MAX {
            return Err(not_understood("its first message is cut into pieces that no client makes"));
        }
        for (to, from) in header[there.min(MESSAGE_HEADER_BYTES)..].iter_mut().zip(content) {
            *to = *from;
        }
        there += content.len();
        if there > 0 && header[0] != CLIENT_HELLO {
            return Err(Failure::of(Alert::UnexpectedMessage));
        }
        if there >= MESSAGE_HEADER_BYTES {
            let [_, high, middle, low] = header;
            let whole = u32::from_be_bytes([0, high, middle, low]) as usize;
            if whole > HELLO_BYTES_MAX {
                return Err(not_understood("its first message is longer than that of any client"));
            }
            let end = MESSAGE_HEADER_BYTES + whole;
            if there >= end {
                let is_in_one = record.len() == received.len() - after.len();
                let message = match is_in_one {
                    true => Cow::Borrowed(&content[..end]),
                    false => Cow::Owned(records(received).flatten().copied().take(end).collect()),
                };
                return ClientHello::read(message).map(Hello::Complete);
            }
        }
        rest = after;
    }
    Ok(Hello::Incomplete)
}

fn not_understood(words: &str) -> Failure {
    Failure { alert: Some(Alert::DecodeError), words: words.to_owned() }
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

impl<'b> ClientHello<'b> {
    /// `message` is whole, with its header.
    fn read(message: Cow<'b, [u8]>) -> Result<ClientHello<'b>, Failure> {
        let wrong = || not_understood("its first message cannot be read");
        let content = match message {
            Cow::Borrowed(message) => Cow::Borrowed(&message[MESSAGE_HEADER_BYTES..]),
            Cow::Owned(mut message) => Cow::Owned(message.split_off(MESSAGE_HEADER_BYTES)),
        };
        let extensions = extensions(&content).ok_or_else(wrong)?;
        if extensions.len() > EXTENSIONS_MAX {
            return Err(wrong());
        }
        let mut name = None;
        for (at, (kind, value)) in extensions.iter().enumerate() {
            if extensions[..at].iter().any(|(other, _)| other == kind) {
                return Err(wrong());
            }
            if *kind == SERVER_NAME {
                name = self::name(value).ok_or_else(wrong)?;
            }
        }
        Ok(ClientHello { content, name })
    }

    /// The name that the client asks for, in lower case.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it offers `protocol` and no other (RFC 7301 3.1).
    pub fn offers_only(&self, protocol: &[u8]) -> bool {
        let offers = || {
            let extensions = extensions(&self.content)?;
            let (_, value) = extensions.iter().find(|(kind, _)| *kind == APPLICATION_PROTOCOLS)?;
            let mut names = Reader(Reader(value).vector(2)?);
            Some(names.vector(1)? == protocol && names.0.is_empty())
        };
        offers().unwrap_or(false)
    }

    /// Whether the first cipher suite is one of ChaCha20: a client without instructions for AES says so by this order.
    fn prefers_chacha20(&self) -> bool {
        /// For TLS 1.3, and for TLS 1.2 with ECDSA and with RSA (RFC 8446, RFC 7905).
        const CHACHA20: [usize; 3] = [0x1303, 0xcca9, 0xcca8];
        let first = || {
            let mut reader = Reader(&self.content);
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

    /// `chosen` for this client: a handshake in which rustls finds another name fails before anything has been agreed
    /// on. Where ChaCha20 costs the client less than AES, its order of suites counts. HTTP/2 is not offered
    /// if `is_http1`.
    pub fn config(&self, chosen: &Chosen, is_http1: bool) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&chosen.config);
        let certificate = config.cert_resolver.clone();
        let cert_resolver = Arc::new(OfOneName { name: self.name.clone(), certificate });
        if let Some(tickets) = &chosen.tickets {
            config.ticketer = Arc::new(tickets.for_handshake());
        }
        config.cert_resolver = cert_resolver;
        if is_http1 {
            config.alpn_protocols.retain(|protocol| protocol != Alpn::Http2.name());
        }
        config.ignore_client_order &= !self.prefers_chacha20();
        Arc::new(config)
    }
}

/// A certificate for those who ask for this name, or for none. rustls asks for it in every handshake, also where a
/// ticket is used.
#[derive(Debug)]
struct OfOneName {
    name: Option<Box<str>>,
    certificate: Arc<dyn ResolvesServerCert>,
}

impl ResolvesServerCert for OfOneName {
    fn resolve(&self, hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match hello.server_name() == self.name.as_deref() {
            true => self.certificate.resolve(hello),
            false => None,
        }
    }
}

/// The host name in a `server_name` extension, in lower case: none within if the client asks by an address, which
/// counts as no name (RFC 6066 3). None at all if it is not understood.
fn name(value: &[u8]) -> Option<Option<Box<str>>> {
    let mut reader = Reader(value);
    let mut names = Reader(reader.vector(2)?);
    if !reader.0.is_empty() || names.number(1)? != HOST_NAME {
        return None;
    }
    let name = names.vector(2)?;
    if !names.0.is_empty() {
        return None;
    }
    match ServerName::try_from(name).ok()? {
        ServerName::DnsName(name) => Some(Some(name.as_ref().to_ascii_lowercase().into())),
        ServerName::IpAddress(_) => Some(None),
        _ => None,
    }
}

/// The extensions in the content of a ClientHello, if it can be read.
fn extensions(content: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    let mut reader = Reader(content);
    // Version and random.
    reader.take(2 + 32)?;
    // Session identifier, cipher suites, compression methods.
    reader.vector(1)?;
    reader.vector(2)?;
    reader.vector(1)?;
    let mut found = Vec::new();
    if reader.0.is_empty() {
        return Some(found);
    }
    let mut extensions = Reader(reader.vector(2)?);
    while !extensions.0.is_empty() {
        let (kind, extension) = (extensions.number(2)?, extensions.vector(2)?);
        found.push((u16::try_from(kind).ok()?, extension));
    }
    reader.0.is_empty().then_some(found)
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

    /// The bytes behind a length of so many bytes.
    fn vector(&mut self, length_bytes: usize) -> Option<&'b [u8]> {
        let length = self.number(length_bytes)?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RECORD_BYTES_MAX;
    use crate::testing;
    use proptest::prelude::*;
    use rustls::server::Acceptor;

    /// The result of a look: nothing yet, or a name if there is one.
    fn found(received: &[u8]) -> Result<Option<Option<String>>, Failure> {
        Ok(match look(received)? {
            Hello::Incomplete => None,
            Hello::Complete(hello) => Some(hello.name().map(str::to_owned)),
        })
    }

    fn named(name: &str) -> Result<Option<Option<String>>, Failure> {
        Ok(Some(Some(name.to_owned())))
    }

    #[test]
    fn the_name_that_a_client_asks_for_is_found() {
        for name in ["example.org", "a.b.c.example.net", "xn--bcher-kva.example"] {
            assert_eq!(found(&testing::client_hello(name)), named(name));
        }
    }

    #[test]
    fn a_client_without_a_name_has_none() {
        assert_eq!(found(&testing::client_hello("192.0.2.1")), Ok(Some(None)));
    }

    /// `message` in records of so many bytes.
    fn in_records(message: &[u8], bytes: usize) -> Vec<u8> {
        let mut records = Vec::new();
        for part in message.chunks(bytes) {
            records.extend_from_slice(&[HANDSHAKE, 3, 1]);
            records.extend_from_slice(&(part.len() as u16).to_be_bytes());
            records.extend_from_slice(part);
        }
        records
    }

    #[test]
    fn a_message_in_many_records_is_one() {
        let hello = testing::client_hello("example.org");
        for bytes in [1, 3, 50, 200] {
            let records = in_records(&hello[HEADER_BYTES..], bytes);
            for cut in 0..records.len() {
                assert_eq!(found(&records[..cut]), Ok(None), "{bytes} {cut}");
            }
            assert_eq!(found(&records), named("example.org"));
        }
    }

    #[test]
    fn pieces_that_no_client_makes_are_refused_before_the_message_is_whole() {
        let hello = testing::client_hello("example.org");
        let empty = [HANDSHAKE, 3, 1, 0, 0];
        assert!(look(&empty).is_err());
        assert!(look(&[&hello[..], &empty].concat()).is_ok(), "what is whole is whole");
        let long = message(&extension(21, &[0; 5_000]), b"");
        let piece = |bytes: usize| in_records(&long, bytes);
        assert!(matches!(look(&piece(500)[..4_000]), Ok(Hello::Incomplete)));
        assert!(look(&piece(1)[..6 * RECORDS_MAX + 100]).is_err());
        let many: Vec<u8> = (100..400_u16).flat_map(|kind| extension(kind, b"")).collect();
        assert!(look(&in_records(&message(&many, b""), 9_000)).is_err());
    }

    #[test]
    fn a_record_longer_than_any_is_refused_by_its_header() {
        let header = |bytes: usize| {
            let [.., high, low] = bytes.to_be_bytes();
            look(&[HANDSHAKE, 3, 1, high, low]).map(|_| ()).map_err(|failure| failure.alert)
        };
        let most = RECORD_BYTES_MAX - HEADER_BYTES;
        assert_eq!([header(most), header(most + 1)], [Ok(()), Err(Some(Alert::RecordOverflow))]);
    }

    #[test]
    fn the_only_protocol_of_a_client_is_found() {
        let offers = |protocols: &[&[u8]]| {
            let mut config = testing::client_config(&[], rustls::ALL_VERSIONS);
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            let mut hello = Vec::new();
            testing::client(&Arc::new(config), "example.org").write_tls(&mut hello).unwrap();
            matches!(look(&hello), Ok(Hello::Complete(hello)) if hello.offers_only(b"acme-tls/1"))
        };
        assert!(offers(&[b"acme-tls/1"]));
        for others in ["", "h2", "acme-tls/1,h2", "h2,acme-tls/1", "acme-tls/11"] {
            let protocols: Vec<&[u8]> = others.split(',').filter(|name| !name.is_empty()).map(str::as_bytes).collect();
            assert!(!offers(&protocols), "{others}");
        }
    }

    fn vector(length_bytes: usize, content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes()[4 - length_bytes..], content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector(2, content)].concat()
    }

    /// A message with these extensions, and behind them `rest`.
    fn message(extensions: &[u8], rest: &[u8]) -> Vec<u8> {
        let suites = [0x13, 1, 0xc0, 0x2b];
        let content =
            [&[3, 3][..], &[7; 32], &[0], &vector(2, &suites), &[1, 0], &vector(2, extensions), rest].concat();
        [&[CLIENT_HELLO][..], &vector(3, &content)].concat()
    }

    /// Further extensions of a client of today, so that rustls does not refuse the message for something else.
    fn usual() -> Vec<u8> {
        let signatures = extension(13, &vector(2, &[4, 3, 8, 4]));
        let groups = extension(10, &vector(2, &[0, 29, 0, 23]));
        let versions = extension(43, &vector(1, &[3, 4, 3, 3]));
        [signatures, groups, versions].concat()
    }

    fn host(name: &[u8]) -> Vec<u8> {
        extension(SERVER_NAME, &vector(2, &[&[0][..], &vector(2, name)].concat()))
    }

    #[test]
    fn what_is_not_understood_or_too_long_is_refused_and_not_without_a_name() {
        let whole = message(&[usual(), host(b"b.test")].concat(), b"");
        assert_eq!(found(&in_records(&whole, 16_000)), named("b.test"));
        let two = extension(
            SERVER_NAME,
            &vector(2, &[&[0][..], &vector(2, b"a.test"), &[0], &vector(2, b"b.test")].concat()),
        );
        let other = extension(
            SERVER_NAME,
            &vector(2, &[&[9][..], &vector(2, b"a.test"), &[0], &vector(2, b"b.test")].concat()),
        );
        let behind =
            extension(SERVER_NAME, &[vector(2, &[&[0][..], &vector(2, b"b.test")].concat()), vec![0]].concat());
        let none = extension(SERVER_NAME, &vector(2, &[]));
        let parts =
            [two, other, behind, none, host(b""), host(b"b test"), host(b"\xff.test"), host(b"-"), host(b".test")];
        for sni in parts.iter().chain([&[host(b"a.test"), host(b"b.test")].concat()]) {
            let hello = in_records(&message(&[usual(), sni.clone()].concat(), b""), 16_000);
            assert!(found(&hello).is_err(), "{sni:?}: {:?}", found(&hello));
        }
        // Extensions that are cut off, and bytes behind them.
        let cut = &host(b"b.test")[..9];
        assert!(found(&in_records(&message(cut, b""), 16_000)).is_err());
        assert!(found(&in_records(&message(&host(b"b.test"), b"x"), 16_000)).is_err());
        // Another message, another record, and a message that is too long, however little of it has come.
        let mut finished = whole.clone();
        finished[0] = 20;
        assert!(found(&in_records(&finished, 16_000)).is_err());
        let mut begun = in_records(&whole, 30);
        begun.truncate(35);
        assert!(found(&[&begun[..], &[21, 3, 1, 0, 2, 1, 0]].concat()).is_err());
        assert!(found(&in_records(&[1, 0, 0x40, 1], 4)).is_err());
        let protocols: Vec<u8> = (0..110).flat_map(|_| vector(1, &[b'p'; 200])).collect();
        let long = message(&[usual(), extension(16, &vector(2, &protocols)), host(b"b.test")].concat(), b"");
        for bytes in [9_000, 16_000, 100] {
            assert!(long.len() > HELLO_BYTES_MAX && found(&in_records(&long, bytes)).is_err(), "{bytes}");
        }
    }

    /// The name that rustls finds, if it takes the message.
    fn by_rustls(received: &[u8]) -> Option<Option<String>> {
        let mut acceptor = Acceptor::default();
        let mut rest = received;
        loop {
            let read = acceptor.read_tls(&mut rest).ok()?;
            match acceptor.accept() {
                Ok(Some(accepted)) => return Some(accepted.client_hello().server_name().map(str::to_owned)),
                Ok(None) if read > 0 => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn a_name() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[a-zA-Z0-9_-]{1,12}(\\.[a-zA-Z0-9-]{1,12}){0,4}\\.?".prop_map(String::into_bytes),
            "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.?".prop_map(String::into_bytes),
            "\\[?[0-9a-f:]{2,20}\\]?".prop_map(String::into_bytes),
            prop::sample::select(vec!["b.test", "B.TEST", "b.test.", "127.0.0.1", "::1", "0x7f.1", "b.test\0", ""])
                .prop_map(|name| name.as_bytes().to_vec()),
            (1_usize..300).prop_map(|length| vec![b'a'; length]),
            prop::collection::vec(any::<u8>(), 0..20),
        ]
    }

    fn a_server_name() -> impl Strategy<Value = Vec<u8>> {
        let entry = (prop_oneof![8 => Just(0_u8), 1 => any::<u8>()], a_name())
            .prop_map(|(kind, name)| [&[kind][..], &vector(2, &name)].concat());
        prop_oneof![
            8 => a_name().prop_map(|name| host(&name)),
            2 => prop::collection::vec(entry, 0..3).prop_map(|all| extension(SERVER_NAME, &vector(2, &all.concat()))),
            1 => prop::collection::vec(any::<u8>(), 0..30).prop_map(|bytes| extension(SERVER_NAME, &bytes)),
            1 => Just(Vec::new()),
        ]
    }

    fn a_message() -> impl Strategy<Value = Vec<u8>> {
        let odd =
            (0_u16..70, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(kind, bytes)| extension(kind, &bytes));
        let padding = (0_usize..9000).prop_map(|bytes| extension(21, &vec![0; bytes]));
        let grease = Just(extension(0x0a0a, &[]));
        let other = prop_oneof![2 => Just(Vec::new()), 1 => odd, 2 => padding, 2 => grease];
        let rest = prop_oneof![20 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 0..5)];
        let all = (other.clone(), prop::collection::vec(a_server_name(), 1..2), other, any::<bool>(), rest);
        all.prop_map(|(before, names, behind, is_first, rest)| {
            let names = names.concat();
            let extensions = match is_first {
                true => [names, before, usual(), behind],
                false => [before, usual(), names, behind],
            };
            message(&extensions.concat(), &rest)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Whatever a client sends, and however it cuts it: rustls never takes a message by another name than it was
        /// chosen for.
        #[test]
        fn both_readings_of_a_message_find_the_same_name(
            message in a_message(),
            cuts in prop::collection::vec(0_usize..17_000, 0..6),
            flips in prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec((0_usize..400, any::<u8>()), 1..4)],
        ) {
            let mut message = message;
            for (at, byte) in flips {
                let length = message.len();
                message[at % length] = byte;
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (message.len() + 1)).collect();
            cuts.extend([0, message.len()]);
            cuts.sort_unstable();
            let records: Vec<u8> = cuts.windows(2).flat_map(|cut| in_records(&message[cut[0]..cut[1]], 16_384)).collect();
            if let Some(theirs) = by_rustls(&records) {
                match found(&records) {
                    Ok(Some(ours)) => prop_assert_eq!(ours, theirs),
                    Ok(None) => prop_assert!(false, "rustls has it whole: {:?}", theirs),
                    Err(_) => {}
                }
            }
        }
    }

    /// So that the test before compares something: what clients do send is taken by both.
    #[test]
    fn names_that_clients_ask_for_are_found_by_both() {
        for (name, expected) in [
            ("b.test", Some("b.test")),
            ("B.Test", Some("b.test")),
            ("b.test.", Some("b.test")),
            ("192.0.2.1", None),
            ("::1", None),
            ("b_b.test", Some("b_b.test")),
        ] {
            for bytes in [1, 7, 16_384] {
                let records = in_records(&message(&[usual(), host(name.as_bytes())].concat(), b""), bytes);
                let expected = expected.map(str::to_owned);
                assert_eq!(
                    (found(&records), by_rustls(&records)),
                    (Ok(Some(expected.clone())), Some(expected)),
                    "{name}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_cause_more_than_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = look(&bytes);
        }

        #[test]
        fn a_damaged_message_causes_no_more_than_another_answer(at in 0_usize..400, byte: u8, cut in 0_usize..600) {
            let mut hello = testing::client_hello("example.org");
            let length = hello.len();
            hello[at % length] = byte;
            hello.truncate(cut);
            if let Ok(Hello::Complete(hello)) = look(&hello) {
                let _ = (hello.offers_only(b"h2"), hello.prefers_chacha20());
            }
        }
    }
}
