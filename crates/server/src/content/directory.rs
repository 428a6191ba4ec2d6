//! Reading a directory for its listing.
//!
//! Owns: which entries are listed: those that would be served. Waits for the disk. Does not render.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lamna_proto::resource::Resource;
use rustix::fs::{AtFlags, FileType};

use super::answers;
use super::file::Stamp;
use super::listing::{self, Item, Kind, Listing, Order};
use crate::io::{Abilities, Blocked, open};

/// The directory `name` beneath the root `root`, as it is to be listed.
#[derive(Debug)]
pub struct Place<'a> {
    /// The root that serves it.
    pub root: BorrowedFd<'a>,
    /// Its name beneath the root, without a slash at the end; empty for the root itself.
    pub name: &'a [u8],
    /// The normalised path that it is asked for by.
    pub path: &'a [u8],
    /// What the kernel can do.
    pub abilities: &'a Abilities,
}

/// Lists `directory`, which is at `place`.
///
/// # Errors
/// What `getdents64(2)` says, or that the fields are too long.
pub fn list(
    directory: OwnedFd,
    place: &Place<'_>,
    query: Option<&[u8]>,
    fields: &[(String, String)],
) -> Result<Resource, Blocked> {
    let mut entries = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(b".") || entries.len() >= ENTRIES_MAX {
            continue;
        }
        entries.extend(item(&directory, place, name));
    }
    let path = String::from_utf8_lossy(place.path);
    let order = Order::from_query(&String::from_utf8_lossy(query.unwrap_or_default()));
    let listing = Listing { path: &path, entries };
    Ok(answers::listing(&listing::html(&listing, order), &listing::json(&listing, order), fields)?)
}

/// Entries that are looked at, each at the cost of a `stat`: bounds the time that one request can keep a helper.
const ENTRIES_MAX: usize = 100_000;

/// The entry of this name, unless it is nothing that is served or has just gone. Of a link it is what is served for it: of
/// what lies outside the root nothing is said.
fn item(directory: &OwnedFd, place: &Place<'_>, name: &[u8]) -> Option<Item> {
    let mut stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        // From the root on, as it would be asked for: a link may lead up, and down again.
        let beneath_root = if place.name.is_empty() { name.to_vec() } else { [place.name, b"/", name].concat() };
        stat = open::stat_beneath(place.root, &beneath_root, place.abilities).ok()?;
    }
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => return None,
    };
    let stamp = Stamp::of(&stat);
    let modified_unix_seconds = stamp.modified_unix_seconds().unwrap_or(0);
    Some(Item { name: name.to_vec(), kind, size: stamp.size, modified_unix_seconds })
}
