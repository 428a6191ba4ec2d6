//! The trials of a calibration: what each one runs, on what, with what load.
//!
//! Owns: their names, and the numbers that they have in common with what is derived from them. Makes none of them.

use std::time::Duration;

use crate::simulator::load::Use;
use crate::simulator::measurements::Key;
use crate::simulator::trial::{Observed, least_clients};

pub(super) const CONNECTIONS: u32 = 24;
/// One request of so many is for a file that is not in memory, in the trials of that. A server that reads oftener has
/// all that reading needs in the processor's caches.
pub(super) const COLD_EACH: u64 = 24;
/// So few that stages sleep between two requests.
pub(super) const CONNECTIONS_FEW: u32 = 4;
/// Content of the trials on size, in bytes. The first is that of all other trials, the last is two segments of
/// loopback.
pub(super) const SIZES: [u64; 7] = [1_000, 5_000, 10_000, 20_000, 30_000, 40_000, 80_000];
/// Requests sent at once, in the two trials whose difference is one more request in a batch.
pub(super) const BATCHES: [u32; 2] = [16, 64];
/// Enough that the smallest cache holds next to none of them.
pub(super) const SMALL_FILES: usize = 20_000;
/// Files of 16 KiB: more than the cache holds that processors share.
pub(super) const LONGER_FILES: usize = 3_000;
/// So many small ones that each is another than the one before, and the server's cache holds them, of each thread's
/// own, too.
pub(super) const MANY_FILES: usize = 1_000;
/// Files of both sizes: so many that the cache holds them and the nearest caches of a processor do not.
pub(super) const FAR_SMALL_FILES: usize = 8_000;
pub(super) const FAR_LONGER_FILES: usize = 600;
/// Requests for each of them before anything is counted: one in e^8 is then asked for the first time.
pub(super) const FAR_PASSES: u64 = 8;
pub(super) const WATCHED_AFTER: Duration = Duration::from_millis(1_500);
/// Files of these sizes that a control group of [`LIMIT_BYTES`] cannot hold, so that most have to be read from disk.
/// The first is that of the engine with helpers, too; the last is longer than what the server's cache takes. No powers
/// of two: the kernel reads those in larger folios, and takes half the time.
pub(super) const COLD_SIZES: [u64; 3] = [16 * 1024, 120_000, 300_000];
pub(super) const COLD_BYTES: u64 = 128 << 20;
pub(super) const LIMIT_BYTES: u64 = 48 << 20;
/// The server's cache there: so large a part of the limit that it holds content in the place of the page cache, as it
/// does where it chooses the size itself.
pub(super) const LIMITED_CACHE_BYTES: u64 = LIMIT_BYTES / 3;
/// Files of the longest cold size: more than the nearest caches of a processor hold, and not more than the one that
/// they share.
pub(super) const LONG_FILES: usize = 80;
/// Longer than what any cache takes, and together no more than what it leaves of the limit.
pub(super) const COPIED_BYTES: u64 = 512 * 1024;
pub(super) const COPIED_FILES: usize = 20;
/// Files of many sizes, as a site has them, for filling a cache.
pub(super) const MIXED_FILES: u64 = 3_000;
/// Every tenth of these is used, which is few enough for the cache and for those of the processors.
pub(super) const VARIED_EACH: usize = 10;
pub(super) const MIXED_BYTES_LEAST: f64 = 500.0;
pub(super) const MIXED_BYTES_MOST: f64 = 250_000.0;
pub(super) const MIXED_CACHE_BYTES: u64 = 32 << 20;
pub(super) const CACHE_BYTES: u64 = 64 << 20;
pub(super) const PROCESS_CACHE_BYTES: u64 = 4 << 20;
pub(super) const CACHE_BYTES_LEAST: u64 = 1 << 20;
/// The least clients that both workers must have in the trial of threads with two workers.
pub(super) const SPREAD_CLIENTS_LEAST: usize = 3;
pub(super) const UNIT_BYTES: u64 = 512;

