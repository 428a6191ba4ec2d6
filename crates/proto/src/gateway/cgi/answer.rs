//! Reading what a script prints (RFC 3875 6).
//!
//! Owns: the three kinds of output, document, local redirect and client redirect. Guarantees: the outcome does not
//! depend on how the output is divided; the head is bounded and is all that is held; content is as long as the script
//! announced: what is beyond that is dropped, and less is an error. Lines may end in LF or CR LF (6.2). A status line
//! in the place of `Status`, as `nph-` scripts write it (section 5), is read where that is asked for.
//!
//! ```text
//!  new --> Head --document, client redirect--> Content --end of output--> Ended
//!            |--local redirect---------------> Redirected --end of output--> Ended
//!            +--anything else, and content that is too short--> Failed
//! ```

use memchr::memchr;

use crate::gateway::fields::{EndToEnd, FieldError, Fields, LineEnds, is_value};
use crate::gateway::{AnswerHead, AnswerStep, FIELDS_MAX, GatewayError};

/// Bytes of the head of a script's output.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Not passed on as they came: `Status` is not a field of HTTP.
const OURS: &[&str] = &["status"];

/// Reads the output of one script. Plain data.
#[derive(Clone, Debug)]
pub struct AnswerReader {
    is_head: bool,
    /// Whether the head may begin with a status line.
    takes_status_line: bool,
    head: Vec<u8>,
    /// Where in the head the line begins that is being read.
    line_at: usize,
    /// Bytes of content beyond the length that was announced.
    surplus_bytes: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Content(Content),
    Redirected,
    Ended,
    Failed(GatewayError),
}

/// The handling of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// This much more was announced.
    Sized(u64),
    /// As much as comes.
    ToEnd,
    /// The answer has none, whatever the script prints (RFC 9110 9.3.2 and 15).
    None,
}

/// The values of fields that are meant for the server (RFC 3875 6.3).
struct Judged<'a> {
    status: u16,
    reason: &'a [u8],
    content_bytes: Option<u64>,
    local: Option<&'a [u8]>,
}

impl AnswerReader {
    /// For one run of a script; `is_head` says that the request was HEAD.
    pub fn new(is_head: bool) -> AnswerReader {
        AnswerReader {
            is_head,
            takes_status_line: false,
            head: Vec::new(),
            line_at: 0,
            surplus_bytes: 0,
            state: State::Head,
        }
    }

    /// The same for output whose head may begin with a status line of HTTP/1.
    pub(super) fn with_status_line(self) -> AnswerReader {
        AnswerReader { takes_status_line: true, ..self }
    }

    /// Bytes of content that were announced and have not come; none if the end of the output says how many there are.
    pub(super) fn announced_bytes(&self) -> Option<u64> {
        match self.state {
            State::Content(Content::Sized(left)) => Some(left),
            State::Ended => Some(0),
            State::Head | State::Content(_) | State::Redirected | State::Failed(_) => None,
        }
    }

