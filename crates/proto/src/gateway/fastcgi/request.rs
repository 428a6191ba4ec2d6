//! Writing a request as FastCGI records (sections 3.4, 5.1 to 5.4).
//!
//! Owns: the encoding of parameters, and the framing of content. Guarantees: streams end exactly once; content is as
//! long as announced. Copies parameters, which are bounded, and no content.
//!
//! ```text
//!  Open(n) --pieces--> Open(0) --end--> Ended
//! ```

use super::record::{HEADER_BYTES, RECORD_BYTES_MAX, header, kind};
use crate::gateway::cgi::TooLong;
use crate::gateway::http1::LengthError;

/// The role of a program that answers requests.
const RESPONDER: u16 = 1;
/// That the application must not close the connection (section 5.1).
const KEEP_CONNECTION: u8 = 1;

/// Bytes that all parameters of one request may take. Four times what a request's head may have.
pub const PARAMETER_BYTES_MAX: usize = 256 * 1024;

/// Appends the beginning of a request: its role, and the parameters that `fill` gives. The content follows, with
/// [`StdinWriter`]; a request without content has that stream as well.
///
/// # Errors
/// [`TooLong`]: more than [`PARAMETER_BYTES_MAX`]; `out` is then as it was.
pub fn write_begin(keep_alive: bool, out: &mut Vec<u8>, fill: impl FnOnce(&mut Parameters<'_>)) -> Result<(), TooLong> {
    let start = out.len();
    let [role_high, role_low] = RESPONDER.to_be_bytes();
    out.extend_from_slice(&header(kind::BEGIN_REQUEST, 8));
    out.extend_from_slice(&[role_high, role_low, if keep_alive { KEEP_CONNECTION } else { 0 }, 0, 0, 0, 0, 0]);
    let mut parameters = Parameters { record_at: out.len(), start: out.len(), out, is_too_long: false };
    parameters.open();
    fill(&mut parameters);
    let is_too_long = parameters.is_too_long;
    parameters.close();
    out.extend_from_slice(&header(kind::PARAMS, 0));
    if is_too_long {
        out.truncate(start);
        return Err(TooLong);
    }
    Ok(())
}

/// Adds a short parameter to the beginning of a request that has been written: one whose value was not known before.
pub fn add_parameter(name: &[u8], value: &[u8], begin: &mut Vec<u8>) {
    // In front of the record that ends the parameters.
    begin.truncate(begin.len().saturating_sub(HEADER_BYTES));
    let mut parameters = Parameters { record_at: begin.len(), start: begin.len(), out: begin, is_too_long: false };
    parameters.open();
    parameters.give(name, value);
    parameters.close();
    begin.extend_from_slice(&header(kind::PARAMS, 0));
}

/// Takes parameters, and divides them into records.
#[derive(Debug)]
pub struct Parameters<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// Where the header of the record is that is being filled.
    record_at: usize,
    is_too_long: bool,
}

impl Parameters<'_> {
    /// Adds one (section 3.4). Nothing is added any more once there are too many.
    pub fn give(&mut self, name: &[u8], value: &[u8]) {
        let bytes = self.out.len() - self.start + name.len() + value.len();
        self.is_too_long |= bytes > PARAMETER_BYTES_MAX;
        if self.is_too_long {
            return;
        }
        self.append_length(name.len());
        self.append_length(value.len());
        self.append(name);
        self.append(value);
    }

    /// One byte up to 127, or else four with the highest bit set.
    fn append_length(&mut self, bytes: usize) {
        // At most PARAMETER_BYTES_MAX, which has no 31 bits.
        match u8::try_from(bytes) {
            Ok(short) if short < 0x80 => self.append(&[short]),
            _ => self.append(&(bytes as u32 | 0x8000_0000).to_be_bytes()),
        }
    }

    fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let held = self.out.len() - self.record_at - HEADER_BYTES;
            if held == RECORD_BYTES_MAX {
                self.close();
                self.record_at = self.out.len();
                self.open();
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(RECORD_BYTES_MAX - held));
            self.out.extend_from_slice(now);
            bytes = later;
        }
    }

    fn open(&mut self) {
        self.out.extend_from_slice(&header(kind::PARAMS, 0));
    }

    /// Writes the length of the record, or takes it away if it is empty: that would be the end of the stream.
    fn close(&mut self) {
        let held = self.out.len() - self.record_at - HEADER_BYTES;
        if held == 0 {
            self.out.truncate(self.record_at);
        } else {
            // No record is longer than a u16 can say.
            self.out[self.record_at..][..HEADER_BYTES].copy_from_slice(&header(kind::PARAMS, held as u16));
        }
    }
}

