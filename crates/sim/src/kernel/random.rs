//! Streams of random numbers. They are written here and not taken from a crate: for one seed the results must stay the
//! same to the byte for ever, and no general crate promises that.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, 2019). SplitMix64 seeds it from the seed and the name of the
//! stream's purpose. Streams of different names are independent for all purposes here. So a new source of chance does
//! not change what the others draw, and two architectures that are compared under one seed see the same requests.

use lamna_policy::random::Random;

/// One stream.
#[derive(Clone, Debug)]
pub struct Stream([u64; 4]);

impl Stream {
    /// The stream called `name` of `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a of the name; a few well spread bits are all that is asked of it.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mut state = Random::seeded(seed ^ hash);
        Stream([(); 4].map(|()| state.bits()))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0..`bound`, which is positive. The bias of the multiplication is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}
