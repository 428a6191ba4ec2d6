//! The mirror image of [`crate::conn`]: takes responses apart as they arrive (RFC 9112 4 and 6.3).
//!
//! Owns: where a response ends and whether the connection can carry another one. Guarantees: the outcome does not
//! depend on how the input is divided; a message whose end two readers could find in different places is an error;
//! content is skipped, not read. Lines of a head may end with LF alone (RFC 9112 2.2). Interim responses (1xx) are
//! given out as heads of their own with `interim` set.
//!
//! The load generator reads with it, and `gateway::http1`, which adds what a server must know before it passes an
//! answer on. Here is only what decides where a response ends: it costs the load generator a comparison a field.
//!
//! Does not send requests, keep content, or know more than one response at a time: the caller says with each what the
//! request was, because the answer to HEAD has no content whatever its fields say.
//!
//! ```text
//!            +---------------- interim ----------------+
//!            v                                         |
//!  start -> Head --length--> Length --all of it--> (Ended)
//!            |  --chunked--> Chunked --last chunk-->   ^
//!            |  --neither--> UntilClose --handle_end---+
//!            +----- no content ------------------------+
//! ```

use std::fmt;
use std::ops::Range;

use memchr::memchr;

use crate::parse::chunked::{ChunkError, ChunkedDecoder};

/// Bytes of a response head. More is an error: its sender is not an HTTP server.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes that chunk extensions and trailer fields of one response may take.
const CHUNK_OVERHEAD_BYTES_MAX: usize = 64 * 1024;

/// The framing information in the head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// 100 to 999.
    pub status: u16,
    /// Whether the connection can carry another exchange once this one has ended (RFC 9112 9.3).
    pub keep_alive: bool,
    /// Bytes of content if they were announced.
    pub content_bytes: Option<u64>,
    /// A 1xx response: another head follows (RFC 9110 15.2).
    pub interim: bool,
}

/// The result of one call of [`ResponseDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// The head is not whole yet: nothing was consumed. Call again with the same bytes and more behind them.
    Incomplete,
    /// A head. Consumed bytes first.
    Head(usize, ResponseHead),
    /// Content at this place of the input; `consumed` goes up to its end or, for framing, has an empty range.
    Content {
        /// Bytes of the input that are done with.
        consumed: usize,
        /// Where the content is in the input.
        content: Range<usize>,
    },
    /// The response has ended and consumed this many more bytes. What follows belongs to the next one.
    Ended(usize),
}

/// Why what arrived is not a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// It does not begin with `HTTP/1.`, a digit and a status of three digits.
    StatusLine,
    /// A head of more than [`HEAD_BYTES_MAX`] bytes.
    HeadTooLong,
    /// A line of the head is not a field.
    Field,
    /// `Content-Length` is not one number, or stands beside `Transfer-Encoding` (RFC 9112 6.3).
    Length,
    /// A transfer coding that is not `chunked` once, or any in HTTP/1.0 (RFC 9112 6.1): no other was asked for.
    Coding,
    /// The chunked coding is malformed.
    Chunked(ChunkError),
    /// The connection ended before the response did.
    Truncated,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::StatusLine => "not an HTTP/1 status line",
            ResponseError::HeadTooLong => "the head of the response never ends",
            ResponseError::Field => "a line of the response head is not a field",
            ResponseError::Length => "the response announces more than one length",
            ResponseError::Coding => "the response has a transfer coding that was not asked for",
            ResponseError::Chunked(error) => return error.fmt(f),
            ResponseError::Truncated => "the connection ended in the middle of a response",
        })
    }
}

impl std::error::Error for ResponseError {}

/// One response after the other of one connection.
#[derive(Clone, Debug)]
pub struct ResponseDecoder {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

impl Default for ResponseDecoder {
    fn default() -> Self {
        ResponseDecoder::new()
    }
}

impl ResponseDecoder {
    /// At the beginning of a response.
    pub fn new() -> ResponseDecoder {
        ResponseDecoder { state: State::Head }
    }

    /// Whether a response has begun and not ended. A head that is not whole has not begun.
    pub fn is_within(&self) -> bool {
        self.state != State::Head
    }

    /// Content bytes that come next for certain, if their number is known: they may be discarded unseen, with
    /// [`ResponseDecoder::skip`] in place of [`ResponseDecoder::decode`].
    pub fn content_bytes_left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Takes note of `bytes` of content that the caller discarded; at most [`ResponseDecoder::content_bytes_left`].
    /// Whether that was the last of it.
    pub fn skip(&mut self, bytes: u64) -> bool {
        let State::Length(left) = &mut self.state else { return false };
        *left = left.saturating_sub(bytes);
        let ended = *left == 0;
        if ended {
            self.state = State::Head;
        }
        ended
    }

