//! Write locks (RFC 4918 6 and 7), kept in a hidden directory of the root that they are in.
//!
//! Owns: [`Lock`], the table of a root's locks, and which of them stand in the way of a change. Guarantees: all
//! processes and all engines see the same locks, and a restart or an upgrade keeps them; a reader sees the table as one
//! change left it; locks are bounded in number and in bytes, in all, for each network and in what is told of one place,
//! and in time; what has expired counts no more; no table is written that would not be read. The directory is there
//! only as long as there are locks. Knows no requests.
//!
//! A lock is of the place that a path leads to: a link to a folder leads to the locks of that folder.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lamna_proto::parse::path;
use lamna_sys::clock::unix_ms;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use serde::{Deserialize, Serialize};

use super::xml::push_text;

/// The directory, hidden and so never served.
pub(super) const FOLDER: &str = ".lamna-locks";
const TABLE: &str = "table";
const NEW_TABLE: &str = "table.new";
/// Locks of a root, and those of one network.
const LOCKS_MAX: usize = 1024;
const LOCKS_OF_NETWORK_MAX: usize = 128;
/// Bytes of the table, and of the locks of one network in it: no more is written, and no more is read.
const TABLE_BYTES_MAX: usize = 2 << 20;
const NETWORK_BYTES_MAX: usize = TABLE_BYTES_MAX / 8;
/// Bytes that are told of the locks of one place, with those that cover it: they are told of everything beneath.
const TOLD_BYTES_MAX: usize = 16 * 1024;
/// Seconds for which a lock holds unless it is refreshed: at most, and if nothing is said.
pub(super) const SECONDS_MAX: u32 = 3600;
pub(super) const SECONDS: u32 = 600;
/// How often the directory is made anew that others delete at the same time.
const TRIES_MAX: usize = 16;

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lock {
    /// Its name: a URI.
    pub(super) token: String,
    /// Where it is: names beneath the root, percent-encoded, without slashes at the ends; empty for the root itself.
    pub(super) place: String,
    /// The path that it was asked for by, percent-encoded.
    pub(super) href: String,
    /// Whether all beneath it is locked as well.
    pub(super) is_deep: bool,
    pub(super) is_shared: bool,
    /// Seconds for which it was given.
    pub(super) seconds: u32,
    /// Until when it holds, in milliseconds since 1970.
    pub(super) until_unix_ms: u64,
    /// The client's words about itself, as XML.
    pub(super) owner: String,
    /// The user that it belongs to. None: whoever knows its token may use it.
    pub(super) user: Option<String>,
    /// The network that it counts for.
    pub(super) network: Option<String>,
}

/// The effect of a change at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touches {
    /// Other content, or other properties.
    Content,
    /// A name appears or goes.
    Name,
    /// A name goes, with all beneath it.
    Tree,
}

/// Why the table cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unchanged<R> {
    /// The change was refused.
    Refused(R),
    /// There are too many locks.
    TooMany,
    /// The error of a system call.
    Failed(Errno),
}

/// The place of names beneath a root.
pub(super) fn place_of(names: &[u8]) -> String {
    let names = names.strip_prefix(b"/").unwrap_or(names);
    let names = names.strip_suffix(b"/").unwrap_or(names);
    if names == b"." { String::new() } else { path::encode(names) }
}

fn parent_of(place: &str) -> Option<&str> {
    if place.is_empty() { None } else { Some(place.rsplit_once('/').map_or("", |(parent, _)| parent)) }
}

fn is_beneath(place: &str, other: &str) -> bool {
    if other.is_empty() {
        return !place.is_empty();
    }
    place.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
}

impl Lock {
    /// Whether it holds for what is at `place`.
    pub(super) fn covers(&self, place: &str) -> bool {
        self.place == place || self.is_deep && is_beneath(place, &self.place)
    }

