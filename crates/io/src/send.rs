//! Sending a transmit: which system calls it takes.
//!
//! Owns: the strategies for ranges of files and the sizes at which the choice changes. Guarantees: never waits for the
//! peer; one call for owned bytes and content in memory together. Does not test residency: a file segment has been made
//! ready before it gets here.
//!
//! # Strategies
//! - *Copy* reads the range into a buffer behind the owned bytes and sends both with one call: two system calls, two
//!   copies. What the socket does not take has been read in vain.
//! - *Mapped* gathers owned bytes and a mapping of the file with one call: one copy, no read, but page table entries to
//!   make and a chunk of the file to keep ([`mapped_send`]).
//! - *Sendfile* sends owned bytes and then has the kernel send pages of the page cache: a call more and no copy.
//! - *Auto* copies what is short and has the kernel send what is long.
//!
//! # The last byte
//! A range is found unchanged before it gets here, and may be sent long after that, as slowly as its peer takes it. So
//! the last page of an answer is copied whatever the strategy, and sent only if the file has the content that the head
//! describes after the page has been read: an answer is complete only if its file has at most grown before that
//! ([`growth`](crate::growth)). It costs a read and an `fstat` for each answer, and for one that is not copied anyway
//! another send. What `sendfile` has given to the socket are the pages of the page cache themselves: an edit in place
//! shows in them until the peer has taken them, and nothing can tell.

use lamna_config::sending::{Plan, SendStrategy};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};

use lamna_proto::transmit::{FileState, Segment, Transmit};
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use lamna_sys::usage::Usage;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::growth::{Content, Writes, content_of};
use crate::page_cache::mapped_chunks::Chunks;
use crate::page_cache::mapped_send;
use crate::page_cache::residency_predictor::ResidencyPredictor;
use crate::read::PAGE_BYTES;
use crate::{Counters, KernelFeatures};

/// The result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything that was offered.
    All(u64),
    /// So many bytes. The socket may or may not be full; it is if there were none.
    Part(u64),
    /// The file ended before the segment did, or is no longer in the state that it was described in.
    Changed,
    /// Nothing was offered: the file is being written to at this moment, and will be in a state that can be told. It is
    /// to be tried again soon.
    Unsettled,
    /// The connection is gone.
    Broken,
}

/// Sends for one worker.
#[derive(Debug)]
pub struct Sender<'a> {
    plan: Plan,
    buffer: Vec<u8>,
    /// Bytes sent from files, for the caller to count.
    pub file_bytes: u64,
    chunks: &'a Chunks,
    residency_predictor: &'a ResidencyPredictor,
    abilities: &'a KernelFeatures,
    /// To files whose answers are about to end.
    writes: Writes,
}

/// Bytes of a file that are copied at once: the socket takes about as many, and the buffer stays in the processor's
/// cache.
const COPY_BYTES: u64 = 64 * 1024;

/// A range of an open file: from where on, how many bytes.
type FileRange<'a> = (BorrowedFd<'a>, u64, u64);

