//! The files that are served in the trials of a calibration, and making a trial on them.
//!
//! Owns: the files, beneath the plan's folder, and the control groups of the trials that read from disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lamna_sim::kernel::Stream;
use lamna_sim::parameters::DiskParameters;

use super::calibration::Plan;
use super::name::{
    COLD_BYTES, COLD_EACH, COLD_SIZES, COPIED_BYTES, COPIED_FILES, FAR_LONGER_FILES, FAR_SMALL_FILES, LIMIT_BYTES,
    LONG_FILES, LONGER_FILES, MANY_FILES, MIXED_BYTES_LEAST, MIXED_BYTES_MOST, MIXED_FILES, Name, SIZES, SMALL_FILES,
    VARIED_EACH, WATCHED_AFTER,
};
use super::steps::Steps;
use crate::cgroup::{Groups, Limits, NotPermitted};
use crate::process::confined;
use crate::simulator::disk;
use crate::simulator::load::Target;
use crate::simulator::server::ServerSettings;
use crate::simulator::trial::{ATTEMPTS, Observed, Trial};

/// Files to serve, made.
pub(in crate::simulator) struct Site<'p> {
    plan: &'p Plan,
    sizes: Vec<Target>,
    closing: Vec<Target>,
    small: Vec<Target>,
    longer: Vec<Target>,
    cold: Vec<Vec<Target>>,
    copied: Vec<Target>,
    mixed: Vec<Target>,
    varied: Vec<Target>,
    /// For the cold trials, where they are permitted.
    limited: Option<Arc<Groups>>,
    /// For all others.
    unlimited: Arc<Groups>,
}

