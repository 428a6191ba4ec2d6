//! A file that is sent in parts: PUT with Content-Range (RFC 9110 14.4, 14.5).
//!
//! Owns: [`PartialPut`], and what its answers say about how much has arrived. Each request brings the bytes from where
//! the last one ended, whether it was cut off or complete; what has arrived is kept in a [`PartialFile`]. Guarantees:
//! the file appears whole under its name, when its last byte has arrived, or not at all.
//!
//! ```text
//!   PUT, bytes 0-99/300    308, Range: bytes=0-99     this has arrived: go on behind it
//!   PUT, bytes */300       308, Range: bytes=0-99     no content: how much has arrived?
//!   PUT, bytes 150-299/300 409, Range: bytes=0-99     there would be a gap
//!   PUT, bytes 100-299/300 201 or 204                 all of it has arrived
//! ```

use std::os::fd::AsFd;

use lamna_io::Wait;
use lamna_io::new_file::Before;
use lamna_io::partial_file::{self, Bounds, PartialFile, Wanted};
use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};
use lamna_proto::message::{Field, Request};
use lamna_proto::parse::path;
use lamna_sys::clock::Clock;
use rustix::io::Errno;

use super::webdav::{self, Change};
use super::{Action, CONDITION, ChangeTarget, Conditions, FAILED, Gathered, Refused, name_of, refused, refused_by};
use crate::content::at_once::ClientNetwork;
use crate::content::site::Sites;

/// The part of a file that a request brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// None if that makes no sense.
    range: Option<ContentRange>,
    /// Bytes of content, if they are known before.
    length: Option<u64>,
}

/// The value of a Content-Range field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentRange {
    /// These bytes of so many, both included.
    Bytes { first: u64, last: u64, total: u64 },
    /// None of so many: how much of them has arrived?
    Asks { total: u64 },
}

impl Given {
    /// Reads the range of `request`; none if it brings a whole file.
    pub(super) fn of(request: Request<'_>) -> Option<Given> {
        let mut lines = request.lines_named(b"content-range");
        let line = lines.next()?;
        let range = ContentRange::parse(line).filter(|_| lines.next().is_none());
        Some(Given { range, length: request.field(Field::ContentLength).and_then(number) })
    }
}

impl ContentRange {
    fn parse(value: &[u8]) -> Option<ContentRange> {
        let space = memchr::memchr(b' ', value)?;
        if !value[..space].eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let (range, total) = split(value[space + 1..].trim_ascii(), b'/')?;
        let total = number(total)?;
        if range == b"*" {
            return Some(ContentRange::Asks { total });
        }
        let (first, last) = split(range, b'-')?;
        let (first, last) = (number(first)?, number(last)?);
        (first <= last && last < total).then_some(ContentRange::Bytes { first, last, total })
    }
}

fn split(text: &[u8], by: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(by, text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    let is_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_digits)?.parse().ok()
}

/// A part of a file on its way to the others.
#[derive(Debug)]
pub(super) struct PartialPut {
    target: ChangeTarget,
    conditions: Conditions,
    given: Given,
    /// The client's network, which a file counts for that is begun. None if it is not known.
    owner: Option<ClientNetwork>,
    /// The file that is being written. None before the first step.
    file: Option<PartialFile>,
    /// Content that has not been written.
    gathered: Gathered,
}

/// The result of storing a part.
enum Stored {
    /// There is more of it to come.
    Part,
    /// So many bytes of the file have arrived.
    Arrived(u64),
    /// The file is in its place.
    Whole(Before),
}

/// Why a part cannot be stored.
enum Stopped {
    Refused(Refused),
    /// Only so many bytes have arrived.
    Gap(u64),
    Busy,
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Stopped {
        Stopped::Refused(refused)
    }
}

/// How many files there can be in part in one root.
const PARTIAL_FILES_MAX: usize = 1000;

const MALFORMED_RANGE: Refused = Refused(
    400,
    "The Content-Range of a PUT is of the form `bytes FIRST-LAST/LENGTH`, or `bytes */LENGTH` to ask what has arrived.",
);
const OTHER_LENGTH: Refused = Refused(400, "The content is not as long as its Content-Range says.");
const NOT_RESUMED: Refused =
    Refused(400, "Uploads are not kept in part here: send the whole file, without Content-Range.");
