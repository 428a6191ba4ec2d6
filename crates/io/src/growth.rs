//! Files that grow while they are sent: whether a file still has the content that an answer describes.
//!
//! Owns: the rule. A file has that content if it is in the state that was described, or if it has only grown since: it
//! is longer than it was then, and its first and its last [`END_BYTES`] of then are what they were. So a log that is
//! still written is sent to the length that was said, and a file that was written anew in place is broken off, shorter
//! or longer. Guarantees: a file of the same length in another state does not have that content, nor does one that has
//! grown and whose ends were not seen before that. No thread waits to see them: they are looked at where they are in
//! memory, or have just been written, as those of growing files are. A grown file is compared with two short reads.
//! They may wait in theory, as bytes written a moment ago are in memory. A look in the very middle of a write says so
//! ([`Content::Unsettled`]) and is repeated: none sleeps here, and [`Writes`] bounds for how long that goes on.
//!
//! The rule does not see a change in the middle of a file that is added to as well. Times and sizes tell no more, and
//! an operator who changes what is being served replaces the file.

use std::hash::Hasher;
use std::os::fd::{AsFd, BorrowedFd};

use lamna_proto::resource::Representation;
use lamna_proto::transmit::FileState;
use siphasher::sip::SipHasher13;

use crate::file_state::{self, Stamp, now_ns};
use crate::{KernelFeatures, Wait, read};

/// Bytes at each end of a file that are compared.
const END_BYTES: u64 = 4096;

/// A file that was modified within this time is in memory: its ends are read without a test.
const RECENT_NS: i64 = 60_000_000_000;

/// How long a write of some bytes to memory may take at the most, with a thread that has to wait for a processor in the
/// middle of it. The time of files ticks every 1 to 10 ms.
const WRITING_NS: i64 = 30_000_000;
/// How long a write is remembered that has not come to its end in time.
const REMEMBERED_NS: i64 = 10_000_000_000;

/// The content of a file, in comparison with the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// As described.
    Same,
    /// Something else.
    Other,
    /// It is being written to at this moment: a write has a time before it has a length. Its end will tell.
    Unsettled,
}

/// The writes in whose middle one thread has looked at files.
#[derive(Debug, Default)]
pub struct Writes(Vec<Write>);

#[derive(Debug)]
struct Write {
    /// The state that was described.
    version: u64,
    /// When its end was first waited for, in nanoseconds since 1970.
    since_ns: i64,
}

impl Writes {
    /// Whether `content` is worth another look, of a file that was described as `state`: a write to it was not over,
    /// and may be soon.
    pub fn is_to_be_awaited(&mut self, content: Content, state: &FileState) -> bool {
        content == Content::Unsettled && self.may_last(state.version, now_ns())
    }

    /// A file is found in the middle of a write at `now_ns`. A write that has not come to its end in [`WRITING_NS`] is
    /// one in place, or many of them.
    fn may_last(&mut self, version: u64, now_ns: i64) -> bool {
        self.0.retain(|write| (0..REMEMBERED_NS).contains(&now_ns.saturating_sub(write.since_ns)));
        let known = self.0.iter().find(|write| write.version == version).map(|write| write.since_ns);
        if known.is_none() {
            self.0.push(Write { version, since_ns: now_ns });
        }
        now_ns.saturating_sub(known.unwrap_or(now_ns)) < WRITING_NS
    }
}

/// `representation`, which describes its file, if it has one, in the state of `stamp`. A head without validators tells
/// no state but a length: then the file may have grown since it was looked at, as nothing of its content has been sent.
pub fn described(
    mut representation: Representation,
    (stamp, has_validators): (&Stamp, bool),
    abilities: &KernelFeatures,
) -> Representation {
    representation.state.version = stamp.version();
    representation.state.size = stamp.size;
    if let Some(file) = representation.file.as_deref() {
        let is_recent = stamp.was_modified_within(RECENT_NS, now_ns());
        let wait = if is_recent { Wait::Yes } else { Wait::No };
        note_ends(file.as_fd(), &representation.state, !has_validators, wait, abilities);
    }
    representation
}

/// Whether `file` has the content that was described as `state`; notes its ends if they were not known.
pub fn content_of(file: BorrowedFd<'_>, state: &FileState, abilities: &KernelFeatures) -> Content {
    let Ok((_, stamp)) = file_state::inspect(file) else { return Content::Other };
    if stamp.version() == state.version {
        if state.ends.get().is_none() && state.size > 0 {
            note_ends(file, state, false, Wait::No, abilities);
        }
        return Content::Same;
    }
    let Some(known) = state.ends.get().filter(|_| state.version != 0) else { return Content::Other };
    // What a write that adds to a file has not reached is as it was: other ends are another content, whatever the
    // length.
    let has_its_ends = || ends(file, state.size, Wait::Yes, abilities).map(|sum| sum.max(1)) == Some(known);
    let is_writing = stamp.size == state.size && stamp.was_modified_within(WRITING_NS, now_ns());
    if !(stamp.size > state.size || is_writing) || !has_its_ends() {
        return Content::Other;
    }
    if is_writing { Content::Unsettled } else { Content::Same }
}

/// They are those of the state only if the file is still in it when they have been read, or has grown where it may.
fn note_ends(file: BorrowedFd<'_>, state: &FileState, may_grow: bool, wait: Wait, abilities: &KernelFeatures) {
    let Some(ends) = ends(file, state.size, wait, abilities) else { return };
    let is_of_state = |stamp: Stamp| stamp.version() == state.version || may_grow && stamp.size >= state.size;
    if file_state::inspect(file).is_ok_and(|(_, stamp)| is_of_state(stamp)) {
        state.ends.set(ends);
    }
}

