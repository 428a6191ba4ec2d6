//! A disk. Reads wait in one queue for one of `parallelism` places. In a place a read first takes its latency, and then
//! the transfer path, which all places share.
//!
//! With one place this is a mechanical disk, which positions and transfers by turns. With many places it is an SSD, an
//! NVMe device or a network volume: latencies overlap there, and bandwidth is shared.
//!
//! A disk may be throttled as Linux throttles one for a control group (`block/blk-throttle.c`). Time is divided into
//! slices. What a slice admits may begin at once; what comes after that waits for the next slice.

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
    request_bytes: u64,
    throttle: Option<Throttle>,
    random: Stream,
    /// Reads begun.
    pub reads: u64,
    /// Requests that these are made of.
    pub requests: u64,
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
            request_bytes: u64::MAX,
            throttle: None,
            random,
            reads: 0,
            requests: 0,
            bytes: 0,
            busy: 0,
            waited: 0,
            resident: 0,
        }
    }

    /// From now on reads are made of requests of at most `request_bytes` (0: of one), of which `per_slice` (positive)
    /// are admitted in each `slice` (positive). No slice: any number.
    pub fn throttle(&mut self, request_bytes: u64, per_slice: u64, slice: Nanos) {
        self.request_bytes = if request_bytes == 0 { u64::MAX } else { request_bytes };
        self.throttle = (slice > 0).then_some(Throttle { per_slice: per_slice.max(1), slice, ends: 0, admitted: 0 });
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
        let requests = bytes.div_ceil(self.request_bytes).max(1);
        let admitted = self.throttle.as_mut().map_or(now, |throttle| throttle.admit(requests, now));
        let positioned = admitted + (self.latency as f64 * factor) as Nanos;
        let transferred = positioned.max(self.transfer_free) + (bytes as f64 * self.nanos_per_byte) as Nanos;
        self.transfer_free = transferred;
        self.reads += 1;
        self.requests += requests;
        self.bytes += bytes;
        self.busy += transferred - now;
        transferred - now
    }
}

/// How many requests may begin when.
struct Throttle {
    per_slice: u64,
    slice: Nanos,
    /// The end of the slice that admits at present.
    ends: Nanos,
    /// In that slice.
    admitted: u64,
}

impl Throttle {
    /// When the last of `requests` that arrive `now` may begin. First come, first served.
    fn admit(&mut self, requests: u64, now: Nanos) -> Nanos {
        if now >= self.ends {
            (self.ends, self.admitted) = (now + self.slice, 0);
        }
        self.admitted += requests;
        let slices_later = (self.admitted - 1) / self.per_slice;
        self.admitted -= slices_later * self.per_slice;
        self.ends += slices_later * self.slice;
        now.max(self.ends - self.slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttle_admits_what_a_slice_has_at_once_and_the_rest_in_the_next_slices() {
        let mut throttle = Throttle { per_slice: 2, slice: 100, ends: 0, admitted: 0 };
        let admitted: Vec<_> = (0..5).map(|_| throttle.admit(1, 10)).collect();
        assert_eq!(admitted, [10, 10, 110, 110, 210]);
        assert_eq!(throttle.admit(1, 1_000), 1_000, "what was not used is lost");
        assert_eq!(throttle.admit(4, 1_000), 1_200, "a read of several requests begins with its last");
    }
}