    /// Takes the next piece of output. To be called again with what is left, until that is empty.
    ///
    /// Work is bounded by the length of the head, of which it keeps a copy; content is not touched.
    ///
    /// # Errors
    /// See [`GatewayError`]. Later calls give the same error.
    pub fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        match self.state {
            State::Head => {
                let (consumed, is_whole) = self.take_head(input)?;
                if is_whole { self.judge(consumed) } else { Ok(AnswerStep::Incomplete { consumed }) }
            }
            State::Content(_) | State::Redirected if input.is_empty() => Ok(AnswerStep::Incomplete { consumed: 0 }),
            State::Content(content) => {
                let (content, range) = content.take(input);
                if let Content::Sized(_) = content {
                    self.surplus_bytes += (input.len() - range.len()) as u64;
                }
                self.state = State::Content(content);
                Ok(AnswerStep::Content { consumed: input.len(), content: range })
            }
            State::Redirected => Ok(AnswerStep::Content { consumed: input.len(), content: 0..0 }),
            State::Ended => Ok(AnswerStep::Ended { consumed: 0 }),
            State::Failed(error) => Err(error),
        }
    }

    /// The output has ended. Ok if the answer is whole.
    ///
    /// # Errors
    /// [`GatewayError::Closed`] if there was none, [`GatewayError::BrokenOff`] if it is not whole.
    pub fn handle_end(&mut self) -> Result<(), GatewayError> {
        match self.state {
            State::Head if self.head.is_empty() => Err(self.fail(GatewayError::Closed)),
            State::Head => Err(self.fail(GatewayError::BrokenOff)),
            State::Content(Content::Sized(left)) if left > 0 => Err(self.fail(GatewayError::BrokenOff)),
            State::Content(_) | State::Redirected | State::Ended => {
                self.state = State::Ended;
                Ok(())
            }
            State::Failed(error) => Err(error),
        }
    }

    /// Whether any output has come.
    pub fn has_begun(&self) -> bool {
        self.state != State::Head || !self.head.is_empty()
    }

    /// Bytes of content that were dropped because they are beyond the length that was announced (RFC 9112 6.3).
    pub fn surplus_bytes(&self) -> u64 {
        self.surplus_bytes
    }

    pub(crate) fn is_in_head(&self) -> bool {
        self.state == State::Head
    }

    fn fail(&mut self, error: GatewayError) -> GatewayError {
        self.state = State::Failed(error);
        error
    }

    /// Keeps what belongs to the head: bytes consumed, and whether the empty line was among them.
    ///
    /// # Errors
    /// [`GatewayError::HeadTooLong`].
    pub(crate) fn take_head(&mut self, input: &[u8]) -> Result<(usize, bool), GatewayError> {
        let mut consumed = 0;
        while consumed < input.len() {
            let rest = &input[consumed..];
            let line_end = memchr(b'\n', rest);
            let piece = &rest[..line_end.map_or(rest.len(), |at| at + 1)];
            if self.head.len() + piece.len() > HEAD_BYTES_MAX {
                return Err(self.fail(GatewayError::HeadTooLong));
            }
            self.head.extend_from_slice(piece);
            consumed += piece.len();
            if line_end.is_some() {
                let is_empty = matches!(&self.head[self.line_at..], b"\n" | b"\r\n");
                if is_empty {
                    return Ok((consumed, true));
                }
                self.line_at = self.head.len();
            }
        }
        Ok((consumed, false))
    }

    /// The head is whole, with the last `consumed` bytes that were taken.
    ///
    /// # Errors
    /// As [`AnswerReader::read`].
    pub(crate) fn judge(&mut self, consumed: usize) -> Result<AnswerStep<'_>, GatewayError> {
        let has_status_line = self.takes_status_line && self.head.starts_with(b"HTTP/");
        let line_bytes = if has_status_line { memchr(b'\n', &self.head).map_or(0, |at| at + 1) } else { 0 };
        let (status_line, lines) = self.head[..self.line_at].split_at(line_bytes);
        let judged =
            Fields::check(lines, LineEnds::Any).map_err(|_: FieldError| GatewayError::Field).and_then(|fields| {
                let judged = if has_status_line { judge_http(status_line, fields) } else { judge(fields) }?;
                let end_to_end = EndToEnd::of_answer(fields, judged.status).map_err(|_| GatewayError::Field)?;
                Ok((end_to_end, judged))
            });
        let (end_to_end, judged) = match judged {
            Ok(judged) => judged,
            Err(error) => {
                self.state = State::Failed(error);
                return Err(error);
            }
        };
        if let Some(target) = judged.local {
            self.state = State::Redirected;
            return Ok(AnswerStep::LocalRedirect { consumed, target });
        }
        let is_bare = self.is_head || matches!(judged.status, 204 | 304);
        self.state = State::Content(match judged.content_bytes {
            _ if is_bare => Content::None,
            Some(bytes) => Content::Sized(bytes),
            None => Content::ToEnd,
        });
        let Judged { status, reason, content_bytes, .. } = judged;
        let head = AnswerHead { status, reason, content_bytes, fields: end_to_end.without(OURS) };
        Ok(AnswerStep::Head { consumed, head })
    }
}

impl Content {
    /// The part of `input` that is content of the answer, and what is to come then.
    fn take(self, input: &[u8]) -> (Content, std::ops::Range<usize>) {
        match self {
            Content::Sized(left) => {
                let bytes = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                (Content::Sized(left - bytes as u64), 0..bytes)
            }
            Content::ToEnd => (self, 0..input.len()),
            Content::None => (self, 0..0),
        }
    }
}

