//! The six workloads of the PIPELINED paper, as far as its Tables 4 and 5 describe them.
//!
//! The logs themselves are not to be had (`docs/internals/simulator.md`), so each is synthetic: as many files, as many
//! bytes, and popularity by Zipf's law with the one exponent for which an LRU cache of the size of Table 5 has the
//! locality of Table 5. Where Table 4's number of files, mean size and bytes contradict each other (ClarkNet, NASA,
//! WorldCup98), the number of files and the bytes are kept. The paper's units are binary: only then does its first row
//! multiply out.

use super::{Workload, file_sizes, zipf};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The figures of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// As in commands and results.
    pub name: &'static str,
    /// As in the paper.
    pub title: &'static str,
    /// Table 4.
    pub files: usize,
    /// Table 4.
    pub data_set_bytes: u64,
    /// Requests of the log. Table 4.
    pub requests: u64,
    /// Table 5.
    pub locality_cache_bytes: u64,
    /// Share of requests found in a cache of that size. Table 5.
    pub locality: f64,
    /// System memory in section 6.1.
    pub system_memory_bytes: u64,
    /// Fitted by [`super::fit_exponent`]; a test fits it again.
    pub zipf_exponent: f64,
}

impl Profile {
    /// The profile called `name`.
    pub fn named(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Its files and requests.
    pub fn workload(&self) -> Workload {
        let sizes = file_sizes(self.files, self.data_set_bytes);
        Workload::independent(self.name, sizes, zipf(self.files, self.zipf_exponent))
    }
}

/// In the order of Table 4.
pub static PROFILES: [Profile; 6] = [
    Profile {
        name: "cse",
        title: "Penn State CSE",
        files: 48_079,
        data_set_bytes: 57 * GIB / 10,
        requests: 1_395_148,
        locality_cache_bytes: 4 * GIB,
        locality: 0.996,
        system_memory_bytes: 4 * GIB,
        zipf_exponent: 1.3414,
    },
    Profile {
        name: "ucb",
        title: "UC Berkeley",
        files: 511_189,
        data_set_bytes: 48 * GIB / 10,
        requests: 1_383_211,
        locality_cache_bytes: 35 * GIB / 10,
        locality: 0.883,
        system_memory_bytes: 35 * GIB / 10,
        zipf_exponent: 0.7175,
    },
    Profile {
        name: "psu",
        title: "Penn State",
        files: 139_894,
        data_set_bytes: 21 * GIB / 10,
        requests: 8_853_333,
        locality_cache_bytes: 15 * GIB / 10,
        locality: 0.9947,
        system_memory_bytes: 15 * GIB / 10,
        zipf_exponent: 1.2634,
    },
    Profile {
        name: "clarknet",
        title: "ClarkNet",
        files: 28_864,
        data_set_bytes: 320 * MIB,
        requests: 2_978_121,
        locality_cache_bytes: 220 * MIB,
        locality: 0.995,
        system_memory_bytes: 220 * MIB,
        zipf_exponent: 1.3428,
    },
    Profile {
        name: "nasa",
        title: "NASA",
        files: 9_129,
        data_set_bytes: 208 * MIB,
        requests: 3_147_684,
        locality_cache_bytes: 150 * MIB,
        locality: 0.9982,
        system_memory_bytes: 150 * MIB,
        zipf_exponent: 1.519,
    },
    Profile {
        name: "worldcup98",
        title: "WorldCup98",
        files: 13_236,
        data_set_bytes: 158 * MIB,
        requests: 7_000_000,
        locality_cache_bytes: 110 * MIB,
        locality: 0.999,
        system_memory_bytes: 110 * MIB,
        zipf_exponent: 1.5844,
    },
];
