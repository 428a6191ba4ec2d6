//! Users whose directories are served, by name.
//!
//! Owns: the cached part of the user database, which may be asked over a network. Guarantees: memory, descriptors and
//! look-ups are bounded whatever names are asked for, and unknown names displace no user. Asks no database itself.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use lamna_io::{Blocked, Wait};
use rustix::io::Errno;

use super::Root;

/// The users of one site.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    found: HashMap<Vec<u8>, Found>,
    /// When it was asked for names that no user has, or whose directory is not served, in milliseconds.
    missing_ms: HashMap<Vec<u8>, u64>,
    /// The second in which it was last asked for a new name, and how often.
    second: u64,
    asked: u32,
}

#[derive(Debug)]
struct Found {
    root: Arc<Root>,
    asked_ms: u64,
}

/// How long an answer of the user database is believed, in milliseconds.
const FRESH_MS: u64 = 60_000;
/// Users that are remembered, each with an open directory.
const FOUND_MAX: usize = 1024;
/// New names that are looked up in a second: each may cost a question over the network.
const LOOK_UPS_MAX: u32 = 64;
/// Names without a user that are remembered: all that can be fresh.
const MISSING_MAX: usize = LOOK_UPS_MAX as usize * (FRESH_MS as usize / 1000 + 1);
/// Names of users are shorter (`LOGIN_NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;

impl Users {
    /// The directory of the user `name`, which `find` looks up.
    ///
    /// # Errors
    /// [`Blocked::Disk`] with [`Wait::No`] if it has to be looked up; `ENOENT` if there is none; `EBUSY` if too many
    /// names have been looked up in this second.
    pub(super) fn root(
        &self,
        name: &[u8],
        wait: Wait,
        now_ms: u64,
        find: impl FnOnce(&str) -> Option<Arc<Root>>,
    ) -> Result<Arc<Root>, Blocked> {
        let missing = Blocked::Failed(Errno::NOENT);
        let text = name_of(name).ok_or(missing)?;
        if let Some(known) = self.table().known(name, now_ms) {
            return known.ok_or(missing);
        }
        if wait == Wait::No {
            return Err(Blocked::Disk);
        }
        if !self.table().may_ask(name, now_ms) {
            return Err(Blocked::Failed(Errno::BUSY));
        }
        // Without the lock: it may take long.
        let root = find(text);
        self.table().remember(name, root.clone(), now_ms);
        root.ok_or(missing)
    }

    /// The user whose open directory this is, among those that are remembered.
    pub(super) fn with_directory(&self, directory: &OwnedFd) -> Option<(Vec<u8>, Arc<Root>)> {
        let table = self.table();
        let mut found = table.found.iter();
        found
            .find(|(_, found)| found.root.is_open_as(directory))
            .map(|(name, found)| (name.clone(), found.root.clone()))
    }

    /// The directory of the user `name`, if that one is remembered.
    pub(super) fn remembered(&self, name: &[u8]) -> Option<Arc<Root>> {
        self.table().found.get(name).map(|found| found.root.clone())
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The fresh entry of a name.
    fn known(&self, name: &[u8], now_ms: u64) -> Option<Option<Arc<Root>>> {
        let is_fresh = |asked_ms: u64| now_ms.saturating_sub(asked_ms) < FRESH_MS;
        match (self.found.get(name), self.missing_ms.get(name)) {
            (Some(found), _) if is_fresh(found.asked_ms) => Some(Some(found.root.clone())),
            (None, Some(&asked_ms)) if is_fresh(asked_ms) => Some(None),
            _ => None,
        }
    }

    /// Whether a name may be looked up now. Who was found before always may: there are not many.
    fn may_ask(&mut self, name: &[u8], now_ms: u64) -> bool {
        if self.found.contains_key(name) {
            return true;
        }
        if self.second != now_ms / 1000 {
            (self.second, self.asked) = (now_ms / 1000, 0);
        }
        self.asked += u32::from(self.asked < LOOK_UPS_MAX + 1);
        self.asked <= LOOK_UPS_MAX
    }

    fn remember(&mut self, name: &[u8], root: Option<Arc<Root>>, now_ms: u64) {
        let Some(root) = root else {
            self.found.remove(name);
            if self.missing_ms.len() >= MISSING_MAX {
                self.missing_ms.retain(|_, asked_ms| now_ms.saturating_sub(*asked_ms) < FRESH_MS);
            }
            if self.missing_ms.len() < MISSING_MAX {
                self.missing_ms.insert(name.to_vec(), now_ms);
            }
            return;
        };
        self.missing_ms.remove(name);
        if self.found.len() >= FOUND_MAX && !self.found.contains_key(name) {
            let oldest = self.found.iter().min_by_key(|(_, found)| found.asked_ms).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| self.found.remove(&oldest));
        }
        self.found.insert(name.to_vec(), Found { root, asked_ms: now_ms });
    }
}

