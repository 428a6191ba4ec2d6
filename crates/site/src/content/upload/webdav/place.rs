//! Changes and the locks in their way.
//!
//! Owns: the place of a path in its root, and whether a change may be made there by what the client shows (`If`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_io::file_state::{self, Stamp};
use lamna_io::{Wait, open};
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::parse::path;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::super::{Action, CONDITION, ChangeTarget, FAILED, Refused, name_of, parent_of, refused, refused_by};
use super::conditions::Predicate;
use super::locks::{self, Lock, Touches, Unchanged};
use super::{LOCKED, destination};

/// A change of what is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Change {
    /// A file gets this content, and its name if it is new.
    Store,
    /// A name appears.
    Add,
    /// It goes, with all beneath it.
    Remove,
    /// It gets other properties.
    Describe,
}

const MALFORMED: Refused = Refused(400, "The If field is malformed.");
const TOO_MANY: Refused = Refused(507, "There are too many locks, in all or of your network: release others first.");

/// The locks of roots, each read once for all conditions of a request.
#[derive(Default)]
struct Tables(Vec<(Option<Vec<u8>>, Vec<Lock>)>);

impl Tables {
    /// Those of the root with this prefix, which `read` reads.
    fn at(&mut self, prefix: Option<&[u8]>, read: impl FnOnce() -> Vec<Lock>) -> &[Lock] {
        let at = match self.0.iter().position(|(known, _)| known.as_deref() == prefix) {
            Some(at) => at,
            None => {
                self.0.push((prefix.map(<[u8]>::to_vec), read()));
                self.0.len() - 1
            }
        };
        &self.0[at].1
    }
}

impl ChangeTarget {
    /// The root of `path`.
    pub(super) fn root_directory(&self, path: &[u8]) -> Result<Arc<OwnedFd>, Refused> {
        let (root, _) = self.site().root_of(path);
        root.directory(Wait::Yes, self.clock.now().ms()).map_err(refused_by)
    }

    /// The place of `path`, which has no slash at its end, beneath its root: where the folder really is that it is in.
    pub(in super::super) fn place(&self, path: &[u8]) -> String {
        let (root, name) = self.site().root_of(if path.is_empty() { b"/" } else { path });
        if matches!(name, b"" | b".") {
            return String::new();
        }
        let real = || {
            let parent = self.open_directory(parent_of(path)).ok()?;
            let (real, above) = (open::real_path(parent.as_fd()).ok()?, root.real_path()?.ok()?);
            let within = real.strip_prefix(&*above)?;
            Some([within, b"/", name_of(path)].concat())
        };
        locks::place_of(&real().unwrap_or_else(|| name.to_vec()))
    }

    /// The locks of the root of `path`.
    pub(super) fn locks_at(&self, path: &[u8]) -> Result<Vec<Lock>, Refused> {
        locks::read(self.root_directory(path)?.as_fd()).map_err(|_| FAILED)
    }

    /// Whether the client has shown the token of `lock`, and it is the client's.
    pub(super) fn shows(&self, lock: &Lock) -> bool {
        self.locker.shows(&lock.token) && self.owns(lock)
    }

    /// Whether `lock` is the client's, or of nobody in particular.
    pub(super) fn owns(&self, lock: &Lock) -> bool {
        lock.user.is_none() || lock.user.as_deref() == self.locker.user.as_deref()
    }

    /// Whether no lock stands in the way of a change of `path`, which has no slash at its end.
    pub(in super::super) fn check_locks(&self, path: &[u8], change: Change) -> Result<(), Refused> {
        let mut locks = self.locks_at(if path.is_empty() { b"/" } else { path })?;
        if locks.is_empty() {
            return Ok(());
        }
        let place = self.place(path);
        locks.retain(|lock| lock.is_within(&place) || self.reaches(lock, path));
        let touches = match change {
            Change::Describe => Touches::Content,
            Change::Remove => Touches::Tree,
            Change::Add => Touches::Name,
            Change::Store if self.is_there(path) => Touches::Content,
            Change::Store => Touches::Name,
        };
        match locks::in_the_way(&locks, (&place, touches), |lock| self.shows(lock)) {
            Some(_) => Err(LOCKED),
            None => Ok(()),
        }
    }

    /// Whether `lock`, of a folder, is for what is at `path` in it: nobody keeps others out of where he may store
    /// nothing himself. So it ends where other rules say who may.
    pub(super) fn reaches(&self, lock: &Lock, path: &[u8]) -> bool {
        if !self.site().routes.keep_out() {
            return true;
        }
        let mut from = Vec::new();
        let rules = self.rules_of(path);
        let whom = rules.whom(Action::Upload);
        path::normalise(lock.href.as_bytes(), &mut from).is_ok()
            && (whom.is_none() || self.rules_of(&from).whom(Action::Upload) == whom)
    }

