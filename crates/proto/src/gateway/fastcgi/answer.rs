//! Reading what a FastCGI application answers: records, and in them the output of a script.
//!
//! Owns: what becomes of the two together. Guarantees: an answer is ended only by `END_REQUEST`, so one that breaks off
//! is never whole; diagnostics are given out in their place and never become content; what an application says beyond
//! the length that it announced is read so that its request can end, up to [`SURPLUS_BYTES_MAX`], and then the answer
//! is over. Holds the head of the answer, and 8 bytes of framing.

use super::record::{RecordReader, RecordStep};
use crate::gateway::{AnswerStep, GatewayError, cgi};

/// Bytes beyond the announced length that are read before an answer is over without its end, and its connection with
/// it.
pub const SURPLUS_BYTES_MAX: u64 = 64 * 1024;

/// Reads the answer to one request. Plain data.
#[derive(Clone, Debug)]
pub struct AnswerReader {
    records: RecordReader,
    output: cgi::AnswerReader,
    keep_alive: bool,
    has_begun: bool,
    status: Option<u32>,
    failed: Option<GatewayError>,
}

impl AnswerReader {
    /// For one request; `is_head` says that it was HEAD, `keep_alive` that it asked for the connection to be kept.
    pub fn new(is_head: bool, keep_alive: bool) -> AnswerReader {
        AnswerReader {
            records: RecordReader::new(),
            output: cgi::AnswerReader::new(is_head),
            keep_alive,
            has_begun: false,
            status: None,
            failed: None,
        }
    }

