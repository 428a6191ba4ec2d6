//! The directories that are watched, and which entries depend on which name in each.
//!
//! Owns: the inotify(7) instance and what its watches mean. Guarantees: every event disturbs at least the entries that
//! it may concern: those of the name, those of the name of which it is a precompressed sibling, and beneath a directory
//! all. The number of watches is bounded. May wait for the disk. Does not know targets or content.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use hashbrown::{DefaultHashBuilder, HashTable};
use lamna_io::file_state::Stamp;
use lamna_sys::shared_memory::SharedMemory;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, inotify};
use rustix::io::Errno;

use super::counters::Counters;
use super::entry::Entry;
use super::watch::{EVENTS, WatchRequest};

/// The watched directories.
pub(super) struct Directories {
    inotify: Arc<OwnedFd>,
    /// By watch descriptor.
    watched: HashMap<i32, Directory>,
    roots: Vec<Root>,
    hasher: DefaultHashBuilder,
    counters: SharedMemory<Counters>,
    buffer: Vec<MaybeUninit<u8>>,
}

/// One directory.
struct Directory {
    /// The directory that it is in, and its name there; none for a root.
    parent: Option<(i32, Box<[u8]>)>,
    /// Entries by the hash of the names that they depend on.
    entries: HashTable<(u64, Weak<Entry>)>,
    /// How many entries there may be before those that are gone are looked for.
    entries_max: usize,
}

/// A root by its path, which may later name another directory.
struct Root {
    path: PathBuf,
    identity: Option<Identity>,
}

/// Device and inode.
type Identity = (u64, u64);

/// The most directories that are watched. Linux allows a user 8,192 or more in all.
const WATCHES_MAX: usize = 8192;
/// Room for a thousand events with short names.
const BUFFER_BYTES: usize = 32 * 1024;
const ENTRIES_SWEPT_MIN: usize = 64;