    /// Whether it stands in the way of a change at `place`, unless its token is shown.
    fn stands_in_the_way(&self, place: &str, touches: Touches) -> bool {
        self.covers(place)
            || touches != Touches::Content && parent_of(place) == Some(&*self.place)
            || touches == Touches::Tree && is_beneath(&self.place, place)
    }

    /// Whether it is of a name in the folder at `place`.
    pub(super) fn is_in(&self, place: &str) -> bool {
        parent_of(&self.place) == Some(place)
    }

    /// Whether it is at `place` or beneath it.
    pub(super) fn is_within(&self, place: &str) -> bool {
        self.place == place || is_beneath(&self.place, place)
    }

    /// Whether another one that is `is_shared`, at `place` and beneath it if it `is_deep`, cannot be had beside it.
    pub(super) fn conflicts(&self, place: &str, is_deep: bool, is_shared: bool) -> bool {
        (self.covers(place) || is_deep && self.is_within(place)) && !(self.is_shared && is_shared)
    }

    fn seconds_left(&self) -> u64 {
        self.until_unix_ms.saturating_sub(unix_ms()).div_ceil(1000)
    }

    /// Whether it holds now. If the clock was set back, it holds no longer than it was given for.
    fn holds(&self, now_unix_ms: u64) -> bool {
        let left = self.until_unix_ms.saturating_sub(now_unix_ms);
        left > 0 && left <= u64::from(self.seconds.min(SECONDS_MAX)) * 1000 + 1000
    }

    /// Bytes that are told of it, and that the table has of it, about.
    fn told_bytes(&self) -> usize {
        /// The elements around it.
        const ELEMENTS_BYTES: usize = 320;
        ELEMENTS_BYTES + self.token.len() + self.href.len() + self.owner.len()
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_client = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        size_of::<Lock>() + self.place.len() + self.told_bytes() + of_client(&self.user) + of_client(&self.network)
    }

    /// Gives it so many seconds from now on.
    pub(super) fn extend(&mut self, seconds: u32) {
        self.seconds = seconds.clamp(1, SECONDS_MAX);
        self.until_unix_ms = unix_ms() + u64::from(self.seconds) * 1000;
    }
}

/// A lock of `locks` that stands in the way of a change at `place`. `shows` says of which of them the client has shown
/// the token: of an exclusive lock it has to be that one, of shared locks at one place that of one of them.
pub(super) fn in_the_way<'l>(
    locks: &'l [Lock],
    (place, touches): (&str, Touches),
    shows: impl Fn(&Lock) -> bool,
) -> Option<&'l Lock> {
    locks.iter().filter(|lock| lock.stands_in_the_way(place, touches)).find(|lock| {
        let has_another = || {
            let mut others = locks.iter().filter(|other| lock.is_shared && other.is_shared);
            others.any(|other| other.place == lock.place && shows(other))
        };
        !shows(lock) && !has_another()
    })
}

/// A token that nobody can guess.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn new_token() -> Result<String, Errno> {
    let mut bytes = [0; 16];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut bytes).map_err(|_| Errno::IO)?;
    // Version 4 (RFC 9562 5.4).
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(format!("urn:uuid:{}", parts.join("-")))
}

/// The locks that hold beneath `root` now.
///
/// # Errors
/// The error of a system call.
pub(super) fn read(root: BorrowedFd<'_>) -> Result<Vec<Lock>, Errno> {
    match retry_on_intr(|| rustix::fs::openat(root, FOLDER, DIRECTORY, Mode::empty())) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Vec::new()),
        folder => read_in(&folder?),
    }
}