    /// Whether the last chunk has been read and the trailer section has not ended. What calls consume meanwhile is that
    /// section, with the empty line that ends it; before it, a call stops.
    pub fn is_in_trailers(&self) -> bool {
        matches!(&self.state, State::Chunked(decoder) if decoder.is_in_trailers())
    }

    /// Takes the next piece from the beginning of `input`. `to_head` says whether the request was HEAD.
    ///
    /// Work is bounded by the length of the head, or of what frames the content; content is not touched.
    ///
    /// # Errors
    /// See [`ResponseError`]. The connection is of no further use then.
    pub fn decode(&mut self, input: &[u8], to_head: bool) -> Result<Step, ResponseError> {
        match &mut self.state {
            State::Head => self.decode_head(input, to_head),
            // Only here when the head announced no content at all.
            State::Length(0) => {
                self.state = State::Head;
                Ok(Step::Ended(0))
            }
            State::Length(left) => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= here as u64;
                Ok(Step::Content { consumed: here, content: 0..here })
            }
            State::Chunked(decoder) => {
                let stops_at_trailers = !decoder.is_in_trailers();
                let step = decoder.decode_some(input, stops_at_trailers).map_err(ResponseError::Chunked)?;
                if step.ended {
                    self.state = State::Head;
                    return Ok(Step::Ended(step.consumed));
                }
                Ok(Step::Content { consumed: step.consumed, content: step.content })
            }
            State::UntilClose => Ok(Step::Content { consumed: input.len(), content: 0..input.len() }),
        }
    }

    /// The connection has ended. Whether that was the end of a response, which is one way to end it (RFC 9112 6.3);
    /// false between responses.
    ///
    /// # Errors
    /// [`ResponseError::Truncated`] within a response of another kind.
    pub fn handle_end(&mut self) -> Result<bool, ResponseError> {
        match std::mem::replace(&mut self.state, State::Head) {
            State::Head => Ok(false),
            State::UntilClose | State::Length(0) => Ok(true),
            State::Length(_) | State::Chunked(_) => Err(ResponseError::Truncated),
        }
    }

    fn decode_head(&mut self, input: &[u8], to_head: bool) -> Result<Step, ResponseError> {
        const BEGINNING: &[u8] = b"HTTP/1.";
        let seen = input.len().min(BEGINNING.len());
        if input[..seen] != BEGINNING[..seen] {
            return Err(ResponseError::StatusLine);
        }
        let Some((fields_end, end)) = head_end(input) else {
            // With room for the empty line: or it would matter whether that arrived together with what is before it.
            return if input.len() > HEAD_BYTES_MAX + 3 {
                Err(ResponseError::HeadTooLong)
            } else {
                Ok(Step::Incomplete)
            };
        };
        if fields_end > HEAD_BYTES_MAX + 2 {
            return Err(ResponseError::HeadTooLong);
        }
        let (head, framing) = read_head(&input[..fields_end], to_head)?;
        self.state = if head.interim { State::Head } else { framing };
        Ok(Step::Head(end, head))
    }
}

/// Where the fields of a head end, behind their last line end, and where the empty line behind them does.
fn head_end(input: &[u8]) -> Option<(usize, usize)> {
    memchr::memchr_iter(b'\n', input).find_map(|at| match input[at + 1..] {
        [b'\n', ..] => Some((at + 1, at + 2)),
        [b'\r', b'\n', ..] => Some((at + 1, at + 3)),
        _ => None,
    })
}

/// Reads a head that ends with the line end of its last field.
fn read_head(head: &[u8], to_head: bool) -> Result<(ResponseHead, State), ResponseError> {
    let (minor, status) = match head {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9', b' ', digits @ ..] => (minor, status(digits)?),
        _ => return Err(ResponseError::StatusLine),
    };
    let fields = read_fields(head)?;
    let interim = status < 200 && status != 101;
    let bare = to_head || status < 200 || matches!(status, 204 | 304);
    if fields.is_chunked && *minor == b'0' {
        return Err(ResponseError::Coding);
    }
    let framing = match (bare, fields.is_chunked, fields.content_bytes) {
        (true, ..) => State::Length(0),
        (_, true, _) => State::Chunked(ChunkedDecoder::new(CHUNK_OVERHEAD_BYTES_MAX)),
        (_, false, None) => State::UntilClose,
        (_, false, Some(bytes)) => State::Length(bytes),
    };
    let persistent = if *minor == b'0' { fields.keep_alive && !fields.close } else { !fields.close };
    let keep_alive = persistent && framing != State::UntilClose;
    Ok((ResponseHead { status, keep_alive, content_bytes: fields.content_bytes, interim }, framing))
}

