//! Free memory within the control group's limit.
//!
//! Owns: the file in which the kernel says how much of a control group's limit is in use. Guarantees: an answer of now,
//! for one system call. Does not know what it is to be used for.

use std::fs::File;
use std::os::unix::fs::FileExt;

use lamna_sys::memory::least_limit;

/// The part of a limit that stays free, so that who needs memory next finds it without making room.
const FREE_SHARE: u64 = 16;

/// A reader of the memory left within a limit.
#[derive(Debug)]
pub struct Headroom {
    limit_bytes: u64,
    usage: File,
}

impl Headroom {
    /// Within the smallest limit that this process is under, if there is one and it says what is in use.
    pub fn within_limit() -> Option<Headroom> {
        let (limit_bytes, usage) = least_limit()?;
        Some(Headroom { limit_bytes, usage: File::open(usage).ok()? })
    }

    /// Whether `bytes` more fit. None fit if the usage cannot be read.
    pub fn has(&self, bytes: u64) -> bool {
        let free_bytes = self.used_bytes().map_or(0, |used_bytes| self.limit_bytes.saturating_sub(used_bytes));
        free_bytes >= bytes.saturating_add(self.limit_bytes / FREE_SHARE)
    }

    /// A reader of a limit whose usage file has this text.
    #[cfg(test)]
    pub(super) fn of(limit_bytes: u64, usage: &str) -> Headroom {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(usage.as_bytes(), 0).unwrap();
        Headroom { limit_bytes, usage: file }
    }

    fn used_bytes(&self) -> Option<u64> {
        // Longer than any number of 64 bits, and its line's end.
        let mut text = [0; 24];
        let length = self.usage.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_of_the_limit_stays_free() {
        let headroom = Headroom::of(1_600, "1000\n");
        assert!(headroom.has(500));
        assert!(!headroom.has(501));
        assert!(!headroom.has(u64::MAX));
    }

    #[test]
    fn what_is_in_use_is_read_anew_each_time() {
        let headroom = Headroom::of(1_600, "1000\n");
        assert!(headroom.has(100));
        headroom.usage.write_at(b"1599\n", 0).unwrap();
        assert!(!headroom.has(100));
    }

    #[test]
    fn there_is_none_where_nobody_says() {
        assert!(!Headroom::of(1_600, "").has(0));
        assert!(!Headroom::of(1_600, "max\n").has(0));
    }
}
