//! The six phases: the files served, the clients and their requests, and the state in which they begin.
//!
//! Owns: the document root and the jobs of each phase. In every phase some ask as fast as they are answered, which
//! shows what the server can do; and beside them a *visitor* asks for small files at times that do not depend on the
//! server, which shows what it is like to be a client of it. A client that asks as fast as it is answered sees one slow
//! answer when a server stops for a second, and the visitor sees all that came due in that second.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lamna_sim::kernel::Stream;
use lamna_sim::workload::zipf;
use rustix::fs::syncfs;

use super::stability::Constant;
use crate::compare::prepare::evict;
use crate::load::Plan;
use crate::load::content::attach_contents;
use crate::load::plan::{Order, Pace, RequestForm, Target};
use crate::replay::{File, site};

/// Changes with everything in this file that changes figures.
pub(super) const VERSION: u32 = 3;

/// The beginning of a phase, which is judged apart: the server has to notice that the load is another.
pub(super) const SETTLING: Duration = Duration::from_secs(2);

/// Small files: from 500 bytes on, each 25 bytes longer than the one before.
const SMALL_FILES: u64 = 128;
const SMALL_BYTES_MAX: u64 = 500 + 25 * SMALL_FILES;
/// Files of a page's size that a fresh server is asked for, by Zipf's law.
const PAGE_FILES: usize = 3_000;
/// Files of a page's size that are asked for once: as many as a slow disk has not read within the longest phase.
const COLD_FILES: usize = 6_000;
const PAGE_BYTES: u64 = 15_000;
/// Beyond what is held in the server's memory; together they fit into the kernel's.
const LARGE_FILES: usize = 16;
const LARGE_BYTES: u64 = 1 << 20;
/// The least that the kernel keeps or gives up.
const PAGE: usize = 4096;
/// How often [`Phase::keep`] is due.
pub(super) const KEEP: Duration = Duration::from_millis(200);

/// Connections that ask as fast as they are answered.
const ACTIVE: usize = 64;
/// Connections that ask for files that have to be read from the disk.
const COLD_READERS: usize = 16;
/// Connections that load large files.
const DOWNLOADS: usize = 16;
/// All connections of the crowd: the active, the slow, the visitor's, and the silent rest.
const CROWD: usize = 10_000;
/// Those of them that ask for nothing quickly.
pub(super) const CROWD_HELD: usize = CROWD - ACTIVE - VISITOR_CONNECTIONS;
const SLOW_READERS: usize = 100;
const SLOW_READ_RATE: u32 = 50_000;

/// Requests a second of the visitor, at random times.
const VISITOR_RATE: f64 = 200.0;
/// So many that none of its requests waits for another of its own, unless each takes a third of a second.
const VISITOR_CONNECTIONS: usize = 64;
/// The files that it asks for.
const VISITOR_FILES: usize = 16;

/// A kind of load, and the time in which it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A server that has just been started, none of whose files are in memory.
    ColdStart,
    /// Small files from memory.
    Cached,
    /// The same, and others ask for files on a slow disk.
    SlowDisk,
    /// Thousands of open connections, most of them silent, some slow readers, and the same few that are active.
    Crowd,
    /// Large files from the kernel's memory.
    Large,
    /// A new connection for each request.
    NewConnections,
}

/// The role of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its answers are what the phase is measured by.
    Load,
    /// It is the visitor's.
    Visitor,
    /// It keeps connections open, slow or silent.
    Holds,
}

/// A part of a phase's load.
pub(super) struct Job {
    pub(super) role: Role,
    pub(super) plan: Plan,
}

impl Phase {
    /// In the order in which they are run. The cold start is first, because then it is one.
    pub const ALL: [Phase; 6] =
        [Phase::ColdStart, Phase::Cached, Phase::SlowDisk, Phase::Crowd, Phase::Large, Phase::NewConnections];

