//! SplitMix64: spreading the bits of a number, and numbers that look random.
//!
//! Owns: the one copy of that arithmetic for policies, the server and the simulator (Steele, Lea, Flood, OOPSLA 2014).
//! Guarantees: the same results for the same numbers in every process and version. Not for secrets.

/// The step from one number to the next: 2^64 divided by the golden ratio, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Numbers that look random and are the same for the same seed. Each of 2^64 states gives another one.
#[derive(Clone, Debug, Default)]
pub struct Random(u64);

impl Random {
    /// Begins here.
    pub fn seeded(seed: u64) -> Random {
        Random(seed)
    }

    /// A number below `bound`; none if there is none. Its bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> Option<u64> {
        let number = self.bits();
        (bound > 0).then(|| ((u128::from(number) * u128::from(bound)) >> 64) as u64)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }
}

/// The number behind `number` in the sequence: a hash, in which zero is not zero.
pub fn spread(number: u64) -> u64 {
    mix(number.wrapping_add(STEP))
}

/// Spreads the bits of `number`: the finaliser. Zero stays zero.
pub fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The first numbers of the reference implementation (https://prng.di.unimi.it/splitmix64.c) from 1234567.
    #[test]
    fn the_sequence_is_that_of_the_reference() {
        let mut random = Random::seeded(1_234_567);
        let numbers = [(); 3].map(|()| random.bits());
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(spread(1_234_567), numbers[0]);
    }
}
