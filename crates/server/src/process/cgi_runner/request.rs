//! The server's side of a FastCGI request, as the runner reads it (FastCGI 1.0, sections 3.3, 3.4, 5 and 6.2).
//!
//! Owns: records ([`Records`]), the variables of a request, and what follows them ([`Inbound`]). Guarantees: what is
//! held is one record and the variables, both bounded; a client has left when the connection has ended or the server
//! says ABORT_REQUEST, and not because there is content that no program reads. Speaks with this server only, and so
//! takes one request for each connection.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;

use lamna_proto::gateway::fastcgi::{HEADER_BYTES, RECORD_BYTES_MAX, header, kind};

/// All variables of a request. The server bounds heads far below that.
const VARIABLES_BYTES_MAX: usize = 4 << 20;

/// A record that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) content: Vec<u8>,
}

/// Bytes that have arrived, and are not a whole record yet.
#[derive(Debug, Default)]
pub(super) struct Records {
    held: Vec<u8>,
}

impl Records {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next whole record.
    pub(super) fn next(&mut self) -> Option<Record> {
        let &[_, kind, _, _, high, low, padding, _] = self.held.first_chunk::<HEADER_BYTES>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let end = HEADER_BYTES + length + usize::from(padding);
        if self.held.len() < end {
            return None;
        }
        let content = self.held[HEADER_BYTES..HEADER_BYTES + length].to_vec();
        self.held.drain(..end);
        Some(Record { kind, content })
    }
}

/// The client has left.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HasLeft;

/// The request behind its variables: content for the program, the end of that, and whether the client has left.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    records: Records,
    content: Vec<u8>,
    has_ended: bool,
    is_unwanted: bool,
}

impl Inbound {
    /// With what has arrived already.
    pub(super) fn new(records: Records) -> Inbound {
        Inbound { records, ..Inbound::default() }
    }

    /// Content for the program, which goes before more is taken.
    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }

    /// The program has so many bytes of the content.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.content.drain(..bytes);
    }

    /// The program reads no content any more: what is there is dropped, and what comes.
    pub(super) fn drop_content(&mut self) {
        (self.content, self.is_unwanted) = (Vec::new(), true);
    }

    /// Whether the program has all of the content.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended && self.content.is_empty()
    }

    /// Takes what is at hand apart, up to the next content for the program.
    ///
    /// # Errors
    /// The server has given the request up.
    pub(super) fn advance(&mut self) -> Result<(), HasLeft> {
        while self.content.is_empty() {
            let Some(record) = self.records.next() else { break };
            match record.kind {
                kind::STDIN if record.content.is_empty() => self.has_ended = true,
                kind::STDIN if self.is_unwanted || self.has_ended => {}
                kind::STDIN => self.content = record.content,
                // ABORT_REQUEST, or what the server does not send.
                _ => return Err(HasLeft),
            }
        }
        Ok(())
    }

    /// Receives what has arrived on a connection that does not wait. To be called when there is no content left.
    ///
    /// # Errors
    /// The connection has ended, or the server has given the request up.
    pub(super) fn receive(&mut self, stream: &mut impl Read) -> Result<(), HasLeft> {
        let mut buffer = [0; 16 * 1024];
        match stream.read(&mut buffer) {
            Ok(0) => return Err(HasLeft),
            Ok(bytes) => self.records.push(&buffer[..bytes]),
            Err(error) if is_later(&error) => {}
            Err(_) => return Err(HasLeft),
        }
        self.advance()
    }
}

/// Whether a connection or pipe that does not wait has nothing at the moment.
pub(super) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Adds content in as many records as it needs: none if it is empty, because a record without content is the end of its
/// stream ([`write_end`]).
pub(super) fn write(kind: u8, content: &[u8], to: &mut Vec<u8>) {
    for part in content.chunks(RECORD_BYTES_MAX) {
        to.extend_from_slice(&header(kind, part.len() as u16)); // At most RECORD_BYTES_MAX.
        to.extend_from_slice(part);
    }
}

/// Adds the end of a stream.
pub(super) fn write_end(kind: u8, to: &mut Vec<u8>) {
    to.extend_from_slice(&header(kind, 0));
}

/// The variables of a request.
pub(super) type Variables = Vec<(OsString, OsString)>;

/// The beginning of a request, as far as it has arrived.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// Records that have arrived behind the variables, once they are there.
    pub(super) records: Records,
    params: Vec<u8>,
    has_begun: bool,
}

/// The state of the beginning of a request.
#[derive(Debug)]
pub(super) enum Opened {
    /// More of it has to arrive.
    NotYet,
    Request(Variables),
    /// It is no request.
    Nothing,
}

