//! The tables that header blocks refer to (RFC 7541 2.3): the static one, and one that follows what has been sent.
//!
//! Owns: [`Table`], whose bytes lie in one buffer. Guarantees: it never holds more than its size allows, and allocates
//! nothing once its buffer has grown to that. Does not know the wire.

use std::collections::VecDeque;

/// RFC 7541 4.1: what an entry counts beyond its bytes.
pub(super) const ENTRY_BYTES: usize = 32;

/// RFC 7541 appendix A, from index 1 on.
#[rustfmt::skip]
pub(super) static STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// The entries that came last, the newest first.
#[derive(Debug)]
pub(super) struct Table {
    /// The bytes of all entries and perhaps of some that have gone, in the order in which they came.
    bytes: Vec<u8>,
    /// The newest first.
    entries: VecDeque<Entry>,
    /// By RFC 7541 4.1.
    size: usize,
    /// The largest `size`.
    size_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    name: usize,
    value: usize,
}

impl Entry {
    fn size(self) -> usize {
        self.name + self.value + ENTRY_BYTES
    }
}

impl Table {
    /// An empty one.
    pub(super) fn new(size_max: usize) -> Table {
        Table { bytes: Vec::new(), entries: VecDeque::new(), size: 0, size_max }
    }

    pub(super) fn size_max(&self) -> usize {
        self.size_max
    }

    /// RFC 7541 4.3.
    pub(super) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict_to(size_max);
    }

    /// The entry of this index, 0 for the newest.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.entries.get(index).map(|entry| self.parts(entry))
    }

    fn parts(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let value = entry.start + entry.name;
        (&self.bytes[entry.start..value], &self.bytes[value..value + entry.value])
    }

    /// The index of the entry that is this.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| self.parts(entry) == (name, value))
    }

    /// RFC 7541 4.4: one that is too large empties the table, and is not an error.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let entry = Entry { start: 0, name: name.len(), value: value.len() };
        if entry.size() > self.size_max {
            return self.evict_to(0);
        }
        self.evict_to(self.size_max - entry.size());
        // The bytes of what has gone are given up when they are as many as those that stay.
        if self.bytes.len() + name.len() + value.len() > 2 * self.size_max {
            self.compact();
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_front(Entry { start, ..entry });
        self.size += entry.size();
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
        if self.entries.is_empty() {
            self.bytes.clear();
        }
    }

    fn compact(&mut self) {
        let Some(oldest) = self.entries.back() else { return self.bytes.clear() };
        let gone = oldest.start;
        self.bytes.drain(..gone);
        self.entries.iter_mut().for_each(|entry| entry.start -= gone);
    }

    /// Bytes of memory that it holds.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_queue_of_what_fits(
            fields in proptest::collection::vec(("[a-z]{0,30}", "[a-z]{0,60}"), 0..60),
            sizes in proptest::collection::vec(0..400_usize, 1..4),
        ) {
            let mut table = Table::new(sizes[0]);
            let mut model: VecDeque<(String, String)> = VecDeque::new();
            for (at, (name, value)) in fields.iter().enumerate() {
                if at % 7 == 6 {
                    table.set_size_max(sizes[at % sizes.len()]);
                } else {
                    table.insert(name.as_bytes(), value.as_bytes());
                    model.push_front((name.clone(), value.clone()));
                }
                let size = |model: &VecDeque<(String, String)>| -> usize {
                    model.iter().map(|(name, value)| name.len() + value.len() + ENTRY_BYTES).sum()
                };
                while size(&model) > table.size_max() {
                    model.pop_back();
                }
                prop_assert!(table.bytes.len() <= 2 * 400);
                for (index, (name, value)) in model.iter().enumerate() {
                    prop_assert_eq!(table.get(index), Some((name.as_bytes(), value.as_bytes())));
                }
                prop_assert_eq!(table.get(model.len()), None);
            }
        }
    }
}
