//! A distribution of whole numbers with a bounded relative error, in fixed memory: buckets of equal width within each
//! power of two (the layout of HdrHistogram). 64 buckets a power keep the error of a quantile below 1.6 %.

const SUB_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB_BUCKETS;

/// Counts by magnitude. 30 KB, whatever is observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    /// Nothing observed yet.
    pub fn new() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }

    /// Adds one observation.
    pub fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Adds all of `other`'s observations.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Observations.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The largest observation, exactly; zero if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// A value that is at least as large as a share `q` (0 to 1) of the observations, at most 1.6 % above the exact
    /// quantile; zero if nothing was observed.
    pub fn quantile(&self, q: f64) -> u64 {
        let wanted = ((q.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_end(index).min(self.max);
            }
        }
        0
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket(value: u64) -> usize {
    if value < SUB_BUCKETS as u64 {
        return value as usize;
    }
    let power = 63 - value.leading_zeros();
    let shift = power - SUB_BITS;
    let within = (value >> shift) as usize - SUB_BUCKETS;
    (shift as usize + 1) * SUB_BUCKETS + within
}

/// The largest value in a bucket.
fn upper_end(index: usize) -> u64 {
    if index < SUB_BUCKETS {
        return index as u64;
    }
    let shift = (index / SUB_BUCKETS - 1) as u32;
    let within = (index % SUB_BUCKETS + SUB_BUCKETS) as u64;
    (within << shift) + ((1 << shift) - 1)
}