    /// Takes the next piece from the beginning of `input`. To be called again with what is left until it is
    /// [`AnswerStep::Incomplete`] or [`AnswerStep::Ended`].
    ///
    /// # Errors
    /// See [`GatewayError`]. The connection is of no further use then; later calls give the same error.
    pub fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<AnswerStep<'a>, GatewayError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.has_begun |= !input.is_empty();
        if self.records.is_ended() || self.surplus_bytes() > SURPLUS_BYTES_MAX {
            return Ok(AnswerStep::Ended { consumed: 0 });
        }
        let mut framing = 0;
        // Each round consumes something, or is the last.
        loop {
            match self.records.read(&input[framing..]) {
                Ok(RecordStep::Framing(0)) => return Ok(AnswerStep::Incomplete { consumed: framing }),
                Ok(RecordStep::Framing(consumed)) => framing += consumed,
                Ok(RecordStep::Stderr(bytes)) => {
                    self.records.take(bytes);
                    let end = framing + bytes;
                    return Ok(AnswerStep::Diagnostic { consumed: end, text: framing..end });
                }
                Ok(RecordStep::Stdout(bytes)) if self.output.is_in_head() => {
                    let (taken, is_whole) = match self.output.take_head(&input[framing..framing + bytes]) {
                        Ok(taken) => taken,
                        Err(error) => return Err(*self.failed.insert(error)),
                    };
                    self.records.take(taken);
                    framing += taken;
                    if is_whole {
                        return self.output.judge(framing).map_err(|error| *self.failed.insert(error));
                    }
                }
                Ok(RecordStep::Stdout(bytes)) => return self.read_content(input, framing, bytes),
                Ok(RecordStep::Ended { consumed, application_status, protocol_status }) => {
                    return self.ended(framing + consumed, application_status, protocol_status);
                }
                Err(error) => return Err(*self.failed.insert(error)),
            }
        }
    }

    /// The application has closed the connection.
    ///
    /// # Errors
    /// [`GatewayError::Closed`] if nothing came, [`GatewayError::BrokenOff`] if the request has not ended.
    pub fn handle_end(&mut self) -> Result<(), GatewayError> {
        self.keep_alive = false;
        match self.failed {
            Some(error) => Err(error),
            None if self.records.is_ended() => Ok(()),
            None if self.has_begun => Err(*self.failed.insert(GatewayError::BrokenOff)),
            None => Err(*self.failed.insert(GatewayError::Closed)),
        }
    }

    /// Whether any byte of an answer has come.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Bytes of content that were dropped because they are beyond the length that was announced.
    pub fn surplus_bytes(&self) -> u64 {
        self.output.surplus_bytes()
    }

    /// The exit status that the application gave, for the log. It says nothing about the answer: PHP gives that of
    /// `exit()`.
    pub fn application_status(&self) -> Option<u32> {
        self.status
    }

    /// Whether the connection may carry another request; see
    /// [`http1`](crate::gateway::http1::AnswerReader::is_reusable).
    pub fn is_reusable(&self, is_request_sent: bool, is_input_left: bool) -> bool {
        self.records.is_ended() && self.failed.is_none() && self.keep_alive && is_request_sent && !is_input_left
    }

    fn read_content<'a>(
        &'a mut self,
        input: &'a [u8],
        at: usize,
        bytes: usize,
    ) -> Result<AnswerStep<'a>, GatewayError> {
        self.records.take(bytes);
        match self.output.read(&input[at..at + bytes]) {
            // Once the head is over, all of it is content, or discarded.
            Ok(AnswerStep::Content { content, .. }) => {
                Ok(AnswerStep::Content { consumed: at + bytes, content: at + content.start..at + content.end })
            }
            Ok(_) => Ok(AnswerStep::Content { consumed: at + bytes, content: at..at }),
            Err(error) => Err(*self.failed.insert(error)),
        }
    }

    fn ended(&mut self, consumed: usize, status: u32, protocol_status: u8) -> Result<AnswerStep<'_>, GatewayError> {
        self.status = Some(status);
        let outcome = match protocol_status {
            0 => self.output.handle_end(),
            _ if self.output.has_begun() => Err(GatewayError::BrokenOff),
            // FCGI_OVERLOADED (section 5.5).
            2 => Err(GatewayError::Overloaded),
            _ => Err(GatewayError::Rejected),
        };
        match outcome {
            Ok(()) => Ok(AnswerStep::Ended { consumed }),
            Err(error) => Err(*self.failed.insert(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fastcgi::record::{header, kind};

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        [&header(kind, content.len() as u16)[..], content].concat()
    }

    fn end(status: u8, protocol_status: u8) -> Vec<u8> {
        record(kind::END_REQUEST, &[0, 0, 0, status, protocol_status, 0, 0, 0])
    }

    /// One line a step but for content, which is put together; and the reader, and bytes left.
    fn read(pieces: &[&[u8]], closes: bool) -> (Vec<String>, AnswerReader, usize) {
        let (mut reader, mut told, mut held) = (AnswerReader::new(false, true), Vec::new(), Vec::new());
        let (mut content, mut diagnostics) = (Vec::new(), Vec::new());
        for piece in pieces {
            held.extend_from_slice(piece);
            loop {
                let (consumed, goes_on) = match reader.read(&held) {
                    Ok(AnswerStep::Incomplete { consumed }) => (consumed, false),
                    Ok(AnswerStep::Head { consumed, head }) => {
                        told.push(format!("head {} {}", head.status, head.fields.iter().count()));
                        (consumed, true)
                    }
                    Ok(AnswerStep::LocalRedirect { consumed, target }) => {
                        told.push(format!("local {}", target.escape_ascii()));
                        (consumed, true)
                    }
                    Ok(AnswerStep::Content { consumed, content: range }) => {
                        content.extend_from_slice(&held[range]);
                        (consumed, true)
                    }
                    Ok(AnswerStep::Diagnostic { consumed, text }) => {
                        diagnostics.extend_from_slice(&held[text]);
                        (consumed, true)
                    }
                    Ok(AnswerStep::Ended { consumed }) => {
                        told.push(format!("{} {} ended", content.escape_ascii(), diagnostics.escape_ascii()));
                        held.drain(..consumed);
                        return (told, reader, held.len());
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => {
                        told.push(format!("{error:?}"));
                        return (told, reader, held.len());
                    }
                };
                held.drain(..consumed);
                if !goes_on {
                    break;
                }
            }
        }
        if closes {
            told.push(format!("{:?}", reader.handle_end()));
        }
        (told, reader, held.len())
    }

    #[test]
    fn an_answer_is_put_together_from_records_split_anywhere() {
        let all = [
            record(kind::STDERR, b"PHP Notice"),
            record(kind::STDOUT, b"Status: 404 No"),
            record(kind::STDOUT, b"\r\nX: y\r"),
            record(kind::STDERR, b"; more"),
            record(kind::STDOUT, b"\n\r\nhel"),
            record(kind::STDOUT, b"lo"),
            record(kind::STDOUT, b""),
            end(3, 0),
        ]
        .concat();
        for size in 1..=all.len() {
            let (told, reader, left) = read(&all.chunks(size).collect::<Vec<_>>(), false);
            assert_eq!(told, ["head 404 1", "hello PHP Notice; more ended"], "pieces of {size}");
            assert_eq!((reader.application_status(), left), (Some(3), 0));
            assert!(reader.is_reusable(true, false));
            assert!(!reader.is_reusable(false, false) && !reader.is_reusable(true, true));
        }
    }

    #[test]
    fn an_answer_ends_with_its_end_only() {
        let begun = [record(kind::STDOUT, b"X: y\n\nhi"), record(kind::STDOUT, b"")].concat();
        assert_eq!(read(&[&begun], true).0, ["head 200 1", "Err(BrokenOff)"]);
        assert_eq!(read(&[], true).0, ["Err(Closed)"]);
        assert_eq!(read(&[&end(0, 0)], true).0, ["Closed"]);
        assert_eq!(read(&[&record(kind::STDOUT, b"X: y"), &end(0, 0)], true).0, ["BrokenOff"]);
        let short = [record(kind::STDOUT, b"Content-Length: 3\n\nhi"), end(0, 0)].concat();
        assert_eq!(read(&[&short], true).0, ["head 200 0", "BrokenOff"]);
    }

    #[test]
    fn what_is_beyond_the_announced_length_is_dropped() {
        let head = record(kind::STDOUT, b"Content-Length: 3\n\n");
        for surplus in [&b"!"[..], b"\r\n", &[b'x'; 60_000]] {
            let one = [&*head, &record(kind::STDOUT, &[b"abc", surplus].concat()), &end(0, 0)].concat();
            let two = [&*head, &record(kind::STDOUT, b"abc"), &record(kind::STDOUT, surplus), &end(0, 0)].concat();
            for all in [one, two] {
                for size in [1, 7, all.len()] {
                    let (told, reader, left) = read(&all.chunks(size).collect::<Vec<_>>(), false);
                    assert_eq!(told, ["head 200 0", "abc  ended"], "{} in pieces of {size}", surplus.len());
                    assert_eq!((reader.surplus_bytes(), left), (surplus.len() as u64, 0));
                    assert!(reader.is_reusable(true, false));
                }
            }
        }
        // One that says no end is over all the same.
        let much = record(kind::STDOUT, &[b'x'; 40_000]);
        let (told, reader, _) = read(&[&head, &record(kind::STDOUT, b"abc"), &much, &much, &much], false);
        assert_eq!(told, ["head 200 0", "abc  ended"]);
        assert!(!reader.is_reusable(true, false));
        let (told, ..) = read(&[&head, &record(kind::STDOUT, b"abc!")], true);
        assert_eq!(told.last().unwrap(), "Err(BrokenOff)");
    }

    #[test]
    fn an_application_that_does_not_take_a_request_says_why() {
        assert_eq!(read(&[&end(0, 2)], false).0, ["Overloaded"]);
        assert_eq!(read(&[&end(0, 1)], false).0, ["Rejected"]);
        assert_eq!(read(&[&end(0, 3)], false).0, ["Rejected"]);
        assert_eq!(GatewayError::Overloaded.status().0, 503);
    }

    #[test]
    fn a_local_redirect_is_given_out() {
        let all = [record(kind::STDOUT, b"Location: /x\n\n"), end(0, 0)].concat();
        assert_eq!(read(&[&all], false).0, ["local /x", "  ended"]);
    }

    #[test]
    fn garbage_is_an_error_and_stays_one() {
        let (told, mut reader, _) = read(&[b"HTTP/1.1 200 OK\r\n\r\n"], true);
        assert_eq!(told, ["Record"]);
        assert_eq!(reader.read(&end(0, 0)).err(), Some(GatewayError::Record));
        assert_eq!(reader.handle_end(), Err(GatewayError::Record));
        let bad_head = record(kind::STDOUT, b"<html>\n\n");
        assert_eq!(read(&[&bad_head, &end(0, 0)], true).0, ["Field"]);
    }
}