/// Changes the locks beneath `root` by `change`, which is given those that hold. No other change comes between.
pub(super) fn change<T, R>(
    root: BorrowedFd<'_>,
    change: impl FnOnce(&mut Vec<Lock>) -> Result<T, R>,
) -> Result<T, Unchanged<R>> {
    let folder = open_locked(root).map_err(Unchanged::Failed)?;
    let mut locks = read_in(&folder).map_err(Unchanged::Failed)?;
    let count = locks.len();
    let changed = change(&mut locks).map_err(Unchanged::Refused);
    let changed = changed.and_then(|changed| match locks.len() <= count || is_within_bounds(&locks) {
        true => write_in(&folder, &locks).map(|()| changed).map_err(|errno| match errno {
            Errno::FBIG => Unchanged::TooMany,
            errno => Unchanged::Failed(errno),
        }),
        false => Err(Unchanged::TooMany),
    });
    if locks.is_empty() || changed.is_err() {
        remove_if_unused(root, &folder);
    }
    changed
}

/// Removes what has expired, and the directory with the last of it. To be called from time to time.
pub(super) fn sweep(root: BorrowedFd<'_>) {
    // What cannot be looked at now is looked at the next time.
    if rustix::fs::statat(root, FOLDER, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        let _ = change(root, |_| Ok::<(), ()>(()));
    }
}

/// Whether the last of `locks` may be there beside the others.
fn is_within_bounds(locks: &[Lock]) -> bool {
    let Some(newest) = locks.last() else { return true };
    let is_of_network = |lock: &&Lock| newest.network.is_some() && lock.network == newest.network;
    let of_network = locks.iter().filter(is_of_network).count();
    let bytes_of_network: usize = locks.iter().filter(is_of_network).map(Lock::memory_bytes).sum();
    // All that cover a place cover the innermost of theirs.
    let told_of = |place: &str| locks.iter().filter(|lock| lock.covers(place)).map(Lock::told_bytes).sum::<usize>();
    let mut places: Vec<&str> = locks.iter().map(|lock| &*lock.place).filter(|place| newest.covers(place)).collect();
    places.sort_unstable();
    places.dedup();
    locks.len() <= LOCKS_MAX
        && of_network <= LOCKS_OF_NETWORK_MAX
        && bytes_of_network <= NETWORK_BYTES_MAX
        && places.into_iter().all(|place| told_of(place) <= TOLD_BYTES_MAX)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// The directory, which is made if it is not there, for this user alone until it is closed.
fn open_locked(root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    for _ in 0..TRIES_MAX {
        match retry_on_intr(|| rustix::fs::openat(root, FOLDER, DIRECTORY, Mode::empty())) {
            Err(Errno::NOENT) => match retry_on_intr(|| rustix::fs::mkdirat(root, FOLDER, Mode::RWXU)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            },
            folder => {
                let folder = folder?;
                retry_on_intr(|| rustix::fs::flock(&folder, FlockOperation::LockExclusive))?;
                // Who was before may have deleted it.
                if rustix::fs::fstat(&folder)?.st_nlink > 0 {
                    return Ok(folder);
                }
            }
        }
    }
    Err(Errno::BUSY)
}

fn read_in(folder: &OwnedFd) -> Result<Vec<Lock>, Errno> {
    let file = match retry_on_intr(|| rustix::fs::openat(folder, TABLE, FILE, Mode::empty())) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        file => file?,
    };
    let stat = rustix::fs::fstat(&file)?;
    let now = unix_ms();
    match table_in(&file, stat.st_size) {
        Ok(mut locks) => {
            locks.retain(|lock| lock.holds(now));
            Ok(locks)
        }
        // A loss of power may leave it so, or another program. All that were in it have expired; if it is of the
        // future, the clock was set back, and none of them holds any longer than it was given for.
        Err(_) if (stat.st_mtime as u64).saturating_mul(1000).abs_diff(now) > u64::from(SECONDS_MAX) * 1000 => {
            Ok(Vec::new())
        }
        Err(errno) => Err(errno),
    }
}

/// The locks in `file`, which has `size` bytes.
fn table_in(file: &OwnedFd, size: i64) -> Result<Vec<Lock>, Errno> {
    let size = usize::try_from(size).ok().filter(|size| *size <= TABLE_BYTES_MAX).ok_or(Errno::FBIG)?;
    let (mut bytes, mut at) = (vec![0; size], 0);
    while at < size {
        match retry_on_intr(|| rustix::io::pread(file, &mut bytes[at..], at as u64))? {
            0 => return Err(Errno::IO),
            read => at += read,
        }
    }
    serde_json::from_slice(&bytes).map_err(|_| Errno::BADMSG)
}