    /// In results and tables.
    pub fn name(self) -> &'static str {
        match self {
            Phase::ColdStart => "cold start",
            Phase::Cached => "cached small files",
            Phase::SlowDisk => "slow disk mix",
            Phase::Crowd => "10,000 connections",
            Phase::Large => "large downloads",
            Phase::NewConnections => "new connections",
        }
    }

    /// Brings files into memory, or out of it, before the phase begins.
    pub(super) fn prepare(self, site: &Site) {
        match self {
            Phase::ColdStart => evict(&site.directory),
            Phase::SlowDisk => evict(&site.directory.join(COLD)),
            Phase::Crowd | Phase::Large => site.keep_large(),
            // Or the first engine would read them from the disk for all others.
            Phase::Cached => site.read(&site.small, SMALL_BYTES_MAX),
            Phase::NewConnections => {}
        }
    }

    /// Brings files into memory again, every [`KEEP`] while the phase lasts.
    pub(super) fn keep(self, site: &Site) {
        if matches!(self, Phase::Crowd | Phase::Large) {
            site.keep_large();
        }
    }

    /// The jobs of the phase against a server at `address`, for `length`.
    pub(super) fn jobs(self, site: &Site, address: SocketAddr, length: Duration, processors: &[usize]) -> Vec<Job> {
        let asks = Asks { site, address, length, processors, seed: self as u64 };
        let mut jobs = vec![asks.visitor()];
        let small = |connections| Job { role: Role::Load, plan: asks.closed(&site.small, connections) };
        match self {
            Phase::ColdStart => jobs.push(asks.popular()),
            Phase::Cached => jobs.push(small(ACTIVE)),
            Phase::SlowDisk => jobs.extend([small(ACTIVE), asks.cold()]),
            Phase::Crowd => jobs.extend([small(ACTIVE), asks.slow(), asks.silent()]),
            Phase::Large => jobs.push(Job { role: Role::Load, plan: asks.closed(&site.large, DOWNLOADS) }),
            Phase::NewConnections => jobs.push(Job { role: Role::Load, plan: asks.anew() }),
        }
        jobs
    }
}

/// The document root.
pub(super) struct Site {
    pub(super) directory: PathBuf,
    small: Vec<String>,
    pages: Vec<String>,
    cold: Vec<String>,
    large: Vec<String>,
    /// For the visitor, who looks at what it gets.
    checked: Vec<Target>,
}

/// The directory of the files that are asked for once.
const COLD: &str = "cold";
/// The directory of those that everybody asks for.
const SMALL: &str = "small";

impl Site {
    /// Builds what is not there yet below `work`.
    pub(super) fn build(work: &Path) -> Result<Site, String> {
        let directory = work.join("phases");
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        let in_thousands = |kind: &str, number: usize| format!("/{kind}/{}/{number}.html", number / 1000);
        let sized = |bytes| move |path: &String| File { path: path.clone(), bytes };
        let small: Vec<String> = (0..SMALL_FILES).map(|number| format!("/{SMALL}/{number}.html")).collect();
        let pages: Vec<String> = (0..PAGE_FILES).map(|number| in_thousands("pages", number)).collect();
        let cold: Vec<String> = (0..COLD_FILES).map(|number| in_thousands(COLD, number)).collect();
        let large: Vec<String> = (0..LARGE_FILES).map(|number| format!("/large/{number}.bin")).collect();
        let mut files: Vec<File> =
            (0..).zip(&small).map(|(number, path)| File { path: path.clone(), bytes: 500 + 25 * number }).collect();
        files.extend(pages.iter().chain(&cold).map(sized(PAGE_BYTES)));
        files.extend(large.iter().map(sized(LARGE_BYTES)));
        fs::create_dir_all(&directory).map_err(failed)?;
        site::build(&files, &directory).map_err(|error| error.to_string())?;
        // Pages that are not on the disk yet cannot be forgotten.
        let root = fs::File::open(&directory).map_err(failed)?;
        syncfs(&root).map_err(|error| failed(error.into()))?;
        let mut checked: Vec<Target> = small[..VISITOR_FILES].iter().map(|path| form(false).target(path)).collect();
        attach_contents(&mut checked, &directory).map_err(|error| error.to_string())?;
        Ok(Site { directory, small, pages, cold, large, checked })
    }
}

/// A load of `rate` requests a second that stays the same for `length`.
pub(super) fn at_rate(
    constant: Constant,
    rate: f64,
    site: &Site,
    address: SocketAddr,
    length: Duration,
    processors: &[usize],
) -> Vec<Plan> {
    let asks = Asks { site, address, length, processors, seed: 0 };
    let even = |rate, plan| Plan {
        pace: Pace::Rate { per_second: rate, poisson: true },
        warmup: Duration::ZERO,
        duration: Some(length),
        timeout: Duration::from_secs(20),
        ..plan
    };
    match constant {
        Constant::Steady => vec![even(rate, asks.closed(&site.small, ACTIVE))],
        Constant::Boundary => {
            vec![even(rate / 2.0, asks.closed(&site.small, ACTIVE)), even(rate / 2.0, asks.anew())]
        }
    }
}

impl Site {
    /// Has the large files in the kernel's memory, without the server's limit. Where the machine takes back what seems
    /// not to be used (DAMON-based reclaim), content that is only sent, and never read, seems so after seconds; a byte
    /// read of each page shows that it is used.
    fn keep_large(&self) {
        self.read(&self.large, LARGE_BYTES);
    }

