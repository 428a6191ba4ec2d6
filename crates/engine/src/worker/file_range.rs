//! Stretches of files on their way to a socket: how much at once, and whether the file is still the one described.
//!
//! Owns: the quantum, the check that every range of an answer comes from one state of its file, and finding out whether
//! it is in memory.

use std::os::fd::AsFd;
use std::sync::Arc;

use lamna_io::Counters;
use lamna_io::growth::{self, Content};
use lamna_io::read::{self, Care, Resident};
use lamna_proto::exchange::ContentBuffer;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use lamna_sys::usage::Usage;

use crate::worker::context::FileRange;
use crate::worker::executor::{Completed, PendingId};
use crate::worker::shared::Shared;
use crate::worker::turn_budget::QUANTUM_BYTES;

/// Bytes tested and sent at once while the kernel is taking pages back: what is sent later may be gone by then.
const TESTED_BYTES: u64 = 64 * 1024;

/// Bytes of a large file that are read at once where shorter reads are to come first.
const IN_ORDER_BYTES: u64 = 64 * 1024;

impl FileRange {
    /// The part of it that is made ready at once.
    pub fn quantum(&self) -> u64 {
        self.length.min(QUANTUM_BYTES)
    }

    /// The part of it that is read at once where shorter reads are to come first (`schedule = "srpt"`). It is small,
    /// and the kernel reads nothing ahead by itself, as reads that the disk has begun cannot be reordered.
    pub fn piece_in_order(&self) -> FileRange {
        if let Some(file) = self.representation.file.as_ref().filter(|_| self.length > IN_ORDER_BYTES) {
            read::forgo_read_ahead(file.as_fd());
        }
        FileRange { length: self.length.min(IN_ORDER_BYTES), ..self.clone() }
    }

    /// How many bytes from its beginning on may be sent now: they are in memory, were there a moment ago, or are likely
    /// to be where nothing can tell. None if some of them are not. That is the quantum; while the kernel is taking
    /// pages back, a part of it.
    pub fn in_memory(&self, shared: &Shared) -> Option<u64> {
        let (abilities, now_ms) = (&shared.abilities, shared.clock.now().ms());
        let is_quiet = abilities.lately.is_quiet(now_ms);
        let (length, care) = match is_quiet {
            true => (self.quantum(), Care::Sampled),
            false => (self.length.min(TESTED_BYTES), self.care(shared, now_ms)),
        };
        let tested = (self.representation.state.version, self.offset, length);
        if is_quiet && abilities.lately.has_found(tested, now_ms) {
            return Some(length);
        }
        let file = self.representation.file.as_ref()?;
        let is_in_memory = match read::test_resident(file.as_fd(), self.offset, length, care, abilities) {
            Resident::Yes => {
                abilities.lately.handle_found(tested, now_ms);
                true
            }
            Resident::No => {
                abilities.lately.handle_missed(tested, now_ms);
                false
            }
            Resident::Unknown => self.is_likely_in_memory(shared, length),
        };
        is_in_memory.then_some(length)
    }

    /// While the kernel takes pages back.
    fn care(&self, shared: &Shared, now_ms: u64) -> Care {
        match shared.abilities.lately.is_being_read(self.representation.state.version, now_ms) {
            true => Care::Each,
            false => Care::Counted,
        }
    }

    fn is_likely_in_memory(&self, shared: &Shared, length: u64) -> bool {
        let Some(file) = &self.representation.file else { return false };
        let is_likely = shared.store.residency_predictor().is_likely((file.as_fd(), self.offset, length));
        if is_likely {
            Counters::count(&shared.abilities.counters.likely);
        }
        is_likely
    }

    /// Brings the quantum into memory, waiting for the disk. `scratch` is read into. False if it cannot be read.
    pub fn page_in(&self, shared: &Shared, scratch: &mut [u8]) -> bool {
        let Some(file) = &self.representation.file else { return false };
        let before = Usage::now();
        let is_read = read::page_in(file.as_fd(), self.offset, self.quantum(), scratch).is_ok();
        if is_read {
            self.handle_read(shared, self.quantum(), Usage::now().has_waited_since(before));
        }
        is_read
    }

    /// Its first `length` bytes have been read, and that took the disk or not: for when nothing else can tell.
    pub fn handle_read(&self, shared: &Shared, length: u64, took_disk: bool) {
        let residency_predictor = shared.store.residency_predictor();
        if let Some(file) = self.representation.file.as_ref().filter(|_| residency_predictor.are_asked()) {
            residency_predictor.handle_read((file.as_fd(), self.offset, length), took_disk);
        }
    }

    /// Whether the file has the content that the head describes, as far as can be told now: a send from the file looks
    /// again before the end. A file that was replaced keeps its old content under the open descriptor and passes, as
    /// does one that has only grown; one that was edited or truncated in place does not.
    pub fn is_unchanged(&self, shared: &Shared) -> bool {
        self.content(shared) != Content::Other
    }

    /// The result of reading the beginning of the range, as `content` or into memory. Content of a file that is being
    /// written to is sent from the file, by a sender that looks again before the end.
    pub fn read_as(&self, shared: &Shared, pending: PendingId, content: Option<Arc<dyn ContentBuffer>>) -> Completed {
        match (self.content(shared), content) {
            (Content::Other, _) => Completed::Failed(pending),
            (Content::Same, Some(content)) => Completed::Content(pending, content),
            (Content::Same, None) | (Content::Unsettled, _) => Completed::Ready(pending, self.quantum()),
        }
    }

    fn content(&self, shared: &Shared) -> Content {
        let _step = step_timer::step(Step::Read);
        let Some(file) = &self.representation.file else { return Content::Other };
        growth::content_of(file.as_fd(), &self.representation.state, &shared.abilities)
    }
}
