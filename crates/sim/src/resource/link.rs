//! The network path out of the machine: first come, first served, at a fixed rate.

use crate::kernel::Nanos;

/// A link. A rate of zero stands for one that never limits.
pub struct Link {
    nanos_per_byte: f64,
    free: Nanos,
    /// Time spent sending.
    pub busy: Nanos,
}

impl Link {
    /// An idle link.
    pub fn new(bits_per_s: f64) -> Self {
        Link { nanos_per_byte: if bits_per_s > 0.0 { 8e9 / bits_per_s } else { 0.0 }, free: 0, busy: 0 }
    }

    /// Hands over `bytes`; how long from now until the last of them is out.
    pub fn send(&mut self, bytes: u64, now: Nanos) -> Nanos {
        let sending = (bytes as f64 * self.nanos_per_byte) as Nanos;
        if sending == 0 {
            return 0;
        }
        self.busy += sending;
        self.free = self.free.max(now) + sending;
        self.free - now
    }
}