/// The three digits at the beginning; a space or the end of the line follows.
fn status(digits: &[u8]) -> Result<u16, ResponseError> {
    match digits {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ' | b'\r' | b'\n', ..] => {
            Ok([a, b, c].into_iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
        }
        _ => Err(ResponseError::StatusLine),
    }
}

/// The fields that matter here.
#[derive(Default)]
struct Fields {
    content_bytes: Option<u64>,
    is_chunked: bool,
    close: bool,
    keep_alive: bool,
}

fn read_fields(head: &[u8]) -> Result<Fields, ResponseError> {
    let mut fields = Fields::default();
    // The caller found an empty line behind, so every line here ends in LF.
    let mut rest = &head[memchr(b'\n', head).map_or(head.len(), |end| end + 1)..];
    while let Some(end) = memchr(b'\n', rest) {
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        rest = &rest[end + 1..];
        read_field(line, &mut fields)?;
    }
    if fields.is_chunked && fields.content_bytes.is_some() {
        return Err(ResponseError::Length);
    }
    Ok(fields)
}

fn read_field(line: &[u8], fields: &mut Fields) -> Result<(), ResponseError> {
    let colon = memchr(b':', line).filter(|&at| at > 0).ok_or(ResponseError::Field)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    // The three names have three lengths: most fields are let go by one comparison.
    match name.len() {
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let bytes = number(value).or_else(|| equal_numbers(value)).ok_or(ResponseError::Length)?;
            if fields.content_bytes.is_some_and(|before| before != bytes) {
                return Err(ResponseError::Length);
            }
            fields.content_bytes = Some(bytes);
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            if fields.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(ResponseError::Coding);
            }
            fields.is_chunked = true;
        }
        10 if name.eq_ignore_ascii_case(b"connection") => {
            for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                fields.close |= option.eq_ignore_ascii_case(b"close");
                fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        _ => {}
    }
    Ok(())
}

/// A list of the same number again and again, as comes from joining lines (RFC 9112 6.3).
fn equal_numbers(list: &[u8]) -> Option<u64> {
    let mut numbers = list.split(|&byte| byte == b',').map(|member| number(member.trim_ascii()));
    let first = numbers.next()??;
    numbers.all(|one| one == Some(first)).then_some(first)
}