impl Directories {
    /// Nothing yet, beneath any of `roots`.
    ///
    /// # Errors
    /// No descriptors, or no more inotify instances for this user.
    pub(super) fn new(roots: Vec<PathBuf>, counters: SharedMemory<Counters>) -> Result<Directories, Errno> {
        let roots = roots.into_iter().map(|path| Root { identity: identity_of_path(&path), path }).collect();
        Ok(Directories {
            inotify: Arc::new(inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?),
            watched: HashMap::new(),
            roots,
            hasher: DefaultHashBuilder::default(),
            counters,
            buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES],
        })
    }

    /// The inotify descriptor: readable when events are pending.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Watches an entry, if that can be done so that every change of it is noticed.
    pub(super) fn watch(&mut self, request: &WatchRequest) {
        let Some(entry) = request.entry.upgrade() else { return };
        let Some(places) = self.places(request, &entry) else {
            self.counters.unwatchable.fetch_add(1, Relaxed);
            return;
        };
        for (watch, hash) in places {
            if let Some(directory) = self.watched.get_mut(&watch) {
                directory.add(hash, &request.entry);
            }
        }
        self.counters.watched.fetch_add(1, Relaxed);
        entry.begin_watch();
    }

    /// Disturbs the entries beneath roots whose paths name other directories by now.
    pub(super) fn look_at_roots(&mut self) {
        let mut switched = false;
        for root in &mut self.roots {
            let identity = identity_of_path(&root.path);
            switched |= identity != root.identity;
            root.identity = identity;
        }
        if switched {
            self.disturb_all();
        }
    }

    /// Reads what has happened, to the end, and disturbs the entries that it concerns. False if it cannot be read.
    pub(super) fn tell(&mut self) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let inotify = self.inotify.clone();
        let mut reader = inotify::Reader::new(&inotify, &mut buffer);
        let known = loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes().to_vec());
                    self.handle(event.wd(), event.events(), name.as_deref());
                }
                Err(Errno::INTR) => {}
                Err(errno) => break errno == Errno::AGAIN,
            }
        };
        self.buffer = buffer;
        known
    }

    /// Disturbs everything.
    pub(super) fn disturb_all(&mut self) {
        self.watched.values().for_each(Directory::disturb_all);
    }

    fn handle(&mut self, watch: i32, events: inotify::ReadFlags, name: Option<&[u8]>) {
        if events.contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
            self.counters.watch_overflows.fetch_add(1, Relaxed);
            return self.disturb_all();
        }
        if events.contains(inotify::ReadFlags::IGNORED) {
            return self.unwatch_beneath(watch);
        }
        let Some(name) = name else { return self.disturb_beneath(watch) };
        let Some(directory) = self.watched.get(&watch) else { return };
        directory.disturb(hash(&self.hasher, name));
        if let Some(whole) = without_coding_suffix(name) {
            directory.disturb(hash(&self.hasher, whole));
        }
        if events.contains(inotify::ReadFlags::ISDIR) {
            let is = |child: &Directory| {
                child.parent.as_ref().is_some_and(|(parent, own)| *parent == watch && **own == *name)
            };
            let is_gone = events.intersects(inotify::ReadFlags::MOVED_FROM | inotify::ReadFlags::DELETE);
            // The one that it was, and perhaps one that has taken its place since.
            let children = self.watched.iter().filter_map(|(watch, child)| is(child).then_some(*watch));
            for child in children.collect::<Vec<_>>() {
                if is_gone { self.unwatch_beneath(child) } else { self.disturb_beneath(child) }
            }
        }
    }

    /// Disturbs all entries of a directory and of those in it.
    fn disturb_beneath(&self, watch: i32) {
        for each in self.beneath(watch) {
            self.watched[&each].disturb_all();
        }
    }

    /// The directory has another place now, or none.
    fn unwatch_beneath(&mut self, watch: i32) {
        for each in self.beneath(watch) {
            if let Some(directory) = self.watched.remove(&each) {
                directory.entries().for_each(|entry| entry.end_watch());
            }
            // It fails for one that is gone: then there is no watch either.
            let _ = inotify::remove_watch(&self.inotify, each);
        }
    }

    /// A directory and those in it.
    fn beneath(&self, watch: i32) -> Vec<i32> {
        let mut all: Vec<i32> = self.watched.contains_key(&watch).then_some(watch).into_iter().collect();
        let mut at = 0;
        while let Some(&parent) = all.get(at) {
            let is_child = |directory: &Directory| directory.parent.as_ref().is_some_and(|(of, _)| *of == parent);
            all.extend(self.watched.iter().filter(|(_, one)| is_child(one)).map(|(child, _)| *child));
            at += 1;
        }
        all
    }
}

// Watching.
impl Directories {
    /// Where the names of an entry are, each with a watch on every directory on the way: nothing if one of them cannot
    /// be watched, or if a file of the entry has none of these names.
    fn places(&mut self, request: &WatchRequest, entry: &Entry) -> Option<Vec<(i32, u64)>> {
        let root = request.root.as_fd();
        let identity = identity(root)?;
        if !self.roots.iter().any(|root| root.identity == Some(identity)) || !is_local(root) {
            return None;
        }
        let top = self.add(root, None)?;
        let mut places = Vec::new();
        let mut found = Vec::new();
        for name in &request.names {
            let (way, last) = match name.iter().rposition(|&byte| byte == b'/') {
                Some(slash) => (&name[..slash], &name[slash + 1..]),
                None => (&name[..0], &name[..]),
            };
            let Some((directory, watch)) = self.walk(root, top, way)? else { continue };
            if last.is_empty() {
                continue;
            }
            if let Ok(stat) = rustix::fs::statat(&directory, last, AtFlags::SYMLINK_NOFOLLOW) {
                found.push(stat);
            }
            places.push((watch, hash(&self.hasher, last)));
        }
        // What is not one of these names itself lies behind a link, where nothing would be noticed.
        let is_found = |stamp: &Stamp| found.iter().any(|stat| stamp.is_of(stat));
        entry.stamps.files.iter().all(is_found).then_some(places)
    }

