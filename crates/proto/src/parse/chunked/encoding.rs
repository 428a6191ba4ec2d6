//! A chunked decoder in the middle of a body, as bytes.

use super::{ChunkedDecoder, SIZE_DIGITS_MAX, State};
use crate::encoding::{Encoded, Malformed, Portable, Source, checked};

/// States but [`State::Size`], in the order of the numbers that stand for them. `Size` is the first number after them.
const STATES: [State; 20] = [
    State::SizeSpace,
    State::NameStart,
    State::Name,
    State::NameSpace,
    State::ValueStart,
    State::Token,
    State::Quoted,
    State::QuotedPair,
    State::ValueEnd,
    State::ValueSpace,
    State::SizeEnd,
    State::Content,
    State::ContentCr,
    State::ContentEnd,
    State::TrailerStart,
    State::TrailerName,
    State::TrailerValue,
    State::TrailerEnd,
    State::End,
    State::Ended,
];

impl Portable for ChunkedDecoder {
    fn write(&self, to: &mut Encoded) {
        let known = STATES.iter().position(|state| *state == self.state).unwrap_or(STATES.len());
        (known as u8).write(to);
        if let State::Size { digits } = self.state {
            digits.write(to);
        }
        self.chunk_bytes.write(to);
        (self.overhead_bytes_left as u64).write(to);
    }

    fn read(from: &mut Source<'_>) -> Result<ChunkedDecoder, Malformed> {
        let number = usize::from(u8::read(from)?);
        let state = match STATES.get(number) {
            Some(state) => *state,
            None => checked(State::Size { digits: u8::read(from)? }, number == STATES.len())?,
        };
        let chunk_bytes = u64::read(from)?;
        let overhead_bytes_left = usize::try_from(u64::read(from)?).map_err(|_| Malformed)?;
        let holds = match state {
            State::Size { digits: 0 } => true,
            // The size so far has so many digits.
            State::Size { digits } if digits < SIZE_DIGITS_MAX => chunk_bytes >> (4 * digits) == 0,
            State::Size { digits } => digits == SIZE_DIGITS_MAX,
            State::Content => chunk_bytes > 0,
            _ => true,
        };
        checked(ChunkedDecoder { state, chunk_bytes, overhead_bytes_left }, holds)
    }
}