/// Hash of the first and the last bytes of the first `size` of `file`.
fn ends(file: BorrowedFd<'_>, size: u64, wait: Wait, abilities: &KernelFeatures) -> Option<u64> {
    // The same in all processes, also in those of another version of the program: it travels with connections.
    let mut hasher = SipHasher13::new();
    let mut bytes = [0; END_BYTES as usize];
    let length = size.min(END_BYTES) as usize;
    for offset in [0, size - length as u64] {
        let read = read::read_unobserved(file, &mut bytes[..length], offset, wait, abilities)?;
        if read < length {
            return None;
        }
        hasher.write(&bytes[..length]);
    }
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;

    /// SipHash-1-3 with a key of zeros of `hello, world`, twice.
    const ENDS_OF_HELLO: u64 = 0x8aa7_fc4e_3afc_50c4;

    fn file_of(content: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, content, 0).unwrap();
        file
    }

    fn state_of(file: &File) -> FileState {
        let (_, stamp) = file_state::inspect(file.as_fd()).unwrap();
        let state = FileState { version: stamp.version(), size: stamp.size, ..FileState::default() };
        note_ends(file.as_fd(), &state, false, Wait::Yes, &KernelFeatures::default());
        state
    }

    fn content_of(file: &File, state: &FileState) -> Content {
        super::content_of(file.as_fd(), state, &KernelFeatures::default())
    }

    /// As who sends does: it looks again while a write may be under way.
    fn has_content(file: &File, state: &FileState) -> bool {
        let mut writes = Writes::default();
        loop {
            let content = content_of(file, state);
            if !writes.is_to_be_awaited(content, state) {
                return content == Content::Same;
            }
        }
    }

    /// The kernel's clock for time stamps ticks every 10 ms at the latest.
    fn tick() {
        std::thread::sleep(Duration::from_millis(20));
    }

    #[test]
    fn who_looks_in_the_middle_of_a_write_is_told_so_at_once_and_for_a_while_only() {
        let file = file_of(b"one");
        let state = state_of(&file);
        tick();
        // As if it had its time and not yet its length.
        rustix::io::pwrite(&file, b"one", 0).unwrap();
        let begun_ns = now_ns();
        let content = content_of(&file, &state);
        // A machine that is busy elsewhere takes its time.
        assert!(content == Content::Unsettled || now_ns() - begun_ns > WRITING_NS / 2);
        assert!(!has_content(&file, &state));
        rustix::io::pwrite(&file, b"two", 0).unwrap();
        assert_eq!(content_of(&file, &state), Content::Other, "an edit in place is seen at once");
        let mut writes = Writes::default();
        for (after_ns, lasts) in [(0, true), (WRITING_NS - 1, true), (WRITING_NS, false), (REMEMBERED_NS - 1, false)] {
            assert_eq!(writes.may_last(7, begun_ns + after_ns), lasts, "{after_ns}");
        }
        assert!(writes.may_last(8, begun_ns + WRITING_NS), "another file");
        assert!(writes.may_last(7, begun_ns + REMEMBERED_NS), "another write");
        assert_eq!(writes.0.len(), 2);
    }

    #[test]
    fn what_the_ends_of_a_file_come_to_is_the_same_for_every_program() {
        let file = file_of(b"hello, world");
        let sum = ends(file.as_fd(), 12, Wait::Yes, &KernelFeatures::default());
        assert_eq!(sum, Some(ENDS_OF_HELLO));
    }

    #[test]
    fn what_has_only_grown_has_its_content() {
        for size in [1, 100, 5_000, 20_000] {
            let file = file_of(&vec![7; size]);
            let state = state_of(&file);
            for more in [1, 10_000] {
                rustix::io::pwrite(&file, &vec![8; more], size as u64).unwrap();
                assert!(has_content(&file, &state), "{size} and {more}");
            }
        }
    }

    #[test]
    fn what_was_written_anew_or_cut_off_does_not() {
        let before = vec![7; 20_000];
        let others: [(&str, Vec<u8>); 5] = [
            ("the same length", [&[9], &before[1..]].concat()),
            ("the middle, of the same length", [&before[..10_000], &[9], &before[10_001..]].concat()),
            ("another beginning, longer", [&[9], &before[..]].concat()),
            ("another end, longer", [&before[..19_999], &[9; 100]].concat()),
            ("shorter", before[1..].to_vec()),
        ];
        for (what, content) in others {
            let file = file_of(&before);
            let state = state_of(&file);
            tick();
            file.set_len(content.len() as u64).unwrap();
            rustix::io::pwrite(&file, &content, 0).unwrap();
            assert!(!has_content(&file, &state), "{what}");
        }
    }

    #[test]
    fn what_was_not_seen_before_it_grew_is_not_known_to_have_its_content() {
        let file = file_of(b"one");
        let (_, stamp) = file_state::inspect(file.as_fd()).unwrap();
        let state = FileState { version: stamp.version(), size: stamp.size, ..FileState::default() };
        rustix::io::pwrite(&file, b"two", 3).unwrap();
        assert!(!has_content(&file, &state));
        note_ends(file.as_fd(), &state, false, Wait::Yes, &KernelFeatures::default());
        assert!(state.ends.get().is_none(), "they are those of another state");
        assert!(!has_content(&file, &FileState::default()), "no state was described");
    }
}
