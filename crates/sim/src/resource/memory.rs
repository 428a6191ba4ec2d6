//! How memory is divided: Table 1 of the PIPELINED paper (2005).
//!
//! The server's memory is either data cache or overhead. The overhead has two parts: what each cached file costs in
//! structures, times the number of processes that each keep their own; and what each thread and helper costs. The
//! number of files follows from the size of the data cache. So the division solves
//!
//! ```text
//! system memory = data cache + data cache / mean file * entry * copies + threads * thread + helpers * helper
//! ```
//!
//! The paper charges entries for each process, but the data once. Mapped files behave so: processes map the same pages.
//! It ignores path translations (section 3.3). The simulator ignores them as well unless `translation_bytes` is given.

/// The memory of a server beside the content it holds. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Structures of one cached file, in one process.
    pub entry_bytes: f64,
    /// Processes that keep structures of their own.
    pub copies: f64,
    /// Threads, helpers and everything else that does not grow with the number of files.
    pub fixed_bytes: f64,
}

/// The division of a given memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    /// For content.
    pub data_cache_bytes: u64,
    /// For everything else. Both together are the system memory, unless even the fixed part does not fit.
    pub overhead_bytes: u64,
}

impl Overhead {
    /// Divides `system_memory_bytes` for files of `file_bytes_mean` on average. If the fixed part alone does not fit,
    /// no data cache is left.
    pub fn divide(&self, system_memory_bytes: u64, file_bytes_mean: f64) -> Division {
        let per_byte = self.entry_bytes * self.copies / file_bytes_mean;
        let left = (system_memory_bytes as f64 - self.fixed_bytes).max(0.0);
        let data_cache_bytes = (left / (1.0 + per_byte)) as u64;
        Division { data_cache_bytes, overhead_bytes: system_memory_bytes - data_cache_bytes }
    }
}