fn judge(fields: Fields<'_>) -> Result<Judged<'_>, GatewayError> {
    // 6.2 and 6.3: at least one field, and none of these more than once.
    let status = once(fields, "status")?;
    let location = once(fields, "location")?;
    once(fields, "content-type")?;
    let count = fields.iter().count();
    match count {
        0 => return Err(GatewayError::Script),
        1..=FIELDS_MAX => {}
        _ => return Err(GatewayError::HeadTooLong),
    }
    // 6.2.2: a path of this server, and no other field. PHP and others mean a client redirect by more.
    let is_path = |location: &[u8]| location.starts_with(b"/") && !location.starts_with(b"//");
    let local =
        location.filter(|location| count == 1 && is_path(location) && location.iter().all(u8::is_ascii_graphic));
    // A fragment is the client's alone (RFC 3986 3.5), and who names a path here means what is there.
    let local = local.map(|location| &location[..memchr(b'#', location).unwrap_or(location.len())]);
    let default = if location.is_some() { (302, &b""[..]) } else { (200, &b""[..]) };
    let (status, reason) = status.map_or(Ok(default), read_status)?;
    Ok(Judged { status, reason, content_bytes: length(fields)?, local })
}

/// The same of a head that begins with `line`. A path in `Location` is the client's to follow.
fn judge_http<'a>(line: &'a [u8], fields: Fields<'a>) -> Result<Judged<'a>, GatewayError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // The version is of no meaning here: uWSGI says the one of the client.
    let version_bytes = memchr(b' ', line).unwrap_or(line.len());
    let (version, rest) = line.split_at(version_bytes);
    let is_version = version[b"HTTP/".len()..].iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let status = rest.get(1..).filter(|_| is_version).and_then(|rest| read_status(rest).ok());
    let (status, reason) = status.ok_or(GatewayError::StatusLine)?;
    // Neither SCGI nor uwsgi has a framing, and what is framed nevertheless would be content.
    if fields.values("transfer-encoding").next().is_some() {
        return Err(GatewayError::Coding);
    }
    if fields.iter().count() > FIELDS_MAX {
        return Err(GatewayError::HeadTooLong);
    }
    Ok(Judged { status, reason, content_bytes: length(fields)?, local: None })
}

fn once<'a>(fields: Fields<'a>, name: &str) -> Result<Option<&'a [u8]>, GatewayError> {
    let mut values = fields.values(name);
    let first = values.next();
    if values.next().is_some() { Err(GatewayError::Script) } else { Ok(first) }
}

/// 6.3.3: three digits, and a reason phrase if there is a space. What is interim is not a script's to say.
fn read_status(value: &[u8]) -> Result<(u16, &[u8]), GatewayError> {
    let (digits, reason) = match value {
        [a, b, c] => ([a, b, c], &b""[..]),
        [a, b, c, b' ', reason @ ..] => ([a, b, c], reason),
        _ => return Err(GatewayError::Script),
    };
    if !digits.iter().all(|digit| digit.is_ascii_digit()) || !is_value(reason) {
        return Err(GatewayError::Script);
    }
    let status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(**digit - b'0'));
    if (200..=999).contains(&status) { Ok((status, reason)) } else { Err(GatewayError::Script) }
}