    /// Reads of each page of the first `bytes` of these files.
    fn read(&self, paths: &[String], bytes: u64) {
        let mut byte = [0];
        for path in paths {
            let Ok(file) = fs::File::open(self.directory.join(path.trim_start_matches('/'))) else { continue };
            (0..bytes).step_by(PAGE).for_each(|at| _ = file.read_at(&mut byte, at));
        }
    }
}

/// The clients of `address` in one phase.
struct Asks<'a> {
    site: &'a Site,
    address: SocketAddr,
    length: Duration,
    processors: &'a [usize],
    seed: u64,
}

impl Asks<'_> {
    /// All phases have this in common. The beginning counts as warm-up.
    fn plan(&self, targets: Vec<Target>) -> Plan {
        Plan {
            processors: self.processors.to_vec(),
            warmup: SETTLING,
            duration: Some(self.length.saturating_sub(SETTLING)),
            timeout: self.length * 2,
            seed: self.seed + 1,
            ..Plan::simple(self.address, targets)
        }
    }

    fn closed(&self, paths: &[String], connections: usize) -> Plan {
        Plan { connections, ..self.plan(paths.iter().map(|path| form(false).target(path)).collect()) }
    }

    fn visitor(&self) -> Job {
        let plan = Plan {
            connections: VISITOR_CONNECTIONS,
            pace: Pace::Rate { per_second: VISITOR_RATE, poisson: true },
            ..self.plan(self.site.checked.clone())
        };
        Job { role: Role::Visitor, plan }
    }

    /// Zipf's law over files none of which are in memory.
    fn popular(&self) -> Job {
        let weights = zipf(PAGE_FILES, 1.0);
        let mut plan = self.closed(&self.site.pages, ACTIVE);
        plan.targets.iter_mut().zip(weights).for_each(|(target, weight)| target.weight = weight);
        Job { role: Role::Load, plan }
    }

    /// Files that have not been read lately, none of them twice.
    fn cold(&self) -> Job {
        let mut order: Vec<u32> = (0..self.site.cold.len() as u32).collect();
        let mut random = Stream::new(self.seed, "cold");
        (1..order.len()).rev().for_each(|last| order.swap(last, random.below(last as u64 + 1) as usize));
        let order = Order::Sequence { targets: Arc::from(order), looped: true };
        Job { role: Role::Load, plan: Plan { order, ..self.closed(&self.site.cold, COLD_READERS) } }
    }

    fn slow(&self) -> Job {
        let plan = self.closed(&self.site.large, SLOW_READERS);
        Job { role: Role::Holds, plan: Plan { read_rate: Some(SLOW_READ_RATE), ..plan } }
    }

    fn silent(&self) -> Job {
        let silent = CROWD_HELD - SLOW_READERS - 1;
        let plan = Plan {
            // One connection asks once, so that the job has a length; all others are idle.
            pace: Pace::Closed { think: Duration::from_secs(3600) },
            idle_connections: silent,
            ..self.closed(&self.site.small, 1)
        };
        Job { role: Role::Holds, plan }
    }

    fn anew(&self) -> Plan {
        let targets = self.site.small.iter().map(|path| form(true).target(path)).collect();
        Plan { connections: ACTIVE, new_connections: true, ..self.plan(targets) }
    }
}

fn form(close: bool) -> RequestForm {
    RequestForm { host: "localhost".to_owned(), close, ..RequestForm::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_a_visitor_and_a_load_that_is_measured() {
        let paths = vec!["/a".to_owned()];
        let checked = vec![form(false).target("/a")];
        let (small, pages, cold, large) = (paths.clone(), vec!["/p".to_owned(); PAGE_FILES], paths.clone(), paths);
        let site = Site { directory: PathBuf::new(), small, pages, cold, large, checked };
        for phase in Phase::ALL {
            let jobs = phase.jobs(&site, ([127, 0, 0, 1], 1).into(), Duration::from_secs(8), &[]);
            let count = |role| jobs.iter().filter(|job| job.role == role).count();
            assert_eq!(count(Role::Visitor), 1, "{phase:?}");
            assert!(count(Role::Load) >= 1, "{phase:?}");
        }
        let crowd = Phase::Crowd.jobs(&site, ([127, 0, 0, 1], 1).into(), Duration::from_secs(8), &[]);
        let connections: usize = crowd.iter().map(|job| job.plan.connections + job.plan.idle_connections).sum();
        assert_eq!(connections, CROWD);
    }
}