/// The content of one request.
#[derive(Clone, Copy, Debug)]
pub struct StdinWriter {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open(u64),
    Ended,
}

/// The record header before a piece of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdinRecord {
    /// To be sent before it.
    pub header: [u8; HEADER_BYTES],
    /// Bytes of content that follow; the rest of the piece goes into further records.
    pub bytes: usize,
}

impl StdinWriter {
    /// For content of this length, which `CONTENT_LENGTH` has told.
    pub fn new(content_bytes: u64) -> StdinWriter {
        StdinWriter { state: State::Open(content_bytes) }
    }

    /// Begins a record for as much of a piece of `bytes` bytes as it takes; none for an empty piece.
    ///
    /// # Errors
    /// [`LengthError::Surplus`]; the state has not changed then.
    pub fn piece(&mut self, bytes: usize) -> Result<Option<StdinRecord>, LengthError> {
        let taken = bytes.min(RECORD_BYTES_MAX);
        match &mut self.state {
            _ if bytes == 0 => Ok(None),
            State::Open(left) => {
                *left = left.checked_sub(taken as u64).ok_or(LengthError::Surplus)?;
                Ok(Some(StdinRecord { header: header(kind::STDIN, taken as u16), bytes: taken }))
            }
            State::Ended => Err(LengthError::Surplus),
        }
    }

    /// The record that ends the content.
    ///
    /// # Errors
    /// [`LengthError`]: it is not the end, or the end was before.
    pub fn end(&mut self) -> Result<[u8; HEADER_BYTES], LengthError> {
        match self.state {
            State::Open(0) => {
                self.state = State::Ended;
                Ok(header(kind::STDIN, 0))
            }
            State::Open(_) => Err(LengthError::Short),
            State::Ended => Err(LengthError::Surplus),
        }
    }

    /// Whether the request is complete: without that the connection cannot carry another.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }
}

