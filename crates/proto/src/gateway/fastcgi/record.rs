//! Records, the framing of FastCGI (section 3.3), as they arrive from an application.
//!
//! Owns: the header, and what follows from it. Guarantees: the outcome does not depend on how the input is divided;
//! what is held is 8 bytes of a header and 8 bytes of an `END_REQUEST`. A record of another version, an unknown type or
//! a wrong length, or for a request that is not under way, is an error: the stream has no other sign by which to find
//! the next record. Copies no content.
//!
//! ```text
//!            +---------------------------------------------+
//!            v                                             |
//!  new --> Header --STDOUT, STDERR--> Stream --all of it---+--> Padding --> Header
//!            |------management------> Skipped -------------+
//!            +------END_REQUEST-----> End --8 bytes--> EndPadding --> Ended
//! ```

use crate::gateway::GatewayError;

/// Content of one record at most.
pub const RECORD_BYTES_MAX: usize = 65_535;

pub(super) const VERSION: u8 = 1;
/// The one request of a connection.
pub(super) const REQUEST_ID: u16 = 1;
/// Bytes before the content of a record.
pub const HEADER_BYTES: usize = 8;

/// Types of records (section 8).
pub mod kind {
    /// The server begins a request.
    pub const BEGIN_REQUEST: u8 = 1;
    /// The server gives it up.
    pub const ABORT_REQUEST: u8 = 2;
    /// The application has answered it.
    pub const END_REQUEST: u8 = 3;
    /// Variables of the request.
    pub const PARAMS: u8 = 4;
    /// Content of the request.
    pub const STDIN: u8 = 5;
    /// The answer.
    pub const STDOUT: u8 = 6;
    /// Text for the error log.
    pub const STDERR: u8 = 7;
    pub(in super::super) const GET_VALUES_RESULT: u8 = 10;
    pub(in super::super) const UNKNOWN_TYPE: u8 = 11;
}

/// The header of a record of this kind, without padding, for the one request of a connection.
pub fn header(kind: u8, content_bytes: u16) -> [u8; HEADER_BYTES] {
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    let [length_high, length_low] = content_bytes.to_be_bytes();
    [VERSION, kind, id_high, id_low, length_high, length_low, 0, 0]
}

/// The next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RecordStep {
    /// So many bytes of framing were consumed; more input is needed if it is none.
    Framing(usize),
    /// The input begins with so many bytes of the answer. What of them is done with is said with
    /// [`RecordReader::take`].
    Stdout(usize),
    /// The input begins with so many bytes for the error log; likewise.
    Stderr(usize),
    /// The request has ended. Framing consumed first.
    Ended {
        /// Bytes of framing that were consumed.
        consumed: usize,
        /// The application's own exit status.
        application_status: u32,
        /// 0: complete. Others: the application did not take the request (section 5.5).
        protocol_status: u8,
    },
}

/// Reads the records of one request. Plain data.
#[derive(Clone, Debug)]
pub struct RecordReader {
    state: State,
    /// A header, or the content of an `END_REQUEST`, as far as it has come.
    held: [u8; HEADER_BYTES],
    has_stdout_ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header { held: u8 },
    Stream { is_stdout: bool, left: u16, padding: u8 },
    Skipped { left: u16, padding: u8 },
    Padding { left: u8 },
    End { held: u8, padding: u8 },
    EndPadding { left: u8 },
    Ended,
}

impl Default for RecordReader {
    fn default() -> Self {
        RecordReader::new()
    }
}

impl RecordReader {
    /// At the beginning of a record.
    pub fn new() -> RecordReader {
        RecordReader { state: State::Header { held: 0 }, held: [0; HEADER_BYTES], has_stdout_ended: false }
    }