impl<'a> Sender<'a> {
    /// Sends as `plan` says, from `chunks` of files that are mapped.
    pub fn new(
        plan: Plan,
        chunks: &'a Chunks,
        residency_predictor: &'a ResidencyPredictor,
        abilities: &'a KernelFeatures,
    ) -> Sender<'a> {
        let writes = Writes::default();
        Sender { plan, buffer: Vec::new(), file_bytes: 0, chunks, residency_predictor, abilities, writes }
    }

    /// Offers `transmit` to the socket.
    pub fn send(&mut self, socket: BorrowedFd<'_>, transmit: &Transmit<'_>) -> Sent {
        let _step = step_timer::step(Step::Send);
        let bytes = transmit.bytes;
        let more = if transmit.more { SendFlags::MORE } else { SendFlags::empty() };
        match transmit.segment {
            None => outcome(send_bytes(socket, bytes, more), bytes.len() as u64),
            Some(Segment::Shared(content)) => {
                outcome(gather(socket, bytes, content, more), (bytes.len() + content.len()) as u64)
            }
            Some(Segment::File { file, offset, length, state, end }) => {
                let last_page = end.saturating_sub(1) / PAGE_BYTES * PAGE_BYTES;
                let ends_answer = state.version != 0 && offset + length == end;
                if !ends_answer {
                    self.send_stretch(socket, bytes, (file.as_fd(), offset, length), more)
                } else if offset >= last_page || self.strategy(length) == SendStrategy::Copy {
                    let sent = self.copy(socket, bytes, (file.as_fd(), offset, length), Some(state), more);
                    self.count(sent, bytes);
                    sent
                } else {
                    // What follows is another part.
                    let range = (file.as_fd(), offset, last_page - offset);
                    match self.send_stretch(socket, bytes, range, SendFlags::MORE) {
                        Sent::All(sent) => Sent::Part(sent),
                        other => other,
                    }
                }
            }
        }
    }

    /// Where only its history told that the range is in memory, the kernel's counters tell whether that was so.
    fn send_stretch(&mut self, socket: BorrowedFd<'_>, bytes: &[u8], range: FileRange<'_>, more: SendFlags) -> Sent {
        let residency_predictor = self.residency_predictor;
        let before = residency_predictor.are_asked().then(Usage::now);
        let sent = match self.strategy(range.2) {
            SendStrategy::Copy => self.copy(socket, bytes, range, None, more),
            SendStrategy::Mapped => self.send_mapped(socket, bytes, range, more),
            SendStrategy::Auto | SendStrategy::Sendfile => send_file(socket, bytes, range),
        };
        self.count(sent, bytes);
        if before.is_some_and(|before| Usage::now().has_waited_since(before)) {
            Counters::count(&self.abilities.counters.mispredicted);
            residency_predictor.handle_fault(range);
        }
        sent
    }

    /// Counts bytes sent from files, behind `bytes`.
    fn count(&mut self, sent: Sent, bytes: &[u8]) {
        if let Sent::All(taken) | Sent::Part(taken) = sent {
            self.file_bytes += taken.saturating_sub(bytes.len() as u64);
        }
    }

    /// Reads what a file segment offers next, at most `most` bytes, for who sends it otherwise than to a socket as it
    /// is. What ends an answer ends it only if the file has the content that the head describes.
    ///
    /// # Errors
    /// [`Sent::Changed`], [`Sent::Unsettled`] or [`Sent::Broken`].
    pub fn read_stretch(&mut self, segment: Segment<'_>, most: usize) -> Result<&[u8], Sent> {
        let Segment::File { file, offset, length, state, end } = segment else { return Ok(&[]) };
        let wanted = length.min(COPY_BYTES).min(most as u64) as usize;
        self.buffer.clear();
        self.buffer.resize(wanted, 0);
        let _step = step_timer::step(Step::Read);
        let read = match rustix::io::retry_on_intr(|| rustix::io::pread(file.as_fd(), &mut *self.buffer, offset)) {
            Ok(0) => return Err(Sent::Changed),
            Ok(read) => read,
            Err(_) => return Err(Sent::Broken),
        };
        let ends_answer = state.version != 0 && offset + read as u64 == end;
        if ends_answer {
            self.judge(file.as_fd(), state)?;
        }
        self.file_bytes += read as u64;
        Ok(&self.buffer[..read])
    }

    /// Whether what ends an answer may: the file has the content that was described as `state`.
    fn judge(&mut self, file: BorrowedFd<'_>, state: &FileState) -> Result<(), Sent> {
        let _step = step_timer::step(Step::Read);
        match content_of(file, state, self.abilities) {
            Content::Same => Ok(()),
            content if self.writes.is_to_be_awaited(content, state) => Err(Sent::Unsettled),
            Content::Other | Content::Unsettled => Err(Sent::Changed),
        }
    }

    fn strategy(&self, length: u64) -> SendStrategy {
        match self.plan.strategy {
            SendStrategy::Auto if length <= self.plan.stretch_copy_bytes_max => SendStrategy::Copy,
            other => other,
        }
    }

    /// If the range ends an answer, it ends only if the file has the content of `state` after all of it has been read.
    fn copy(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        (file, offset, length): FileRange<'_>,
        state: Option<&FileState>,
        more: SendFlags,
    ) -> Sent {
        let wanted = length.min(COPY_BYTES) as usize;
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes);
        self.buffer.resize(bytes.len() + wanted, 0);
        let content = &mut self.buffer[bytes.len()..];
        let reading = step_timer::step(Step::Read);
        let read = match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *content, offset)) {
            Ok(0) => return Sent::Changed,
            Ok(read) => read,
            Err(_) => return Sent::Broken,
        };
        let is_last = read as u64 == length;
        drop(reading);
        if let Some(state) = state.filter(|_| is_last)
            && let Err(sent) = self.judge(file, state)
        {
            return sent;
        }
        let offered = &self.buffer[..bytes.len() + read];
        let more = if is_last { more } else { more | SendFlags::MORE };
        outcome(send_bytes(socket, offered, more), bytes.len() as u64 + length)
    }

    fn send_mapped(&mut self, socket: BorrowedFd<'_>, bytes: &[u8], range: FileRange<'_>, more: SendFlags) -> Sent {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more;
        match mapped_send::send(self.chunks, socket, bytes, range, flags) {
            Err(Errno::FAULT) => Sent::Changed,
            // A file that cannot be mapped, or no room for mappings: it can be sent all the same.
            Err(Errno::NODEV | Errno::NOMEM | Errno::PERM | Errno::ACCESS) => send_file(socket, bytes, range),
            result => outcome(result, bytes.len() as u64 + range.2),
        }
    }
}

fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], more: SendFlags) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more))
}

fn gather(socket: BorrowedFd<'_>, owned: &[u8], content: &[u8], more: SendFlags) -> Result<usize, Errno> {
    let slices = [IoSlice::new(owned), IoSlice::new(content)];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more;
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), flags))
}

fn send_file(socket: BorrowedFd<'_>, bytes: &[u8], (file, offset, length): FileRange<'_>) -> Sent {
    let owned = bytes.len() as u64;
    if owned > 0 {
        match outcome(send_bytes(socket, bytes, SendFlags::MORE), owned) {
            Sent::All(_) => {}
            other => return other,
        }
    }
    let mut at = offset;
    let count = usize::try_from(length).unwrap_or(usize::MAX);
    match rustix::io::retry_on_intr(|| rustix::fs::sendfile(socket, file, Some(&mut at), count)) {
        Ok(0) => Sent::Changed,
        Ok(bytes) if bytes as u64 == length => Sent::All(owned + length),
        Ok(bytes) => Sent::Part(owned + bytes as u64),
        Err(Errno::AGAIN) => Sent::Part(owned),
        Err(_) => Sent::Broken,
    }
}

fn outcome(result: Result<usize, Errno>, offered: u64) -> Sent {
    match result {
        Ok(bytes) if bytes as u64 == offered => Sent::All(offered),
        Ok(bytes) => Sent::Part(bytes as u64),
        Err(Errno::AGAIN) => Sent::Part(0),
        Err(_) => Sent::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_state::inspect;
    use crate::page_cache::mapped_chunks::Chunks;
    use proptest::prelude::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, LazyLock};
    use std::thread;

    const BYTES: usize = 1_500_000;

    fn sender(strategy: SendStrategy) -> Sender<'static> {
        static CHUNKS: LazyLock<Chunks> = LazyLock::new(|| Chunks::new(1 << 24, Arc::default()));
        static PREDICTOR: LazyLock<ResidencyPredictor> = LazyLock::new(|| ResidencyPredictor::new(1 << 30));
        static ABILITIES: LazyLock<KernelFeatures> = LazyLock::new(KernelFeatures::default);
        Sender::new(Plan { strategy, ..Plan::default() }, &CHUNKS, &PREDICTOR, &ABILITIES)
    }

    /// The first does not wait, as sockets of connections do not.
    fn pair() -> (UnixStream, UnixStream) {
        let (ours, peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, peer)
    }

    fn file_of(content: &[u8]) -> OwnedFd {
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, content).unwrap();
        file.into()
    }

    fn content() -> Vec<u8> {
        (0..BYTES).map(|index| (index ^ (index >> 8) ^ (index >> 16)) as u8).collect()
    }

    /// A segment of an answer that is about the state in which the file is now. The file has that content up to `end`.
    fn segment<'s>(file: &'s OwnedFd, state: &'s FileState, offset: u64, length: u64, end: u64) -> Segment<'s> {
        Segment::File { file, offset, length, state, end }
    }

    /// The state in which the file is now.
    fn state_of(file: &OwnedFd) -> FileState {
        let stamp = inspect(file.as_fd()).unwrap().1;
        FileState { version: stamp.version(), size: stamp.size, ..FileState::default() }
    }

    #[test]
    fn an_answer_does_not_end_with_bytes_of_another_state_of_its_file() {
        for strategy in SendStrategy::ALL {
            for (offset, sent) in [(0, 98_304), (90_000, 8_304), (98_304, 0)] {
                let file = file_of(&[7; 100_000]);
                let (ours, _peer) = pair();
                let mut sender = sender(strategy);
                let state = state_of(&file);
                let segment = segment(&file, &state, offset, 100_000 - offset, 100_000);
                let mut send =
                    |segment| sender.send(ours.as_fd(), &Transmit { bytes: b"", segment: Some(segment), more: false });
                let whole = send(segment);
                // Of the same size. The kernel's clock for time stamps ticks every 10 ms at the latest.
                thread::sleep(std::time::Duration::from_millis(20));
                rustix::io::pwrite(&file, b"new", 99_000).unwrap();
                let rest = Segment::File { file: &file, offset: 98_304, length: 1_696, state: &state, end: 100_000 };
                assert_eq!(send(rest), Sent::Changed, "{strategy:?} from {offset}");
                let is_copied = strategy == SendStrategy::Copy || strategy == SendStrategy::Auto && offset > 0;
                match whole {
                    Sent::All(bytes) => assert!(bytes == 100_000 - offset && (is_copied || sent == 0), "{strategy:?}"),
                    Sent::Part(bytes) => assert!(bytes == sent || is_copied, "{strategy:?}: {bytes} from {offset}"),
                    other => panic!("{strategy:?}: {other:?} from {offset}"),
                }
            }
        }
    }

    /// Sends a head and a range of the file as an engine would: what a part leaves over is offered again.
    fn send_all(sender: &mut Sender<'_>, socket: &UnixStream, head: &[u8], file: &OwnedFd, offset: u64, length: u64) {
        let (mut sent, state) = (0, state_of(file));
        while sent < head.len() as u64 + length {
            let bytes = &head[(sent as usize).min(head.len())..];
            let skipped = sent.saturating_sub(head.len() as u64);
            let segment =
                (skipped < length).then(|| segment(file, &state, offset + skipped, length - skipped, offset + length));
            match sender.send(socket.as_fd(), &Transmit { bytes, segment, more: false }) {
                Sent::All(bytes) | Sent::Part(bytes) => sent += bytes,
                other => panic!("{other:?} after {sent} bytes"),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn every_strategy_sends_the_same_bytes(offset in 0..BYTES as u64, length in 1..BYTES as u64, head in 0usize..300) {
            let content = content();
            let file = file_of(&content);
            let length = length.min(BYTES as u64 - offset);
            let head = vec![b'h'; head];
            let range = &content[offset as usize..(offset + length) as usize];
            let expected = [&head, range].concat();
            for strategy in SendStrategy::ALL {
                let (ours, mut peer) = pair();
                let received = thread::scope(|scope| {
                    let reading = scope.spawn(move || {
                        let mut received = Vec::new();
                        peer.read_to_end(&mut received).map(|_| received)
                    });
                    send_all(&mut sender(strategy), &ours, &head, &file, offset, length);
                    drop(ours);
                    reading.join().unwrap().unwrap()
                });
                prop_assert!(received == expected, "{strategy:?} sent other bytes");
            }
        }
    }

    #[test]
    fn a_file_that_was_truncated_is_noticed_by_every_strategy() {
        for strategy in SendStrategy::ALL {
            let file = file_of(&[7; 100_000]);
            let (ours, _peer) = pair();
            let mut sender = sender(strategy);
            let send = |sender: &mut Sender<'_>| {
                let state = state_of(&file);
                let segment = segment(&file, &state, 50_000, 20_000, 100_000);
                sender.send(ours.as_fd(), &Transmit { bytes: b"", segment: Some(segment), more: false })
            };
            assert_eq!(send(&mut sender), Sent::All(20_000), "{strategy:?}");
            rustix::fs::ftruncate(&file, 100).unwrap();
            assert_eq!(send(&mut sender), Sent::Changed, "{strategy:?}");
        }
    }

    #[test]
    fn a_full_socket_is_told_from_a_broken_one() {
        for strategy in SendStrategy::ALL {
            let file = file_of(&[7; 1_000_000]);
            let (ours, peer) = pair();
            let mut sender = sender(strategy);
            let mut send = || {
                let state = state_of(&file);
                let segment = segment(&file, &state, 0, 1_000_000, 2_000_000);
                sender.send(ours.as_fd(), &Transmit { bytes: b"", segment: Some(segment), more: false })
            };
            while send() != Sent::Part(0) {}
            drop(peer);
            assert_eq!(send(), Sent::Broken, "{strategy:?}");
        }
    }
}
