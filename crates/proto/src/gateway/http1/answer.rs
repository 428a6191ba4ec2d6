//! Reading what an application answers over HTTP/1.1 (RFC 9112 4, 6.3 and 7).
//!
//! Owns: what may be passed on of an answer, and when its connection may be kept. Guarantees: a head has one reading
//! (tokens, no folding, no control bytes, one length; lines that end with CR LF or LF); trailers, interim answers and
//! heads are bounded; an answer is ended only if it is whole. The framing is [`ResponseDecoder`]'s. Holds no content:
//! it is given out where it lies in the input.
//!
//! ```text
//!            +-- 1xx but 101 --+
//!            v                 |
//!  new --> Head ---------------+
//!            |---- 101 that was asked for ----------------> Switched
//!            |---- final status --> Content --whole--> Ended
//!            |                         |
//!            +------- anything else ---+--------------> Failed
//! ```

use memchr::memchr;

use crate::client::{self, ResponseDecoder, ResponseError, ResponseHead, Step};
use crate::gateway::fields::{EndToEnd, Fields, LineEnds, is_value};
use crate::gateway::{AnswerHead, AnswerStep, FIELDS_MAX, GatewayError};

/// Bytes of the head of an answer. It also has to fit the reading buffer whole, which may be smaller.
pub const HEAD_BYTES_MAX: usize = client::HEAD_BYTES_MAX;

/// Interim answers to one request. Each of them may be progress (102) for a waiting client, but they must not go on for
/// ever.
pub const INTERIM_MAX: u16 = 256;

/// Bytes of the trailer section of one answer: they are held until its end, because only then are they known to be
/// fields.
pub const TRAILER_BYTES_MAX: usize = 16 * 1024;

/// The facts about the request that decide how the answer is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// By HEAD: the answer has no content whatever its fields say.
    pub is_head: bool,
    /// To change to this protocol.
    pub upgrade: Option<Box<[u8]>>,
}

/// Reads the answer to one request. Plain data: it goes with the connection wherever that goes.
#[derive(Clone, Debug)]
pub struct AnswerReader {
    decoder: ResponseDecoder,
    asked: Asked,
    state: State,
    interim: u16,
    has_begun: bool,
    keep_alive: bool,
    trailers: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Content,
    Switched,
    Ended,
    Failed(GatewayError),
}

impl AnswerReader {
    /// For the answer to what was asked, on a connection on which nothing else is under way.
    pub fn new(asked: Asked) -> AnswerReader {
        AnswerReader {
            decoder: ResponseDecoder::new(),
            asked,
            state: State::Head,
            interim: 0,
            has_begun: false,
            keep_alive: false,
            trailers: Vec::new(),
        }
    }