/// Decimal digits and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The responses on a connection: the status and content of each, and how it went on.
    type Read = Result<Vec<(u16, Vec<u8>, bool)>, ResponseError>;

    /// Reads `pieces` as one connection after whose last piece the peer closes.
    fn read(pieces: &[&[u8]], to_head: bool) -> Read {
        let (mut decoder, mut held, mut responses) = (ResponseDecoder::new(), Vec::new(), Vec::new());
        let mut current: Option<(u16, Vec<u8>, bool)> = None;
        for piece in pieces {
            held.extend_from_slice(piece);
            while !held.is_empty() || decoder.content_bytes_left() == Some(0) {
                let consumed = match decoder.decode(&held, to_head)? {
                    Step::Incomplete => break,
                    Step::Head(consumed, head) => {
                        current = (!head.interim).then_some((head.status, Vec::new(), head.keep_alive));
                        consumed
                    }
                    Step::Content { consumed, content } => {
                        current.as_mut().expect("a head came first").1.extend_from_slice(&held[content]);
                        consumed
                    }
                    Step::Ended(consumed) => {
                        responses.extend(current.take());
                        consumed
                    }
                };
                held.drain(..consumed);
            }
        }
        if decoder.handle_end()? {
            responses.extend(current.take());
        }
        Ok(responses)
    }

    #[test]
    fn a_length_delimits_and_the_connection_goes_on() {
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 404 \r\ncontent-length:0\r\n\r\n";
        assert_eq!(read(&[two], false), Ok(vec![(200, b"hi".to_vec(), true), (404, vec![], true)]));
    }

    #[test]
    fn rfc_9112_6_3_a_length_that_is_repeated_is_one_length() {
        let joined = b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(read(&[joined], false), Ok(vec![(200, b"hi".to_vec(), true)]));
    }

    #[test]
    fn chunks_are_put_together() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3;x=y\r\n yo\r\n0\r\n\r\n";
        assert_eq!(read(&[chunked], false), Ok(vec![(200, b"hi yo".to_vec(), true)]));
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_ends_the_content() {
        assert_eq!(read(&[b"HTTP/1.1 200 OK\r\n\r\nall"], false), Ok(vec![(200, b"all".to_vec(), false)]));
    }

    #[test]
    fn head_204_and_304_have_no_content_whatever_they_announce() {
        let announced = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(read(&[announced], true), Ok(vec![(200, vec![], true)]));
        for status in ["204 No Content", "304 Not Modified"] {
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
            assert_eq!(read(&[text.as_bytes()], false).map(|read| read.len()), Ok(1), "{status}");
        }
    }

    #[test]
    fn the_longest_head_is_accepted_however_it_arrives() {
        let fill = HEAD_BYTES_MAX - "HTTP/1.1 204 x\r\nA: ".len();
        let head = |more: usize| format!("HTTP/1.1 204 x\r\nA: {}\r\n\r\n", "b".repeat(fill + more)).into_bytes();
        let (longest, longer) = (head(0), head(1));
        for cut in [longest.len() - 3, longest.len() - 1, longest.len()] {
            let read_in_two = |head: &[u8]| read(&[&head[..cut], &head[cut..]], false).map(|read| read.len());
            assert_eq!(read_in_two(&longest), Ok(1), "{cut}");
            assert_eq!(read_in_two(&longer), Err(ResponseError::HeadTooLong), "{cut}");
        }
    }

    #[test]
    fn interim_responses_do_not_count() {
        let early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&[early], false), Ok(vec![(200, vec![], true)]));
    }

    #[test]
    fn http_1_0_closes_unless_it_says_otherwise() {
        let kept = b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&[kept], false), Ok(vec![(200, vec![], true)]));
        assert_eq!(read(&[b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"], false), Ok(vec![(200, vec![], false)]));
    }

    #[test]
    fn nonsense_is_refused_by_kind() {
        let cases: [(&[u8], ResponseError); 13] = [
            (b"SSH-2.0-OpenSSH", ResponseError::StatusLine),
            (b"HTTP/1.1 20 OK\r\n\r\n", ResponseError::StatusLine),
            (b"HTTP/1.1 200 OK\r\nno field\r\n\r\n", ResponseError::Field),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ResponseError::Length),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ResponseError::Length),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", ResponseError::Length),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", ResponseError::Coding),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n", ResponseError::Coding),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                ResponseError::Coding,
            ),
            (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ResponseError::Coding),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", ResponseError::Length),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", ResponseError::Chunked(ChunkError::Size)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", ResponseError::Truncated),
        ];
        for (input, error) in cases {
            assert_eq!(read(&[input], false), Err(error), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn content_may_be_skipped_unseen() {
        let mut decoder = ResponseDecoder::new();
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
        assert!(matches!(decoder.decode(head, false), Ok(Step::Head(..))));
        assert!(!decoder.skip(4));
        assert_eq!(decoder.content_bytes_left(), Some(6));
        assert!(decoder.skip(6));
        assert!(!decoder.is_within());
    }

    fn response() -> impl Strategy<Value = Vec<u8>> {
        let content = proptest::collection::vec(any::<u8>(), 0..40);
        (content, any::<bool>(), 200_u16..600).prop_map(|(content, chunked, status)| {
            let mut text = format!("HTTP/1.1 {status} x\r\n").into_bytes();
            if chunked {
                text.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in content.chunks(7) {
                    text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    text.extend_from_slice(chunk);
                    text.extend_from_slice(b"\r\n");
                }
                text.extend_from_slice(b"0\r\n\r\n");
            } else {
                text.extend_from_slice(format!("Content-Length: {}\r\n\r\n", content.len()).as_bytes());
                text.extend_from_slice(&content);
            }
            text
        })
    }

    proptest! {
        #[test]
        fn the_outcome_does_not_depend_on_how_the_input_is_divided(
            responses in proptest::collection::vec(response(), 1..4),
            at in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let whole = responses.concat();
            let mut cuts: Vec<usize> = at.iter().map(|at| at.index(whole.len())).chain([0, whole.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &whole[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces, false), read(&[&whole], false));
        }

        #[test]
        fn no_input_is_a_panic_or_an_endless_loop(input in proptest::collection::vec(any::<u8>(), 0..200), head: bool) {
            let mut text = b"HTTP/1.1 200 OK\r\n".to_vec();
            text.extend_from_slice(&input);
            _ = read(&[&text], head);
            _ = read(&[&input], head);
        }
    }
}
