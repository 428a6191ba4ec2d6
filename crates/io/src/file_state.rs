//! Files as content: what state a file was in, and reading a small one so that what was read is one state of it.
//!
//! Owns: [`Stamp`] and the rules that make a head and a content agree. Guarantees: content that is held was read
//! between two looks at the file that found it unchanged. Does not know targets or sites.
//!
//! # What an entity tag is made of
//! Time of modification and size do not tell states apart where times are fixed or kept: Nix, OSTree,
//! `SOURCE_DATE_EPOCH`, `rsync -t`, a link that is switched to another tree. A tag that is equal for different content
//! has a client keep old content (304), or join halves of two versions (If-Range). So the inode counts as well, and the
//! time of the last change, which no program can set. The price: machines that serve copies of a tree have different
//! tags for the same file, and so has a file that was only renamed, linked or given other rights. A client then gets
//! the whole answer again, which is right though it costs more. Tags that are equal everywhere would have to be made of
//! the content, which for files that are not held in memory has to be read for that.

use std::hash::{Hash, Hasher};
use std::os::fd::{AsFd, BorrowedFd};

use lamna_policy::random::spread;
use lamna_proto::exchange::negotiate::Coding;
use rustix::fs::{Advice, FileType, Stat};
use rustix::io::Errno;
use siphasher::sip::SipHasher13;

use crate::{Blocked, KernelFeatures, Wait, read};

/// The state of a file: tells one state from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    /// Bytes.
    pub size: u64,
    modified_ns: i64,
    changed_ns: i64,
    /// Hard links: names by which the file can be changed.
    links: u32,
}

impl Stamp {
    /// The stamp in `stat`.
    pub fn of(stat: &Stat) -> Stamp {
        Stamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size as u64,
            modified_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64),
            changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64),
            links: stat.st_nlink as u32,
        }
    }

    /// Whether it is of the same file, in whatever state.
    pub fn is_of_same_file(&self, other: &Stamp) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Last modification in seconds since 1970; none if that is before.
    pub fn modified_unix_seconds(&self) -> Option<u64> {
        seconds(self.modified_ns)
    }

    /// The value of Last-Modified at `now_ns`, in seconds since 1970: never later than the date of the answer (RFC 9110
    /// 8.8.2.1). Where the file claims to be of the future, the time at which it was last changed takes the place of
    /// that, so that it stays the same from answer to answer; and where that is later than now as well, because the
    /// clock has been set back, now does.
    pub fn last_modified(&self, now_ns: i64) -> Option<u64> {
        let claimed = if self.modified_ns > now_ns { self.changed_ns } else { self.modified_ns };
        seconds(claimed.min(now_ns))
    }

    /// The strong validator of this state under `coding` (RFC 9110 8.8.3), of all that tells it from other states:
    /// size, time of the last modification, time of the last change, inode. See above.
    pub fn etag(&self, coding: Coding) -> String {
        let state = [self.modified_ns as u64, self.changed_ns as u64, self.inode].into_iter().fold(0, mixed);
        match coding {
            Coding::Identity => format!("\"{:x}-{state:016x}\"", self.size),
            other => format!("\"{:x}-{state:016x}-{}\"", self.size, other.name()),
        }
    }

    /// The state of what is made of this file by `maker`, of `size` bytes: another validator than the file's, and than
    /// that of what another one makes.
    pub fn of_derived(self, maker: u64, size: u64) -> Stamp {
        Stamp { size, inode: mixed(self.inode, maker), ..self }
    }

    /// The state of what is made of this file and of `part`: it changes whenever one of them does.
    pub fn with_part(self, part: &Stamp) -> Stamp {
        let state = [part.inode, part.device, part.size, part.modified_ns as u64, part.changed_ns as u64];
        Stamp {
            inode: state.into_iter().fold(self.inode, mixed),
            modified_ns: self.modified_ns.max(part.modified_ns),
            changed_ns: self.changed_ns.max(part.changed_ns),
            ..self
        }
    }

    /// The stamp of a missing file. No file has it.
    pub fn absent() -> Stamp {
        Stamp { device: 0, inode: 0, size: 0, modified_ns: 0, changed_ns: 0, links: 0 }
    }

    /// Whether `other` may have been made from this file: precompressed siblings that are older than what they stand
    /// for are leftovers. Two seconds of tolerance for file systems and tools that round times.
    pub fn is_newer_than(&self, other: &Stamp) -> bool {
        self.modified_ns > other.modified_ns + 2 * NS_PER_S
    }

    /// Whether it was last modified in the `ns` before `now_ns`, both since 1970.
    pub fn was_modified_within(&self, ns: i64, now_ns: i64) -> bool {
        (-TICK_NS..ns).contains(&now_ns.saturating_sub(self.modified_ns))
    }

    /// Whether it is the file of `stat`, in whatever state.
    pub fn is_of(&self, stat: &Stat) -> bool {
        (self.device, self.inode) == (stat.st_dev, stat.st_ino)
    }

    /// A number for this state, never zero: what tells its content from that of another state of the same file. Losing
    /// a name or changing owners is not another content.
    pub fn version(&self) -> u64 {
        // The same in all processes, also in those of another version of the program: it travels with connections.
        let mut hasher = SipHasher13::new();
        (self.modified_ns, self.size, self.inode).hash(&mut hasher);
        hasher.finish().max(1)
    }

    /// Whether its entity tag tells this state from those that may still come: answers with a file have none else.
    pub fn has_etag(&self, now_ns: i64) -> bool {
        !self.is_settling(now_ns)
    }

    /// Whether the file changed so recently, before `now_ns` (since 1970), that a further change could leave the same
    /// stamp: the kernel's clock for time stamps ticks every 1 to 10 ms. Only the time of the last change tells,
    /// because no program can set it: that of the last modification may be anything. A change that is later than now
    /// was not made a moment ago, but before the clock was set back, unless it is so little later that the clock of a
    /// file server may be ahead of ours.
    fn is_settling(&self, now_ns: i64) -> bool {
        let age_ns = now_ns.saturating_sub(self.changed_ns);
        (-SKEW_NS..SETTLING_NS).contains(&age_ns)
    }
}

