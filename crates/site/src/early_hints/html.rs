//! References in the HTML of cached pages.
//!
//! Owns: how their HTML is read, from memory or from their file. Guarantees: what is read is the page that the entry
//! describes. It may wait for the disk: not for threads that serve.

use std::os::fd::AsFd;

use lamna_filter::subresources::{Links, links};
use lamna_io::{KernelFeatures, Wait, file_state};
use lamna_proto::resource::Representation;

use crate::cache::Entry;

/// Larger pages are not read. What they need stands at their beginning, and what follows them is learned.
const HTML_BYTES_MAX: u64 = 1 << 20;

/// The references of the page of `entry`. None if it is no page, or cannot be read.
pub fn links_of(entry: &Entry) -> Option<Links> {
    let page = entry.resource.variants.first();
    let is_page = entry.resource.status.0 == 200 && page.media_type().starts_with("text/html");
    if !is_page || page.size > HTML_BYTES_MAX {
        return None;
    }
    match page.content() {
        Some(content) => Some(links(content)),
        None => read(entry, page).map(|content| links(&content)),
    }
}

/// The content of a page that is not held in memory, if the file is still what the entry describes.
fn read(entry: &Entry, page: &Representation) -> Option<Vec<u8>> {
    let (file, stamp) = (page.file.as_ref()?, entry.stamps.files.first()?);
    let is_same = file_state::inspect(file.as_fd()).ok()?.1 == *stamp;
    let mut content = vec![0; usize::try_from(stamp.size).ok().filter(|size| *size as u64 == page.size)?];
    let is_whole = file_state::read_whole(file, stamp, &mut content, Wait::Yes, &KernelFeatures::default()).ok()?;
    (is_same && is_whole).then_some(content)
}
