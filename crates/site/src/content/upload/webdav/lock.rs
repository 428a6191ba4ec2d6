//! LOCK and UNLOCK (RFC 4918 9.10, 9.11).
//!
//! Owns: [`TakeLock`] and [`Unlock`]. Guarantees: a lock is given only where its client may store something, and not
//! beside one that excludes it; where nothing is, an empty file comes to be with it (7.3).

use lamna_io::new_file::NewFile;
use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};
use lamna_proto::parse::path;
use rustix::io::Errno;

use super::super::{Action, CONDITION, ChangeTarget, ELSEWHERE, MALFORMED, NOT_HERE, Refused, name_of, refused};
use super::locks::{self, Lock, SECONDS, SECONDS_MAX};
use super::place::Change;
use super::xml::{self, BODY_BYTES_MAX};
use super::{BAD_BODY, BAD_DEPTH, Depth, NOTHING};

/// Bytes of what a client says of itself.
const OWNER_BYTES_MAX: usize = 2048;
const LONG_OWNER: Refused = Refused(400, "The owner of a lock is described at too great a length.");
const CONFLICT: Refused = Refused(423, "Another lock excludes this one.");
const NO_TOKEN: Refused = Refused(400, "The Lock-Token is missing or malformed.");
const OTHERS: Refused = Refused(403, "The lock is another user's.");
const NOT_COVERED: Refused = Refused(409, "No lock of this token holds here.");

/// The first time that `value`, a `Timeout` field, asks for, in seconds, within bounds.
pub(super) fn seconds_in(value: &[u8]) -> u32 {
    let times = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut seconds = times.filter_map(|time| match time.strip_prefix(b"Second-") {
        // What is too large to be read is more than the most.
        Some(digits) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            Some(std::str::from_utf8(digits).ok()?.parse().unwrap_or(SECONDS_MAX))
        }
        None if time.eq_ignore_ascii_case(b"infinite") => Some(SECONDS_MAX),
        _ => None,
    });
    seconds.next().unwrap_or(SECONDS).clamp(1, SECONDS_MAX)
}

/// A lock that is asked for, or is to hold longer.
#[derive(Debug)]
pub(super) struct TakeLock {
    target: ChangeTarget,
    depth: Depth,
    seconds: u32,
    body: Vec<u8>,
}

impl TakeLock {
    pub(super) fn new(target: ChangeTarget, depth: Depth, seconds: u32) -> TakeLock {
        TakeLock { target, depth, seconds, body: Vec::new() }
    }

    fn check(&self) -> Result<(), Refused> {
        let target = &self.target;
        let path = target.bare_path();
        match () {
            () if target.is_from_elsewhere => Err(ELSEWHERE),
            () if target.path.is_empty() => Err(MALFORMED),
            () if target.is_root(path) => target.check_root(Action::Upload),
            () => {
                target.check(Action::Upload, path)?;
                if target.takes(path, false) { Ok(()) } else { Err(NOT_HERE) }
            }
        }
    }

    /// The lock, and whether something has come to be with it.
    fn take(&self) -> Result<(Lock, bool), Refused> {
        self.check()?;
        if self.body.is_empty() {
            return self.refresh().map(|lock| (lock, false));
        }
        let is_deep = match self.depth {
            Depth::Zero => false,
            Depth::Infinity => true,
            Depth::One | Depth::Unknown => return Err(BAD_DEPTH),
        };
        let (is_shared, owner) = asked_in(&self.body)?;
        let (target, path) = (&self.target, self.target.bare_path());
        target.check_if()?;
        let parent = match target.is_root(path) {
            true => None,
            false => Some(target.directory(Action::Upload, path)?),
        };
        let is_new = match target.open_at(&target.path) {
            Ok(_) => false,
            // A link that leads nowhere, or out, is no place for a file.
            Err(NOTHING) if !target.path.ends_with(b"/") => true,
            Err(refused) => return Err(refused),
        };
        if is_new {
            target.check_locks(path, Change::Add)?;
        }
        let mut lock = Lock {
            token: locks::new_token().map_err(refused)?,
            place: target.place(path),
            href: path::encode(if path.is_empty() { b"/" } else { &target.path }),
            is_deep,
            is_shared,
            seconds: self.seconds,
            until_unix_ms: 0,
            owner,
            user: target.locker.user.as_deref().map(str::to_owned),
            network: target.locker.network.map(|network| {
                let bytes = network.to_bytes();
                bytes.iter().map(|byte| format!("{byte:02x}")).collect()
            }),
        };
        lock.extend(self.seconds);
        let given = target.change_locks(&target.path, |locks| {
            let excludes = |other: &Lock| {
                other.conflicts(&lock.place, is_deep, is_shared)
                    && match other.is_within(&lock.place) {
                        true => other.place == lock.place || target.reaches_place_of(&lock, other),
                        false => target.reaches(other, path),
                    }
            };
            if locks.iter().any(excludes) {
                return Err(CONFLICT);
            }
            if let Some(parent) = parent.filter(|_| is_new) {
                NewFile::create(parent).and_then(|file| file.move_to_unused(name_of(path))).map_err(
                    |errno| match errno {
                        Errno::EXIST => CONDITION,
                        other => refused(other),
                    },
                )?;
            }
            locks.push(lock.clone());
            Ok(lock)
        })?;
        if is_new {
            target.handle_change(path);
        }
        Ok((given, is_new))
    }