const OTHER_FILE_SYSTEM: Refused =
    Refused(400, "This directory is on another file system than the root: send the whole file, without Content-Range.");
const GAP: Refused = Refused(409, "Bytes before these are missing: continue behind those that Range names.");
const BUSY: Refused = Refused(409, "Another request sends this file, or its end has not been noticed yet.");
const TOO_MANY: Refused = Refused(
    507,
    "There are too many files of which a part has arrived, or they are too large: send the whole file, without \
     Content-Range, or try again later.",
);
const TOO_MANY_OF_NETWORK: Refused = Refused(
    507,
    "Parts of files of your network, this one included, would take more than its share of the room for parts: finish \
     others first, if there are any, or send the whole file, without Content-Range.",
);
const TOO_LARGE: Refused = Refused(413, "The file is larger than is accepted.");

impl PartialPut {
    /// A part that is to be added to what has arrived for `target`.
    pub(super) fn new(
        target: ChangeTarget,
        conditions: Conditions,
        given: Given,
        owner: Option<ClientNetwork>,
    ) -> PartialPut {
        PartialPut { target, conditions, given, owner, file: None, gathered: Gathered::default() }
    }

    fn store(&mut self, content: &[u8], is_last: bool) -> Result<Stored, Stopped> {
        let (first, last, total) = match self.given.range {
            None => return Err(MALFORMED_RANGE.into()),
            Some(ContentRange::Asks { total }) => return Ok(Stored::Arrived(self.arrived(total)?)),
            Some(ContentRange::Bytes { first, last, total }) => (first, last, total),
        };
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open(first, last, total)?,
        };
        for piece in [&*self.gathered.take(), content] {
            if let Err(errno) = file.write(piece) {
                // A full disk is not kept full.
                if matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::FBIG) {
                    file.discard();
                }
                return Err(refused(errno).into());
            }
        }
        if !is_last {
            self.file = Some(file);
            return Ok(Stored::Part);
        }
        match file.bytes() {
            bytes if bytes != last + 1 => Err(OTHER_LENGTH.into()),
            _ if file.is_complete() => Ok(Stored::Whole(self.finish(file)?)),
            bytes => Ok(Stored::Arrived(bytes)),
        }
    }

    fn open(&self, first: u64, last: u64, total: u64) -> Result<PartialFile, Stopped> {
        let target = &self.target;
        self.check(total)?;
        if self.given.length.is_some_and(|length| length != last - first + 1) {
            return Err(OTHER_LENGTH.into());
        }
        let directory = target.directory(Action::Upload, &target.path)?;
        target.check_if()?;
        target.check_locks(&target.path, Change::Store)?;
        self.conditions.check(&directory, name_of(&target.path), &target.abilities)?;
        let settings = &target.site().settings;
        let bounds = Bounds {
            files_max: PARTIAL_FILES_MAX,
            bytes_max: settings.upload_resume_bytes_max,
            kept_s: settings.upload_resume_s,
        };
        let (root, name) = target.site().root_of(&target.path);
        let root = root.directory(Wait::Yes, target.clock.now().ms()).map_err(refused_by)?;
        let owner = self.owner.map(ClientNetwork::to_bytes);
        let wanted = Wanted { path: name, total, owner: owner.as_ref().map(|bytes| &bytes[..]) };
        let file = PartialFile::open(root.as_fd(), wanted, first, bounds).map_err(|refused| match refused {
            partial_file::Refused::Busy => Stopped::Busy,
            partial_file::Refused::Gap(bytes) => Stopped::Gap(bytes),
            partial_file::Refused::TooMany => TOO_MANY.into(),
            partial_file::Refused::TooManyOfOwner => TOO_MANY_OF_NETWORK.into(),
            partial_file::Refused::Failed(errno) => super::refused(errno).into(),
        })?;
        match file.can_be_moved_to(directory.as_fd()) {
            Ok(true) => Ok(file),
            Ok(false) => {
                file.discard();
                Err(OTHER_FILE_SYSTEM.into())
            }
            Err(_) => Err(FAILED.into()),
        }
    }

    fn check(&self, total: u64) -> Result<(), Refused> {
        if self.target.site().settings.upload_resume_s == 0 {
            return Err(NOT_RESUMED);
        }
        if total > self.target.bytes_max() {
            return Err(TOO_LARGE);
        }
        self.target.check(Action::Upload, &self.target.path)
    }

    fn arrived(&self, total: u64) -> Result<u64, Refused> {
        self.check(total)?;
        let (root, name) = self.target.site().root_of(&self.target.path);
        let root = root.directory(Wait::Yes, self.target.clock.now().ms()).map_err(refused_by)?;
        PartialFile::arrived(root.as_fd(), Wanted { path: name, total, owner: None }).map_err(refused)
    }

    fn finish(&self, file: PartialFile) -> Result<Before, Refused> {
        let path = &self.target.path;
        let only_unused = self.conditions.is_for_nothing();
        self.target.check_locks(path, Change::Store)?;
        let moved = file.move_to(self.target.directory(Action::Upload, path)?, name_of(path), only_unused);
        let before = moved.map_err(|errno| match errno {
            // Another request may have stored one since the first step.
            Errno::EXIST if only_unused => CONDITION,
            other => refused(other),
        })?;
        self.target.handle_change(path);
        Ok(before)
    }
}

