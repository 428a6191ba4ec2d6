//! A disk: reads wait in one queue for one of `parallelism` places; in a place a read first takes its latency and then the
//! transfer path, which all places share.
//!
//! With one place this is a mechanical disk that positions and transfers by turns. With many it is an SSD, an NVMe device
//! or a network volume, whose latencies overlap and whose bandwidth does not.

use std::collections::VecDeque;

use crate::kernel::{Nanos, Stream};

/// A disk and its queue. `R` stands for a read and comes back when it is done.
pub struct Disk<R> {
    latency: Nanos,
    /// Half the width of the uniform distribution of the latency, as a share of the latency; 0 is constant, 1 is a
    /// rotation.
    spread: f64,
    nanos_per_byte: f64,
    places: usize,
    places_free: usize,
    queue: VecDeque<(R, u64, Nanos)>,
    transfer_free: Nanos,
    random: Stream,
    /// Reads begun.
    pub reads: u64,
    /// Bytes of the reads begun.
    pub bytes: u64,
    /// Time during which places were taken, summed over places.
    pub busy: Nanos,
    /// Time that reads waited for a place.
    pub waited: Nanos,
    /// Time that reads waited or were under way, summed over reads.
    pub resident: Nanos,
}

impl<R> Disk<R> {
    /// An idle disk.
    pub fn new(latency: Nanos, spread: f64, bytes_per_s: f64, parallelism: usize, random: Stream) -> Self {
        Disk {
            latency,
            spread,
            nanos_per_byte: 1e9 / bytes_per_s,
            places: parallelism.max(1),
            places_free: parallelism.max(1),
            queue: VecDeque::new(),
            transfer_free: 0,
            random,
            reads: 0,
            bytes: 0,
            busy: 0,
            waited: 0,
            resident: 0,
        }
    }

    /// Asks for `bytes`. If the read begins at once: it, and when it will be done; the caller then calls
    /// [`Disk::done`]. Otherwise it waits and a later `done` begins it.
    #[must_use]
    pub fn read(&mut self, read: R, bytes: u64, now: Nanos) -> Option<(R, Nanos)> {
        if self.places_free == 0 {
            self.queue.push_back((read, bytes, now));
            return None;
        }
        self.places_free -= 1;
        let after = self.begin(bytes, now);
        self.resident += after;
        Some((read, after))
    }

    /// A read that had begun is done. The next one, if one waits, and when it will be done.
    #[must_use]
    pub fn done(&mut self, now: Nanos) -> Option<(R, Nanos)> {
        let Some((read, bytes, since)) = self.queue.pop_front() else {
            self.places_free += 1;
            return None;
        };
        self.waited += now - since;
        let after = self.begin(bytes, now);
        self.resident += now - since + after;
        Some((read, after))
    }

    /// Reads that may be under way at once.
    pub fn parallelism(&self) -> usize {
        self.places
    }

    /// Reads that wait for a place.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    fn begin(&mut self, bytes: u64, now: Nanos) -> Nanos {
        let factor = 1.0 + self.spread * (2.0 * self.random.unit() - 1.0);
        let positioned = now + (self.latency as f64 * factor) as Nanos;
        let transferred = positioned.max(self.transfer_free) + (bytes as f64 * self.nanos_per_byte) as Nanos;
        self.transfer_free = transferred;
        self.reads += 1;
        self.bytes += bytes;
        self.busy += transferred - now;
        transferred - now
    }
}
