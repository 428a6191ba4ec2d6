//! Properties that clients have set (RFC 4918 4.1, "dead" ones), as elements.
//!
//! Owns: the text that is kept of them with their file.

use std::os::fd::BorrowedFd;

use lamna_io::properties;
use rustix::io::Errno;

use super::xml::{self, Element};

/// Those of an open file or folder.
pub(super) fn of(file: BorrowedFd<'_>) -> Vec<Element> {
    read(properties::read(file))
}

/// Those of `name` in an open folder.
pub(super) fn of_entry(folder: BorrowedFd<'_>, name: &[u8]) -> Vec<Element> {
    read(properties::read_at(folder, name))
}

/// The elements in it. Those that cannot be read are not there.
fn read(kept: Result<Option<Vec<u8>>, Errno>) -> Vec<Element> {
    let root = kept.ok().flatten().and_then(|kept| xml::parse(&kept).ok());
    root.map(|root| root.into_children().collect()).unwrap_or_default()
}

/// Keeps `elements` in the place of those that an open file or folder has.
///
/// # Errors
/// As [`properties::write`].
pub(super) fn keep(file: BorrowedFd<'_>, elements: Vec<Element>) -> Result<(), Errno> {
    let text = match elements.is_empty() {
        true => String::new(),
        false => Element::of("prop", elements).text_within(properties::BYTES_MAX).ok_or(Errno::TOOBIG)?,
    };
    properties::write(file, text.as_bytes())
}
