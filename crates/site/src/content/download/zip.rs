//! The form of a zip archive (APPNOTE 6.3.10) that is written in one go: what is known of a file only at its end stands
//! behind it.
//!
//! Owns: [`Zip`], the state of an archive. Guarantees: sizes and offsets of any length (zip64); the same content gives
//! the same bytes. Its directory, which stands at the end, is bounded: 60 bytes or so and the name for each entry.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use lamna_io::log::calendar::Calendar;

/// Bytes of the directory of an archive, of some 100,000 files: beyond this it is not gone on with.
const DIRECTORY_BYTES_MAX: usize = 8 << 20;
/// Values from here on do not fit into 32 bits, and stand in the zip64 extension.
const MANY: u64 = u32::MAX as u64;
/// Files of this size are written so that their compressed form may be longer than 32 bits can say.
const LARGE_BYTES: u64 = 4_000_000_000;

/// An archive that is being written.
#[derive(Debug, Default)]
pub(super) struct Zip {
    /// Bytes written so far.
    at: u64,
    directory: Vec<u8>,
    count: u64,
    file: Option<File>,
}

/// The file that is being written.
#[derive(Debug)]
struct File {
    entry: Entry,
    coder: Compress,
    crc: Crc,
    compressed: u64,
}

/// The entry of a file in the central directory.
#[derive(Debug)]
struct Entry {
    name: Vec<u8>,
    /// Where its head is.
    at: u64,
    modified_unix_seconds: u64,
    is_large: bool,
    is_file: bool,
}