const NS_PER_S: i64 = 1_000_000_000;
const SETTLING_NS: i64 = 20_000_000;
/// Times of files and of the clock are not of the same instant.
const TICK_NS: i64 = 10_000_000;
/// How far the clock of a file server may be ahead.
const SKEW_NS: i64 = 10 * NS_PER_S;

fn seconds(ns: i64) -> Option<u64> {
    u64::try_from(ns.div_euclid(NS_PER_S)).ok()
}

/// `sum` and `word` as one number, the same in every process and version.
fn mixed(sum: u64, word: u64) -> u64 {
    spread(sum ^ word)
}

/// Until the year 2262; later times are all the same.
fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(NS_PER_S).saturating_add(nanoseconds)
}

/// The states of all files that something was made from.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Stamps {
    /// One for each file looked at.
    pub files: Box<[Stamp]>,
    /// Whether all of them had been at rest; if not, what was made must be compared again before its next use.
    pub settled: bool,
}

impl Stamps {
    /// Stamps of `files` as seen now.
    pub fn new(files: Vec<Stamp>) -> Stamps {
        let now_ns = now_ns();
        let settled = !files.iter().any(|stamp| stamp.is_settling(now_ns));
        Stamps { files: files.into(), settled }
    }

    /// Stamps of something that rests on no file and is good for as long as any translation.
    pub fn none() -> Stamps {
        Stamps { files: Box::default(), settled: true }
    }

    /// Whether all changes of these files could be noticed by watching their directories: there are files, each with
    /// one name.
    pub fn are_watchable(&self) -> bool {
        self.settled && !self.files.is_empty() && self.files.iter().all(|stamp| stamp.links == 1)
    }

    /// Stamps of something that must not be used twice.
    pub fn unsettled() -> Stamps {
        Stamps { files: Box::default(), settled: false }
    }
}

/// Nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    nanoseconds(now.tv_sec, now.tv_nsec)
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// Anything else: never served.
    Special,
}

/// Kind and state of an open file. Never waits: the inode of an open file is in memory.
///
/// # Errors
/// The error of `fstat(2)`.
pub fn inspect(file: BorrowedFd<'_>) -> Result<(Kind, Stamp), Errno> {
    let stat = rustix::fs::fstat(file)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::Regular,
        FileType::Directory => Kind::Directory,
        _ => Kind::Special,
    };
    Ok((kind, Stamp::of(&stat)))
}

/// Reads all of the file in state `stamp` to `content`, which is as long as the file is then. False if it is no longer
/// in that state.
///
/// # Errors
/// [`Blocked::Disk`] with [`Wait::No`] if it is not in the page cache; else what `read(2)` says.
pub fn read_whole(
    file: impl AsFd,
    stamp: &Stamp,
    content: &mut [u8],
    wait: Wait,
    abilities: &KernelFeatures,
) -> Result<bool, Blocked> {
    let file = file.as_fd();
    let bytes = read::read(file, content, 0, wait, abilities)?;
    Ok(bytes as u64 == stamp.size && inspect(file)?.1 == *stamp)
}