/// The record that asks an application to end a request early (section 5.4). It may stand between any two records. The
/// application still answers with `END_REQUEST`, some time; who does not want to wait for that closes the connection.
pub fn abort() -> [u8; HEADER_BYTES] {
    header(kind::ABORT_REQUEST, 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    /// Reads a beginning as an application does: flags, and parameters.
    fn read_begin(mut bytes: &[u8]) -> (u8, Pairs, usize) {
        assert_eq!(bytes[..8], [1, 1, 0, 1, 0, 8, 0, 0]);
        assert_eq!(bytes[8..10], [0, 1]);
        let flags = bytes[10];
        bytes = &bytes[16..];
        let (mut stream, mut records) = (Vec::new(), 0);
        loop {
            assert_eq!(bytes[..4], [1, 4, 0, 1]);
            let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            stream.extend_from_slice(&bytes[8..8 + length]);
            bytes = &bytes[8 + length + usize::from(bytes[6])..];
            if length == 0 {
                break;
            }
            records += 1;
        }
        assert!(bytes.is_empty());
        let (mut rest, mut pairs) = (&stream[..], Vec::new());
        let length = |rest: &mut &[u8]| {
            let (bytes, long) = if rest[0] < 0x80 { (1, u32::from(rest[0])) } else { (4, 0) };
            let long = if bytes == 4 { u32::from_be_bytes(rest[..4].try_into().unwrap()) & 0x7fff_ffff } else { long };
            *rest = &rest[bytes..];
            long as usize
        };
        while !rest.is_empty() {
            let (name, value) = (length(&mut rest), length(&mut rest));
            pairs.push((rest[..name].to_vec(), rest[name..name + value].to_vec()));
            rest = &rest[name + value..];
        }
        (flags, pairs, records)
    }

    fn begin(keep_alive: bool, pairs: &Pairs) -> Result<Vec<u8>, TooLong> {
        let mut out = Vec::new();
        write_begin(keep_alive, &mut out, |parameters| {
            pairs.iter().for_each(|(name, value)| parameters.give(name, value));
        })?;
        Ok(out)
    }

    #[test]
    fn a_request_begins_with_its_role_and_parameters() {
        let pairs =
            vec![(b"A".to_vec(), b"b".to_vec()), (b"EMPTY".to_vec(), vec![]), (b"LONG".to_vec(), vec![b'x'; 128])];
        assert_eq!(read_begin(&begin(true, &pairs).unwrap()), (1, pairs.clone(), 1));
        assert_eq!(read_begin(&begin(false, &vec![]).unwrap()), (0, vec![], 0));
    }

    #[test]
    fn a_parameter_that_is_known_later_is_read_as_the_others() {
        let mut pairs = vec![(b"A".to_vec(), b"b".to_vec())];
        let mut written = begin(true, &pairs).unwrap();
        add_parameter(b"CONTENT_LENGTH", b"12", &mut written);
        pairs.push((b"CONTENT_LENGTH".to_vec(), b"12".to_vec()));
        assert_eq!(read_begin(&written), (1, pairs, 2));
    }

    #[test]
    fn parameters_go_on_in_the_next_record() {
        let pairs = vec![(b"A".to_vec(), vec![b'x'; RECORD_BYTES_MAX]), (b"B".to_vec(), b"y".to_vec())];
        assert_eq!(read_begin(&begin(true, &pairs).unwrap()), (1, pairs, 2));
        // A record that is exactly full is followed by the end, not by an empty one too many.
        let full = vec![(b"A".to_vec(), vec![b'x'; RECORD_BYTES_MAX - 6])];
        assert_eq!(read_begin(&begin(true, &full).unwrap()), (1, full, 1));
    }

    #[test]
    fn too_many_parameters_are_refused_and_nothing_is_written() {
        let mut out = b"before".to_vec();
        let outcome = write_begin(true, &mut out, |parameters| {
            (0..10).for_each(|_| parameters.give(b"A", &[b'x'; PARAMETER_BYTES_MAX / 8]));
        });
        assert_eq!((outcome, &out[..]), (Err(TooLong), &b"before"[..]));
    }

    #[test]
    fn content_is_as_long_as_announced() {
        let mut stdin = StdinWriter::new(70_000);
        let first = stdin.piece(70_000).unwrap().unwrap();
        assert_eq!((first.bytes, first.header), (RECORD_BYTES_MAX, [1, 5, 0, 1, 255, 255, 0, 0]));
        assert_eq!(stdin.end(), Err(LengthError::Short));
        assert_eq!(stdin.piece(5_000), Err(LengthError::Surplus));
        assert_eq!(stdin.piece(0), Ok(None));
        assert_eq!(stdin.piece(4_465).unwrap().unwrap().bytes, 4_465);
        assert_eq!(stdin.end(), Ok([1, 5, 0, 1, 0, 0, 0, 0]));
        assert!(stdin.is_ended());
        assert_eq!((stdin.end(), stdin.piece(1)), (Err(LengthError::Surplus), Err(LengthError::Surplus)));
    }

    #[test]
    fn a_request_can_be_given_up() {
        assert_eq!(abort(), [1, 2, 0, 1, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn parameters_are_read_as_they_were_written(
            pairs in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..200), prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..300),
                    (65_000..66_000_usize).prop_map(|length| vec![7; length]),
                ]),
                0..4,
            ),
        ) {
            let written = begin(true, &pairs).unwrap();
            prop_assert_eq!(read_begin(&written).1, pairs);
        }
    }
}