    /// Watches every directory on a `way` of names from the root, and opens the last. Nothing inside if a name is no
    /// directory.
    #[expect(clippy::option_option, reason = "outer: cannot be watched; inner: is not there")]
    fn walk(&mut self, root: BorrowedFd<'_>, top: i32, way: &[u8]) -> Option<Option<(OwnedFd, i32)>> {
        let mut directory = root.try_clone_to_owned().ok()?;
        let mut watch = top;
        for name in way.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            directory = match rustix::fs::openat2(&directory, name, flags, Mode::empty(), resolve) {
                Ok(next) => next,
                Err(Errno::NOENT | Errno::NOTDIR) => return Some(None),
                Err(_) => return None,
            };
            watch = self.add(directory.as_fd(), Some((watch, name.into())))?;
        }
        Some(Some((directory, watch)))
    }

    /// A watch on an open directory.
    fn add(&mut self, directory: BorrowedFd<'_>, parent: Option<(i32, Box<[u8]>)>) -> Option<i32> {
        if self.watched.len() >= WATCHES_MAX {
            self.sweep();
        }
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        // Asked for a directory that is watched already, the kernel gives the watch that there is.
        let watch = inotify::add_watch(&self.inotify, path.as_str(), EVENTS).ok()?;
        if self.watched.len() >= WATCHES_MAX && !self.watched.contains_key(&watch) {
            let _ = inotify::remove_watch(&self.inotify, watch);
            return None;
        }
        let known = self.watched.entry(watch).or_insert_with(|| Directory::new(parent.clone()));
        if known.parent != parent {
            // It was moved, and the news of that is on its way.
            known.disturb_all();
            known.parent = parent;
        }
        Some(watch)
    }

    /// Lets go of directories that no entry depends on.
    fn sweep(&mut self) {
        self.watched.values_mut().for_each(Directory::sweep);
        let parents: Vec<i32> = self.watched.values().filter_map(|one| Some(one.parent.as_ref()?.0)).collect();
        let idle = self.watched.iter().filter(|(watch, one)| one.entries.is_empty() && !parents.contains(watch));
        for watch in idle.map(|(watch, _)| *watch).collect::<Vec<_>>() {
            self.watched.remove(&watch);
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }
}

impl Directory {
    fn new(parent: Option<(i32, Box<[u8]>)>) -> Directory {
        Directory { parent, entries: HashTable::new(), entries_max: ENTRIES_SWEPT_MIN }
    }

    fn add(&mut self, hash: u64, entry: &Weak<Entry>) {
        if self.entries.iter_hash(hash).any(|(of, known)| *of == hash && known.ptr_eq(entry)) {
            return;
        }
        if self.entries.len() >= self.entries_max {
            self.sweep();
            self.entries_max = (self.entries.len() * 2).max(ENTRIES_SWEPT_MIN);
        }
        self.entries.insert_unique(hash, (hash, entry.clone()), |(hash, _)| *hash);
    }

    fn sweep(&mut self) {
        self.entries.retain(|(_, entry)| entry.strong_count() > 0);
    }

    fn disturb(&self, hash: u64) {
        let concerned = self.entries.iter_hash(hash).filter(|(of, _)| *of == hash);
        concerned.filter_map(|(_, entry)| entry.upgrade()).for_each(|entry: Arc<Entry>| entry.disturb());
    }

    fn disturb_all(&self) {
        self.entries().for_each(|entry| entry.disturb());
    }

    fn entries(&self) -> impl Iterator<Item = Arc<Entry>> {
        self.entries.iter().filter_map(|(_, entry)| entry.upgrade())
    }
}

fn hash(hasher: &DefaultHashBuilder, name: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(name);
    hasher.finish()
}

/// The name that this one is a precompressed sibling of.
fn without_coding_suffix(name: &[u8]) -> Option<&[u8]> {
    [&b".br"[..], b".zst", b".gz"].iter().find_map(|suffix| name.strip_suffix(*suffix))
}

fn identity(directory: BorrowedFd<'_>) -> Option<Identity> {
    let stat = rustix::fs::fstat(directory).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

fn identity_of_path(path: &std::path::Path) -> Option<Identity> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::empty()).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Whether only this kernel changes the file system: its type is known to be local (statfs(2)).
fn is_local(directory: BorrowedFd<'_>) -> bool {
    let kind = rustix::fs::fstatfs(directory).map_or(0, |stat| stat.f_type as u64 & 0xffff_ffff);
    LOCAL_FILE_SYSTEMS.contains(&kind)
}