/// Deletes partial files that have not grown for as long as their site keeps them, and locks that have expired. Waits
/// for the disk.
pub fn sweep(sites: &Sites, clock: Clock) {
    for site in sites.all() {
        let roots = std::iter::once(&site.root).chain(site.aliases.iter().map(|(_, root)| root));
        for root in roots {
            // What cannot be looked at now is looked at the next time.
            let Ok(root) = root.directory(Wait::Yes, clock.now().ms()) else { continue };
            let _ = partial_file::sweep(root.as_fd(), site.settings.upload_resume_s);
            webdav::sweep(root.as_fd());
        }
    }
}

/// Which bytes have arrived, if any have.
fn range_field(arrived: u64) -> Option<(String, String)> {
    (arrived > 0).then(|| ("Range".to_owned(), format!("bytes=0-{}", arrived - 1)))
}

impl Program for PartialPut {
    fn content_bytes_max(&self) -> u64 {
        match self.given.range {
            Some(ContentRange::Bytes { first, last, total }) if total <= self.target.bytes_max() => last - first + 1,
            Some(_) => 0,
            // Refused by the first step.
            None => u64::MAX,
        }
    }

    fn gather(&mut self, content: &[u8]) -> bool {
        self.file.is_some() && self.gathered.add(content)
    }

    fn holds(&self) -> Holds {
        super::held(self.file.is_some(), &self.gathered)
    }

    fn run(&mut self, Input { content, is_last, .. }: Input<'_>) -> StepResult {
        match self.store(content, is_last) {
            Ok(Stored::Part) => StepResult::Continue,
            Ok(Stored::Arrived(bytes)) => self.target.done_with(308, None, range_field(bytes)),
            Ok(Stored::Whole(Before::Nothing)) => self.target.done(201, Some(&path::encode(&self.target.path))),
            Ok(Stored::Whole(Before::File)) => self.target.done(204, None),
            Err(Stopped::Gap(bytes)) => self.target.refusal_with(GAP, range_field(bytes)),
            Err(Stopped::Busy) => self.target.refusal_with(BUSY, Some(("Retry-After".to_owned(), "1".to_owned()))),
            Err(Stopped::Refused(refused)) => self.target.refusal(refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_says_which_bytes_of_how_many_or_asks() {
        let parse = |text: &str| ContentRange::parse(text.as_bytes());
        assert_eq!(parse("bytes 0-4/10"), Some(ContentRange::Bytes { first: 0, last: 4, total: 10 }));
        assert_eq!(parse("Bytes  9-9/10"), Some(ContentRange::Bytes { first: 9, last: 9, total: 10 }));
        assert_eq!(parse("bytes */10"), Some(ContentRange::Asks { total: 10 }));
        for wrong in [
            "",
            "bytes",
            "bytes 0-4",
            "bytes 0-4/*",
            "bytes */*",
            "bytes 4-0/10",
            "bytes 0-10/10",
            "bytes +0-4/10",
            "items 0-4/10",
            "bytes 0-/10",
            "bytes -4/10",
            "bytes=0-4/10",
            "bytes 0-4/18446744073709551616",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
