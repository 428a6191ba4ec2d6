//! Reading a directory for its listing.
//!
//! Owns: which entries are listed: those that would be served. Waits for the disk. Does not render.

use std::os::fd::{AsFd, OwnedFd};

use lamna_proto::resource::Resource;
use rustix::fs::{AtFlags, FileType};

use super::answers;
use super::file::Stamp;
use super::listing::{self, Item, Kind, Listing, Order};
use crate::io::Blocked;

/// Lists `directory`, whose normalised path is `path`.
///
/// # Errors
/// What `getdents64(2)` says.
pub fn list(
    directory: OwnedFd,
    path: &[u8],
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
        entries.extend(item(&directory, name));
    }
    let path = String::from_utf8_lossy(path);
    let order = Order::from_query(&String::from_utf8_lossy(query.unwrap_or_default()));
    let listing = Listing { path: &path, entries };
    Ok(answers::listing(&listing::html(&listing, order), &listing::json(&listing, order), fields)?)
}

/// Entries that are looked at, each at the cost of a `stat`: bounds the time that one request can keep a helper.
const ENTRIES_MAX: usize = 100_000;

/// The entry of this name, unless it is nothing that is served or has just gone.
fn item(directory: &OwnedFd, name: &[u8]) -> Option<Item> {
    let stat = rustix::fs::statat(directory, name, AtFlags::empty()).ok()?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => return None,
    };
    let stamp = Stamp::of(&stat);
    let modified_unix_seconds = stamp.modified_unix_seconds().unwrap_or(0);
    Some(Item { name: name.to_vec(), kind, size: stamp.size, modified_unix_seconds })
}
