//! How bytes and names are waited for, read and sent: strategies that engines choose from.
//!
//! Owns: what this kernel can do ([`KernelFeatures`]) and the counters that show which way was taken. Knows no HTTP.

#![forbid(unsafe_code)]

pub mod accept;
pub mod file_state;
pub mod growth;
pub mod listen;
pub mod log;
pub mod new_file;
pub mod open;
pub mod page_cache;
pub mod partial_file;
pub mod properties;
pub mod read;
pub mod scm_rights;
pub mod send;
pub mod spool_file;
pub mod wait;
pub mod waker;
pub mod watch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use lamna_proto::counter::{Row, Unit};
use lamna_proto::resource::HeadTooLong;
use lamna_sys::shared_memory::{SharedMemory, shared_counters};

use crate::page_cache::residency_cache::ResidencyCache;

/// Whether a step may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It must not: what would block fails with [`Blocked::Disk`].
    No,
    /// It may.
    Yes,
}

/// Why a step did not give a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// It would have to wait for the disk, or the kernel cannot tell.
    Disk,
    /// It failed.
    Failed(rustix::io::Errno),
}

/// The fields of a site and what a name adds to them are too long for a head.
impl From<HeadTooLong> for Blocked {
    fn from(HeadTooLong: HeadTooLong) -> Blocked {
        Blocked::Failed(rustix::io::Errno::OVERFLOW)
    }
}

impl From<rustix::io::Errno> for Blocked {
    fn from(errno: rustix::io::Errno) -> Blocked {
        Blocked::Failed(errno)
    }
}

/// Which optional system calls may be used, and what came of them. Shared by all workers (the counters by those of
/// other processes, too); counters are touched only where the disk is, never on the cached path.
#[derive(Debug)]
pub struct KernelFeatures {
    /// `openat2(2)`; without it names are resolved by path and checked afterwards.
    pub openat2: AtomicBool,
    /// `RESOLVE_CACHED` of `openat2(2)`; without it every open counts as blocking.
    pub resolve_cached: AtomicBool,
    /// `RWF_NOWAIT` of `preadv2(2)`; without it every read counts as blocking.
    pub nowait: AtomicBool,
    /// `cachestat(2)`; without it residency is tested page by page with `preadv2`.
    pub cachestat: AtomicBool,
    /// `io_uring(7)`; without it another engine takes the place of `proactor`.
    pub io_uring: AtomicBool,
    /// Counters of the ways taken.
    pub counters: SharedMemory<Counters>,
    /// Ranges that were found in memory a moment ago.
    pub lately: ResidencyCache,
}

shared_counters! {
    /// Which way disk operations went.
    pub struct Counters {
        /// Names resolved from the dentry cache.
        pub open_cached = operation(&[("operation", "open"), ("result", "cached")])
            .family("Disk operations, and whether they would have blocked.").json("disk.open_cached").text("names", "cached");
        /// Names that would have blocked.
        pub open_blocked = operation(&[("operation", "open"), ("result", "blocked")])
            .json("disk.open_blocked").text("names", "would have blocked");
        /// Reads served from the page cache.
        pub read_cached = operation(&[("operation", "read"), ("result", "cached")])
            .json("disk.read_cached").text("reads", "cached");
        /// Reads that would have blocked.
        pub read_blocked = operation(&[("operation", "read"), ("result", "blocked")])
            .json("disk.read_blocked").text("reads", "would have blocked");
        /// Residency tests by `cachestat`.
        pub tested_by_cachestat = operation(&[("operation", "test"), ("result", "cachestat")])
            .json("disk.tested_by_cachestat").text("residency tests", "by cachestat");
        /// Residency tests page by page.
        pub tested_by_page = operation(&[("operation", "test"), ("result", "page")])
            .json("disk.tested_by_page").text("residency tests", "by page");
        /// Stretches sent without a test because none works here, or after a test failed twice.
        pub untested = operation(&[("operation", "test"), ("result", "none")])
            .json("disk.untested").text("residency tests", "not possible");
        /// Jobs given to helpers.
        pub helper_jobs = Row::counter("lamna_helper_jobs_total").json("disk.helper_jobs").text("helper jobs", "given");
        /// How long jobs have waited for a helper thread; those of helper processes and stages do not say.
        pub helper_wait_us = Row::counter("lamna_helper_wait_seconds_total").unit(Unit::Microseconds)
            .json("disk.helper_wait_us").text("helper jobs", "waited");
        /// Stretches of which only their history tells whether they are in memory, and that were likely to be.
        pub likely = Row::UNTOLD;
        /// Those of them for which the disk had to be waited for all the same.
        pub mispredicted = Row::UNTOLD;
        /// Jobs that a helper has begun.
        pub helper_jobs_begun = Row::UNTOLD;
        /// Jobs that are done.
        pub helper_jobs_done = Row::UNTOLD;
        /// The most jobs that were under way at a time, since somebody last looked and set it to zero.
        pub helper_jobs_peak = Row::UNTOLD;
    }
}

/// The row of a disk operation.
const fn operation(labels: &'static [(&'static str, &'static str)]) -> Row {
    Row::counter("lamna_disk_operations_total").labels(labels)
}

impl Counters {
    /// Adds one to `counter`.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    /// A helper begins a job that has waited for it so long.
    pub fn begin_helper_job(&self, wait_us: u64) {
        let begun = self.helper_jobs_begun.fetch_add(1, Relaxed) + 1;
        self.helper_wait_us.fetch_add(wait_us, Relaxed);
        self.helper_jobs_peak.fetch_max(begun.saturating_sub(self.helper_jobs_done.load(Relaxed)), Relaxed);
    }

    /// A helper has done a job.
    pub fn end_helper_job(&self) {
        Counters::count(&self.helper_jobs_done);
    }
}

impl Default for KernelFeatures {
    fn default() -> KernelFeatures {
        KernelFeatures {
            openat2: AtomicBool::new(true),
            resolve_cached: AtomicBool::new(true),
            nowait: AtomicBool::new(true),
            cachestat: AtomicBool::new(true),
            io_uring: AtomicBool::new(true),
            counters: SharedMemory::default(),
            lately: ResidencyCache::default(),
        }
    }
}

impl KernelFeatures {
    /// All but the named ones: `openat2`, `nowait`, `cachestat`, `io_uring`; `landlock` and `seccomp` are names, too.
    ///
    /// # Errors
    /// The first name that is none of these.
    pub fn without(names: &[String]) -> Result<KernelFeatures, String> {
        let abilities = KernelFeatures::default();
        for name in names {
            match name.as_str() {
                "openat2" => abilities.openat2.store(false, Relaxed),
                "nowait" => abilities.nowait.store(false, Relaxed),
                "cachestat" => abilities.cachestat.store(false, Relaxed),
                "io_uring" => abilities.io_uring.store(false, Relaxed),
                // They are asked for by who makes sandboxes.
                "landlock" | "seccomp" => {}
                other => return Err(other.to_owned()),
            }
        }
        Ok(abilities)
    }
}
