//! The output of a program on its way to a client that may read slowly.
//!
//! ```text
//!  program --> records --> connection           as long as the client keeps up
//!  program --> spool --> records --> connection what is beyond that, until all of it has been read back
//!  program --> (waiting) --> spool, or records  what has been read, and has no room yet: the program waits
//! ```
//!
//! Owns: [`Output`], and [`Room`], which bounds what all of them keep in files. Guarantees: memory is bounded by a few
//! records; bytes leave in their order, and their end is the program's; no network has more in files than is left for
//! all others; nothing is left of a file when its output ends. Files are written and read by the thread of the program,
//! which may wait for the disk.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lamna_config::gateway::BUFFER_DIRECTORY;
use lamna_io::spool_file::SpoolFile;
use lamna_io::{Blocked, Wait};
use lamna_proto::gateway::fastcgi::kind;
use rustix::fs::statvfs;

use super::fair_queue::Network;
use super::request::write;

/// Bytes that are read from a program, or from a file, at once.
pub(super) const READ_BYTES: usize = 32 * 1024;
/// Output beyond that goes to a file.
const OUTPUT_BYTES: usize = 64 * 1024;
/// The bytes of the room that are taken at once.
const STEP_BYTES: u64 = 1 << 20;

/// The bounds of what all outputs keep. A network has at most as much as is left for all others: half if there are no
/// others. It has no more in files than stays free on their file system, which others write to as well.
#[derive(Debug)]
pub(super) struct Room {
    outputs_max: usize,
    bytes_max: u64,
    taken: Mutex<HashMap<Network, Taken>>,
}

/// How much a network keeps.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    outputs: usize,
    bytes: u64,
}

/// The share of the room that one output has. It ends with the value.
#[derive(Debug)]
pub(super) struct OutputReservation {
    room: Arc<Room>,
    network: Network,
    bytes: u64,
}

impl Room {
    /// For so many outputs, and so many bytes of them in files.
    pub(super) fn new(outputs_max: usize, bytes_max: u64) -> Arc<Room> {
        Arc::new(Room { outputs_max, bytes_max, taken: Mutex::default() })
    }

    /// Room for one more output of `network`; none if there is none.
    pub(super) fn take(self: &Arc<Room>, network: Network) -> Option<OutputReservation> {
        let mut taken = self.lock();
        let all: usize = taken.values().map(|one| one.outputs).sum();
        let own = taken.get(&network).map_or(0, |own| own.outputs);
        if own + all + 2 > self.outputs_max {
            return None;
        }
        taken.entry(network).or_default().outputs += 1;
        self.check_invariants(&taken);
        Some(OutputReservation { room: self.clone(), network, bytes: 0 })
    }

