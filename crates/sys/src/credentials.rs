//! The user that this process is, and becoming another.
//!
//! Owns: the order in which a process gives up what it was: groups, group, user, in all its threads. Guarantees: a
//! process that has become another user cannot go back, or it is an error; a process that is that user already is left
//! as it is. Does not decide about users.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::sync::OnceLock;

use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};

/// The user to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    user: u32,
    group: u32,
    /// All groups that it is in, `group` among them.
    groups: Vec<u32>,
    name: String,
}

/// Why this process does not become another user.
#[derive(Debug)]
pub enum CredentialsError {
    /// There is no user of this name.
    User(String),
    /// There is no group of this name.
    Group(String),
    /// The kernel refuses it.
    Refused(Account, io::Error),
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialsError::User(name) => {
                write!(
                    formatter,
                    "there is no user `{}`. Check the spelling of `user`, or make it.",
                    name.escape_debug()
                )
            }
            CredentialsError::Group(name) => {
                write!(
                    formatter,
                    "there is no group `{}`. Check the spelling of `group`, or make it.",
                    name.escape_debug()
                )
            }
            CredentialsError::Refused(account, error) => write!(
                formatter,
                "user {} cannot become {account}: {error}. It takes root: start it as root, or as {account}, or leave `user` out.",
                describe()
            ),
        }
    }
}

impl std::error::Error for CredentialsError {}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl Account {
    /// The account of a user and, in the place of the user's own, a group: names, or numbers.
    ///
    /// # Errors
    /// There are no such names. A number needs none.
    pub fn find(user: &str, group: Option<&str>) -> Result<Account, CredentialsError> {
        let number = user.parse::<u32>().ok();
        let found = uzers::get_user_by_name(user).or_else(|| number.and_then(uzers::get_user_by_uid));
        let uid = found.as_ref().map(uzers::User::uid).or(number).filter(|uid| *uid != u32::MAX);
        let uid = uid.ok_or_else(|| CredentialsError::User(user.to_owned()))?;
        let gid = match group {
            Some(name) => {
                let found = uzers::get_group_by_name(name).map(|group| group.gid());
                let gid = found.or_else(|| name.parse().ok()).filter(|gid| *gid != u32::MAX);
                gid.ok_or_else(|| CredentialsError::Group(name.to_owned()))?
            }
            // A number without a user has a group of the same number.
            None => found.as_ref().map_or(uid, uzers::User::primary_group_id),
        };
        let more = found.as_ref().and_then(|user| uzers::get_user_groups(user.name(), gid)).unwrap_or_default();
        let mut groups: Vec<u32> = more.iter().map(uzers::Group::gid).chain([gid]).collect();
        groups.sort_unstable();
        groups.dedup();
        let name = found.map_or_else(|| uid.to_string(), |user| user.name().to_string_lossy().into_owned());
        Ok(Account { user: uid, group: gid, groups, name })
    }

    /// Its user and group, as those of files are told.
    pub fn numbers(&self) -> (u32, u32) {
        (self.user, self.group)
    }

    /// Whether this process is of this user already.
    pub fn is_own(&self) -> bool {
        geteuid().as_raw() == self.user
    }

    /// Becomes this user, in all threads and for good. To be called while there is one thread, so that none is seen
    /// half way.
    ///
    /// # Errors
    /// The kernel refuses it: this process is then not to go on.
    pub fn become_it(&self) -> Result<(), CredentialsError> {
        if self.is_own() {
            return Ok(());
        }
        self.change().map_err(|error| CredentialsError::Refused(self.clone(), error))
    }

    fn change(&self) -> io::Result<()> {
        let done = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        // SAFETY: the pointer and the length are of one slice, which the call reads.
        done(unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) })?;
        // SAFETY: these take numbers only. The C library changes all threads.
        done(unsafe { libc::setresgid(self.group, self.group, self.group) })?;
        // SAFETY: likewise.
        done(unsafe { libc::setresuid(self.user, self.user, self.user) })?;
        // SAFETY: likewise. It is to fail.
        if self.user != 0 && done(unsafe { libc::setuid(0) }).is_ok() {
            return Err(io::Error::other("the way back is open"));
        }
        // The kernel has closed `/proc/self` to this process with the change. What it reads there is its own, and it
        // has no secrets of the user that it was.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        Ok(())
    }
}

/// Whether this process is of root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// The user that this process is: its name and number.
pub fn describe() -> String {
    // The database may be elsewhere, and the number is what counts.
    static NAMES: OnceLock<(u32, String)> = OnceLock::new();
    let uid = geteuid().as_raw();
    let named = || {
        let found = uzers::get_user_by_uid(uid);
        found.map_or_else(|| uid.to_string(), |user| format!("{} ({uid})", user.name().to_string_lossy()))
    };
    let (of, name) = NAMES.get_or_init(|| (uid, named()));
    if *of == uid { name.clone() } else { named() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_by_number() {
        let root = Account::find("root", None).unwrap();
        assert_eq!((root.numbers(), root.to_string()), ((0, 0), "root".to_owned()));
        assert_eq!(Account::find("0", None).unwrap(), root);
        let nobodys = Account::find("4294967000", None).unwrap();
        assert_eq!((nobodys.numbers(), &*nobodys.groups), ((4_294_967_000, 4_294_967_000), &[4_294_967_000][..]));
        assert_eq!(Account::find("4294967000", Some("7")).unwrap().numbers(), (4_294_967_000, 7));
        for missing in ["no such user", "4294967295", ""] {
            assert!(matches!(Account::find(missing, None), Err(CredentialsError::User(_))), "{missing}");
        }
        assert!(matches!(Account::find("root", Some("no such group")), Err(CredentialsError::Group(_))));
    }

    #[test]
    fn who_is_that_user_already_changes_nothing() {
        let own = Account::find(&geteuid().as_raw().to_string(), None).unwrap();
        assert!(own.is_own());
        own.become_it().unwrap();
    }
}