impl<'p> Site<'p> {
    pub(in crate::simulator) fn make(plan: &'p Plan) -> io::Result<Site<'p>> {
        disk::make_files(&plan.scratch.join("sizes"), &SIZES)?;
        disk::make_files(&plan.scratch.join("small"), &[SIZES[0]; SMALL_FILES])?;
        let sizes = (0..).zip(SIZES).map(|(number, size): (u32, u64)| Target::get(&format!("/sizes/{number}"), size));
        let (longer, copied) = ([COLD_SIZES[0]; LONGER_FILES], [COPIED_BYTES; COPIED_FILES]);
        let folders =
            [("cold-0", cold_files(0)), ("cold-1", cold_files(1)), ("cold-2", cold_files(2)), ("mixed", mixed_files())];
        for (folder, files) in folders
            .iter()
            .map(|(folder, files)| (*folder, &files[..]))
            .chain([("longer", &longer[..]), ("copied", &copied)])
        {
            disk::make_files(&plan.scratch.join(folder), files)?;
        }
        Ok(Site {
            plan,
            sizes: sizes.collect(),
            closing: vec![Target::get_and_close("/sizes/0", SIZES[0])],
            small: beneath("/small", &[SIZES[0]; SMALL_FILES]),
            longer: beneath("/longer", &longer),
            cold: (0..COLD_SIZES.len()).map(hot_and_cold).collect(),
            copied: beneath("/copied", &copied),
            varied: beneath("/mixed", &mixed_files()).into_iter().step_by(VARIED_EACH).collect(),
            mixed: beneath("/mixed", &mixed_files()),
            limited: limiting_groups(plan).ok(),
            unlimited: Arc::new(Groups::none()),
        })
    }

    /// Single steps, and the disk.
    pub(in crate::simulator) fn single_steps(&self) -> io::Result<(Steps, DiskParameters)> {
        // The first processor, as the server's.
        Ok((confined(&[0], Steps::measure)?, disk::measure(&self.plan.scratch.join("disk"))?))
    }

    /// Makes one trial.
    pub(in crate::simulator) fn run(&self, name: Name) -> io::Result<Observed> {
        let targets = match name {
            Name::NewConnections => &self.closing[..],
            Name::Untranslated => &self.small[..],
            Name::Many(_) => &self.small[..MANY_FILES],
            Name::Far => &self.small[..FAR_SMALL_FILES],
            Name::FarLonger => &self.longer[..FAR_LONGER_FILES],
            Name::UntranslatedLonger | Name::Remote => &self.longer,
            Name::UntranslatedLongest => &self.cold[1][1..],
            Name::Copied => &self.copied,
            Name::Long | Name::LongBy(_) => &self.cold[2][..=LONG_FILES],
            Name::Missed(size) => &self.cold[COLD_SIZES.iter().position(|&one| one == size).unwrap_or(0)],
            Name::MissedBy(_) => &self.cold[0],
            Name::MissedLongerBy(_) => &self.cold[1],
            Name::MissedByStages => &self.cold[2],
            Name::Filled | Name::FilledByThreads => &self.mixed,
            Name::Varied => &self.varied,
            _ => &self.sizes,
        };
        if name.is_cold() {
            (0..COLD_SIZES.len()).try_for_each(|place| disk::forget_files(&self.cold_folder(place)))?;
        }
        // Made by an earlier go, they may have left the memory.
        match name {
            Name::Untranslated => disk::fetch_files(&self.plan.scratch.join("small"))?,
            Name::UntranslatedLonger => disk::fetch_files(&self.plan.scratch.join("longer"))?,
            Name::UntranslatedLongest => disk::fetch_files(&self.cold_folder(1))?,
            Name::Varied => disk::fetch_files(&self.plan.scratch.join("mixed"))?,
            Name::Long | Name::LongBy(_) => disk::fetch_files(&self.cold_folder(2))?,
            _ => {}
        }
        let groups = self.limited.as_ref().filter(|_| name.is_limited()).unwrap_or(&self.unlimited);
        let trial = Trial {
            server: ServerSettings {
                program: self.plan.program.clone(),
                architecture: name.architecture().into(),
                workers: name.workers(),
                root: self.plan.scratch.clone(),
                cache_bytes: name.cache_bytes(),
                configuration: self.plan.scratch.join("mp.toml"),
                groups: groups.clone(),
                processors: Vec::new(),
                pinned: false,
            },
            connections: name.connections(),
            attempts: if name.occupies_the_kernel() { 1 } else { ATTEMPTS },
            usage: name.usage(),
            targets,
            // A thread of the server's takes its time to watch files that have come into the cache.
            warm_up: if name.is_far() { WATCHED_AFTER } else { self.plan.measured / 2 },
            warm_up_requests: name.warm_up_requests(),
            measured: self.plan.measured,
            measured_requests: 0,
        };
        let mut random = Stream::new(1, "calibrate");
        let observed = match name {
            Name::Size(size) | Name::Shared(size) | Name::Content(_, size) => {
                let place = SIZES.iter().position(|&one| one == size).unwrap_or(0);
                trial.run(|_| place)?
            }
            _ if name.is_between_answers() => {
                let cold = targets.len() as u64 - 1;
                trial.run(|_| if random.below(COLD_EACH) > 0 { 0 } else { 1 + random.below(cold) as usize })?
            }
            _ if targets.len() > SIZES.len() => trial.run(|_| random.below(targets.len() as u64) as usize)?,
            _ => trial.run(|_| 0)?,
        };
        let missing = || format!("{} has no engine {}", self.plan.program.display(), name.architecture());
        observed.ok_or_else(|| io::Error::other(missing()))
    }

    fn cold_folder(&self, place: usize) -> PathBuf {
        self.plan.scratch.join(format!("cold-{place}"))
    }
}

/// For the cold trials; not everybody may have them.
fn limiting_groups(plan: &Plan) -> Result<Arc<Groups>, NotPermitted> {
    // Reads are only counted.
    let limits = Limits { memory_bytes: Some(LIMIT_BYTES), read_iops: Some(u32::MAX) };
    Groups::new(&limits, &plan.scratch).map(Arc::new)
}

/// The smallest file, and cold ones.
fn hot_and_cold(place: usize) -> Vec<Target> {
    let mut targets = vec![Target::get("/sizes/0", SIZES[0])];
    targets.extend(beneath(&format!("/cold-{place}"), &cold_files(place)));
    targets
}

fn cold_files(place: usize) -> Vec<u64> {
    vec![COLD_SIZES[place]; (COLD_BYTES / COLD_SIZES[place]) as usize]
}

/// Log-uniform.
pub(super) fn mixed_files() -> Vec<u64> {
    let ratio = MIXED_BYTES_MOST / MIXED_BYTES_LEAST;
    let size = |number: u64| MIXED_BYTES_LEAST * ratio.powf(number as f64 / MIXED_FILES as f64);
    (0..MIXED_FILES).map(|number| size(number) as u64).collect()
}

fn beneath(folder: &str, sizes: &[u64]) -> Vec<Target> {
    sizes.iter().enumerate().map(|(number, &size)| Target::get(&format!("{folder}/{number}"), size)).collect()
}
