//! Live reload: pages load themselves again when files of their site change (`live_reload`, `--watch`), for authors.
//!
//! ```text
//!   page of HTML ── insert ──> with a script ── GET /.lamna/changes ──> Changes: looks, tells, waits 300 ms, looks ...
//!                                    └────────── loads itself again <── an event with another number
//! ```
//!
//! Owns: the stream of events, and the number of the state that all files beneath the roots of a site are in; the
//! script is in `change_poller`. Guarantees: the number is the same in every process and after a restart, and it is
//! told when two looks agree, so that no half-written file is loaded. A look is a bounded walk through the directories.
//! It runs where steps may block, for one of all clients at a time; nothing is watched and no thread is held but the
//! one that an engine has for each connection. Names that begin with a dot count for nothing.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_io::Wait;
use lamna_proto::exchange::program::{Holds, Input, Next, Part, Program, StepResult, StreamHead};
use lamna_proto::message::Status;
use lamna_proto::time::Instant;
use lamna_sys::clock::Clock;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::change_poller::{ChangePoller, LOOK_MS, PATH};
use super::download::{Bytes, stream_fields};
use super::responder::Incoming;
use super::site::{Root, Site, Sites};

/// How long a stream lasts. Streams are short, so that a server that ends does not wait for them.
const STREAM_MS: u32 = 5_000;
/// Names that are looked at, and directories within each other.
const NAMES_MAX: usize = 50_000;
const DEPTH_MAX: usize = 32;

/// The program that tells a page of changes; none if that is not what is asked for.
pub(super) fn begin(&Incoming { site, requested, resources, .. }: &Incoming<'_>) -> Option<Box<dyn Program>> {
    let change_poller = site.change_poller.as_ref()?;
    let reads = requested.request.is_some_and(|request| request.head.method.reads());
    (reads && requested.path == PATH).then(|| {
        let (sites, clock) = (resources.sites.clone(), resources.clock);
        Box::new(Changes { change_poller: change_poller.clone(), sites, site: site.index, clock, until: None, told: 0 })
            as Box<dyn Program>
    })
}

/// Tells one page of changes.
#[derive(Debug)]
struct Changes {
    change_poller: Arc<ChangePoller>,
    sites: Arc<Sites>,
    site: u32,
    clock: Clock,
    /// When the stream ends, once it has begun.
    until: Option<Instant>,
    told: u64,
}

impl Program for Changes {
    fn content_bytes_max(&self) -> u64 {
        0
    }

    fn begins_with(&self) -> Next {
        Next::ROOM
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        if !input.room {
            return StepResult::Waits(Next::ROOM);
        }
        let (mut part, mut events) = (Part::default(), String::new());
        let until = *self.until.get_or_insert_with(|| {
            part.head = Some(head(self.sites.at(self.site)));
            events.push_str("retry: 300\n\n");
            input.now.after_ms(STREAM_MS)
        });
        let state = self.change_poller.state(self.clock, || look(self.sites.at(self.site), self.clock));
        if state != self.told {
            self.told = state;
            // Writing to a string does not fail.
            let _ = write!(events, "data: {state:016x}\n\n");
        }
        let next = Next { until: Some(input.now.after_ms(LOOK_MS)), ..Next::default() };
        if input.now >= until {
            part.end = Some(Vec::new());
        } else if events.is_empty() {
            return StepResult::Waits(next);
        }
        if !events.is_empty() {
            part.content = Some(Arc::new(Bytes(events.into_bytes())));
        }
        StepResult::Gives(Box::new(part), next)
    }
}

fn head(site: &Site) -> StreamHead {
    let rules = site.routes.effective(PATH, &[]);
    let fields = stream_fields(&[("Content-Type", b"text/event-stream")], &rules.extras(200));
    StreamHead { status: Status(200), reason: None, fields, length: None, tunnels: false }
}

/// A number for the state of all files of `site`. What cannot be read is as if it were not there.
fn look(site: &Site, clock: Clock) -> u64 {
    let mut look = Look { left: NAMES_MAX, sum: 0 };
    let roots = site.aliases.iter().map(|(_, root)| root).chain([&site.root]);
    for (number, root) in roots.enumerate() {
        look.root(number, root, clock);
    }
    look.sum
}

struct Look {
    /// Names that may still be looked at.
    left: usize,
    /// Hash sum of the entries found, independent of their order.
    sum: u64,
}

impl Look {
    fn root(&mut self, number: usize, root: &Root, clock: Clock) {
        let root = root.directory(Wait::Yes, clock.now().ms()).ok();
        let Some(root) = root.and_then(|root| open(&root, c".")) else { return };
        let mut directories = vec![(root, number as u64, 0)];
        while let Some((directory, place, depth)) = directories.pop() {
            let Ok(entries) = rustix::fs::Dir::read_from(&directory) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                if name.to_bytes().starts_with(b".") {
                    continue;
                }
                if self.left == 0 {
                    return;
                }
                self.left -= 1;
                let Ok(stat) = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let mut hasher = DefaultHasher::new();
                (place, name.to_bytes()).hash(&mut hasher);
                let inner = hasher.finish();
                if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                    let changed = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
                    (stat.st_size, stat.st_ino, changed).hash(&mut hasher);
                } else if depth < DEPTH_MAX {
                    directories.extend(open(&directory, name).map(|opened| (opened, inner, depth + 1)));
                }
                self.sum = self.sum.wrapping_add(hasher.finish());
            }
        }
    }
}

/// A directory, and no link to one: so the walk stays beneath its root.
fn open(directory: &OwnedFd, name: &std::ffi::CStr) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    rustix::fs::openat(directory.as_fd(), name, flags, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::settings::{Settings, SiteSettings};
    use std::fs;
    use std::path::Path;

    fn look_at(path: &Path) -> u64 {
        let sites = vec![SiteSettings::new(path.to_owned())];
        let sites = Sites::open(&Settings { sites, ..Settings::default() }).unwrap();
        look(sites.find(None), Clock::start())
    }

    #[test]
    fn every_change_of_what_is_served_is_another_state_and_nothing_else_is() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/c.css"), "p{}").unwrap();
        let mut states = vec![look_at(root.path())];
        assert_eq!(look_at(root.path()), states[0]);
        fs::create_dir(path(".git")).unwrap();
        fs::write(path(".git/index"), "1").unwrap();
        fs::write(path("a/.c.css.swp"), "1").unwrap();
        assert_eq!(look_at(root.path()), states[0], "hidden files");
        let changes: [&dyn Fn(); 5] = [
            &|| fs::write(path("a/b/c.css"), "p{ }").unwrap(),
            &|| fs::write(path("new"), "").unwrap(),
            &|| fs::rename(path("new"), path("a/new")).unwrap(),
            &|| fs::remove_file(path("a/new")).unwrap(),
            &|| std::os::unix::fs::symlink("/", path("link")).unwrap(),
        ];
        for change in changes {
            change();
            states.push(look_at(root.path()));
        }
        // The fourth state is the second again: a file has come and gone.
        assert_eq!(states[4], states[1]);
        states.remove(4);
        let different: std::collections::BTreeSet<_> = states.iter().collect();
        assert_eq!(different.len(), states.len(), "{states:?}");
    }
}