    /// Looks at the beginning of `input`. Framing is consumed; what belongs to a stream is shown, and consumed by
    /// [`RecordReader::take`].
    ///
    /// # Errors
    /// [`GatewayError::Record`]. The connection is of no further use.
    pub fn read(&mut self, input: &[u8]) -> Result<RecordStep, GatewayError> {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            match self.state {
                State::Header { held } => {
                    let taken = self.hold(held, rest);
                    consumed += taken;
                    let held = held + taken as u8;
                    if usize::from(held) < HEADER_BYTES {
                        self.state = State::Header { held };
                        return Ok(RecordStep::Framing(consumed));
                    }
                    self.state = self.after_header()?;
                }
                State::Stream { left: 0, padding, .. } | State::Skipped { left: 0, padding } => {
                    self.state = State::Padding { left: padding };
                }
                State::Padding { left: 0 } => self.state = State::Header { held: 0 },
                State::EndPadding { left: 0 } => {
                    self.state = State::Ended;
                    let [a, b, c, d, protocol_status, ..] = self.held;
                    let application_status = u32::from_be_bytes([a, b, c, d]);
                    return Ok(RecordStep::Ended { consumed, application_status, protocol_status });
                }
                _ if rest.is_empty() => return Ok(RecordStep::Framing(consumed)),
                State::Stream { .. } if consumed > 0 => return Ok(RecordStep::Framing(consumed)),
                State::Stream { is_stdout, left, .. } => {
                    let bytes = usize::from(left).min(rest.len());
                    return Ok(if is_stdout { RecordStep::Stdout(bytes) } else { RecordStep::Stderr(bytes) });
                }
                State::Skipped { left, padding } => {
                    let bytes = usize::from(left).min(rest.len());
                    consumed += bytes;
                    self.state = State::Skipped { left: left - bytes as u16, padding };
                }
                State::Padding { left } => {
                    let bytes = usize::from(left).min(rest.len());
                    consumed += bytes;
                    self.state = State::Padding { left: left - bytes as u8 };
                }
                State::End { held, padding } => {
                    let taken = self.hold(held, rest);
                    consumed += taken;
                    let held = held + taken as u8;
                    let is_whole = usize::from(held) == HEADER_BYTES;
                    self.state =
                        if is_whole { State::EndPadding { left: padding } } else { State::End { held, padding } };
                }
                State::EndPadding { left } => {
                    let bytes = usize::from(left).min(rest.len());
                    consumed += bytes;
                    self.state = State::EndPadding { left: left - bytes as u8 };
                }
                State::Ended => return Ok(RecordStep::Framing(consumed)),
            }
        }
    }

    /// So many bytes of what [`RecordReader::read`] showed are done with.
    pub fn take(&mut self, bytes: usize) {
        if let State::Stream { left, .. } = &mut self.state {
            debug_assert!(bytes <= usize::from(*left), "more than was shown");
            *left = left.saturating_sub(u16::try_from(bytes).unwrap_or(u16::MAX));
        }
    }

    /// Whether the request has ended.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    fn hold(&mut self, held: u8, input: &[u8]) -> usize {
        let room = &mut self.held[usize::from(held)..];
        let bytes = room.len().min(input.len());
        room[..bytes].copy_from_slice(&input[..bytes]);
        bytes
    }

    fn after_header(&mut self) -> Result<State, GatewayError> {
        let [version, kind, id_high, id_low, length_high, length_low, padding, _] = self.held;
        let id = u16::from_be_bytes([id_high, id_low]);
        let left = u16::from_be_bytes([length_high, length_low]);
        match (version, id, kind) {
            (VERSION, REQUEST_ID, kind::STDOUT) if left == 0 => {
                self.has_stdout_ended = true;
                Ok(State::Padding { left: padding })
            }
            (VERSION, REQUEST_ID, kind::STDOUT) if !self.has_stdout_ended => {
                Ok(State::Stream { is_stdout: true, left, padding })
            }
            (VERSION, REQUEST_ID, kind::STDERR) => Ok(State::Stream { is_stdout: false, left, padding }),
            (VERSION, REQUEST_ID, kind::END_REQUEST) if usize::from(left) == HEADER_BYTES => {
                Ok(State::End { held: 0, padding })
            }
            // Management records (section 4): nothing that was asked for, and harmless.
            (VERSION, 0, kind::GET_VALUES_RESULT | kind::UNKNOWN_TYPE) => Ok(State::Skipped { left, padding }),
            _ => Err(GatewayError::Record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: u8, kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
        let length = (content.len() as u16).to_be_bytes();
        let id = id.to_be_bytes();
        let head = [version, kind, id[0], id[1], length[0], length[1], padding, 0];
        [&head[..], content, &vec![0xaa; usize::from(padding)]].concat()
    }

    type Read = Result<(Vec<u8>, Vec<u8>, Option<(u32, u8)>, usize), GatewayError>;

    /// Stdout, stderr, the end, and bytes left.
    fn read(pieces: &[&[u8]]) -> Read {
        let (mut reader, mut out, mut err, mut end, mut held) = (RecordReader::new(), vec![], vec![], None, Vec::new());
        for piece in pieces {
            held.extend_from_slice(piece);
            loop {
                let consumed = match reader.read(&held)? {
                    RecordStep::Framing(0) => break,
                    RecordStep::Framing(consumed) => consumed,
                    RecordStep::Stdout(bytes) => {
                        // As if there were no room for more.
                        let bytes = bytes.min(3);
                        out.extend_from_slice(&held[..bytes]);
                        reader.take(bytes);
                        bytes
                    }
                    RecordStep::Stderr(bytes) => {
                        err.extend_from_slice(&held[..bytes]);
                        reader.take(bytes);
                        bytes
                    }
                    RecordStep::Ended { consumed, application_status, protocol_status } => {
                        end = Some((application_status, protocol_status));
                        consumed
                    }
                };
                held.drain(..consumed);
            }
        }
        assert_eq!(reader.is_ended(), end.is_some());
        Ok((out, err, end, held.len()))
    }

    #[test]
    fn streams_are_put_together_however_records_are_split() {
        let all = [
            record(1, 6, 1, b"hello ", 3),
            record(1, 7, 1, b"oops", 0),
            record(1, 11, 0, b"\x20\0\0\0\0\0\0\0", 1),
            record(1, 6, 1, b"world", 255),
            record(1, 6, 1, b"", 2),
            record(1, 7, 1, b"", 0),
            record(1, 3, 1, b"\0\0\x01\x02\0\0\0\0", 7),
            b"next".to_vec(),
        ]
        .concat();
        let expected = Ok((b"hello world".to_vec(), b"oops".to_vec(), Some((258, 0)), 4));
        for size in 1..all.len() {
            assert_eq!(read(&all.chunks(size).collect::<Vec<_>>()), expected, "pieces of {size}");
        }
    }

    #[test]
    fn the_end_is_at_the_end_of_its_padding() {
        let end = record(1, 3, 1, &[0; 8], 5);
        assert_eq!(read(&[&end[..20]]).unwrap().2, None);
        assert_eq!(read(&[&end]).unwrap().2, Some((0, 0)));
    }

    #[test]
    fn what_is_no_record_of_this_request_is_refused() {
        for bad in [
            record(2, 6, 1, b"a", 0),
            record(1, 6, 2, b"a", 0),
            record(1, 6, 0, b"a", 0),
            record(1, 5, 1, b"a", 0),
            record(1, 99, 1, b"a", 0),
            record(1, 3, 1, b"short", 0),
            record(1, 3, 1, &[0; 9], 0),
            [record(1, 6, 1, b"", 0), record(1, 6, 1, b"more", 0)].concat(),
            b"HTTP/1.1 200 OK\r\n".to_vec(),
        ] {
            assert_eq!(read(&[&bad]).err(), Some(GatewayError::Record), "{}", bad.escape_ascii());
        }
    }
}
