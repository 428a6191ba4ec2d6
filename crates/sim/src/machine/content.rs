//! Where the content of a file is: in the data cache, in the page cache, or on disk.
//!
//! Owns: what is looked for where and kept where, and in which pieces content leaves that is too long for the data
//! cache. Content is *long* if it is longer than [`Machine::content_bytes_max`]; without a page cache none is.

use lamna_policy::cache::ObjectId;

use super::{Machine, RequestId};
use crate::kernel::Nanos;
use crate::workload::FileId;

/// The pages of the page cache.
const PAGE_BYTES: u64 = 4_096;
/// The part of the memory that Lamna leaves free.
const HEADROOM_SHARE: u64 = 16;

impl Machine {
    /// Bytes of what a request asks for that an event loop sends before it turns to the next connection.
    pub fn turn_bytes(&self, request: RequestId) -> u64 {
        match self.is_long(request) {
            true => self.send_file_quantum_bytes,
            false => self.send_quantum_bytes,
        }
    }

    /// Processor time of sending so many bytes of what a request asks for: from the page cache, if it is long and has
    /// not been `copied` to memory of the server's own.
    pub fn transmit(&self, request: RequestId, bytes: u64, copied: bool) -> Nanos {
        match self.is_long(request) && !copied {
            true => self.costs.transmit_file(bytes),
            false => self.costs.transmit(bytes),
        }
    }

    /// Whether what a request asks for is too long for the data cache.
    pub fn is_long(&self, request: RequestId) -> bool {
        self.pages.is_some() && self.size(request) > self.content_bytes_max
    }

    /// Whether helpers read all long content, each time, into memory of the server's own, whatever the page cache
    /// holds: where the data cache has most of the memory a loop does not rely on what else is there.
    pub fn reads_elsewhere(&self) -> bool {
        self.replaces_page_cache
    }

    /// Up to where the long content of `request` is in memory when a helper has brought the next piece after `sent`
    /// bytes.
    pub fn next_piece(&self, request: RequestId, sent: u64) -> u64 {
        let size = self.size(request);
        match self.read_quantum_bytes {
            0 => size,
            quantum => size.min(sent + quantum),
        }
    }

    /// Which data cache `request` meets.
    pub(super) fn cache_of(&self, request: RequestId) -> usize {
        self.cache_of_client.get(request.0 as usize).copied().unwrap_or(0)
    }

    /// The object of the file for the process that has `request`: another object than other processes'.
    pub(super) fn own_object(&self, request: RequestId) -> ObjectId {
        self.object_in(self.cache_of(request), self.file(request))
    }

    fn object_in(&self, cache: usize, file: FileId) -> ObjectId {
        ObjectId((cache * self.workload.sizes.len()) as u32 + file)
    }

    /// Whether the file of `request` is in the data cache.
    pub fn look_up(&mut self, request: RequestId) -> bool {
        let size = self.size(request);
        let (object, cache) = (ObjectId(self.file(request)), self.cache_of(request));
        let hit = match &mut self.pages {
            // It is sent from there, and nothing has to be made of it.
            Some(pages) if size > self.content_bytes_max => pages.request(object),
            _ => self.caches[cache].request(object),
        };
        self.tally.lookups += 1;
        self.tally.bytes_asked += size;
        if hit {
            self.tally.hits += 1;
            self.tally.bytes_found += size;
        }
        hit
    }

    /// Whether the file of `request`, which is not in the data cache, is in the page cache: then it need not be read,
    /// and
    /// [`Machine::keep`] follows when it has been made an object of.
    pub fn find_in_pages(&mut self, request: RequestId) -> bool {
        let object = ObjectId(self.file(request));
        let found = self.pages.as_mut().is_some_and(|pages| pages.request(object));
        self.tally.pages_hits += u64::from(found);
        found
    }

    /// Puts the file of `request`, whose pages are in memory, into the data cache.
    pub fn keep(&mut self, request: RequestId) {
        self.keep_content(self.cache_of(request), self.file(request));
    }

    pub(super) fn keep_content(&mut self, cache: usize, file: FileId) {
        let size = self.workload.sizes[file as usize];
        let object = self.object_in(cache, file);
        if let Some(near) = self.near.as_mut().filter(|_| size <= self.content_bytes_max) {
            // It has just been copied.
            near.request(object, size);
        }
        let content = &mut self.caches[cache];
        if size <= self.content_bytes_max && !content.holds(ObjectId(file)) {
            let bytes = (size + self.entry_bytes).max(self.entry_bytes_least);
            let _ = content.offer(ObjectId(file), bytes, |_| ());
        }
    }

    /// Keeps a file that was read in the page cache. If the data cache owns the memory of its content: only files for
    /// which it has no room, and while a part of the memory is free.
    pub(super) fn keep_pages(&mut self, file: FileId) {
        let size = self.workload.sizes[file as usize];
        let bytes = size.next_multiple_of(PAGE_BYTES);
        if self.replaces_page_cache && size <= self.content_bytes_max && !self.has_headroom(size, bytes) {
            return;
        }
        if let Some(pages) = self.pages.as_mut().filter(|pages| !pages.holds(ObjectId(file))) {
            let _ = pages.offer(ObjectId(file), bytes, |_| ());
        }
    }

    fn has_headroom(&self, size: u64, bytes: u64) -> bool {
        let (content, Some(pages)) = (&self.caches[0], &self.pages) else { return false };
        let is_full = content.bytes() + size + self.entry_bytes > content.bound_bytes();
        let least_bytes = (content.bound_bytes() + pages.bound_bytes()) / HEADROOM_SHARE;
        is_full && pages.bytes() + bytes + least_bytes <= pages.bound_bytes()
    }

    /// Whether the file of `request` is in the data cache by now. A helper asks before it reads: others may have missed
    /// the same file while the request waited for the helper. Does not count as a use.
    pub fn is_held(&self, request: RequestId) -> bool {
        let object = ObjectId(self.file(request));
        match &self.pages {
            Some(pages) if self.size(request) > self.content_bytes_max => pages.holds(object),
            _ => self.caches[self.cache_of(request)].holds(object),
        }
    }
}