/// The same as [`read_whole`] with [`Wait::Yes`], for a caller that will hold the content in the place of the page
/// cache. Pages that were not there before do not stay there, unless `stays` says so then. Others may be using the
/// rest.
///
/// # Errors
/// The error of `read(2)`.
pub fn take_whole(
    file: impl AsFd,
    stamp: &Stamp,
    content: &mut [u8],
    abilities: &KernelFeatures,
    stays: impl FnOnce() -> bool,
) -> Result<bool, Blocked> {
    match read_whole(&file, stamp, content, Wait::No, abilities) {
        Err(Blocked::Disk) => {}
        resident => return resident,
    }
    let is_whole = read_whole(&file, stamp, content, Wait::Yes, abilities)?;
    if !stays() {
        // Advice only: pages in use stay.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    }
    Ok(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_sys::cachestat;
    use std::io::Write;

    #[test]
    fn content_is_had_only_in_the_state_of_its_stamp() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one").unwrap();
        let (_, stamp) = inspect(file.as_fd()).unwrap();
        let abilities = KernelFeatures::default();
        let mut content = [0; 3];
        assert_eq!(read_whole(&file, &stamp, &mut content, Wait::Yes, &abilities), Ok(true));
        assert_eq!(&content, b"one");
        file.write_all(b"two").unwrap();
        assert_eq!(read_whole(&file, &stamp, &mut content, Wait::Yes, &abilities), Ok(false));
    }

    #[test]
    fn what_had_to_be_read_leaves_the_page_cache_unless_it_is_to_stay_and_what_was_there_stays() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        file.sync_all().unwrap();
        let (abilities, stamp) = (KernelFeatures::default(), inspect(file.as_fd()).unwrap().1);
        let cached = || cachestat::pages_cached(file.as_fd(), 0, 100_000);
        let forget = || rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        forget();
        if cached() != Ok(0) {
            return eprintln!("skipped: pages cannot be counted here, or never leave memory");
        }
        let take = |stays: bool| {
            let mut content = vec![0; 100_000];
            assert_eq!(take_whole(&file, &stamp, &mut content, &abilities, || stays), Ok(true));
            assert_eq!(content, vec![7; 100_000]);
        };
        take(false);
        assert_eq!(cached(), Ok(0));
        take(true);
        assert_eq!(cached(), Ok(25));
        take(false);
        assert_eq!(cached(), Ok(25));
    }

    #[test]
    fn a_file_that_has_just_changed_is_not_settled() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one").unwrap();
        let (_, stamp) = inspect(file.as_fd()).unwrap();
        assert!(!Stamps::new(vec![stamp]).settled);
        assert!(!stamp.is_settling(stamp.changed_ns + SETTLING_NS));
    }

    const NOW_NS: i64 = 1_800_000_000 * NS_PER_S;

    fn stamp(modified_ns: i64, changed_ns: i64) -> Stamp {
        Stamp { device: 1, inode: 2, size: 3, modified_ns, changed_ns, links: 1 }
    }

    #[test]
    fn only_the_time_of_the_last_change_tells_whether_a_file_is_settled() {
        let (hour, old) = (3600 * NS_PER_S, NOW_NS - 3600 * NS_PER_S);
        for modified_ns in [0, old, NOW_NS, NOW_NS + NS_PER_S, NOW_NS + hour] {
            assert!(!stamp(modified_ns, old).is_settling(NOW_NS), "{modified_ns}");
            assert!(stamp(modified_ns, NOW_NS - 1).is_settling(NOW_NS), "{modified_ns}");
        }
        assert!(stamp(0, NOW_NS + NS_PER_S).is_settling(NOW_NS), "the clock of a file server is a little ahead");
        assert!(!stamp(0, NOW_NS + hour).is_settling(NOW_NS), "the clock was set back");
        assert!(!stamp(0, i64::MIN).is_settling(i64::MAX) && !stamp(0, i64::MAX).is_settling(i64::MIN));
    }

    // RFC 9110 8.8.2.1.
    #[test]
    fn a_file_was_last_modified_now_at_the_latest() {
        let (hour, now_s) = (3600 * NS_PER_S, 1_800_000_000);
        assert_eq!(stamp(NOW_NS - hour, NOW_NS - 1).last_modified(NOW_NS), Some(now_s - 3600));
        assert_eq!(stamp(NOW_NS + hour, NOW_NS - hour).last_modified(NOW_NS), Some(now_s - 3600));
        assert_eq!(stamp(NOW_NS + hour, NOW_NS + hour).last_modified(NOW_NS), Some(now_s));
        assert_eq!(stamp(-hour, NOW_NS).last_modified(NOW_NS), None);
    }

    #[test]
    fn states_and_codings_have_different_etags() {
        let file = tempfile::tempfile().unwrap();
        let (_, stamp) = inspect(file.as_fd()).unwrap();
        let longer = Stamp { size: 1, ..stamp };
        assert_ne!(stamp.etag(Coding::Identity), longer.etag(Coding::Identity));
        // Other files of the same time and size, and the same one written to, its time put back.
        let others = [Stamp { inode: stamp.inode + 1, ..stamp }, Stamp { changed_ns: stamp.changed_ns + 1, ..stamp }];
        for other in others {
            assert_ne!(stamp.etag(Coding::Identity), other.etag(Coding::Identity));
        }
        assert_ne!(stamp.etag(Coding::Identity), stamp.etag(Coding::Gzip));
    }
}