/// ext2 to ext4, xfs, btrfs, tmpfs, ramfs, f2fs, overlayfs, bcachefs, squashfs, erofs, iso9660.
const LOCAL_FILE_SYSTEMS: [u64; 11] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x8584_58f6,
    0xf2f5_2010,
    0x794c_7630,
    0xca45_1a4e,
    0x7371_7368,
    0xe0f5_e1e2,
    0x9660,
];

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_io::file_state::{Stamps, inspect};
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    const NAME: &[u8] = b"sub/deep/a.txt";

    /// A root with a file two directories beneath it.
    fn tree() -> tempfile::TempDir {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir_all(outer.path().join("root/sub/deep")).unwrap();
        fs::write(outer.path().join("root/sub/deep/a.txt"), "one").unwrap();
        outer
    }

    fn directories(root: &Path) -> Directories {
        Directories::new(vec![root.to_owned()], SharedMemory::default()).unwrap()
    }

    fn entry(path: &Path) -> Arc<Entry> {
        let file = fs::File::open(path).unwrap();
        let stamps = Stamps { files: [inspect(file.as_fd()).unwrap().1].into(), settled: true };
        let representation = Representation::with_content(&Description::of(Status(200)), b"one").unwrap();
        Arc::new(Entry::new(Resource::one(Status(200), representation), stamps, 5000))
    }

    /// Has the file `name` watched, and compared since.
    fn watch(directories: &mut Directories, root: &Path, name: &[u8]) -> Arc<Entry> {
        let entry = entry(&root.join(std::str::from_utf8(name).unwrap()));
        let open = Arc::new(lamna_io::open::open_root(root).unwrap());
        let request = WatchRequest { root: open, names: vec![name.to_vec()], entry: Arc::downgrade(&entry) };
        directories.watch(&request);
        assert!(directories.tell());
        entry.confirm(5000, entry.events());
        entry
    }

    #[test]
    fn whatever_happens_to_a_file_or_the_way_to_it_disturbs_its_entry() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 13] = [
            ("replaced", |root| {
                fs::write(root.join("sub/new"), "two").unwrap();
                fs::rename(root.join("sub/new"), root.join("sub/deep/a.txt")).unwrap();
            }),
            ("edited", |root| fs::write(root.join("sub/deep/a.txt"), "two").unwrap()),
            ("truncated", |root| fs::File::create(root.join("sub/deep/a.txt")).map(drop).unwrap()),
            ("deleted", |root| fs::remove_file(root.join("sub/deep/a.txt")).unwrap()),
            ("moved away", |root| fs::rename(root.join("sub/deep/a.txt"), root.join("b")).unwrap()),
            ("touched", |root| {
                let file = fs::File::options().write(true).open(root.join("sub/deep/a.txt")).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            }),
            ("forbidden", |root| {
                fs::set_permissions(root.join("sub/deep/a.txt"), fs::Permissions::from_mode(0o000)).unwrap();
            }),
            ("compressed beforehand", |root| fs::write(root.join("sub/deep/a.txt.gz"), "gz").unwrap()),
            ("in a renamed directory", |root| fs::rename(root.join("sub/deep"), root.join("sub/other")).unwrap()),
            ("beneath a renamed directory", |root| fs::rename(root.join("sub"), root.join("other")).unwrap()),
            ("beneath a forbidden directory", |root| {
                fs::set_permissions(root.join("sub"), fs::Permissions::from_mode(0o711)).unwrap();
            }),
            ("beneath a deleted directory", |root| fs::remove_dir_all(root.join("sub")).unwrap()),
            ("beneath a renamed root", |root| fs::rename(root, root.with_file_name("other")).unwrap()),
        ];
        for (name, change) in changes {
            let outer = tree();
            let root = outer.path().join("root");
            let mut directories = directories(&root);
            let entry = watch(&mut directories, &root, NAME);
            assert!(entry.is_watched(), "{name}");
            change(&root);
            assert!(directories.tell());
            assert!(entry.is_disturbed(), "{name}");
        }
    }

    #[test]
    fn what_happens_to_others_disturbs_nobody() {
        let outer = tree();
        let root = outer.path().join("root");
        let mut directories = directories(&root);
        let entry = watch(&mut directories, &root, NAME);
        fs::write(root.join("sub/deep/b.txt"), "two").unwrap();
        fs::write(root.join("sub/a.txt"), "two").unwrap();
        fs::create_dir(root.join("a.txt")).unwrap();
        fs::read(root.join("sub/deep/a.txt")).unwrap();
        assert!(directories.tell());
        assert!(entry.is_watched());
    }

    #[test]
    fn a_directory_that_took_the_place_of_another_is_watched_anew() {
        let outer = tree();
        let root = outer.path().join("root");
        let mut directories = directories(&root);
        watch(&mut directories, &root, NAME);
        fs::rename(root.join("sub"), root.join("old")).unwrap();
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::write(root.join("sub/deep/a.txt"), "two").unwrap();
        // While the news of that is on its way, nothing that is watched here counts.
        assert!(!watch(&mut directories, &root, NAME).is_watched());
        let entry = watch(&mut directories, &root, NAME);
        assert!(entry.is_watched());
        fs::write(root.join("old/deep/a.txt"), "old").unwrap();
        assert!(directories.tell());
        assert!(entry.is_watched());
        fs::write(root.join("sub/deep/a.txt"), "new").unwrap();
        assert!(directories.tell());
        assert!(entry.is_disturbed());
    }

    #[test]
    fn what_lies_behind_a_link_or_beneath_no_root_is_not_watched() {
        let outer = tree();
        let root = outer.path().join("root");
        symlink("sub", root.join("link")).unwrap();
        symlink("deep/a.txt", root.join("sub/link.txt")).unwrap();
        let mut known = directories(&root);
        for name in [&b"link/deep/a.txt"[..], b"sub/link.txt"] {
            assert!(!watch(&mut known, &root, name).is_watched());
        }
        let mut unknown = directories(outer.path());
        assert!(!watch(&mut unknown, &root, NAME).is_watched());
    }

    #[test]
    fn an_entry_with_a_sibling_behind_a_link_is_not_watched() {
        let outer = tree();
        let root = outer.path().join("root");
        fs::write(root.join("compressed"), "gz").unwrap();
        symlink("../../compressed", root.join("sub/deep/a.txt.gz")).unwrap();
        let stamp = |name: &str| inspect(fs::File::open(root.join(name)).unwrap().as_fd()).unwrap().1;
        let files = [stamp("sub/deep/a.txt"), stamp("sub/deep/a.txt.gz")].into();
        let representation = Representation::with_content(&Description::of(Status(200)), b"one").unwrap();
        let resource = Resource::one(Status(200), representation);
        let entry = Arc::new(Entry::new(resource, Stamps { files, settled: true }, 5000));
        let names = vec![NAME.to_vec(), [NAME, b".gz"].concat()];
        let open = Arc::new(lamna_io::open::open_root(&root).unwrap());
        directories(&root).watch(&WatchRequest { root: open, names, entry: Arc::downgrade(&entry) });
        assert_eq!(entry.events(), 0);
    }

    #[test]
    fn a_root_that_is_switched_disturbs_everything() {
        let outer = tree();
        let (root, link) = (outer.path().join("root"), outer.path().join("current"));
        symlink("root", &link).unwrap();
        let mut directories = directories(&link);
        let entry = watch(&mut directories, &root, NAME);
        directories.look_at_roots();
        assert!(entry.is_watched());
        fs::remove_file(&link).unwrap();
        symlink("elsewhere", &link).unwrap();
        directories.look_at_roots();
        assert!(entry.is_disturbed());
    }

    #[test]
    fn entries_that_are_gone_are_forgotten() {
        let outer = tree();
        let root = outer.path().join("root");
        let mut directories = directories(&root);
        for _ in 0..10 * ENTRIES_SWEPT_MIN {
            watch(&mut directories, &root, NAME);
        }
        let known: usize = directories.watched.values().map(|directory| directory.entries.len()).sum();
        assert!(known <= 2 * ENTRIES_SWEPT_MIN, "{known}");
        directories.sweep();
        directories.sweep();
        directories.sweep();
        assert_eq!(directories.watched.len(), 0, "nobody depends on any");
    }
}