    /// Checks that no more is taken than there is, and that no network is there without an output, in a build with
    /// assertions.
    fn check_invariants(&self, taken: &HashMap<Network, Taken>) {
        if cfg!(debug_assertions) {
            assert!(taken.values().all(|own| own.outputs > 0), "a network without outputs is counted");
            assert!(taken.values().map(|own| own.outputs).sum::<usize>() <= self.outputs_max, "too many outputs");
            assert!(taken.values().map(|own| own.bytes).sum::<u64>() <= self.bytes_max, "too many bytes");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Network, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputReservation {
    /// Whether there is room for `bytes` of it in a file. Then they are its.
    fn reserve(&mut self, bytes: u64) -> bool {
        bytes <= self.bytes || self.reserve_of(bytes, free_bytes())
    }

    /// The same for more than it has, with so many free bytes on the file system.
    fn reserve_of(&mut self, bytes: u64, free: u64) -> bool {
        let wanted = bytes.next_multiple_of(STEP_BYTES) - self.bytes;
        let mut taken = self.room.lock();
        let all: u64 = taken.values().map(|one| one.bytes).sum();
        let own = taken.entry(self.network).or_default();
        if own.bytes + all + 2 * wanted > self.room.bytes_max || own.bytes + 2 * wanted > free {
            return false;
        }
        own.bytes += wanted;
        self.bytes += wanted;
        self.room.check_invariants(&taken);
        true
    }
}

/// Bytes that the file system of the files has left. Some do not say.
fn free_bytes() -> u64 {
    let said = statvfs(BUFFER_DIRECTORY).ok().filter(|said| said.f_blocks > 0);
    said.map_or(u64::MAX, |said| said.f_bavail.saturating_mul(said.f_frsize))
}

impl Drop for OutputReservation {
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        if let Some(own) = taken.get_mut(&self.network) {
            *own = Taken { outputs: own.outputs - 1, bytes: own.bytes - self.bytes };
            if own.outputs == 0 {
                debug_assert_eq!(own.bytes, 0, "bytes are counted that no output has");
                taken.remove(&self.network);
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Output {
    room: Arc<Room>,
    network: Network,
    /// Whole records, but for the first, of which a part may have been sent.
    records: Vec<u8>,
    spool: Option<Spool>,
    /// Output behind both, which has no room there yet: no more than was taken at once.
    waiting: Vec<u8>,
    /// Records behind everything else.
    end: Vec<u8>,
    /// No file can be had: it is not tried again.
    has_no_file: bool,
}

/// Output in a file: never none, and never all read.
#[derive(Debug)]
struct Spool {
    file: SpoolFile,
    read: u64,
    kept: OutputReservation,
}

impl Spool {
    /// Takes what there is room for of `printed`. How many bytes that is.
    fn append(&mut self, printed: &[u8]) -> io::Result<usize> {
        if !self.kept.reserve(self.file.bytes() + printed.len() as u64) {
            return Ok(0);
        }
        Ok(self.file.append(printed)?)
    }
}

impl Output {
    /// None yet, for a client of `network`.
    pub(super) fn new(room: Arc<Room>, network: Network) -> Output {
        let (records, waiting, end) = (Vec::new(), Vec::new(), Vec::new());
        Output { room, network, records, spool: None, waiting, end, has_no_file: false }
    }

    /// Whether everything has been sent.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.spool.is_none() && self.waiting.is_empty() && self.end.is_empty()
    }

    /// Whether more output can be taken: nothing waits.
    ///
    /// # Errors
    /// The file cannot be written, and that is not for want of room.
    pub(super) fn has_room(&mut self) -> io::Result<bool> {
        self.settle()?;
        Ok(self.waiting.is_empty())
    }

    /// Takes what a program has printed.
    ///
    /// # Errors
    /// Those of [`Output::has_room`].
    pub(super) fn take(&mut self, printed: &[u8]) -> io::Result<()> {
        self.waiting.extend_from_slice(printed);
        self.settle()
    }

    /// Moves what waits to where there is room for it.
    fn settle(&mut self) -> io::Result<()> {
        self.check_invariants();
        if self.waiting.is_empty() || self.settle_in_records() {
            return Ok(());
        }
        let spooled = match &mut self.spool {
            Some(spool) => spool.append(&self.waiting)?,
            None => self.begin_spool()?,
        };
        self.waiting.drain(..spooled);
        Ok(())
    }

    /// Checks that a file has something to be read, which is counted, and that what waits is bounded, in a build with
    /// assertions.
    fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            assert!(self.waiting.len() <= READ_BYTES, "more was taken than there is room for");
            if let Some(Spool { file, read, kept }) = &self.spool {
                assert!(*read < file.bytes(), "a file has nothing to be read");
                assert!(file.bytes() <= kept.bytes, "a file has more than is counted");
            }
        }
    }

    /// Whether nothing waits any more.
    fn settle_in_records(&mut self) -> bool {
        if self.spool.is_none() && self.records.len() < OUTPUT_BYTES {
            write(kind::STDOUT, &self.waiting, &mut self.records);
            self.waiting.clear();
        }
        self.waiting.is_empty()
    }

    /// Begins a file with what waits. How much of that it has: there is no file without any.
    fn begin_spool(&mut self) -> io::Result<usize> {
        if self.has_no_file {
            return Ok(0);
        }
        let Some(mut kept) = self.room.take(self.network) else { return Ok(0) };
        if !kept.reserve(self.waiting.len() as u64) {
            return Ok(0);
        }
        let Ok(file) = SpoolFile::create(Path::new(BUFFER_DIRECTORY)) else {
            self.has_no_file = true;
            return Ok(0);
        };
        let mut spool = Spool { file, read: 0, kept };
        let spooled = spool.append(&self.waiting)?;
        self.spool = Some(spool).filter(|_| spooled > 0);
        Ok(spooled)
    }

    /// Takes a message, which may overtake what is in a file.
    pub(super) fn take_message(&mut self, message: &[u8]) {
        write(kind::STDERR, message, &mut self.records);
    }

    /// Takes the last records.
    pub(super) fn take_end(&mut self, records: Vec<u8>) {
        self.end = records;
    }

    /// Sends what the connection takes. How many bytes that were.
    ///
    /// # Errors
    /// The connection's, or the file cannot be read.
    pub(super) fn send(&mut self, stream: &mut impl Write) -> io::Result<usize> {
        self.refill()?;
        if self.records.is_empty() {
            return Ok(0);
        }
        let sent = stream.write(&self.records)?;
        self.records.drain(..sent);
        Ok(sent)
    }

    /// The records in memory, where no more is to be sent.
    pub(super) fn give_up(&mut self) -> Vec<u8> {
        (self.spool, self.waiting, self.end) = (None, Vec::new(), Vec::new());
        std::mem::take(&mut self.records)
    }

    fn refill(&mut self) -> io::Result<()> {
        self.check_invariants();
        while let Some(spool) = self.spool.as_mut().filter(|_| self.records.len() < READ_BYTES) {
            let mut buffer = [0; READ_BYTES];
            let bytes = spool.file.read(&mut buffer, spool.read, Wait::Yes).map_err(|blocked| match blocked {
                Blocked::Failed(errno) => io::Error::from(errno),
                Blocked::Disk => io::ErrorKind::WouldBlock.into(),
            })?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            write(kind::STDOUT, &buffer[..bytes], &mut self.records);
            spool.read += bytes as u64;
            if spool.read >= spool.file.bytes() {
                self.spool = None;
            }
        }
        if self.spool.is_none() && self.settle_in_records() {
            self.records.append(&mut self.end);
        }
        Ok(())
    }

    /// Keeps it without its program, if there is room for one more.
    pub(super) fn keep(&mut self) -> Option<Option<OutputReservation>> {
        match self.spool {
            Some(_) => Some(None),
            None => self.room.take(self.network).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::Records;
    use super::*;
    use lamna_site::content::at_once::ClientNetwork;
    use proptest::prelude::*;

    fn network(number: u8) -> Network {
        Some(ClientNetwork::of([192, 0, 2, number].into()))
    }

    #[test]
    fn what_was_printed_is_sent_in_its_order_however_slowly() {
        let room = Room::new(4, 64 << 20);
        let mut output = Output::new(room.clone(), network(1));
        let printed: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7 / 3) as u8).collect();
        let (mut records, mut found, mut ends) = (Records::default(), Vec::new(), 0);
        let mut send = |output: &mut Output, most: usize| {
            let mut place = vec![0; most];
            let mut slice = &mut place[..];
            let sent = output.send(&mut slice).unwrap();
            records.push(&place[..sent]);
            while let Some(record) = records.next() {
                match record.kind {
                    kind::STDOUT => found.extend(record.content),
                    kind::END_REQUEST => ends += 1,
                    other => assert_eq!((other, record.content), (kind::STDERR, b"message".to_vec())),
                }
            }
        };
        for (round, part) in printed.chunks(READ_BYTES).enumerate() {
            assert!(output.has_room().unwrap());
            output.take(part).unwrap();
            if round == 40 {
                output.take_message(b"message");
            }
            send(&mut output, 10_000);
        }
        assert!(output.records.len() < OUTPUT_BYTES + 3 * READ_BYTES, "memory is bounded");
        let mut end = Vec::new();
        write(kind::END_REQUEST, &[0; 8], &mut end);
        output.take_end(end);
        while !output.is_empty() {
            send(&mut output, 100_000);
        }
        assert!((found == printed) && ends == 1);
        assert!(room.lock().is_empty(), "nothing is counted any more");
    }

    #[test]
    fn a_network_keeps_no_more_than_is_left_for_others() {
        let room = Room::new(8, 8 << 20);
        let kept: Vec<_> = (0..5).map(|_| room.take(network(1))).collect();
        assert_eq!(kept.iter().flatten().count(), 4);
        let mut own = kept.into_iter().flatten().collect::<Vec<_>>();
        assert!(own[0].reserve(4 << 20) && !own[1].reserve(1));
        let mut other = room.take(network(2)).expect("there is room for another");
        assert!(other.reserve(2 << 20) && !other.reserve((2 << 20) + 1));
        drop(own);
        assert!(other.reserve(4 << 20));
    }

    #[test]
    fn a_network_leaves_as_much_of_the_disk_free_as_it_has() {
        let room = Room::new(8, 1 << 30);
        let [mut own, mut more, mut other] = [1, 1, 2].map(|of| room.take(network(of)).unwrap());
        assert!(!own.reserve_of(1, (2 << 20) - 1) && own.reserve_of(1, 2 << 20));
        assert!(!more.reserve_of(1, (3 << 20) - 1) && more.reserve_of(1, 3 << 20));
        assert!(other.reserve_of(1, 2 << 20), "it has nothing yet");
    }

    #[test]
    fn where_there_is_no_room_a_program_waits() {
        let mut output = Output::new(Room::new(8, 0), network(1));
        while output.has_room().unwrap() {
            output.take(&[0; READ_BYTES]).unwrap();
        }
        assert!(output.records.len() < OUTPUT_BYTES + 2 * READ_BYTES);
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A program prints, if there is room.
        Print(usize),
        /// It is looked whether there is room, and nothing is printed.
        Look,
        Say,
        Send(usize),
        /// Others take what there is room for, or leave.
        Crowd(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (1..=READ_BYTES).prop_map(Step::Print),
            6 => Just(Step::Print(READ_BYTES)),
            2 => Just(Step::Look),
            1 => Just(Step::Say),
            3 => (0..=8 * READ_BYTES).prop_map(Step::Send),
            1 => any::<bool>().prop_map(Step::Crowd),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_printed_is_sent_once_with_one_end_in_any_order_of_steps(
            steps in prop::collection::vec(step(), 0..120),
        ) {
            let room = Room::new(8, 4 << 20);
            let mut output = Output::new(room.clone(), network(1));
            let (mut printed, mut sent, mut others) = (Vec::new(), Vec::new(), None);
            let send = |output: &mut Output, bytes: usize, sent: &mut Vec<u8>| {
                let mut place = vec![0; bytes];
                let bytes = output.send(&mut &mut place[..]).unwrap();
                sent.extend_from_slice(&place[..bytes]);
            };
            for step in steps {
                match step {
                    Step::Print(bytes) if output.has_room().unwrap() => {
                        let part: Vec<u8> = (0..bytes).map(|at| (printed.len() + at) as u8 ^ (at >> 8) as u8).collect();
                        output.take(&part).unwrap();
                        printed.extend(part);
                    }
                    Step::Print(_) => {}
                    Step::Look => _ = output.has_room().unwrap(),
                    Step::Say => output.take_message(b"message"),
                    Step::Send(bytes) => send(&mut output, bytes, &mut sent),
                    Step::Crowd(false) => others = None,
                    Step::Crowd(true) => {
                        others = room.take(network(2));
                        let has_room = |kept: &mut OutputReservation| kept.reserve(kept.bytes + STEP_BYTES);
                        others.iter_mut().for_each(|kept| while has_room(kept) {});
                    }
                }
                prop_assert!(output.records.len() < OUTPUT_BYTES + 4 * READ_BYTES, "memory is bounded");
                prop_assert!(output.waiting.len() <= READ_BYTES);
            }
            let mut end = Vec::new();
            super::super::pump::end(0, &mut end);
            output.take_end(end);
            while !output.is_empty() {
                send(&mut output, 3 * READ_BYTES, &mut sent);
            }
            drop(others);
            prop_assert!(room.lock().is_empty(), "nothing is counted any more");
            let mut records = Records::default();
            records.push(&sent);
            let found: Vec<_> = std::iter::from_fn(|| records.next()).filter(|one| one.kind != kind::STDERR).collect();
            let (content, last) = found.split_at(found.len() - 2);
            let ends: Vec<_> = last.iter().map(|one| (one.kind, one.content.len())).collect();
            prop_assert_eq!(ends, [(kind::STDOUT, 0), (kind::END_REQUEST, 8)]);
            prop_assert!(content.iter().all(|one| !one.content.is_empty()), "there is one end");
            prop_assert!(content.iter().flat_map(|one| &one.content).eq(&printed));
        }
    }

    #[test]
    fn what_a_network_is_refused_leaves_no_trace() {
        let room = Room::new(1, 1 << 20);
        assert!(room.take(network(1)).is_none());
        assert!(room.lock().is_empty());
    }
}