/// A possible user name: some text on one line.
fn name_of(name: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(name).ok()?;
    let is_name = (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
    is_name.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A directory that every user has, and how often a user was looked up.
    struct World {
        root: Arc<Root>,
        users: Users,
        look_ups: Cell<usize>,
    }

    impl World {
        fn new() -> World {
            let root = Arc::new(Root::open(std::path::Path::new("/")).unwrap());
            World { root, users: Users::default(), look_ups: Cell::new(0) }
        }

        /// Names that begin with `u` are those of users.
        fn ask(&self, name: &str, now_ms: u64) -> Result<(), Blocked> {
            let find = |name: &str| {
                self.look_ups.set(self.look_ups.get() + 1);
                name.starts_with('u').then(|| self.root.clone())
            };
            self.users.root(name.as_bytes(), Wait::Yes, now_ms, find).map(drop)
        }
    }

    const MISSING: Result<(), Blocked> = Err(Blocked::Failed(Errno::NOENT));
    const BUSY: Result<(), Blocked> = Err(Blocked::Failed(Errno::BUSY));

    #[test]
    fn who_was_looked_up_is_known_for_a_minute() {
        let world = World::new();
        for now_ms in [0, FRESH_MS - 1] {
            assert_eq!((world.ask("u", now_ms), world.ask("x", now_ms)), (Ok(()), MISSING));
        }
        assert_eq!(world.look_ups.get(), 2);
        assert_eq!((world.ask("u", FRESH_MS), world.ask("x", FRESH_MS)), (Ok(()), MISSING));
        assert_eq!(world.look_ups.get(), 4);
    }

    #[test]
    fn names_that_nobody_has_displace_no_user_and_are_looked_up_a_few_at_a_time() {
        let world = World::new();
        assert_eq!(world.ask("u", 1000), Ok(()));
        for number in 0..10_000 {
            let expected = if number + 1 < LOOK_UPS_MAX { MISSING } else { BUSY };
            assert_eq!(world.ask(&format!("x{number}"), 1999), expected, "{number}");
        }
        assert_eq!(world.ask("u", 1999), Ok(()));
        assert_eq!(world.look_ups.get(), LOOK_UPS_MAX as usize);
        assert_eq!((world.ask("u2", 1999), world.ask("u2", 2000)), (BUSY, Ok(())));
    }

    #[test]
    fn who_is_known_is_looked_up_again_however_many_others_ask() {
        let world = World::new();
        assert_eq!(world.ask("u", 0), Ok(()));
        for number in 0..1000 {
            let _ = world.ask(&format!("x{number}"), FRESH_MS);
        }
        assert_eq!(world.ask("u", FRESH_MS), Ok(()));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let world = World::new();
        let asked =
            |kind: &str, number: u64| world.ask(&format!("{kind}{number}"), number * 1000 / u64::from(LOOK_UPS_MAX));
        for number in 0..300 * u64::from(LOOK_UPS_MAX) {
            assert_eq!(asked("x", number), MISSING);
        }
        for number in 0..2 * FOUND_MAX as u64 {
            assert_eq!(asked("u", 1_000_000 + number), Ok(()));
        }
        let table = world.users.table();
        assert_eq!((table.found.len(), table.missing_ms.len() <= MISSING_MAX), (FOUND_MAX, true));
    }

    #[test]
    fn what_can_be_no_name_is_never_looked_up() {
        let world = World::new();
        for name in ["", "u\n", "u\0", "u\u{85}", &"u".repeat(256)] {
            assert_eq!(world.ask(name, 0), MISSING, "{name:?}");
        }
        assert!(world.users.root(b"u\xff", Wait::Yes, 0, |_| panic!("it is looked up")).is_err());
        assert_eq!(world.look_ups.get(), 0);
    }

    #[test]
    fn who_may_not_wait_looks_nobody_up() {
        let users = Users::default();
        let asked = users.root(b"u", Wait::No, 0, |_| panic!("it is looked up"));
        assert_eq!(asked.err(), Some(Blocked::Disk));
    }
}