    /// Takes the next piece from the beginning of `input`. To be called again with what is left, until it gives
    /// [`AnswerStep::Incomplete`], [`AnswerStep::Ended`] or [`AnswerStep::Switched`]. Also with empty input: the end of
    /// an answer without content needs none.
    ///
    /// Work is bounded by the length of the head, or of what frames the content.
    ///
    /// # Errors
    /// See [`GatewayError`]. The connection is of no further use then; later calls give the same error.
    pub fn read<'a>(&mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        let step = match self.state {
            State::Head => self.read_head(input),
            State::Content => self.read_content(input),
            State::Switched | State::Ended => Ok(AnswerStep::Ended { consumed: 0 }),
            State::Failed(error) => Err(error),
        };
        step.inspect_err(|error| self.state = State::Failed(*error))
    }

    /// The application has closed the connection, and `read` has taken all that came before. Ok if that ends the
    /// answer, or what follows a [`AnswerStep::Switched`].
    ///
    /// # Errors
    /// [`GatewayError::Closed`] if no byte of an answer came, [`GatewayError::BrokenOff`] if it is not whole.
    pub fn handle_end(&mut self) -> Result<(), GatewayError> {
        let outcome = match self.state {
            State::Head if !self.has_begun => Err(GatewayError::Closed),
            State::Head => Err(GatewayError::BrokenOff),
            State::Content => self.decoder.handle_end().map(drop).map_err(|_| GatewayError::BrokenOff),
            State::Switched | State::Ended => Ok(()),
            State::Failed(error) => Err(error),
        };
        self.keep_alive = false;
        match outcome {
            Ok(()) if self.state == State::Content => self.state = State::Ended,
            Ok(()) => {}
            Err(error) => self.state = State::Failed(error),
        }
        outcome
    }

    /// The buffer is full and `read` asks for more: the head does not fit. Every later call gives the same error.
    pub fn handle_full(&mut self) -> GatewayError {
        self.state = State::Failed(GatewayError::HeadTooLong);
        GatewayError::HeadTooLong
    }

    /// Whether any byte of an answer has come. Without that, and on a connection that was kept, the application may not
    /// have got the request.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the connection may carry another request. `is_request_sent`: the request and its content went out whole.
    /// `is_input_left`: unrequested bytes came after the answer. Reading them as the answer to the next request would
    /// give one client what is for another.
    pub fn is_reusable(&self, is_request_sent: bool, is_input_left: bool) -> bool {
        self.state == State::Ended && self.keep_alive && is_request_sent && !is_input_left
    }

    /// The trailer fields, once the answer has ended. [`may_trail`](crate::gateway::fields::may_trail) says which of
    /// them may be passed on.
    pub fn trailers(&self) -> Fields<'_> {
        if self.state != State::Ended {
            return Fields::default();
        }
        let lines = self.trailers.strip_suffix(b"\r\n").unwrap_or_default();
        // The decoder has found them to be fields.
        Fields::check(lines, LineEnds::CrLf).unwrap_or_default()
    }

    fn read_head<'a>(&mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        self.has_begun |= !input.is_empty();
        let (consumed, found) = match self.decoder.decode(input, self.asked.is_head) {
            Ok(Step::Head(consumed, head)) => (consumed, head),
            // Between answers there is no other step.
            Ok(_) => return Ok(AnswerStep::Incomplete { consumed: 0 }),
            Err(error) => return Err(told(error)),
        };
        let (reason, fields) = take_apart(&input[..consumed])?;
        let content_bytes = found.content_bytes;
        let end_to_end = EndToEnd::of_answer(fields, found.status).map_err(|_| GatewayError::Field)?;
        let head = AnswerHead { status: found.status, reason, content_bytes, fields: end_to_end };
        if found.status == 101 {
            return self.switch(consumed, head, fields);
        }
        if found.interim {
            self.interim += 1;
            return if self.interim > INTERIM_MAX {
                Err(GatewayError::Interim)
            } else {
                Ok(AnswerStep::Interim { consumed, head })
            };
        }
        self.keep_alive = found.keep_alive && !announces_what_it_has_not(&found, fields);
        self.state = State::Content;
        Ok(AnswerStep::Head { consumed, head })
    }

    /// RFC 9110 7.8: only to what was asked for.
    fn switch<'a>(
        &mut self,
        consumed: usize,
        head: AnswerHead<'a>,
        fields: Fields<'a>,
    ) -> Result<AnswerStep<'a>, GatewayError> {
        let asked = self.asked.upgrade.as_deref().ok_or(GatewayError::Switch)?;
        let mut protocols = fields.values("upgrade");
        let is_asked = protocols.next().is_some_and(|protocol| protocol.eq_ignore_ascii_case(asked));
        if !is_asked || protocols.next().is_some() {
            return Err(GatewayError::Switch);
        }
        self.state = State::Switched;
        Ok(AnswerStep::Switched { consumed, head: AnswerHead { fields: head.fields.with_upgrade(), ..head } })
    }

    fn read_content<'a>(&mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        if input.is_empty() && self.decoder.content_bytes_left() != Some(0) {
            return Ok(AnswerStep::Incomplete { consumed: 0 });
        }
        let is_in_trailers = self.decoder.is_in_trailers();
        let step = self.decoder.decode(input, self.asked.is_head).map_err(told)?;
        let (consumed, content) = match step {
            Step::Content { consumed, content } => (consumed, Some(content)),
            Step::Ended(consumed) => (consumed, None),
            // Within an answer there is no other step.
            Step::Incomplete | Step::Head(..) => (0, Some(0..0)),
        };
        if is_in_trailers {
            if self.trailers.len() + consumed > TRAILER_BYTES_MAX {
                return Err(GatewayError::Chunked);
            }
            self.trailers.extend_from_slice(&input[..consumed]);
        }
        // The last byte of content of a known length is its end.
        match content {
            Some(content) => Ok(AnswerStep::Content { consumed, content }),
            None => {
                self.state = State::Ended;
                Ok(AnswerStep::Ended { consumed })
            }
        }
    }
}

