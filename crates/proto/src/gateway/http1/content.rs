//! Framing the content of a request on its way to an application (RFC 9112 6 and 7).
//!
//! Owns: the framing before and behind each piece. Guarantees: the announced length is what is sent, and a piece is
//! whole when it is sent, without waiting for the next. Copies no content: a piece is sent as a [`Frame`], the bytes
//! themselves, and what ends it.
//!
//! ```text
//!  Sized(n) --pieces of n bytes--> Sized(0) --end--> Ended
//!  Chunked --pieces--> Chunked --end--> Ended
//! ```

use crate::gateway::RequestContent;

/// The content of one request.
#[derive(Clone, Copy, Debug)]
pub struct ContentWriter {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sized(u64),
    Chunked,
    Ended,
}

/// Bytes that stand before a piece of content, or behind the last.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    bytes: [u8; FRAME_BYTES_MAX],
    length: u8,
}

/// 16 digits, the end of the line.
const FRAME_BYTES_MAX: usize = 18;

/// There is more content, or less, than was announced. The request cannot be completed: the connection has to be
/// closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthError {
    /// More than was announced, or after the end.
    Surplus,
    /// Less than was announced.
    Short,
}

impl ContentWriter {
    /// For content that was announced so.
    pub fn new(content: RequestContent) -> ContentWriter {
        let state = match content {
            // Of buffered content nothing is sent before its length is known.
            RequestContent::None | RequestContent::Buffered => State::Sized(0),
            RequestContent::Sized(bytes) => State::Sized(bytes),
            RequestContent::Streamed => State::Chunked,
        };
        ContentWriter { state }
    }

    /// The framing before a piece of `bytes` bytes, and behind it. The whole piece is sent between, or the connection
    /// is closed.
    ///
    /// # Errors
    /// [`LengthError::Surplus`]; the state has not changed then.
    pub fn piece(&mut self, bytes: u64) -> Result<(Frame, &'static [u8]), LengthError> {
        match &mut self.state {
            _ if bytes == 0 => Ok((Frame::of(&[]), b"")),
            State::Sized(left) => {
                *left = left.checked_sub(bytes).ok_or(LengthError::Surplus)?;
                Ok((Frame::of(&[]), b""))
            }
            State::Chunked => {
                let mut digits = [0; 16];
                Ok((Frame::of(&[hexadecimal(bytes, &mut digits), b"\r\n"]), b"\r\n"))
            }
            State::Ended => Err(LengthError::Surplus),
        }
    }

    /// The framing behind the last piece.
    ///
    /// # Errors
    /// [`LengthError`]: it is not the end, or the end was before.
    pub fn end(&mut self) -> Result<Frame, LengthError> {
        let frame: &[u8] = match self.state {
            State::Sized(0) => b"",
            State::Sized(_) => return Err(LengthError::Short),
            State::Chunked => b"0\r\n\r\n",
            State::Ended => return Err(LengthError::Surplus),
        };
        self.state = State::Ended;
        Ok(Frame::of(&[frame]))
    }

    /// Whether the request is complete: without that the connection cannot carry another.
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }
}

impl Frame {
    fn of(parts: &[&[u8]]) -> Frame {
        let mut frame = Frame { bytes: [0; FRAME_BYTES_MAX], length: 0 };
        for byte in parts.iter().copied().flatten() {
            frame.bytes[usize::from(frame.length)] = *byte;
            frame.length += 1;
        }
        frame
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

fn hexadecimal(number: u64, digits: &mut [u8; 16]) -> &[u8] {
    let mut rest = number;
    let mut at = digits.len();
    while rest > 0 {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    &digits[at..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse::chunked::ChunkedDecoder;

    #[test]
    fn sized_content_is_as_long_as_announced() {
        let mut writer = ContentWriter::new(RequestContent::Sized(5));
        assert_eq!(writer.piece(3).map(|(before, behind)| [before.as_ref(), behind].concat()), Ok(vec![]));
        assert_eq!(writer.piece(3).err(), Some(LengthError::Surplus));
        assert_eq!(writer.end().err(), Some(LengthError::Short));
        assert!(writer.piece(2).is_ok() && !writer.is_ended() && writer.end().is_ok() && writer.is_ended());
        assert_eq!(writer.piece(1).err(), Some(LengthError::Surplus));
        assert_eq!(writer.end().err(), Some(LengthError::Surplus));
    }

    #[test]
    fn no_content_ends_at_once() {
        assert_eq!(ContentWriter::new(RequestContent::None).end().map(|frame| frame.as_ref().len()), Ok(0));
        assert_eq!(ContentWriter::new(RequestContent::Streamed).end().unwrap().as_ref(), b"0\r\n\r\n");
    }

    #[test]
    fn every_chunk_has_a_frame_and_ends_behind_its_content() {
        let mut writer = ContentWriter::new(RequestContent::Streamed);
        for (bytes, frame) in [(1, &b"1\r\n"[..]), (u64::MAX, b"ffffffffffffffff\r\n")] {
            let (before, behind) = writer.piece(bytes).unwrap();
            assert_eq!((before.as_ref(), behind), (frame, &b"\r\n"[..]));
        }
    }

    proptest! {
        #[test]
        fn chunks_are_read_as_they_were_written(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..5)) {
            let (mut writer, mut sent) = (ContentWriter::new(RequestContent::Streamed), Vec::new());
            for piece in &pieces {
                let (before, behind) = writer.piece(piece.len() as u64).unwrap();
                sent.extend_from_slice(&[before.as_ref(), piece, behind].concat());
            }
            sent.extend_from_slice(writer.end().unwrap().as_ref());
            let (mut decoder, mut content, mut rest) = (ChunkedDecoder::new(0), Vec::new(), &sent[..]);
            while !rest.is_empty() {
                let step = decoder.decode(rest).unwrap();
                content.extend_from_slice(&rest[step.content]);
                rest = &rest[step.consumed..];
            }
            prop_assert!(decoder.is_ended());
            prop_assert_eq!(content, pieces.concat());
        }
    }
}
