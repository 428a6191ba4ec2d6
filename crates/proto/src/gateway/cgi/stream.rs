//! Reading an answer of SCGI or uwsgi: what a script prints, to the end of the connection.
//!
//! Owns: where such an answer ends. Guarantees: as [`AnswerReader`], which reads the output. An answer is whole when
//! all content that was announced is there, or else at the end of the connection; so one without a length that breaks
//! off is not told from one that has ended, which neither protocol can. Output beyond that is left in the input; of an
//! answer that has no content it is dropped, up to [`DROPPED_BYTES_MAX`], and then the answer is over.

use super::AnswerReader;
use crate::gateway::{AnswerStep, GatewayError};

/// Bytes that an answer without content is read for, before it is over without the end of the connection.
const DROPPED_BYTES_MAX: u64 = 64 * 1024;

/// Reads the answer to one request. Plain data.
#[derive(Clone, Debug)]
pub struct StreamReader {
    output: AnswerReader,
    /// Bytes of output that were dropped.
    dropped_bytes: u64,
}

impl StreamReader {
    /// For one request; `is_head` says that it was HEAD. The head may begin with a status line, as that of `nph-`
    /// scripts does (RFC 3875 5): applications of uwsgi write one.
    pub fn new(is_head: bool) -> StreamReader {
        StreamReader { output: AnswerReader::new(is_head).with_status_line(), dropped_bytes: 0 }
    }

    /// Takes the next piece from the beginning of `input`. To be called again with what is left until it is
    /// [`AnswerStep::Incomplete`] or [`AnswerStep::Ended`].
    ///
    /// # Errors
    /// See [`GatewayError`]. Later calls give the same error.
    pub fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        let announced = self.output.announced_bytes();
        if announced == Some(0) || self.dropped_bytes > DROPPED_BYTES_MAX {
            return Ok(AnswerStep::Ended { consumed: 0 });
        }
        let bytes = announced.map_or(input.len(), |left| input.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
        let step = self.output.read(&input[..bytes]);
        if let Ok(AnswerStep::Content { consumed, content }) = &step {
            self.dropped_bytes += (consumed - content.len()) as u64;
        }
        step
    }

    /// The application has closed the connection.
    ///
    /// # Errors
    /// [`GatewayError::Closed`] if nothing came, [`GatewayError::BrokenOff`] if the answer is not whole.
    pub fn handle_end(&mut self) -> Result<(), GatewayError> {
        self.output.handle_end()
    }

    /// Whether any byte of an answer has come.
    pub fn has_begun(&self) -> bool {
        self.output.has_begun()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The steps in words, content put together; whatever way the input is divided.
    fn read(input: &[u8], piece_bytes: usize, is_head: bool) -> String {
        let (mut reader, mut told, mut content, mut held) =
            (StreamReader::new(is_head), String::new(), Vec::new(), Vec::new());
        let mut pieces = input.chunks(piece_bytes);
        loop {
            let consumed = match reader.read(&held) {
                Ok(AnswerStep::Incomplete { consumed }) => {
                    held.drain(..consumed);
                    match pieces.next() {
                        Some(piece) => held.extend_from_slice(piece),
                        None => {
                            let end = reader.handle_end();
                            return format!("{told}{} {end:?}", content.escape_ascii());
                        }
                    }
                    continue;
                }
                Ok(AnswerStep::Head { consumed, head }) => {
                    let reason = head.reason.escape_ascii();
                    told += &format!("{} {reason} {} ", head.status, head.fields.iter().count());
                    consumed
                }
                Ok(AnswerStep::Content { consumed, content: range }) => {
                    content.extend_from_slice(&held[range]);
                    consumed
                }
                Ok(AnswerStep::LocalRedirect { consumed, target }) => {
                    told += &format!("to {} ", target.escape_ascii());
                    consumed
                }
                Ok(AnswerStep::Ended { .. }) => return format!("{told}{} ended", content.escape_ascii()),
                Ok(other) => panic!("{other:?}"),
                Err(error) => return format!("{told}{error:?}"),
            };
            held.drain(..consumed);
        }
    }

    #[test]
    fn an_answer_has_a_status_line_or_the_head_of_a_script() {
        for (input, expected) in [
            ("Status: 404 Not Found\r\nA: b\r\n\r\nx", "404 Not Found 1 x Ok(())"),
            ("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\nx", "404 Not Found 1 x Ok(())"),
            ("HTTP/1.0 200\nA: b\n\nx", "200  1 x Ok(())"),
            ("HTTP/1.1 200 OK\r\n\r\nx", "200 OK 0 x Ok(())"),
            ("HTTP/1.1 302 Found\r\nLocation: /a\r\n\r\n", "302 Found 1  Ok(())"),
            ("Location: /a\r\n\r\n", "to /a  Ok(())"),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "StatusLine"),
            ("HTTP/2.0 200 OK\r\nA: b\r\n\r\n", "200 OK 1  Ok(())"),
            ("HTTP/x 200 OK\r\nA: b\r\n\r\n", "StatusLine"),
            ("HTTP/1.1\r\nA: b\r\n\r\n", "StatusLine"),
            ("HTTP/1.1 20 OK\r\nA: b\r\n\r\n", "StatusLine"),
            ("HTTP/1.1 200 OK\r\nStatus: 404\r\n\r\n", "200 OK 0  Ok(())"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Coding"),
            ("A: b\r\nHTTP/1.1 200 OK\r\n\r\n", "Field"),
            ("", " Err(Closed)"),
            ("HTTP/1.1 200 OK\r\n", " Err(BrokenOff)"),
        ] {
            for piece_bytes in [1, 7, 1000] {
                assert_eq!(read(input.as_bytes(), piece_bytes, false), expected, "{input} by {piece_bytes}");
            }
        }
    }

    #[test]
    fn content_is_as_long_as_announced_or_goes_to_the_end_of_the_connection() {
        let long = format!("A: b\r\n\r\n{}", "x".repeat(DROPPED_BYTES_MAX as usize + 1000));
        for (input, is_head, expected) in [
            ("Content-Length: 2\r\n\r\nxy", false, "200  0 xy ended"),
            ("Content-Length: 2\r\n\r\nxyz", false, "200  0 xy ended"),
            ("Content-Length: 3\r\n\r\nxy", false, "200  0 xy Err(BrokenOff)"),
            ("Content-Length: 0\r\n\r\n", false, "200  0  ended"),
            ("Content-Length: 2\r\n\r\n", true, "200  0  Ok(())"),
            ("A: b\r\n\r\nxy", true, "200  1  Ok(())"),
            ("Status: 304\r\n\r\nxy", false, "304  0  Ok(())"),
            (&long, true, "200  1  ended"),
        ] {
            assert_eq!(read(input.as_bytes(), 500, is_head), expected, "{}", &input[..input.len().min(40)]);
        }
    }

    proptest! {
        #[test]
        fn how_output_is_divided_changes_nothing(
            input in "(HTTP/[12][.0-9 ]{1,5}[0-9]{3} [A-Z ]{0,4}\r\n)?((Status: [1-4][0-9]{2}|Content-Length: [0-9]|Location: /a|A: b)\r?\n){0,3}\r?\n[a-z]{0,12}",
            piece_bytes in 1..20_usize,
            is_head: bool,
        ) {
            prop_assert_eq!(
                read(input.as_bytes(), piece_bytes, is_head), read(input.as_bytes(), usize::MAX >> 1, is_head));
        }
    }
}
