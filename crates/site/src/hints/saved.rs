//! The learned state as a file, to be kept over restarts and upgrades.
//!
//! Format, version 1, little endian: `LMHF`, version (2 bytes), the key of the numbers (16), length of the table (4),
//! the table (`lamna_policy::hints::Table::to_bytes`), number of names (4), and for each: number of the URL (8), length
//! (1) and bytes of its path; at the end the SipHash-1-3 of all before it under the key (8). Of a file that is damaged,
//! cut off or of another version nothing is taken, and learning begins anew. A writer of the file could have the server
//! hint anything, so it is the server's own (mode 600).

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use lamna_policy::hints::{Malformed, UrlId};
use siphasher::sip::SipHasher13;

use super::learner::Learner;
use super::observation::TEXT_BYTES;
use super::url::Key;

const MAGIC: [u8; 4] = *b"LMHF";
const VERSION: u16 = 1;
const CHECK_BYTES: usize = 8;
/// Larger than any that is written: what is known takes less than this in memory.
const FILE_BYTES_MAX: u64 = 2 << 30;

/// Why a file gives nothing.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// It cannot be read.
    Io(io::Error),
    /// It is no file of hints, of another version, or damaged.
    Format,
    /// Its table is none.
    Table(Malformed),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Io(error) => error.fmt(f),
            Unreadable::Format => f.write_str("it is no file of hints of this version, or it was damaged"),
            Unreadable::Table(why) => why.fmt(f),
        }
    }
}

/// The state of `learner`, as bytes.
pub(super) fn to_bytes(learner: &Learner) -> Vec<u8> {
    let table = learner.table.to_bytes();
    let mut bytes = Vec::with_capacity(table.len() + learner.names.memory_bytes());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(learner.hasher.key());
    // Tables are bounded by their memory, which is less than 4 GiB.
    bytes.extend((table.len() as u32).to_le_bytes());
    bytes.extend(table);
    let names: Vec<(UrlId, &str)> = learner.names.all().filter(|(_, name)| name.len() <= TEXT_BYTES).collect();
    bytes.extend((names.len() as u32).to_le_bytes());
    for (url, name) in names {
        bytes.extend(url.hash().to_le_bytes());
        bytes.push(name.len() as u8);
        bytes.extend(name.as_bytes());
    }
    let check = check_of(&bytes, learner.hasher.key());
    bytes.extend(check.to_le_bytes());
    bytes
}

/// A learner of at most `bytes_max` that knows what `bytes` say.
pub(super) fn from_bytes(bytes: &[u8], bytes_max: usize) -> Result<Learner, Unreadable> {
    let (body, check) = bytes.split_last_chunk::<CHECK_BYTES>().ok_or(Unreadable::Format)?;
    let mut rest = body;
    let is_ours = take(&mut rest) == Some(MAGIC) && take(&mut rest).map(u16::from_le_bytes) == Some(VERSION);
    let key: Key = take(&mut rest).filter(|_| is_ours).ok_or(Unreadable::Format)?;
    if check_of(body, &key) != u64::from_le_bytes(*check) {
        return Err(Unreadable::Format);
    }
    let length = take(&mut rest).map(u32::from_le_bytes).ok_or(Unreadable::Format)?;
    let (table, mut rest) = rest.split_at_checked(length as usize).ok_or(Unreadable::Format)?;
    let mut learner = Learner::with_table(table, bytes_max, key).map_err(Unreadable::Table)?;
    let count = take(&mut rest).map(u32::from_le_bytes).ok_or(Unreadable::Format)?;
    for _ in 0..count {
        let (url, name) = name(&mut rest).ok_or(Unreadable::Format)?;
        learner.names.keep(url, name);
    }
    if rest.is_empty() { Ok(learner) } else { Err(Unreadable::Format) }
}

fn name<'b>(rest: &mut &'b [u8]) -> Option<(UrlId, &'b str)> {
    let url = u64::from_le_bytes(take(rest)?);
    let [length] = take(rest)?;
    let (name, left) = rest.split_at_checked(length.into())?;
    *rest = left;
    Some((UrlId::of_hash(url), str::from_utf8(name).ok()?))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*taken)
}

fn check_of(bytes: &[u8], key: &Key) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write(bytes);
    hasher.finish()
}