/// The trials. Each engine that takes part must be one of this program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::simulator) enum Name {
    /// `sped` on a file of this size.
    Size(u64),
    /// `sped`, so many requests at once.
    Batch(u32),
    NewConnections,
    OneClient,
    /// This engine on the smallest file.
    Engine(&'static str),
    /// The same on one of this size.
    Content(&'static str, u64),
    /// The same with few clients.
    Few(&'static str),
    /// `thread-per-request` with two workers.
    SpreadThreads,
    Untranslated,
    /// The same with files of 16 KiB.
    UntranslatedLonger,
    /// `sped` on the second of the cold files, which are in memory, with a larger cache.
    UntranslatedLongest,
    /// This engine on many small files, all in its cache.
    Many(&'static str),
    /// `sped` on so many that few are in the processor's.
    Far,
    /// The same with files of 16 KiB.
    FarLonger,
    /// The same with more of them than all caches of a processor hold.
    Remote,
    /// `sped` on files of this size that are not in memory, with one request of [`COLD_EACH`]. The others are for the
    /// smallest file: a read that is the only work finds all that it needs in the processor's caches, and costs half as
    /// much as one between answers from memory.
    Missed(u64),
    /// This engine on the smaller ones.
    MissedBy(&'static str),
    /// This engine, which does not hold content in the place of the page cache, on the second ones.
    MissedLongerBy(&'static str),
    /// `pipelined` on the longest: where something is missing now and then it looks at each page of long content before
    /// it sends it.
    MissedByStages,
    /// `sped` on [`LONG_FILES`] of the longest cold files, without a limit: they leave from the page cache. One request
    /// of [`COLD_EACH`] is for one of them, since a server that sends nothing else, and has its receiver read nothing
    /// else, is another one.
    Long,
    /// This engine on them.
    LongBy(&'static str),
    /// `amped` on long files that are in memory and that helpers read to memory of the server's own.
    Copied,
    /// `sped` with two workers, of which one shares its processor with the load, on a file of this size.
    Shared(u64),
    /// This engine likewise, on the smallest file.
    SharedBy(&'static str),
    /// A cache filled with files of many sizes, by one thread.
    Filled,
    /// Some of these files, all in the cache.
    Varied,
    /// A cache filled by the threads of a pool.
    FilledByThreads,
}

/// Engines whose own cost beyond the steps is measured, and for content of each size.
pub(super) const ENGINES: [&str; 8] =
    ["amped", "co-amped", "proactor", "pipelined", "thread-pool", "thread-per-session", "thread-per-request", "mp"];
/// Engines whose cost for each unit of long content in the page cache is measured beside that of `sped`.
pub(super) const LONG_SENDERS: [&str; 4] = ["co-amped", "thread-pool", "thread-per-session", "mp"];
/// Engines whose cost for another file than before is measured beside that of `sped`, which is the first. A process of
/// `mp` does not hold so many files.
pub(super) const VARIED: [&str; 7] =
    ["sped", "amped", "co-amped", "proactor", "pipelined", "thread-pool", "thread-per-session"];
/// Engines whose reads from disk are measured beside those of `sped`. `amped` is the first.
pub(super) const READERS: [&str; 7] =
    ["amped", "co-amped", "pipelined", "proactor", "thread-pool", "thread-per-session", "mp"];
/// Readers whose pages stay in the page cache as well, where the kernel has to make room for each.
pub(super) const PAGE_CACHERS: [&str; 2] = ["co-amped", "mp"];
/// Engines whose clients take another time than those of `sped` where they share a processor with a worker: its loop
/// does not wait by epoll_wait(2).
pub(super) const SHARERS: [&str; 1] = ["proactor"];
/// Content of the trials with two workers.
pub(super) const SHARED_SIZES: [u64; 2] = [SIZES[0], 20_000];

impl Name {
    /// All of them.
    pub(in crate::simulator) fn all() -> Vec<Name> {
        let mut names: Vec<Name> = SIZES.map(Name::Size).into_iter().chain(BATCHES.map(Name::Batch)).collect();
        names.extend([Name::NewConnections, Name::OneClient, Name::Untranslated, Name::UntranslatedLonger]);
        names.extend([Name::UntranslatedLongest, Name::Remote, Name::Copied]);
        names.extend([Name::Far, Name::FarLonger, Name::Filled, Name::FilledByThreads]);
        names.extend(VARIED.map(Name::Many));
        names.extend(SHARED_SIZES.map(Name::Shared));
        names.extend(SHARERS.map(Name::SharedBy));
        names.extend(COLD_SIZES.map(Name::Missed));
        names.extend(ENGINES.map(Name::Engine));
        names.extend([Name::Few("pipelined"), Name::SpreadThreads, Name::Long]);
        names.extend(READERS.map(Name::MissedBy));
        names.extend(LONG_SENDERS.map(Name::LongBy));
        names.push(Name::MissedByStages);
        names.extend(PAGE_CACHERS.map(Name::MissedLongerBy));
        names.extend(ENGINES.iter().flat_map(|engine| SIZES[1..].iter().map(|&size| Name::Content(engine, size))));
        names.push(Name::Varied);
        names
    }

    /// The key that it is kept under.
    pub(in crate::simulator) fn key(self) -> Key {
        Key { scenario: format!("calibrate: {self:?}"), engine: self.architecture().into(), workers: self.workers() }
    }

    /// The engine.
    pub(in crate::simulator) fn architecture(self) -> &'static str {
        match self {
            Name::Engine(engine) | Name::Content(engine, _) | Name::Few(engine) => engine,
            Name::Many(engine) | Name::MissedBy(engine) | Name::LongBy(engine) => engine,
            Name::MissedLongerBy(engine) | Name::SharedBy(engine) => engine,
            Name::SpreadThreads => "thread-per-request",
            Name::Copied => "amped",
            Name::MissedByStages => "pipelined",
            Name::FilledByThreads => "thread-pool",
            _ => "sped",
        }
    }

    pub(super) fn workers(self) -> u32 {
        if matches!(self, Name::Shared(_) | Name::SharedBy(_) | Name::SpreadThreads) { 2 } else { 1 }
    }

    pub(super) fn connections(self) -> u32 {
        match self {
            Name::OneClient => 1,
            Name::Few(_) => CONNECTIONS_FEW,
            _ => CONNECTIONS,
        }
    }

    pub(super) fn usage(self) -> Use {
        match self {
            Name::NewConnections => Use::New,
            Name::Batch(batch) => Use::Measurements { batch },
            _ => Use::Measurements { batch: 1 },
        }
    }

    pub(super) fn cache_bytes(self) -> u64 {
        match self {
            Name::Untranslated | Name::UntranslatedLonger => CACHE_BYTES_LEAST,
            Name::MissedBy("mp") | Name::MissedLongerBy("mp") => CACHE_BYTES_LEAST,
            Name::MissedByStages | Name::MissedLongerBy(_) => LIMITED_CACHE_BYTES,
            Name::UntranslatedLongest | Name::Missed(_) | Name::MissedBy(_) | Name::Copied => LIMITED_CACHE_BYTES,
            Name::Filled | Name::FilledByThreads => MIXED_CACHE_BYTES,
            Name::Engine("mp") | Name::Content("mp", _) => PROCESS_CACHE_BYTES,
            _ => CACHE_BYTES,
        }
    }

    pub(super) fn warm_up_requests(self) -> u64 {
        match self {
            // Each of 24 threads has to have met them.
            Name::Many(_) => FAR_PASSES * (MANY_FILES as u64) * u64::from(CONNECTIONS),
            Name::Far => FAR_PASSES * FAR_SMALL_FILES as u64,
            Name::FarLonger => FAR_PASSES * FAR_LONGER_FILES as u64,
            Name::Remote => FAR_PASSES * LONGER_FILES as u64,
            Name::Varied => FAR_PASSES * MIXED_FILES / VARIED_EACH as u64,
            // Until the memory is full.
            Name::Missed(size) => LIMIT_BYTES / size * COLD_EACH,
            Name::MissedByStages => LIMIT_BYTES / COLD_SIZES[2] * COLD_EACH,
            Name::MissedLongerBy(_) => LIMIT_BYTES / COLD_SIZES[1] * COLD_EACH,
            // Until each has been found.
            Name::Long | Name::LongBy(_) => FAR_PASSES * LONG_FILES as u64 * COLD_EACH,
            Name::MissedBy(_) => LIMIT_BYTES / COLD_SIZES[0] * COLD_EACH,
            _ => 0,
        }
    }

    /// Whether what is asked for is in the cache and mostly in none of the processor's.
    pub(super) fn is_far(self) -> bool {
        matches!(self, Name::Many(_) | Name::Far | Name::FarLonger | Name::Remote | Name::Varied)
    }

    /// The telling ones of its trials: what threads of two workers cost each other is seen only where both have
    /// clients. If one has next to none in all of them, those in which it has most.
    pub(super) fn telling(self, trials: Vec<Observed>) -> Vec<Observed> {
        if self != Name::SpreadThreads {
            return trials;
        }
        let least = |trial: &Observed| least_clients(&trial.client_workers, self.workers());
        let enough = trials.iter().map(least).max().unwrap_or(0).min(SPREAD_CLIENTS_LEAST);
        trials.into_iter().filter(|trial| least(trial) >= enough).collect()
    }

    /// Whether the kernel works in threads of its own for it, which looks like others.
    pub(super) fn occupies_the_kernel(self) -> bool {
        matches!(self.architecture(), "thread-per-request" | "mp")
    }

    /// Whether the smallest file is asked for, and one time of [`COLD_EACH`] another one.
    pub(super) fn is_between_answers(self) -> bool {
        self.is_cold() || matches!(self, Name::Long | Name::LongBy(_))
    }

    /// Whether something of what is asked for has to be read from disk.
    pub(super) fn is_cold(self) -> bool {
        matches!(self, Name::Missed(_) | Name::MissedBy(_) | Name::MissedLongerBy(_) | Name::MissedByStages)
    }

    /// Whether the server is held to little memory.
    pub(super) fn is_limited(self) -> bool {
        self.is_cold() || self == Name::Copied
    }
}