/// The directory would be longer than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Zip {
    /// Bytes of memory that it takes: what has been noted for the end, and what compresses.
    pub(super) fn memory_bytes(&self) -> usize {
        /// Deflate, with its window and its tables.
        const CODER_BYTES: usize = 256 * 1024;
        self.directory.capacity() + if self.file.is_some() { CODER_BYTES } else { 0 }
    }

    /// Writes the head of a file of about `size` bytes, or of a directory, whose name ends with a slash.
    pub(super) fn begin(
        &mut self,
        name: &[u8],
        size: Option<u64>,
        modified_unix_seconds: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), TooMany> {
        let before = out.len();
        let is_large = size.is_some_and(|size| size >= LARGE_BYTES);
        let entry =
            Entry { name: name.to_vec(), at: self.at, modified_unix_seconds, is_large, is_file: size.is_some() };
        // No name in a file system is longer than 16 bits can say.
        let extra = if is_large { ZIP64_EXTRA_BYTES + TIME_EXTRA_BYTES } else { TIME_EXTRA_BYTES };
        out.extend_from_slice(b"PK\x03\x04");
        entry.write_common(out);
        let sizes: u32 = if is_large { u32::MAX } else { 0 };
        push32(out, 0);
        push32(out, sizes);
        push32(out, sizes);
        push16(out, name.len());
        push16(out, extra);
        out.extend_from_slice(name);
        if is_large {
            push16(out, 1);
            push16(out, 16);
            push64(out, 0);
            push64(out, 0);
        }
        entry.write_time(out);
        self.at += (out.len() - before) as u64;
        match size {
            Some(_) => {
                let coder = Compress::new(Compression::fast(), false);
                self.file = Some(File { entry, coder, crc: Crc::new(), compressed: 0 });
                Ok(())
            }
            None => self.enter(&entry, 0, 0, 0),
        }
    }

    /// Writes content of the file.
    pub(super) fn write(&mut self, content: &[u8], out: &mut Vec<u8>) {
        if let Some(file) = &mut self.file {
            file.crc.update(content);
            let written = file.code(content, FlushCompress::None, out);
            self.at += written;
        }
    }

    /// Writes what follows the content of the file.
    pub(super) fn end_file(&mut self, out: &mut Vec<u8>) -> Result<(), TooMany> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        self.at += file.code(&[], FlushCompress::Finish, out);
        let (crc, size, before) = (file.crc.sum(), file.coder.total_in(), out.len());
        out.extend_from_slice(b"PK\x07\x08");
        push32(out, crc);
        for bytes in [file.compressed, size] {
            if file.entry.is_large { push64(out, bytes) } else { push32(out, bytes as u32) }
        }
        self.at += (out.len() - before) as u64;
        self.enter(&file.entry, crc, file.compressed, size)
    }

    /// Writes an entry of the directory.
    fn enter(&mut self, entry: &Entry, crc: u32, compressed: u64, size: u64) -> Result<(), TooMany> {
        let out = &mut self.directory;
        let wide: Vec<u64> = [size, compressed, entry.at].into_iter().filter(|number| *number >= MANY).collect();
        let wide_bytes = if wide.is_empty() { 0 } else { 4 + 8 * wide.len() };
        out.extend_from_slice(b"PK\x01\x02");
        // Made on Unix, so that the mode is read.
        out.extend_from_slice(&[45, 3]);
        entry.write_common(out);
        push32(out, crc);
        push32(out, compressed.min(MANY) as u32);
        push32(out, size.min(MANY) as u32);
        push16(out, entry.name.len());
        push16(out, TIME_EXTRA_BYTES + wide_bytes);
        push16(out, 0);
        push16(out, 0);
        push16(out, 0);
        let mode: u32 = if entry.is_file { 0o100_644 << 16 } else { 0o040_755 << 16 | 0x10 };
        push32(out, mode);
        push32(out, entry.at.min(MANY) as u32);
        out.extend_from_slice(&entry.name);
        if !wide.is_empty() {
            push16(out, 1);
            push16(out, 8 * wide.len());
            wide.into_iter().for_each(|number| push64(out, number));
        }
        entry.write_time(out);
        self.count += 1;
        if out.len() > DIRECTORY_BYTES_MAX { Err(TooMany) } else { Ok(()) }
    }

    /// Writes the directory, which ends the archive.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        let (at, bytes) = (self.at, self.directory.len() as u64);
        out.append(&mut self.directory);
        if at >= MANY || self.count >= u64::from(u16::MAX) {
            let end = at + bytes;
            out.extend_from_slice(b"PK\x06\x06");
            push64(out, 44);
            out.extend_from_slice(&[45, 3, 45, 0]);
            push64(out, 0);
            [self.count, self.count, bytes, at].into_iter().for_each(|number| push64(out, number));
            out.extend_from_slice(b"PK\x06\x07");
            push32(out, 0);
            push64(out, end);
            push32(out, 1);
        }
        out.extend_from_slice(b"PK\x05\x06");
        push32(out, 0);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(usize::from(u16::MAX));
        push16(out, count);
        push16(out, count);
        push32(out, bytes as u32);
        push32(out, at.min(MANY) as u32);
        push16(out, 0);
    }
}

impl File {
    /// Adds the compressed form of `content`, and returns its length.
    fn code(&mut self, content: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> u64 {
        let (read, written) = (self.coder.total_in(), self.coder.total_out());
        loop {
            let taken = (self.coder.total_in() - read) as usize;
            out.reserve(CODER_ROOM_BYTES);
            // Nothing is asked of the coder that it could refuse.
            let Ok(status) = self.coder.compress_vec(&content[taken..], out, flush) else { break };
            let has_taken = (self.coder.total_in() - read) as usize == content.len();
            let is_done = flush == FlushCompress::None && has_taken && out.len() < out.capacity();
            if status == Status::StreamEnd || is_done {
                break;
            }
        }
        let length = self.coder.total_out() - written;
        self.compressed += length;
        length
    }
}

/// Room that a coder is given at once.
const CODER_ROOM_BYTES: usize = 16 * 1024;
const ZIP64_EXTRA_BYTES: usize = 20;
const TIME_EXTRA_BYTES: usize = 9;

impl Entry {
    /// Version, flags, method and time, as they stand in both places.
    fn write_common(&self, out: &mut Vec<u8>) {
        let is_text = std::str::from_utf8(&self.name).is_ok();
        push16(out, if self.is_large { 45 } else { 20 });
        // Sizes and sum stand behind the content; names are UTF-8.
        push16(out, usize::from(self.is_file) << 3 | usize::from(is_text) << 11);
        push16(out, if self.is_file { 8 } else { 0 });
        let text: Vec<u8> = Calendar::from_unix_seconds(self.modified_unix_seconds).rfc3339().into_iter().collect();
        let number = |at: std::ops::Range<usize>| {
            text.get(at).unwrap_or_default().iter().fold(0, |sum, byte| sum * 10 + usize::from(byte.wrapping_sub(b'0')))
        };
        let year = number(0..4).clamp(1980, 2107) - 1980;
        push16(out, number(11..13) << 11 | number(14..16) << 5 | (number(17..19) / 2));
        push16(out, year << 9 | number(5..7) << 5 | number(8..10));
    }