/// Reads what `file` knows. None if there is no such file.
pub(super) fn read(file: &Path, bytes_max: usize) -> Option<Result<Learner, Unreadable>> {
    let read = || {
        if fs::metadata(file)?.len() > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        fs::read(file)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(Unreadable::Io(error))),
        Ok(bytes) => Some(from_bytes(&bytes, bytes_max)),
    }
}

/// Makes the folder of `file`, for this user alone.
pub(super) fn make_folder(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => DirBuilder::new().recursive(true).mode(0o700).create(folder),
        _ => Ok(()),
    }
}

/// Writes `bytes` to `file`, as a whole or not at all, by way of a file with this extension, which no other thread
/// uses.
pub(super) fn write(file: &Path, extension: &str, bytes: &[u8]) -> io::Result<()> {
    let beside = file.with_extension(extension);
    // One that was not finished.
    let _ = fs::remove_file(&beside);
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    new.write_all(bytes)?;
    new.sync_all()?;
    fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::observation::Observation;
    use proptest::prelude::*;

    const BYTES: usize = 1 << 20;

    fn taught(pairs: &[(u8, u8)]) -> Learner {
        let mut learner = Learner::new(BYTES, [3; 16]);
        for (at, &(page, next)) in pairs.iter().enumerate() {
            let (page, next) = (format!("/{page}/"), format!("/{next}.css"));
            let at_ms = at as u32 * 1_000;
            let view = Observation { is_page: true, at_ms, ..Observation::new(page.as_bytes(), b"").unwrap() };
            learner.learn(&view);
            learner.learn(&Observation { at_ms, ..Observation::new(next.as_bytes(), page.as_bytes()).unwrap() });
        }
        learner
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_kept_is_what_was_learned(pairs in prop::collection::vec((0..9_u8, 0..9_u8), 0..60)) {
            let mut learner = taught(&pairs);
            let mut kept = from_bytes(&to_bytes(&learner), BYTES).expect("it was just written");
            for page in 0..9 {
                let page = format!("/{page}/");
                let told = |learner: &mut Learner| {
                    let (visits, following) = learner.following(0, page.as_bytes());
                    let following = following.iter().map(|one| (one.path.to_string(), one.probability, one.after_ms));
                    (visits, following.collect::<Vec<_>>())
                };
                prop_assert_eq!(told(&mut learner), told(&mut kept));
            }
        }

        #[test]
        fn anything_else_is_refused_and_never_a_panic(bytes: Vec<u8>, at: prop::sample::Index, bit in 0..8_u8) {
            prop_assert!(from_bytes(&bytes, BYTES).is_err());
            let mut damaged = to_bytes(&taught(&[(1, 2), (1, 3)]));
            let at = at.index(damaged.len());
            damaged[at] ^= 1 << bit;
            prop_assert!(from_bytes(&damaged, BYTES).is_err());
            prop_assert!(from_bytes(&damaged[..at], BYTES).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// A writer of the file can write its check as well.
        #[test]
        fn what_is_nearly_a_file_is_one_or_refused(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
            cut in 0..40_usize,
        ) {
            let mut body = to_bytes(&taught(&[(1, 2), (1, 3), (2, 3)]));
            body.truncate(body.len() - CHECK_BYTES - if cut < 20 { cut } else { 0 });
            // Behind the key, by which the check is made: most of them in the names, at the end.
            for (at, byte) in changes {
                let behind = (body.len() - 22).min(120);
                let at = body.len() - 1 - at.index(behind);
                body[at] = byte;
            }
            let check = check_of(&body, &[3; 16]);
            body.extend(check.to_le_bytes());
            if let Ok(learner) = from_bytes(&body, BYTES) {
                prop_assert!(learner.memory_bytes() <= BYTES);
                prop_assert!(from_bytes(&to_bytes(&learner), BYTES).is_ok());
            }
        }
    }

    #[test]
    fn a_file_is_written_as_a_whole_for_the_server_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/hints/of.table");
        assert!(read(&file, BYTES).is_none());
        make_folder(&file).unwrap();
        for _ in 0..2 {
            write(&file, "new", &to_bytes(&taught(&[(1, 2)]))).unwrap();
        }
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(read(&file, BYTES).unwrap().is_ok());
        fs::write(&file, "x").unwrap();
        assert!(read(&file, BYTES).unwrap().is_err());
    }
}