fn told(error: ResponseError) -> GatewayError {
    match error {
        ResponseError::StatusLine => GatewayError::StatusLine,
        ResponseError::HeadTooLong => GatewayError::HeadTooLong,
        ResponseError::Field => GatewayError::Field,
        ResponseError::Length => GatewayError::Length,
        ResponseError::Coding => GatewayError::Coding,
        ResponseError::Chunked(_) => GatewayError::Chunked,
        ResponseError::Truncated => GatewayError::BrokenOff,
    }
}

/// The reason phrase, and the fields, of a head that the decoder accepted.
fn take_apart(head: &[u8]) -> Result<(&[u8], Fields<'_>), GatewayError> {
    let line_end = memchr(b'\n', head).ok_or(GatewayError::StatusLine)?;
    let line = without_return(&head[..line_end]);
    // After `HTTP/1.1 200`.
    let reason = line.get(13..).unwrap_or_default();
    if !is_value(reason) {
        return Err(GatewayError::StatusLine);
    }
    // The empty line is the last one.
    let lines = without_return(head[line_end + 1..].strip_suffix(b"\n").ok_or(GatewayError::Field)?);
    let fields = Fields::check(lines, LineEnds::Any).map_err(|_| GatewayError::Field)?;
    if fields.iter().count() > FIELDS_MAX {
        return Err(GatewayError::HeadTooLong);
    }
    Ok((reason, fields))
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// RFC 9112 6.1 and RFC 9110 8.6: a 204 has no length and no coding, a 304 has no coding. An application that announces
/// content there may also send it, and the next request would get it for an answer.
fn announces_what_it_has_not(found: &ResponseHead, fields: Fields<'_>) -> bool {
    let has_coding = || fields.values("transfer-encoding").next().is_some();
    match found.status {
        204 => found.content_bytes.is_some_and(|bytes| bytes > 0) || has_coding(),
        304 => has_coding(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of reading, as text: one line a step.
    fn read(asked: &Asked, pieces: &[&[u8]], ends: bool) -> (Vec<String>, AnswerReader, usize) {
        let (mut reader, mut held, mut told) = (AnswerReader::new(asked.clone()), Vec::new(), Vec::new());
        let mut content = Vec::new();
        for piece in pieces {
            held.extend_from_slice(piece);
            loop {
                let step = match reader.read(&held) {
                    Ok(step) => step,
                    Err(error) => {
                        told.push(format!("{error:?}"));
                        return (told, reader, held.len());
                    }
                };
                let consumed = match step {
                    AnswerStep::Incomplete { .. } => break,
                    AnswerStep::Interim { consumed, head } => {
                        told.push(format!("interim {}", text(&head)));
                        consumed
                    }
                    AnswerStep::Head { consumed, head } => {
                        told.push(format!("head {}", text(&head)));
                        consumed
                    }
                    AnswerStep::Switched { consumed, head } => {
                        told.push(format!("switched {}", text(&head)));
                        held.drain(..consumed);
                        return (told, reader, held.len());
                    }
                    AnswerStep::Content { consumed, content: range } => {
                        content.extend_from_slice(&held[range]);
                        consumed
                    }
                    AnswerStep::Ended { consumed } => {
                        held.drain(..consumed);
                        told.push(format!("content {} ended", content.escape_ascii()));
                        return (told, reader, held.len());
                    }
                    AnswerStep::LocalRedirect { .. } | AnswerStep::Diagnostic { .. } => unreachable!("not in HTTP"),
                };
                held.drain(..consumed);
            }
        }
        if ends {
            told.push(match reader.handle_end() {
                Ok(()) => format!("content {} closed", content.escape_ascii()),
                Err(error) => format!("{error:?}"),
            });
        }
        (told, reader, held.len())
    }

    fn text(head: &AnswerHead<'_>) -> String {
        let fields: Vec<String> = head
            .fields
            .iter()
            .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
            .collect();
        let length = head.content_bytes.map_or(String::new(), |bytes| format!(" [{bytes}]"));
        format!("{} {}{length} {}", head.status, head.reason.escape_ascii(), fields.join(" ")).trim_end().to_string()
    }

    fn steps(input: &str) -> Vec<String> {
        read(&Asked::default(), &[input.as_bytes()], true).0
    }

    #[test]
    fn an_answer_is_read_and_only_what_may_go_on_is_given_out() {
        let (told, reader, left) = read(
            &Asked::default(),
            &[b"HTTP/1.1 200 Fine so\r\nContent-Length: 2\r\nETag: e\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\nhi"],
            false,
        );
        assert_eq!(told, ["head 200 Fine so [2] ETag=e", "content hi ended"]);
        assert!(reader.is_reusable(true, left > 0));
        assert!(!reader.is_reusable(false, false), "the request was not sent whole");
    }

    #[test]
    fn interim_answers_are_given_out_before_the_answer() {
        let told = steps(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        );
        assert_eq!(
            told,
            ["interim 100 Continue", "interim 103 Early Hints Link=</a>", "head 204 No Content", "content  ended"]
        );
    }

    #[test]
    fn interim_answers_end_some_time() {
        let endless = "HTTP/1.1 102 Processing\r\n\r\n".repeat(usize::from(INTERIM_MAX) + 1);
        assert_eq!(steps(&endless).last().map(String::as_str), Some("Interim"));
    }

    #[test]
    fn rfc_9112_7_1_2_trailers_are_read() {
        let answer =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nDigest: x\r\nETag: y \r\n\r\n";
        for size in [1, 2, 7, answer.len()] {
            let pieces: Vec<&[u8]> = answer.chunks(size).collect();
            let (told, reader, _) = read(&Asked::default(), &pieces, false);
            assert_eq!(told, ["head 200 OK", "content abc ended"], "{size}");
            let trailers: Vec<_> = reader.trailers().iter().collect();
            assert_eq!(trailers, [(&b"Digest"[..], &b"x"[..]), (b"ETag", b"y")], "{size}");
            assert!(reader.is_reusable(true, false));
        }
        let long =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}\r\n", "A: b\r\n".repeat(3_000));
        assert_eq!(steps(&long).last().map(String::as_str), Some("Chunked"));
    }

    #[test]
    fn an_upgrade_is_a_tunnel_if_it_was_asked_for() {
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\nA: b\r\n\r\n\x81\x00";
        let asked = |protocol: &str| Asked { is_head: false, upgrade: Some(protocol.as_bytes().into()) };
        let (told, mut reader, left) = read(&asked("websocket"), &[answer], false);
        assert_eq!(told, ["switched 101 Switching Protocols Upgrade=WebSocket A=b"]);
        assert_eq!((left, reader.handle_end()), (2, Ok(())));
        assert!(!reader.is_reusable(true, false));
        assert_eq!(read(&Asked::default(), &[answer], false).0, ["Switch"]);
        assert_eq!(read(&asked("h2c"), &[answer], false).0, ["Switch"]);
        assert_eq!(read(&asked("a"), &[b"HTTP/1.1 101 \r\n\r\n"], false).0, ["Switch"]);
    }

    #[test]
    fn an_answer_without_a_length_ends_with_the_connection_and_is_not_reusable() {
        let (told, reader, _) = read(&Asked::default(), &[b"HTTP/1.1 200 OK\r\n\r\nall"], true);
        assert_eq!(told, ["head 200 OK", "content all closed"]);
        assert!(!reader.is_reusable(true, false));
    }

    #[test]
    fn an_answer_that_breaks_off_is_never_whole() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n",
            "H",
            "HTTP/1.1 100 Continue\r\n\r\n",
        ] {
            assert_eq!(steps(answer).last().map(String::as_str), Some("BrokenOff"), "{answer:?}");
        }
        assert_eq!(steps(""), ["Closed"]);
    }

    #[test]
    fn a_second_answer_or_content_that_nobody_announced_is_not_given_to_the_next_request() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        ] {
            let (told, reader, left) = read(&Asked::default(), &[answer.as_bytes()], false);
            assert_eq!(told.last().map(String::as_str), Some("content  ended"), "{answer:?}");
            assert!(!reader.is_reusable(true, left > 0), "{answer:?}");
        }
        let (_, reader, left) = read(&Asked::default(), &[b"HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n"], false);
        assert!(reader.is_reusable(true, left > 0));
    }

    #[test]
    fn rfc_9110_9_3_2_the_answer_to_head_has_no_content() {
        let asked = Asked { is_head: true, upgrade: None };
        for framing in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", ""] {
            let answer = format!("HTTP/1.1 200 OK\r\n{framing}\r\n");
            let (told, _, _) = read(&asked, &[answer.as_bytes()], false);
            assert_eq!(told.last().map(String::as_str), Some("content  ended"), "{framing}");
        }
    }

    // 2.2
    #[test]
    fn lines_of_a_head_may_end_with_line_feed_alone() {
        let plain = steps("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 4\r\n\r\n\n\nhi");
        for answer in [
            "HTTP/1.1 200 OK\nA: b\nContent-Length: 4\n\n\n\nhi",
            "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 4\r\n\n\n\nhi",
            "HTTP/1.1 200 OK\nA: b\r\nContent-Length: 4\n\r\n\n\nhi",
        ] {
            assert_eq!(steps(answer), plain, "{answer:?}");
        }
        assert_eq!(steps("HTTP/1.1 200\n\nhi"), steps("HTTP/1.1 200 \r\n\r\nhi"));
    }

    #[test]
    fn garbage_is_told_by_kind() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(HEAD_BYTES_MAX));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(FIELDS_MAX + 1));
        for (answer, error) in [
            ("SSH-2.0-OpenSSH\r\n", "StatusLine"),
            ("HTTP/2 200\r\n\r\n", "StatusLine"),
            ("HTTP/1.1 2000 OK\r\n\r\n", "StatusLine"),
            ("HTTP/1.1 200 O\x01K\r\n\r\n", "StatusLine"),
            ("HTTP/1.1 200 OK\nA: b\rc\n\n", "Field"),
            ("HTTP/1.1 200 OK\nA\n\n", "Field"),
            ("HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2\n\n", "Length"),
            ("HTTP/1.1 200 OK\nContent-Length: 1\nTransfer-Encoding: chunked\n\n", "Length"),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n", "Chunked"),
            ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "Field"),
            ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "Field"),
            ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", "Field"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "Length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "Length"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "Coding"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", "Chunked"),
            (&long, "HeadTooLong"),
            (&many, "HeadTooLong"),
        ] {
            assert_eq!(steps(answer).last().map(String::as_str), Some(error), "{answer:.60?}");
        }
    }

    #[test]
    fn after_an_error_there_are_only_errors() {
        let mut reader = AnswerReader::new(Asked::default());
        assert_eq!(reader.read(b"nonsense").err(), Some(GatewayError::StatusLine));
        assert_eq!(reader.read(b"HTTP/1.1 200 OK\r\n\r\n").err(), Some(GatewayError::StatusLine));
        assert_eq!(reader.handle_end(), Err(GatewayError::StatusLine));
        assert!(!reader.is_reusable(true, false));
    }
}
