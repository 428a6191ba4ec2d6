//! Workloads: which file is asked for next, and how large it is.
//!
//! Owns: the file set and the source of requests. Knows nothing of the simulator beyond a stream of random numbers, so
//! that it can drive a load generator as well.
//!
//! A file is a dense number. In synthetic workloads it is the rank of its popularity, from zero.

mod locality;
mod log;
mod popularity;
mod profile;
mod synthetic;
mod trace;

use std::sync::Arc;

pub use locality::{fit_exponent, lru_hit_ratio};
pub use log::{Log, LogLine, read_log};
pub use popularity::{Alias, zipf};
pub use profile::{PROFILES, Profile};
pub use synthetic::{SIZE_SIGMA, file_sizes};
pub use trace::{Trace, TraceError, read_timed_trace, read_trace};

use crate::kernel::Stream;

/// The number of a file.
pub type FileId = u32;

/// Files and the order in which they are asked for. Cheap to clone: the tables are shared.
#[derive(Clone)]
pub struct Workload {
    /// For reports.
    pub name: String,
    /// Bytes of each file.
    pub sizes: Arc<[u64]>,
    source: Source,
}

#[derive(Clone)]
enum Source {
    /// Independent draws.
    Independent(Arc<Alias>),
    /// A log, read again from its beginning when it ends.
    Log(Arc<[FileId]>),
    /// The first clients always ask for file 0, the others for any of the rest.
    HotAndCold { hot_clients: u32, cold_files: u32 },
}

impl Workload {
    /// Requests drawn independently with these probabilities (they need not add up to one).
    pub fn independent(name: impl Into<String>, sizes: Vec<u64>, weights: Vec<f64>) -> Self {
        let source = Source::Independent(Arc::new(Alias::new(weights)));
        Workload { name: name.into(), sizes: sizes.into(), source }
    }

    /// The requests of a log, in its order. At least one.
    pub fn log(name: impl Into<String>, sizes: Vec<u64>, requests: Vec<FileId>) -> Self {
        Workload { name: name.into(), sizes: sizes.into(), source: Source::Log(requests.into()) }
    }

    /// The first `hot_clients` clients always ask for the same file of `hot_bytes`; the others draw from `cold_files`
    /// (at least one) of `cold_bytes` each.
    pub fn hot_and_cold(hot_clients: u32, hot_bytes: u64, cold_files: u32, cold_bytes: u64) -> Self {
        let mut sizes = vec![cold_bytes; cold_files as usize + 1];
        sizes[0] = hot_bytes;
        let source = Source::HotAndCold { hot_clients, cold_files };
        Workload { name: "hot and cold".into(), sizes: sizes.into(), source }
    }

    /// Starts asking.
    pub fn requests(&self, seed: u64) -> Requests {
        Requests { source: self.source.clone(), random: Stream::new(seed, "requests"), at: 0 }
    }

    /// Bytes of all files.
    pub fn data_set_bytes(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Requests after which the source begins again, if it does.
    pub fn period(&self) -> Option<usize> {
        match &self.source {
            Source::Independent(_) | Source::HotAndCold { .. } => None,
            Source::Log(requests) => Some(requests.len()),
        }
    }

    /// Mean bytes of a request.
    pub fn transfer_bytes_mean(&self) -> f64 {
        match &self.source {
            Source::Independent(alias) => {
                alias.probabilities().zip(&*self.sizes).map(|(p, &size)| p * size as f64).sum()
            }
            Source::Log(requests) => {
                let bytes: u64 = requests.iter().map(|&file| self.sizes[file as usize]).sum();
                bytes as f64 / requests.len() as f64
            }
            // How often each asks depends on the server; this is the mean over files.
            Source::HotAndCold { .. } => self.data_set_bytes() as f64 / self.sizes.len() as f64,
        }
    }

    /// Files in the order of their last request, the most recent first, as an observer sees them who arrives long after
    /// the beginning. For independent draws the time since the last request of a file is exponential with the file's
    /// probability as its rate, so this is an exact sample of the stationary order and replaces a long warm-up.
    pub fn recency(&self, seed: u64) -> Vec<FileId> {
        match &self.source {
            Source::Independent(alias) => {
                let mut random = Stream::new(seed, "recency");
                let mut ages: Vec<(f64, FileId)> = alias
                    .probabilities()
                    .zip(0..)
                    .map(|(p, file)| (random.exponential(1.0) / p.max(f64::MIN_POSITIVE), file))
                    .collect();
                ages.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
                ages.into_iter().map(|(_, file)| file).collect()
            }
            Source::Log(requests) => {
                let mut seen = vec![false; self.sizes.len()];
                let newest_first = requests.iter().rev().copied();
                newest_first.filter(|&file| !std::mem::replace(&mut seen[file as usize], true)).collect()
            }
            Source::HotAndCold { .. } => (0..self.sizes.len() as FileId).collect(),
        }
    }

    /// The same workload cut off where the files seen so far reach `data_set_bytes`, as Flash (6.2) cuts a log to vary
    /// its data set. `None` if the whole has not that many bytes.
    pub fn truncated(&self, data_set_bytes: u64, seed: u64) -> Option<Workload> {
        if data_set_bytes > self.data_set_bytes() {
            return None;
        }
        let mut kept = vec![false; self.sizes.len()];
        let mut bytes = 0;
        let mut requests = self.requests(seed);
        let mut order = Vec::new();
        while bytes < data_set_bytes {
            let file = requests.next_file();
            order.push(file);
            if !std::mem::replace(&mut kept[file as usize], true) {
                bytes += self.sizes[file as usize];
            }
        }
        let name = format!("{} cut to {} MiB", self.name, data_set_bytes >> 20);
        Some(match &self.source {
            Source::Independent(alias) => {
                let weights: Vec<_> =
                    alias.probabilities().zip(&kept).map(|(p, &keep)| if keep { p } else { 0.0 }).collect();
                let files = || kept.iter().enumerate().filter(|(_, keep)| **keep).map(|(file, _)| file);
                let sizes = files().map(|file| self.sizes[file]).collect();
                Workload::independent(name, sizes, files().map(|file| weights[file]).collect())
            }
            Source::Log(_) | Source::HotAndCold { .. } => Workload::log(name, self.sizes.to_vec(), order),
        })
    }
}

/// A source of requests under way.
pub struct Requests {
    source: Source,
    random: Stream,
    at: usize,
}

impl Requests {
    /// The next file, for any client. Never ends.
    pub fn next_file(&mut self) -> FileId {
        self.next_file_of(u32::MAX)
    }

    /// The next file if it is this client that asks.
    pub fn next_file_of(&mut self, client: u32) -> FileId {
        match &self.source {
            Source::HotAndCold { hot_clients, .. } if client < *hot_clients => 0,
            Source::HotAndCold { cold_files, .. } => 1 + self.random.below((*cold_files).into()) as FileId,
            Source::Independent(alias) => alias.draw(&mut self.random),
            Source::Log(requests) => {
                let file = requests[self.at];
                self.at = (self.at + 1) % requests.len();
                file
            }
        }
    }
}