impl Opening {
    /// Reads what has arrived.
    ///
    /// # Errors
    /// The connection has ended before the variables were there.
    pub(super) fn read(&mut self, stream: &mut impl Read) -> io::Result<Opened> {
        let mut buffer = [0; 16 * 1024];
        loop {
            while let Some(record) = self.records.next() {
                match record.kind {
                    kind::BEGIN_REQUEST => self.has_begun = true,
                    kind::PARAMS if self.has_begun && record.content.is_empty() => {
                        return Ok(pairs(&self.params).map_or(Opened::Nothing, Opened::Request));
                    }
                    kind::PARAMS if self.has_begun && self.params.len() < VARIABLES_BYTES_MAX => {
                        self.params.extend(record.content);
                    }
                    _ => return Ok(Opened::Nothing),
                }
            }
            match stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.records.push(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Opened::NotYet),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Names and values (section 3.4). None if they are cut short.
fn pairs(mut bytes: &[u8]) -> Option<Vec<(OsString, OsString)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let name = length(&mut bytes)?;
        let value = length(&mut bytes)?;
        let (name, rest) = bytes.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        bytes = rest;
        let text = |part: &[u8]| OsString::from_vec(part.to_vec());
        let is_variable = !name.is_empty() && !name.contains(&b'=') && !name.contains(&0) && !value.contains(&0);
        if is_variable {
            found.push((text(name), text(value)));
        }
    }
    Some(found)
}

/// A length of one byte or four.
fn length(bytes: &mut &[u8]) -> Option<usize> {
    let (&first, rest) = bytes.split_first()?;
    if first < 128 {
        *bytes = rest;
        return Some(usize::from(first));
    }
    let (four, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    usize::try_from(u32::from_be_bytes(*four) & 0x7fff_ffff).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn variables(mut bytes: &[u8]) -> io::Result<Option<Variables>> {
        Ok(match Opening::default().read(&mut bytes)? {
            Opened::Request(variables) => Some(variables),
            Opened::NotYet | Opened::Nothing => None,
        })
    }

    fn request(params: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(kind::BEGIN_REQUEST, &[0, 1, 0, 0, 0, 0, 0, 0], &mut bytes);
        write(kind::PARAMS, params, &mut bytes);
        write_end(kind::PARAMS, &mut bytes);
        bytes
    }

    #[test]
    fn variables_are_those_that_were_given() {
        let long = "x".repeat(200);
        let mut params = b"\x01\x02Abc".to_vec();
        params.extend([4, 128, 0, 0, 200]);
        params.extend_from_slice(format!("LONG{long}").as_bytes());
        let found = variables(&request(&params)).unwrap().unwrap();
        let expected = [("A", "bc"), ("LONG", &*long)].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_cut_short_is_no_request() {
        assert!(variables(&request(b"\x05\x05abc")).unwrap().is_none());
        let whole = request(b"\x01\x02Abc");
        assert!(variables(&whole[..whole.len() - 1]).is_err());
    }

    #[test]
    fn what_would_be_no_variable_is_left_out() {
        let found = variables(&request(b"\x03\x01a=bc\x01\x01n\0\x01\x01Ab"));
        assert_eq!(found.unwrap().unwrap(), [("A".into(), "b".into())]);
    }

    #[test]
    fn only_the_end_of_the_connection_and_an_abort_are_the_end_of_the_client() {
        let stdin = |content: &[u8]| {
            let mut bytes = Vec::new();
            write(kind::STDIN, content, &mut bytes);
            bytes
        };
        let end = header(kind::STDIN, 0).to_vec();
        let abort = header(kind::ABORT_REQUEST, 0).to_vec();
        let staying =
            [stdin(b"a"), [stdin(b"abc"), stdin(b"d"), end.clone()].concat(), end.clone(), stdin(b"abc")[..9].to_vec()];
        for bytes in staying {
            for is_unwanted in [true, false] {
                let (mut server, mut own) = std::os::unix::net::UnixStream::pair().unwrap();
                own.set_nonblocking(true).unwrap();
                let mut inbound = Inbound::default();
                let mut receive = || {
                    if is_unwanted {
                        inbound.drop_content();
                    }
                    let content = inbound.content().len();
                    inbound.consume(content);
                    inbound.receive(&mut own)
                };
                server.write_all(&bytes).unwrap();
                (0..4).for_each(|_| assert_eq!(receive(), Ok(()), "{}", bytes.escape_ascii()));
                drop(server);
                assert_eq!(receive(), Err(HasLeft));
            }
        }
        for bytes in [abort.clone(), [stdin(b"abc"), abort.clone()].concat(), [end, abort].concat()] {
            let mut inbound = Inbound::default();
            inbound.drop_content();
            assert_eq!(inbound.receive(&mut &bytes[..]), Err(HasLeft), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn content_goes_to_the_program_until_its_end() {
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        for part in [&b"abc"[..], b"def", b""] {
            bytes.extend(header(kind::STDIN, part.len() as u16));
            bytes.extend_from_slice(part);
        }
        let (mut inbound, mut left) = (Inbound::default(), &bytes[..]);
        inbound.receive(&mut left).unwrap();
        while !inbound.is_over() {
            found.push(inbound.content()[0]);
            inbound.consume(1);
            inbound.advance().unwrap();
        }
        assert_eq!(found, b"abcdef");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_however_they_are_divided(
            bytes: Vec<u8>, params: Vec<u8>, parts in 1_usize..9,
        ) {
            let _ = variables(&bytes);
            let _ = pairs(&params);
            let mut divided = Records::default();
            let mut whole = Records::default();
            whole.push(&bytes);
            let found: Vec<Record> = bytes.chunks(parts).flat_map(|part| {
                divided.push(part);
                std::iter::from_fn(|| divided.next()).collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(found, std::iter::from_fn(|| whole.next()).collect::<Vec<_>>());
        }

        #[test]
        fn what_is_written_is_read_back(content in prop::collection::vec(any::<u8>(), 0..200_000)) {
            let (mut bytes, mut records) = (Vec::new(), Records::default());
            write(kind::STDIN, &content, &mut bytes);
            records.push(&bytes);
            let found: Vec<Record> = std::iter::from_fn(|| records.next()).collect();
            prop_assert!(found.iter().all(|record| !record.content.is_empty()), "it is not the end of the stream");
            prop_assert!(found.iter().flat_map(|record| &record.content).eq(&content));
        }
    }
}