fn length(fields: Fields<'_>) -> Result<Option<u64>, GatewayError> {
    let mut values = fields.values("content-length");
    let Some(first) = values.next() else { return Ok(None) };
    let is_number = !first.is_empty() && first.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(first).ok().and_then(|text| text.parse().ok()).filter(|_| is_number);
    if values.any(|other| other != first) || number.is_none() { Err(GatewayError::Length) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(is_head: bool, pieces: &[&[u8]]) -> Vec<String> {
        let (mut reader, mut told, mut content) = (AnswerReader::new(is_head), Vec::new(), Vec::new());
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let consumed = match reader.read(rest) {
                    Ok(AnswerStep::Incomplete { consumed }) => consumed,
                    Ok(AnswerStep::Head { consumed, head }) => {
                        let text = |(name, value): (&[u8], &[u8])| {
                            format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
                        };
                        let fields: Vec<String> = head.fields.iter().map(text).collect();
                        let length = head.content_bytes.map_or(String::new(), |bytes| format!(" [{bytes}]"));
                        told.push(format!(
                            "{} {}{length} {}",
                            head.status,
                            String::from_utf8_lossy(head.reason),
                            fields.join(" ")
                        ));
                        consumed
                    }
                    Ok(AnswerStep::LocalRedirect { consumed, target }) => {
                        told.push(format!("local {}", String::from_utf8_lossy(target)));
                        consumed
                    }
                    Ok(AnswerStep::Content { consumed, content: range }) => {
                        content.extend_from_slice(&rest[range]);
                        consumed
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => {
                        told.push(format!("{error:?}"));
                        return told;
                    }
                };
                rest = &rest[consumed..];
            }
        }
        told.push(match reader.handle_end() {
            Ok(()) => format!("content {}", content.escape_ascii()),
            Err(error) => format!("{error:?}"),
        });
        told
    }

    fn output(text: &str) -> Vec<String> {
        let whole = read(false, &[text.as_bytes()]);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(false, &bytes), whole, "byte by byte");
        whole
    }

    #[test]
    fn rfc_3875_6_2_1_a_document_is_fields_an_empty_line_and_content() {
        assert_eq!(output("Content-Type: text/plain\n\nhi\n\n"), ["200  Content-Type=text/plain", "content hi\\n\\n"]);
        assert_eq!(
            output("Status: 404 Not here\r\nContent-Type: a/b\r\nX: y\r\n\r\n"),
            ["404 Not here Content-Type=a/b X=y", "content "]
        );
        assert_eq!(output("Status: 204\nX: y\n\nignored"), ["204  X=y", "content "]);
    }

    #[test]
    fn rfc_3875_6_2_2_a_path_alone_is_a_local_redirect() {
        assert_eq!(output("Location: /other?q\n\n"), ["local /other?q", "content "]);
        assert_eq!(output("Location: /other\n\nnot shown"), ["local /other", "content "]);
        assert_eq!(output("Location: /other?q#part?x#y\n\n"), ["local /other?q", "content "]);
    }

    #[test]
    fn rfc_3875_6_2_3_anything_else_is_a_client_redirect() {
        assert_eq!(output("Location: http://a/\n\n"), ["302  Location=http://a/", "content "]);
        assert_eq!(output("Location: //a/\n\n"), ["302  Location=//a/", "content "]);
        assert_eq!(
            output("Location: /x\r\nContent-Type: text/html\r\n\r\nmoved"),
            ["302  Location=/x Content-Type=text/html", "content moved"]
        );
        assert_eq!(output("Status: 301 Moved\nLocation: /x\n\n"), ["301 Moved Location=/x", "content "]);
    }

    #[test]
    fn content_is_as_long_as_announced() {
        assert_eq!(output("Content-Length: 2\nX: y\n\nhi"), ["200  [2] X=y", "content hi"]);
        for surplus in ["s", "\n", &"s".repeat(100_000)] {
            assert_eq!(output(&format!("Content-Length: 2\n\nhi{surplus}")), ["200  [2] ", "content hi"]);
        }
        assert_eq!(output("Content-Length: 0\n\nhis"), ["200  [0] ", "content "]);
        assert_eq!(output("Content-Length: 2\n\nh"), ["200  [2] ", "BrokenOff"]);
        assert_eq!(read(true, &[b"Content-Length: 2\n\nhis"]), ["200  [2] ", "content "]);
    }

    #[test]
    fn fields_of_the_connection_stay() {
        assert_eq!(output("Transfer-Encoding: chunked\nConnection: X\nX: y\nZ: z\n\n0\r\n")[0], "200  Z=z");
    }

    #[test]
    fn what_is_no_head_is_refused_by_kind() {
        let long = format!("X: {}", "y".repeat(HEAD_BYTES_MAX));
        let many = "X: y\n".repeat(FIELDS_MAX + 1) + "\n";
        for (text, error) in [
            ("", "Closed"),
            ("Content-Type: a", "BrokenOff"),
            ("Content-Type: a\n", "BrokenOff"),
            ("\n", "Script"),
            ("\r\nhello", "Script"),
            ("Traceback (most recent call last)\n\n", "Field"),
            ("HTTP/1.1 200 OK\n\n", "Field"),
            ("X: a\rb\n\n", "Field"),
            (" X: a\n\n", "Field"),
            ("Status: 200\nStatus: 404\n\n", "Script"),
            ("Location: a\nlocation: b\n\n", "Script"),
            ("Status: 20\n\n", "Script"),
            ("Status: 101 Switching Protocols\n\n", "Script"),
            ("Status: 2000\n\n", "Script"),
            ("Status: OK\n\n", "Script"),
            ("Content-Length: x\n\n", "Length"),
            ("Content-Length: 1\nContent-Length: 2\n\n", "Length"),
            (&long, "HeadTooLong"),
            (&many, "HeadTooLong"),
        ] {
            assert_eq!(output(text), [error], "{text:.60?}");
        }
    }
}
