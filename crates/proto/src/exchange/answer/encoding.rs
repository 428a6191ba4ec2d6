//! An answer that has been decided on, as bytes: the part of it that has not been handed over.
//!
//! Content in memory travels as bytes: all of it if the head has still to be written, else what remains of it. Content
//! in a file travels as the open file. What was made ready is to be made ready again.

use std::sync::Arc;

use super::{Answer, Kind, Piece};
use crate::encoding::{Encoded, Malformed, Portable, Source, checked, write_bytes};
use crate::exchange::range::ByteRange;
use crate::message::{RequestId, Status};
use crate::resource::{Body, Representation};

/// More than any answer has handed over, and so little that counting on does not overflow.
const CONTENT_BYTES_MAX: u64 = u64::MAX / 4;

impl Portable for Answer {
    fn write(&self, to: &mut Encoded) {
        self.status.0.write(to);
        self.begun.write(to);
        self.content_bytes.write(to);
        self.id.0.write(to);
        self.kind.write(to);
        match (self.begun, self.representation.content()) {
            (true, Some(content)) => self.write_rest(content, to),
            (false, Some(content)) => self.write_whole(&Body::Here(content), to),
            (_, None) => self.write_whole(&self.representation.file.as_ref().map_or(Body::Absent, Body::File), to),
        }
    }

    fn read(from: &mut Source<'_>) -> Result<Answer, Malformed> {
        let answer = Answer {
            status: Status(u16::read(from)?),
            begun: bool::read(from)?,
            content_bytes: u64::read(from)?,
            id: RequestId(u64::read(from)?),
            link: None,
            kind: Kind::read(from)?,
            current: ByteRange::read(from)?,
            later: Portable::read(from)?,
            representation: Arc::new(Representation::read(from)?),
            ready: 0,
            read: None,
            reading: false,
            paused: false,
        };
        let holds = answer.is_consistent();
        checked(answer, holds)
    }
}

impl Answer {
    fn write_whole(&self, body: &Body<'_>, to: &mut Encoded) {
        self.current.write(to);
        self.later.write(to);
        self.representation.write(self.representation.size, body, to);
    }

    /// As an answer from a representation that is nothing but the rest.
    fn write_rest(&self, content: &[u8], to: &mut Encoded) {
        let mut rest = Vec::new();
        let mut moved = |range: &ByteRange| {
            let offset = rest.len() as u64;
            rest.extend_from_slice(&content[range.offset as usize..][..range.length as usize]);
            ByteRange { offset, length: range.length }
        };
        let current = moved(&self.current);
        let later = self.later.iter().map(|piece| match piece {
            Piece::Text(text) => Piece::Text(text.clone()),
            Piece::Content(range) => Piece::Content(moved(range)),
        });
        let later: std::collections::VecDeque<Piece> = later.collect();
        current.write(to);
        later.write(to);
        self.representation.write(rest.len() as u64, &Body::Here(&rest), to);
    }

    /// Whether whatever happens next can be done with it.
    fn is_consistent(&self) -> bool {
        let size = self.representation.size;
        let within = |range: &ByteRange| range.offset.checked_add(range.length).is_some_and(|end| end <= size);
        let is_within = |piece: &Piece| match piece {
            Piece::Text(_) => true,
            Piece::Content(range) => range.length > 0 && within(range),
        };
        let has_range = !matches!(self.kind, Kind::Partial) || self.begun || self.current.length > 0;
        within(&self.current)
            && self.later.iter().all(is_within)
            && has_range
            && size <= CONTENT_BYTES_MAX
            && self.content_bytes <= CONTENT_BYTES_MAX
            // What has begun goes on until it has to wait for the socket or for content.
            && (!self.begun || self.current.length > 0)
            && (!self.begun || self.representation.content().is_none() || self.is_rest())
    }

    /// Whether its content is nothing but what it goes on with, in order: as [`Answer::write_rest`] leaves it.
    fn is_rest(&self) -> bool {
        let contents = self.later.iter().filter_map(|piece| match piece {
            Piece::Content(range) => Some(range),
            Piece::Text(_) => None,
        });
        let mut ranges = std::iter::once(&self.current).chain(contents);
        let end = ranges.try_fold(0, |end, range| (range.offset == end).then_some(end + range.length));
        end == Some(self.representation.size)
    }
}

impl Portable for ByteRange {
    fn write(&self, to: &mut Encoded) {
        self.offset.write(to);
        self.length.write(to);
    }

    fn read(from: &mut Source<'_>) -> Result<ByteRange, Malformed> {
        Ok(ByteRange { offset: u64::read(from)?, length: u64::read(from)? })
    }
}

impl Portable for Piece {
    fn write(&self, to: &mut Encoded) {
        match self {
            Piece::Text(text) => {
                0u8.write(to);
                text.write(to);
            }
            Piece::Content(range) => {
                1u8.write(to);
                range.write(to);
            }
        }
    }

    fn read(from: &mut Source<'_>) -> Result<Piece, Malformed> {
        match u8::read(from)? {
            0 => Vec::read(from).map(Piece::Text),
            1 => ByteRange::read(from).map(Piece::Content),
            _ => Err(Malformed),
        }
    }
}

impl Portable for Kind {
    fn write(&self, to: &mut Encoded) {
        match self {
            Kind::Prebuilt(query) => {
                0u8.write(to);
                query.write(to);
            }
            Kind::NotModified => 1u8.write(to),
            Kind::Partial => 2u8.write(to),
            Kind::Multipart { boundary, length } => {
                3u8.write(to);
                write_bytes(boundary.as_bytes(), to);
                length.write(to);
            }
            Kind::Unsatisfiable { size } => {
                4u8.write(to);
                size.write(to);
            }
        }
    }

    fn read(from: &mut Source<'_>) -> Result<Kind, Malformed> {
        Ok(match u8::read(from)? {
            0 => Kind::Prebuilt(Vec::read(from)?),
            1 => Kind::NotModified,
            2 => Kind::Partial,
            3 => {
                let boundary = String::from_utf8(Vec::read(from)?).map_err(|_| Malformed)?;
                Kind::Multipart { boundary, length: u64::read(from)? }
            }
            4 => Kind::Unsatisfiable { size: u64::read(from)? },
            _ => return Err(Malformed),
        })
    }
}