    /// The time in seconds, which the form of old cannot say.
    fn write_time(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"UT");
        push16(out, 5);
        out.push(1);
        push32(out, u32::try_from(self.modified_unix_seconds).unwrap_or(0));
    }
}

fn push16(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u16).to_le_bytes());
}

fn push32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn push64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    fn word(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }

    fn half(bytes: &[u8], at: usize) -> usize {
        usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
    }

    /// The names and content of an archive, found from its end.
    fn read(archive: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let end = archive.len() - 22;
        assert_eq!(&archive[end..end + 4], b"PK\x05\x06");
        let (mut at, mut entries) = (word(archive, end + 16), Vec::new());
        for _ in 0..half(archive, end + 8) {
            let entry = &archive[at..];
            assert_eq!(&entry[..4], b"PK\x01\x02");
            let (crc, compressed, size) = (word(entry, 16), word(entry, 20), word(entry, 24));
            let name = &entry[46..46 + half(entry, 28)];
            let head = &archive[word(entry, 42)..];
            assert_eq!((&head[..4], &head[30..30 + name.len()]), (&b"PK\x03\x04"[..], name));
            let coded = &head[30 + name.len() + half(head, 28)..][..compressed];
            let mut content = Vec::new();
            if half(entry, 10) == 8 {
                flate2::read::DeflateDecoder::new(coded).read_to_end(&mut content).unwrap();
            }
            let mut sum = Crc::new();
            sum.update(&content);
            assert_eq!((content.len(), sum.sum() as usize), (size, crc));
            entries.push((name.to_vec(), content));
            at += 46 + name.len() + half(entry, 30);
        }
        assert_eq!(at, end, "the directory ends where the archive does");
        entries
    }

    proptest! {
        #[test]
        fn an_archive_has_what_was_written(
            files in prop::collection::vec((prop::collection::vec(1..255_u8, 1..30), prop::collection::vec(any::<u8>(), 0..40_000)), 0..6),
            piece in 1..20_000_usize, is_large in any::<bool>(),
        ) {
            let (mut zip, mut out) = (Zip::default(), Vec::new());
            zip.begin(b"d/", None, 0, &mut out).unwrap();
            for (name, content) in &files {
                let size = if is_large { LARGE_BYTES } else { content.len() as u64 };
                zip.begin(name, Some(size), 784_111_777, &mut out).unwrap();
                content.chunks(piece).for_each(|piece| zip.write(piece, &mut out));
                zip.end_file(&mut out).unwrap();
            }
            zip.end(&mut out);
            let expected: Vec<_> = std::iter::once((b"d/".to_vec(), Vec::new())).chain(files).collect();
            prop_assert_eq!(read(&out), expected);
        }
    }

    #[test]
    fn the_directory_of_an_archive_is_bounded() {
        let (mut zip, mut out) = (Zip::default(), Vec::new());
        let name = vec![b'n'; 4_000];
        let count = (0..DIRECTORY_BYTES_MAX).take_while(|_| {
            out.clear();
            zip.begin(&name, None, 0, &mut out).is_ok()
        });
        assert_eq!(count.count(), DIRECTORY_BYTES_MAX / (4_000 + 46 + TIME_EXTRA_BYTES));
    }
}
