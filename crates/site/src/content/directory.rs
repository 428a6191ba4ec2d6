//! Reading a directory for its listing.
//!
//! Owns: which entries are listed: those that would be served. Waits for the disk. Does not render.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lamna_config::compression::Compression;
use lamna_io::file_state::Stamp;
use lamna_io::{Blocked, KernelFeatures, open};
use lamna_proto::resource::Resource;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::answers::{self, Extras};
use super::listing::{self, Controls, Item, Kind, Listing, View};
use crate::content::permitted::other_places;
use crate::content::route::Effective;
use crate::content::site::Site;

/// The directory `name` beneath the root `root`, as it is to be listed.
#[derive(Debug)]
pub struct ListedDirectory<'a> {
    /// The root that serves it.
    pub root: BorrowedFd<'a>,
    /// Its name beneath the root, without a slash at the end; empty for the root itself.
    pub name: &'a [u8],
    /// The normalised path that it is asked for by.
    pub path: &'a [u8],
    /// The controls of its page.
    pub controls: Controls,
    /// Which paths of it are shown, if not all: who may see a directory may not see all that is in it.
    pub shows: Option<(&'a Site, &'a Effective)>,
    /// The kernel's features.
    pub abilities: &'a KernelFeatures,
}

/// Lists `directory`, which is at `listed`, in the form that is asked for, compressed as `compression` permits.
///
/// # Errors
/// The error of `getdents64(2)`, or that the fields are too long.
pub fn list(
    directory: OwnedFd,
    listed: &ListedDirectory<'_>,
    view: View,
    compression: &Compression,
    extras: &Extras<'_>,
) -> Result<Resource, Blocked> {
    let entries = entries(&directory, listed, LOOKED_AT_MAX)?;
    let path = String::from_utf8_lossy(listed.path);
    let listing = Listing { path: &path, entries, controls: listed.controls };
    let content = if view.is_json { listing::json(&listing, view.order) } else { listing::html(&listing, view.order) };
    Ok(answers::listing(&content, view.is_json, compression, extras)?)
}

/// The listed entries among the first `looked_at_max` names.
fn entries(directory: &OwnedFd, listed: &ListedDirectory<'_>, looked_at_max: usize) -> Result<Vec<Item>, Errno> {
    let mut entries = Vec::new();
    let mut looked_at = 0;
    let others = listed.shows.map(|(site, _)| other_places(site, listed.path, directory.as_fd()));
    let others = others.transpose()?.unwrap_or_default();
    for entry in rustix::fs::Dir::read_from(directory.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(b".") {
            continue;
        }
        if looked_at == looked_at_max {
            break;
        }
        looked_at += 1;
        entries.extend(item(directory, listed, &others, name));
    }
    Ok(entries)
}

/// The listed entries of a directory, without links that lead to other directories: so a recursive walk over them ends.
///
/// # Errors
/// The error of `getdents64(2)`.
pub fn reachable(directory: &OwnedFd, listed: &ListedDirectory<'_>) -> Result<Vec<(Vec<u8>, Kind)>, Errno> {
    let is_link = |item: &Item| {
        let stat = rustix::fs::statat(directory, &*item.name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    };
    let mut entries = entries(directory, listed, LOOKED_AT_MAX)?;
    entries.retain(|item| item.kind == Kind::File || !is_link(item));
    Ok(entries.into_iter().map(|item| (item.name, item.kind)).collect())
}

/// Names that are looked at, each at the cost of a `stat`, whether they are listed or not: bounds the time that one
/// request can keep a helper. What the directory holds beyond them is left out.
const LOOKED_AT_MAX: usize = 100_000;

/// The entry of this name, unless it is nothing that is served or has just gone. Of a link it is what is served for it:
/// of what lies outside the root nothing is said. `others` are other paths of the directory.
fn item(directory: &OwnedFd, listed: &ListedDirectory<'_>, others: &[Vec<u8>], name: &[u8]) -> Option<Item> {
    let mut stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        // From the root on, as it would be asked for: a link may lead up, and down again.
        let beneath_root = if listed.name.is_empty() { name.to_vec() } else { [listed.name, b"/", name].concat() };
        stat = open::stat_beneath(listed.root, &beneath_root, listed.abilities).ok()?;
    }
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => return None,
    };
    if let Some((site, entered)) = listed.shows {
        let slash = if kind == Kind::Directory { &b"/"[..] } else { b"" };
        let mut folders = others.iter().map(|other| &other[..]).chain([listed.path]);
        if !folders.all(|folder| site.routes.shows(entered, &[folder, name, slash].concat())) {
            return None;
        }
    }
    let stamp = Stamp::of(&stat);
    let modified_unix_seconds = stamp.modified_unix_seconds().unwrap_or(0);
    Some(Item { name: name.to_vec(), kind, size: stamp.size, modified_unix_seconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_is_not_listed_counts_as_looked_at_all_the_same() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..10 {
            UnixListener::bind(root.path().join(format!("socket-{number}"))).unwrap();
            std::fs::write(root.path().join(format!("file-{number}")), "").unwrap();
            std::fs::write(root.path().join(format!(".hidden-{number}")), "").unwrap();
        }
        let directory: OwnedFd = std::fs::File::open(root.path()).unwrap().into();
        let abilities = KernelFeatures::default();
        let listed = ListedDirectory {
            root: directory.as_fd(),
            name: b"",
            path: b"/",
            controls: Controls::default(),
            shows: None,
            abilities: &abilities,
        };
        let listed = |looked_at_max| entries(&directory, &listed, looked_at_max).unwrap().len();
        assert_eq!((listed(0), listed(20), listed(1000)), (0, 10, 10));
        // In whatever order names come: one that is not listed takes the place of one that would be.
        let sum: usize = (1..=20).map(|count| listed(count) - listed(count - 1)).sum();
        assert_eq!(sum, 10);
        assert!((0..20).all(|count| listed(count + 1) - listed(count) <= 1));
    }
}