fn write_in(folder: &OwnedFd, locks: &[Lock]) -> Result<(), Errno> {
    if locks.is_empty() {
        return match rustix::fs::unlinkat(folder, TABLE, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed,
        };
    }
    let text = serde_json::to_vec(locks).map_err(|_| Errno::INVAL)?;
    if text.len() > TABLE_BYTES_MAX {
        return Err(Errno::FBIG);
    }
    let flags = FILE | OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let file = retry_on_intr(|| rustix::fs::openat(folder, NEW_TABLE, flags, Mode::RUSR | Mode::WUSR))?;
    let mut rest = &text[..];
    while !rest.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(&file, rest))?;
        rest = &rest[written..];
    }
    retry_on_intr(|| rustix::fs::renameat(folder, NEW_TABLE, folder, TABLE))
}

/// Deletes the directory, which is locked, if there is nothing in it.
fn remove_if_unused(root: BorrowedFd<'_>, folder: &OwnedFd) {
    let _ = rustix::fs::unlinkat(folder, NEW_TABLE, AtFlags::empty());
    // One that is not empty stays.
    let _ = rustix::fs::unlinkat(root.as_fd(), FOLDER, AtFlags::REMOVEDIR);
}

/// Writes what is told of `locks`.
pub(super) fn discover(locks: &[&Lock], out: &mut String) {
    for lock in locks {
        let scope = if lock.is_shared { "shared" } else { "exclusive" };
        let depth = if lock.is_deep { "infinity" } else { "0" };
        out.push_str(&format!(
            "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope>\
             <D:depth>{depth}</D:depth>"
        ));
        if !lock.owner.is_empty() {
            out.push_str(&format!("<D:owner>{}</D:owner>", lock.owner));
        }
        out.push_str(&format!("<D:timeout>Second-{}</D:timeout><D:locktoken><D:href>", lock.seconds_left()));
        push_text(&lock.token, out);
        out.push_str("</D:href></D:locktoken><D:lockroot><D:href>");
        push_text(&lock.href, out);
        out.push_str("</D:href></D:lockroot></D:activelock>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(place: &str, is_deep: bool, is_shared: bool) -> Lock {
        let mut lock = Lock {
            token: format!("{place} {is_deep} {is_shared}"),
            place: place.to_owned(),
            href: format!("/{place}"),
            is_deep,
            is_shared,
            seconds: 0,
            until_unix_ms: 0,
            owner: String::new(),
            user: None,
            network: None,
        };
        lock.extend(SECONDS);
        lock
    }

    fn root() -> (tempfile::TempDir, OwnedFd) {
        let directory = tempfile::tempdir().unwrap();
        let opened = std::fs::File::open(directory.path()).unwrap().into();
        (directory, opened)
    }

    fn add(root: &OwnedFd, lock: Lock) -> Result<(), Unchanged<()>> {
        change(root.as_fd(), |locks| {
            locks.push(lock);
            Ok(())
        })
    }

    #[test]
    fn a_lock_stands_in_the_way_of_what_it_covers_of_its_names_and_of_what_goes_with_it() {
        use Touches::{Content, Name, Tree};
        for (at, is_deep, place, content, name, tree) in [
            ("a", false, "a", true, true, true),
            ("a", false, "a/b", false, true, true),
            ("a", false, "a/b/c", false, false, false),
            ("a", true, "a/b/c", true, true, true),
            ("a", true, "ab", false, false, false),
            ("a/b", false, "a", false, false, true),
            ("", false, "a", false, true, true),
            ("", true, "a/b", true, true, true),
            ("", false, "a/b", false, false, false),
        ] {
            let lock = lock(at, is_deep, false);
            for (touches, expected) in [(Content, content), (Name, name), (Tree, tree)] {
                assert_eq!(lock.stands_in_the_way(place, touches), expected, "{at} {is_deep} {place} {touches:?}");
            }
        }
    }

    #[test]
    fn of_shared_locks_one_token_is_enough_and_of_an_exclusive_one_its_own_is_needed() {
        let mut locks = [lock("a", false, true), lock("a", false, true)];
        locks[1].token = "other".to_owned();
        let change = ("a", Touches::Content);
        assert!(in_the_way(&locks, change, |_| false).is_some());
        assert!(in_the_way(&locks, change, |lock| lock.token == "other").is_none());
        let locks = [lock("a", false, false), lock("", true, false)];
        assert_eq!(in_the_way(&locks, change, |lock| lock.place == "a").map(|lock| &*lock.place), Some(""));
        assert!(in_the_way(&locks, change, |_| true).is_none());
    }

    #[test]
    fn locks_stay_until_they_expire_and_the_directory_with_them() {
        let (directory, root) = root();
        assert_eq!(read(root.as_fd()), Ok(Vec::new()));
        add(&root, lock("a", false, false)).unwrap();
        let mut old = lock("b", false, false);
        old.until_unix_ms = unix_ms() - 1;
        add(&root, old).unwrap();
        // One that a clock of the future gave.
        let mut late = lock("c", false, false);
        late.until_unix_ms = unix_ms() + 10_000_000;
        add(&root, late).unwrap();
        let places =
            |root: &OwnedFd| read(root.as_fd()).unwrap().into_iter().map(|lock| lock.place).collect::<Vec<_>>();
        assert_eq!(places(&root), ["a"]);
        sweep(root.as_fd());
        assert!(directory.path().join(FOLDER).exists());
        change(root.as_fd(), |locks| {
            locks.clear();
            Ok::<(), ()>(())
        })
        .unwrap();
        assert!(!directory.path().join(FOLDER).exists() && places(&root).is_empty());
    }

    #[test]
    fn a_table_that_cannot_be_read_counts_until_all_locks_in_it_must_have_expired() {
        let (directory, root) = root();
        add(&root, lock("a", false, false)).unwrap();
        let table = directory.path().join(FOLDER).join(TABLE);
        std::fs::write(&table, "[{").unwrap();
        assert_eq!(
            (read(root.as_fd()), add(&root, lock("b", false, false))),
            (Err(Errno::BADMSG), Err(Unchanged::Failed(Errno::BADMSG)))
        );
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(u64::from(SECONDS_MAX) + 2);
        std::fs::File::open(&table).unwrap().set_modified(old).unwrap();
        assert_eq!((read(root.as_fd()), add(&root, lock("b", false, false))), (Ok(Vec::new()), Ok(())));
    }

    #[test]
    fn a_table_that_is_too_large_or_of_the_future_is_not_there_for_ever() {
        let (directory, root) = root();
        add(&root, lock("a", false, false)).unwrap();
        let table = directory.path().join(FOLDER).join(TABLE);
        let hour = std::time::Duration::from_secs(u64::from(SECONDS_MAX) + 2);
        let now = std::time::SystemTime::now();
        for (content, modified) in [("x".repeat(TABLE_BYTES_MAX + 1), now - hour), ("x".to_owned(), now + hour)] {
            std::fs::write(&table, content).unwrap();
            assert!(read(root.as_fd()).is_err());
            std::fs::File::open(&table).unwrap().set_modified(modified).unwrap();
            assert_eq!((read(root.as_fd()), add(&root, lock("b", false, false))), (Ok(Vec::new()), Ok(())));
        }
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing_and_locks_are_bounded() {
        let (directory, root) = root();
        assert_eq!(change(root.as_fd(), |_| Err::<(), _>(7)), Err(Unchanged::Refused(7)));
        assert!(!directory.path().join(FOLDER).exists());
        let number = std::cell::Cell::new(0);
        let of = |network: Option<&str>| {
            number.set(number.get() + 1);
            Lock { network: network.map(str::to_owned), ..lock(&number.get().to_string(), false, true) }
        };
        let fill = |most: usize, network| {
            change(root.as_fd(), |locks| {
                locks.resize_with(most, || of(network));
                Ok::<(), ()>(())
            })
        };
        assert_eq!(fill(LOCKS_OF_NETWORK_MAX, Some("n")), Ok(()));
        assert_eq!(add(&root, of(Some("n"))), Err(Unchanged::TooMany));
        assert_eq!(add(&root, of(Some("m"))), Ok(()));
        assert_eq!(fill(LOCKS_MAX, None), Ok(()));
        assert_eq!(add(&root, of(None)), Err(Unchanged::TooMany));
        assert_eq!(read(root.as_fd()).unwrap().len(), LOCKS_MAX);
        // Fewer is always possible.
        let fewer = change(root.as_fd(), |locks| {
            locks.truncate(1);
            Ok::<(), ()>(())
        });
        assert_eq!(fewer, Ok(()));
    }

    /// Adds locks of `make` until there are too many. How many there were.
    fn fill_up(root: &OwnedFd, make: impl Fn(usize) -> Lock) -> usize {
        let is_full = (0..LOCKS_MAX).any(|number| add(root, make(number)) == Err(Unchanged::TooMany));
        assert!(is_full);
        read(root.as_fd()).unwrap().len()
    }

    #[test]
    fn a_table_grows_no_larger_than_is_read_and_no_network_takes_all_of_it() {
        let long = |number: usize, network: &str| {
            let place = format!("{number}{}", "%C3%A4".repeat(600));
            let href = format!("/{place}");
            Lock { href, owner: "\"".repeat(2048), network: Some(network.to_owned()), ..lock(&place, true, false) }
        };
        let (directory, root) = root();
        let of_one = fill_up(&root, |number| long(number, "n"));
        let many = change(root.as_fd(), |locks| {
            locks.extend((0..120).map(|number| long(LOCKS_MAX + number, &number.to_string())));
            Ok::<(), ()>(())
        });
        assert_eq!(many, Ok(()));
        let of_all = fill_up(&root, |number| long(2 * LOCKS_MAX + number, &number.to_string()));
        assert!(of_one < LOCKS_OF_NETWORK_MAX && of_all > 4 * of_one && of_all < LOCKS_MAX, "{of_one} {of_all}");
        let bytes = directory.path().join(FOLDER).join(TABLE).metadata().unwrap().len();
        assert!(bytes <= TABLE_BYTES_MAX as u64 && bytes > TABLE_BYTES_MAX as u64 / 2, "{bytes}");
    }

    #[test]
    fn what_is_told_of_a_place_is_bounded_wherever_its_locks_are() {
        let (_directory, root) = root();
        let shared = |place: &str, number: usize| {
            let owner = "o".repeat(1000);
            Lock { owner, token: number.to_string(), ..lock(place, true, true) }
        };
        let inner = fill_up(&root, |number| shared("a/b/c", number));
        assert!((8..16).contains(&inner), "{inner}");
        // One above it would be told of there as well; one beside it is not.
        assert_eq!(add(&root, shared("", 0)), Err(Unchanged::TooMany));
        assert_eq!(add(&root, shared("a/c", 0)), Ok(()));
        assert_eq!(add(&root, Lock { is_deep: false, ..shared("", 0) }), Ok(()));
    }

    #[test]
    fn changes_of_many_threads_are_all_kept() {
        let (_directory, root) = root();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let root = &root;
                scope.spawn(move || {
                    (0..10).for_each(|n| add(root, lock(&format!("{thread}-{n}"), false, false)).unwrap())
                });
            }
        });
        assert_eq!(read(root.as_fd()).unwrap().len(), 80);
    }
}
