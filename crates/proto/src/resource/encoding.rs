//! A representation that an answer goes on from, as bytes, and its content as bytes or as an open file.

use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use super::{FieldLine, Modified, Representation};
use crate::encoding::{Encoded, Malformed, Portable, Source, checked, write_bytes};
use crate::exchange::negotiate::Coding;
use crate::message::{Span, Status};
use crate::transmit::FileState;

/// Where the content that travels is.
pub(crate) enum Body<'a> {
    /// Nowhere, or none is needed.
    Absent,
    /// In an open file, which goes beside the bytes.
    File(&'a Arc<OwnedFd>),
    /// Here, all of it: it has the size of the representation.
    Here(&'a [u8]),
}

/// Codings, in the order of the numbers that stand for them.
const CODINGS: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];
/// Bytes of the date in a head.
const DATE_BYTES: usize = 29;

impl Representation {
    /// Writes it as one of `size` bytes, which are in `body`.
    pub(crate) fn write(&self, size: u64, body: &Body<'_>, to: &mut Encoded) {
        write_bytes(self.head(), to);
        [self.date_at, self.fields_at, self.after_type_at, self.kept_at].iter().for_each(|at| at.write(to));
        [self.etag, self.media].iter().for_each(|span| span.write(to));
        self.age.write(to);
        self.aged_since.write(to);
        u32::from(self.lines.len() as u16).write(to);
        self.lines.iter().flat_map(|line| [line.name, line.value]).for_each(|span| span.write(to));
        self.status.0.write(to);
        self.ranges.write(to);
        let coding = CODINGS.iter().position(|coding| *coding == self.coding).unwrap_or(0);
        (coding as u8).write(to);
        size.write(to);
        self.modified().write(to);
        self.state.write(to);
        match body {
            Body::Absent => 0u8.write(to),
            Body::File(file) => {
                1u8.write(to);
                to.files.push((*file).clone());
            }
            Body::Here(content) => {
                2u8.write(to);
                write_bytes(content, to);
            }
        }
    }

    pub(crate) fn read(from: &mut Source<'_>) -> Result<Representation, Malformed> {
        let head: Vec<u8> = Vec::read(from)?;
        let head_length = u16::try_from(head.len()).map_err(|_| Malformed)?;
        let mut representation = Representation {
            date_at: u16::read(from)?,
            fields_at: u16::read(from)?,
            after_type_at: u16::read(from)?,
            kept_at: u16::read(from)?,
            etag: Span::read(from)?,
            media: Span::read(from)?,
            age: Span::read(from)?,
            aged_since: u32::read(from)?,
            lines: read_lines(from)?,
            status: Status(u16::read(from)?),
            ranges: bool::read(from)?,
            coding: *CODINGS.get(usize::from(u8::read(from)?)).ok_or(Malformed)?,
            size: u64::read(from)?,
            modified: Modified::of(Option::read(from)?),
            state: FileState::read(from)?,
            keeper: OnceLock::new(),
            file: None,
            block: OnceLock::new(),
            later: OnceLock::new(),
            bytes: head.into_boxed_slice(),
            head_length,
        };
        checked((), representation.is_consistent())?;
        match u8::read(from)? {
            0 => {}
            1 => representation.file = Some(Arc::new(from.files.pop_front().ok_or(Malformed)?)),
            2 => {
                let content = Vec::read(from)?;
                checked((), content.len() as u64 == representation.size)?;
                representation.fill(&content);
            }
            _ => return Err(Malformed),
        }
        Ok(representation)
    }

    /// Whether all places are within the head, in the order of the drawing.
    fn is_consistent(&self) -> bool {
        let length = self.head().len();
        let within = |span: Span| span.start <= span.end && usize::from(span.end) <= length;
        self.head().ends_with(b"\r\n\r\n")
            && self.date_at() + DATE_BYTES + "\r\n".len() <= length
            && self.fields_at <= self.after_type_at
            && self.after_type_at <= self.kept_at
            && usize::from(self.kept_at) <= length - 2
            && within(self.etag)
            && within(self.media)
            && within(self.age)
            && (!self.is_aged() || self.age.start >= self.kept_at)
            && self.lines.iter().all(|line| within(line.name) && within(line.value))
    }
}

impl Portable for FileState {
    fn write(&self, to: &mut Encoded) {
        self.version.write(to);
        self.size.write(to);
        self.ends.get().write(to);
    }

    fn read(from: &mut Source<'_>) -> Result<FileState, Malformed> {
        let (version, size) = (u64::read(from)?, u64::read(from)?);
        let ends: Option<u64> = Option::read(from)?;
        Ok(FileState { version, size, ends: ends.into() })
    }
}

/// Each takes bytes, so a false count ends where they do.
fn read_lines(from: &mut Source<'_>) -> Result<Box<[FieldLine]>, Malformed> {
    (0..u32::read(from)?).map(|_| Ok(FieldLine { name: Span::read(from)?, value: Span::read(from)? })).collect()
}

impl Portable for Span {
    fn write(&self, to: &mut Encoded) {
        self.start.write(to);
        self.end.write(to);
    }

    fn read(from: &mut Source<'_>) -> Result<Span, Malformed> {
        Ok(Span { start: u16::read(from)?, end: u16::read(from)? })
    }
}