    /// Has a lock hold longer whose token is shown.
    fn refresh(&self) -> Result<Lock, Refused> {
        let target = &self.target;
        target.check_if()?;
        let place = target.place(target.bare_path());
        target.change_locks(&target.path, |locks| {
            let own = locks.iter_mut().find(|lock| lock.covers(&place) && target.shows(lock)).ok_or(CONDITION)?;
            own.extend(self.seconds);
            Ok(own.clone())
        })
    }
}

/// The lock that a body asks for: whether it is shared, and whose it is.
fn asked_in(body: &[u8]) -> Result<(bool, String), Refused> {
    let info = xml::parse(body).ok().filter(|root| root.name.is_dav("lockinfo")).ok_or(BAD_BODY)?;
    let scope = info.child("lockscope").ok_or(BAD_BODY)?;
    info.child("locktype").and_then(|kind| kind.child("write")).ok_or(BAD_BODY)?;
    let is_shared = match (scope.child("exclusive"), scope.child("shared")) {
        (Some(_), None) => false,
        (None, Some(_)) => true,
        _ => return Err(BAD_BODY),
    };
    let owner = info.child("owner").map(|element| element.content_within(OWNER_BYTES_MAX).ok_or(LONG_OWNER));
    Ok((is_shared, owner.transpose()?.unwrap_or_default()))
}

impl Program for TakeLock {
    fn content_bytes_max(&self) -> u64 {
        BODY_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        Holds::of_bytes(self.body.capacity())
    }

    fn run(&mut self, Input { content, is_last, .. }: Input<'_>) -> StepResult {
        self.body.extend_from_slice(content);
        if !is_last {
            return StepResult::Continue;
        }
        match self.take() {
            Ok((lock, is_new)) => {
                let mut active = String::new();
                locks::discover(&[&lock], &mut active);
                let content = format!(
                    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>{active}</D:lockdiscovery></D:prop>\n"
                );
                let token = ("Lock-Token".to_owned(), format!("<{}>", lock.token));
                self.target.xml(if is_new { 201 } else { 200 }, &content, Some(token))
            }
            Err(CONFLICT) => self.target.refused_for(423, "no-conflicting-lock", &[&self.target.path]),
            Err(refused) => self.target.refusal(refused),
        }
    }
}

/// A lock that is given back.
#[derive(Debug)]
pub(super) struct Unlock {
    target: ChangeTarget,
    token: Option<String>,
}

impl Unlock {
    pub(super) fn new(target: ChangeTarget, token: Option<String>) -> Unlock {
        Unlock { target, token }
    }

    fn release(&self) -> Result<(), Refused> {
        let target = &self.target;
        let token = self.token.as_ref().ok_or(NO_TOKEN)?;
        match () {
            () if target.is_from_elsewhere => return Err(ELSEWHERE),
            () if target.path.is_empty() => return Err(MALFORMED),
            () => {}
        }
        target.check_if()?;
        let place = target.place(target.bare_path());
        target.change_locks(&target.path, |locks| {
            let at = locks.iter().position(|lock| lock.token == *token && lock.covers(&place)).ok_or(NOT_COVERED)?;
            if !target.owns(&locks[at]) {
                return Err(OTHERS);
            }
            locks.remove(at);
            Ok(())
        })
    }
}

impl Program for Unlock {
    fn content_bytes_max(&self) -> u64 {
        BODY_BYTES_MAX
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, Input { is_last, .. }: Input<'_>) -> StepResult {
        match is_last {
            false => StepResult::Continue,
            true => match self.release() {
                Ok(()) => self.target.done(204, None),
                Err(refused) => self.target.refusal(refused),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_first_that_is_understood_and_within_bounds() {
        for (value, seconds) in [
            ("", SECONDS),
            ("Second-60", 60),
            ("Infinite, Second-4100000000", SECONDS_MAX),
            ("x, Second-5, Second-6", 5),
            ("Second-99999999999999999999", SECONDS_MAX),
            ("Second-0", 1),
            ("Second-", SECONDS),
        ] {
            assert_eq!(seconds_in(value.as_bytes()), seconds, "{value}");
        }
    }

    #[test]
    fn a_lock_is_of_one_scope_and_says_whose_it_is() {
        let body = |scope: &str, owner: &str| {
            format!(
                "<lockinfo xmlns='DAV:'><lockscope>{scope}</lockscope><locktype><write/></locktype>{owner}</lockinfo>"
            )
        };
        let asked = |text: String| asked_in(text.as_bytes());
        let owner = "<owner><href>http://a/</href></owner>";
        assert_eq!(asked(body("<shared/>", owner)), Ok((true, "<href xmlns=\"DAV:\">http://a/</href>".to_owned())));
        assert_eq!(asked(body("<exclusive/>", "")), Ok((false, String::new())));
        assert_eq!(asked(body("<shared/><exclusive/>", "")), Err(BAD_BODY));
        assert_eq!(asked(body("<shared/>", &format!("<owner>{}</owner>", "x".repeat(3000)))), Err(LONG_OWNER));
        assert_eq!(asked("<x/>".to_owned()), Err(BAD_BODY));
    }
}