    /// The same for the place of `inner`, by the path that it was asked for by.
    pub(super) fn reaches_place_of(&self, lock: &Lock, inner: &Lock) -> bool {
        let mut path = Vec::new();
        // What leads nowhere excludes.
        path::normalise(inner.href.as_bytes(), &mut path).is_err()
            || self.reaches(lock, path.strip_suffix(b"/").unwrap_or(&path))
    }

    /// Whether something has this path.
    fn is_there(&self, path: &[u8]) -> bool {
        let parent = self.open_directory(parent_of(path));
        parent.is_ok_and(|parent| rustix::fs::statat(&parent, name_of(path), AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Whether the conditions of `If` hold, where WebDAV is spoken.
    pub(in super::super) fn check_if(&self) -> Result<(), Refused> {
        let Some(field) = self.locker.field.as_ref().filter(|_| self.mounts()) else { return Ok(()) };
        let field = field.as_ref().ok_or(MALFORMED)?;
        let mut tables = Tables::default();
        let holds = field.holds(|url, predicate| {
            let path = match url {
                None => self.path.clone(),
                Some(url) => match destination::path_of(url.as_bytes(), self.locker.host.as_deref()) {
                    Ok(path) => path,
                    Err(_) => return false,
                },
            };
            self.answers(&path, predicate, &mut tables)
        });
        if holds { Ok(()) } else { Err(CONDITION) }
    }

    fn answers(&self, path: &[u8], predicate: Predicate<'_>, tables: &mut Tables) -> bool {
        let bare = path.strip_suffix(b"/").unwrap_or(path);
        match predicate {
            Predicate::IsLocked(token) => {
                let site = self.site();
                let root = site.root_of(path).0;
                let prefix = site.roots().find(|(_, own)| std::ptr::eq(*own, root)).map(|(prefix, _)| prefix);
                // What cannot be read is no lock that a condition is about.
                let locks = tables.at(prefix, || self.locks_at(path).unwrap_or_default());
                let mut named = locks.iter().filter(|lock| lock.token == token).peekable();
                named.peek().is_some() && {
                    let place = self.place(bare);
                    named.any(|lock| lock.covers(&place))
                }
            }
            // Of what the client may not read it is told nothing.
            Predicate::Has(etag) => {
                let routes = &self.site().routes;
                let is_told = path == self.path || !routes.hides(path) && routes.is_for_anybody(path);
                is_told && !path::is_hidden(path) && self.etag_at(path).is_some_and(|own| own == etag)
            }
        }
    }

    fn etag_at(&self, path: &[u8]) -> Option<String> {
        let (_, name) = self.site().root_of(path);
        let root = self.root_directory(path).ok()?;
        let stat = open::stat_beneath(root.as_fd(), name, &self.abilities).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| Stamp::of(&stat).etag(Coding::Identity))
    }

    /// Removes the locks of `path`, which is gone, and those beneath it. `before` is its place.
    pub(in super::super) fn drop_locks(&self, path: &[u8], before: &str) {
        let Ok(root) = self.root_directory(path) else { return };
        let has_some = locks::read(root.as_fd()).is_ok_and(|locks| locks.iter().any(|lock| lock.is_within(before)));
        if has_some {
            // What cannot be removed now expires.
            let _ = locks::change(root.as_fd(), |locks| {
                locks.retain(|lock| !lock.is_within(before));
                Ok::<(), Refused>(())
            });
        }
    }

    /// Changes the locks of the root of `path`.
    pub(super) fn change_locks<T>(
        &self,
        path: &[u8],
        change: impl FnOnce(&mut Vec<Lock>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let root = self.root_directory(path)?;
        locks::change(root.as_fd(), change).map_err(|unchanged| match unchanged {
            Unchanged::Refused(refused) => refused,
            Unchanged::TooMany => TOO_MANY,
            Unchanged::Failed(errno) => refused(errno),
        })
    }

    /// The file or folder at `path`, opened, and whether it is a folder.
    pub(super) fn open_at(&self, path: &[u8]) -> Result<(OwnedFd, bool, Stamp), Refused> {
        let (_, name) = self.site().root_of(path);
        let root = self.root_directory(path)?;
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let opened =
            open::open_beneath(root.as_fd(), name, Wait::Yes, &self.abilities).map_err(|blocked| match blocked {
                lamna_io::Blocked::Failed(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP) => super::NOTHING,
                blocked => refused_by(blocked),
            })?;
        let (kind, stamp) = file_state::inspect(opened.as_fd()).map_err(|_| FAILED)?;
        match kind {
            file_state::Kind::Directory => Ok((opened, true, stamp)),
            file_state::Kind::Regular if !path.ends_with(b"/") => Ok((opened, false, stamp)),
            _ => Err(super::NOTHING),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_of_a_root_are_read_once_for_all_conditions() {
        let (mut tables, reads) = (Tables::default(), std::cell::Cell::new(0));
        for number in 0..64 {
            let prefix = [&b"/"[..], b"/files/"][number % 2];
            tables.at(Some(prefix), || {
                reads.set(reads.get() + 1);
                Vec::new()
            });
        }
        assert_eq!(reads.get(), 2);
    }
}
