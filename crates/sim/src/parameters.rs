//! Named sets of parameters: what each step costs, on what.
//!
//! A set is a TOML file (`parameters/*.toml` are built in; any other is given by path). The fields are documented here,
//! the values where they stand, each with its source. `lamna sim calibrate` measures a machine and writes such a file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::kernel::Nanos;
use crate::resource::{Discipline, Handover};
use crate::scenario::Scenario;

/// One set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Its name in results.
    pub name: String,
    /// Where the values come from.
    pub source: String,
    /// Processor time of the steps.
    pub costs: Costs,
    /// Processor time of a request that an engine takes beyond these steps, in microseconds, by its name; 0 for those
    /// that are not named.
    #[serde(default)]
    pub engines: BTreeMap<String, f64>,
    /// The same of a read from disk.
    #[serde(default)]
    pub reads: BTreeMap<String, f64>,
    /// The same of each started unit of what is read ([`Costs::read_unit_us`]).
    #[serde(default)]
    pub read_units: BTreeMap<String, f64>,
    /// The same of content, at lengths in ascending order: bytes and microseconds. Content between two of them takes
    /// what the line through both says, shorter content what the first takes, longer content in proportion to the last.
    #[serde(default)]
    pub contents: BTreeMap<String, Vec<(u64, f64)>>,
    /// The same of each unit of long content that leaves from the page cache ([`Costs::file_unit_us`]).
    #[serde(default)]
    pub long_units: BTreeMap<String, f64>,
    /// The same of the clients' processor time for each segment after the first of long content
    /// ([`LoadParameters::segment_us`]).
    #[serde(default)]
    pub long_segments: BTreeMap<String, f64>,
    /// The same for each response while they share processors with the server ([`LoadParameters::shared_us`]).
    #[serde(default)]
    pub shared: BTreeMap<String, f64>,
    /// The same of a request for another file than the one before ([`Costs::varied_us`]).
    #[serde(default)]
    pub varied: BTreeMap<String, f64>,
    /// Scheduling.
    pub processor: ProcessorParameters,
    /// The locks of shared caches.
    pub locks: LockParameters,
    /// The sizes of structures.
    pub memory: MemoryParameters,
    /// How many of what.
    pub concurrency: Concurrency,
    /// Outside the machine.
    pub network: NetworkParameters,
    /// The clients, where a scenario puts them on the server's machine.
    pub load: LoadParameters,
    /// Disks by name.
    pub disks: BTreeMap<String, DiskParameters>,
}

/// Processor time of each step, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Accepting and closing a connection.
    pub connection_us: f64,
    /// Requests over which that is spread. At least 1.
    pub requests_per_connection: u32,
    /// Receiving and parsing a request.
    pub parse_us: f64,
    /// Looking a path up in the translation cache; under the path lock where the cache is shared.
    pub translate_us: f64,
    /// Translating a path that is not there, in addition.
    pub translate_miss_us: f64,
    /// Looking a file up in the data cache; under the cache lock where the cache is shared.
    pub lookup_us: f64,
    /// Sending the header.
    pub header_us: f64,
    /// Sending each started unit of content.
    pub transmit_us: f64,
    /// The unit of `transmit_us`, in bytes.
    pub transmit_unit_bytes: u64,
    /// The resource that `transmit_us` occupies.
    pub transmit_by: TransmitBy,
    /// Content leaves in segments of at most so many bytes; 0: in one.
    #[serde(default)]
    pub segment_bytes: u64,
    /// Each segment after the first, in addition.
    #[serde(default)]
    pub segment_us: f64,
    /// Each started unit of long content that leaves from the page cache, in place of `transmit_us` and `segment_us`:
    /// no processor touches it; 0: as other content.
    #[serde(default)]
    pub file_unit_us: f64,
    /// An event loop's waiting for events, whatever their number.
    pub poll_us: f64,
    /// A thread's waiting for the next request of its own connection.
    pub wait_us: f64,
    /// Giving work to a helper, or a read to the kernel, and hearing that it is done; each.
    pub hand_off_us: f64,
    /// `pipelined`: passing a connection to the next stage, whether that sleeps or not.
    pub pass_us: f64,
    /// `pipelined`: waking the next stage, where it sleeps, in addition.
    pub rouse_us: f64,
    /// A read from disk, beside what its length costs: submitting it, hearing that it is done.
    pub read_us: f64,
    /// Each started unit of a read from disk: finding pages for it, which in a full memory others have to give up.
    pub read_unit_us: f64,
    /// The same for content that the data cache does not take ([`MemoryParameters::content_bytes_max`]).
    #[serde(default)]
    pub read_long_unit_us: f64,
    /// Each started unit of long content that a helper copies from the page cache into memory of the server's own,
    /// which is new to the process each time.
    #[serde(default)]
    pub copy_unit_us: f64,
    /// Making a cached object of a file whose pages are in memory, beside what its length costs: opening, comparing,
    /// writing the head, making room in the cache.
    pub load_us: f64,
    /// Each started unit of that: copying.
    pub load_unit_us: f64,
    /// An event loop's or a stage's attempt to do that without waiting, where it fails because pages are missing.
    pub try_us: f64,
    /// Creating and ending a thread while no other of the process runs on another processor, with what the kernel does
    /// afterwards in threads of its own.
    pub spawn_us: f64,
    /// The same while one does, which the kernel has to tell of each stack that goes.
    pub spawn_shared_us: f64,
    /// Share of the threads made then that have to wait for the memory of the process, which others change. It counts
    /// for each other one that could run.
    #[serde(default)]
    pub spawn_waiting: f64,
    /// Answering with what has its structures in no cache of the processor's own, in addition.
    pub far_us: f64,
    /// Each started unit of content that is in no cache of the processor's own, in addition.
    pub far_unit_us: f64,
    /// The same of content that is in none that processors share, either, in place of that.
    #[serde(default)]
    pub remote_unit_us: f64,
    /// Answering with another file than before, in addition: the nearest cache does not have its structures, and what a
    /// processor has learnt of the way through the code is of less use.
    #[serde(default)]
    pub varied_us: f64,
    /// The cost of waking and running a process beyond a thread: another address space.
    pub process_us: f64,
}

/// Whose time transmission takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransmitBy {
    /// A processor's: copying, checksums, protocol.
    Processor,
    /// The network's: the response is under way so long, and a blocking sender waits for it.
    Network,
}

/// Scheduling, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorParameters {
    /// Going over from one thread or process to another.
    pub switch_us: f64,
    /// The further cost for a task of the server's to begin where clients on the same machine have just worked: another
    /// program, in other memory. The cost for the clients is [`LoadParameters::shared_us`].
    #[serde(default)]
    pub program_us: f64,
    /// The scheduling discipline of a processor.
    #[serde(default)]
    pub discipline: Discipline,
    /// How long a thread runs while others wait. With the discipline `fair`: the tick, at which that is looked at.
    pub quantum_us: f64,
    /// How long it runs while one waits that was woken from a sleep. With the discipline `fair`: the slice.
    pub granularity_us: f64,
    /// How long a processor that sleeps takes to begin again.
    pub wake_us: f64,
    /// The further cost of a task that begins on a processor that was idle: going idle and coming back.
    pub rest_us: f64,
    /// The cost of having an idle processor begin, for the task that does so.
    #[serde(default)]
    pub call_us: f64,
    /// How long a processor is idle before it sleeps.
    pub sleeps_after_us: f64,
    /// How fast the machine was: what a fixed piece of work took that has nothing to do with the server, see
    /// `lab/src/simulator/micro.rs`. 0: not known.
    #[serde(default)]
    pub yardstick_us: f64,
}

/// The locks of shared caches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockParameters {
    /// The owner of a released lock.
    pub handover: Handover,
    /// Locks among which the files of the data cache are divided. At least 1.
    pub shards: u32,
    /// Taking and releasing one that is free. Part of each look-up under a lock, in addition.
    pub acquire_us: f64,
    /// Whether each task has a front of the caches to itself, so that look-ups take no lock.
    pub front: bool,
}

/// Whether processes that keep their own structures also keep their own copy of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataCopies {
    /// The content is mapped and exists once (Table 1's formulas).
    Shared,
    /// Each process has its share of the memory to itself.
    Private,
    /// Each process of `mp` has, and those of the others have not.
    PrivateMp,
}

/// The sizes of structures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryParameters {
    /// Structures of a cached file.
    pub entry_bytes: u64,
    /// Paths in a translation cache; at least 1.
    pub translation_entries: u64,
    /// How long a translation is used without looking at the file system again; 0 is for ever.
    pub translation_fresh_us: f64,
    /// A thread.
    pub thread_bytes: u64,
    /// A helper process.
    pub helper_bytes: u64,
    /// Mean size of a cached file, from which the number of entries follows.
    pub file_bytes_mean: u64,
    /// Copies of data in several processes.
    pub data_copies: DataCopies,
    /// Longer files are not copied into the data cache but sent from the page cache, where there is one; 0: none are.
    pub content_bytes_max: u64,
    /// Nor is content that is longer than this part of the data cache, which it would push too much out of: 8 for an
    /// eighth; 0: any is.
    #[serde(default)]
    pub content_share: u64,
    /// Files that a process's own cache holds at most; 0: as many as there is room for.
    #[serde(default)]
    pub process_entries: u64,
    /// The size of a cache of one processor's own, for structures and content; 0: memory is always near.
    pub near_bytes: u64,
    /// The size of the cache that processors share; 0: content that is not near is far.
    #[serde(default)]
    pub far_bytes: u64,
    /// The memory of a process of the server beside its caches.
    pub process_bytes: u64,
    /// Memory that the data cache really takes for each byte that it counts, where one thread fills it: what an
    /// allocator cannot use. At least 1.
    pub held_ratio: f64,
    /// The same where several threads do, each with an arena of its own. At least 1.
    pub held_ratio_threads: f64,
}

/// How many of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// `mp`.
    pub processes_per_processor: u32,
    /// `thread-pool`.
    pub threads_per_processor: u32,
    /// `amped`, `co-amped`, `pipelined`: read helpers per event loop or pool.
    pub read_helpers: u32,
    /// After sending so much of a file an event loop or a stage turns to the next connection.
    pub send_quantum_bytes: u64,
    /// The same for content that is sent from the page cache ([`MemoryParameters::content_bytes_max`]); 0: as above.
    #[serde(default)]
    pub send_file_quantum_bytes: u64,
    /// A helper brings so much long content into the page cache before it is sent; 0: all of a file.
    #[serde(default)]
    pub read_quantum_bytes: u64,
    /// The same where it goes into memory of the server's own.
    #[serde(default)]
    pub copy_quantum_bytes: u64,
    /// `pipelined`: content in memory up to this size leaves together with the header, in the stage of that.
    pub send_with_header_bytes: u64,
    /// Whether a stage wakes the next one when it has no more to do, once for all that it has passed on, and not for
    /// each.
    #[serde(default)]
    pub passes_batches: bool,
}

/// Outside the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkParameters {
    /// Rate of the link; 0 if it never limits.
    pub bits_per_s: f64,
    /// From a response to the same client's next request.
    pub client_delay_us: f64,
}

/// A disk; see [`crate::resource::Disk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskParameters {
    /// Before the first byte, on average.
    pub latency_us: f64,
    /// The latency is uniform over `latency_us * (1 - spread)` to `latency_us * (1 + spread)`; 0 to 1.
    pub spread: f64,
    /// Shared by all reads under way. Positive.
    pub bytes_per_s: f64,
    /// Reads whose latencies may overlap. At least 1.
    pub parallelism: u32,
    /// A file is read by requests of at most so many bytes; 0: by one.
    #[serde(default)]
    pub request_bytes: u64,
    /// So many requests are admitted in a second, as by `blkio.throttle.read_iops_device`; 0: any number.
    #[serde(default)]
    pub requests_per_s: f64,
    /// The throttle's slice: requests admitted in it may begin at once at its beginning; the next has to wait for its
    /// end.
    #[serde(default)]
    pub throttle_slice_us: f64,
}

/// The thread of clients on the server's machine: its processor time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadParameters {
    /// Waiting for responses, whatever their number.
    pub poll_us: f64,
    /// Receiving a response, beside its content.
    pub receive_us: f64,
    /// Receiving each started unit of content ([`Costs::transmit_unit_bytes`]).
    pub receive_unit_us: f64,
    /// Receiving each segment after the first ([`Costs::segment_bytes`]), in addition, where it arrives by itself: in
    /// long content, which is sent by turns ([`Parameters::long_segments`] has what engines differ by), and by a thread
    /// that sleeps, which is woken for the first.
    #[serde(default)]
    pub segment_us: f64,
    /// The same where it has been sent at once and is there before the thread, which never sleeps, has looked again.
    #[serde(default)]
    pub segment_at_once_us: f64,
    /// Receiving content of another length than before, in addition.
    #[serde(default)]
    pub varied_us: f64,
    /// A request and its response, in addition, where the thread sleeps and shares its processor with a worker.
    #[serde(default)]
    pub shared_us: f64,
    /// Receiving each started unit of content there, in addition.
    #[serde(default)]
    pub shared_unit_us: f64,
    /// Sending a request.
    pub send_us: f64,
    /// Waking the thread that sleeps until the request comes, in addition.
    pub rouse_us: f64,
}

/// Why a set could not be had.
#[derive(Debug)]
pub enum ParametersError {
    /// Neither a built-in name nor a readable file.
    Unreadable(String, std::io::Error),
    /// Not of the format.
    Malformed(String, Box<toml::de::Error>),
    /// A value outside its bounds.
    OutOfBounds(&'static str),
}

impl fmt::Display for ParametersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParametersError::Unreadable(name, error) => {
                write!(f, "parameter set `{name}` is neither built in (paper-2005, linux-2026) nor a file: {error}")
            }
            ParametersError::Malformed(name, error) => write!(f, "parameter set {name}: {error}"),
            ParametersError::OutOfBounds(field) => write!(f, "parameter {field} is out of bounds"),
        }
    }
}

impl std::error::Error for ParametersError {}

impl Parameters {
    /// The set of the PIPELINED paper.
    pub fn paper() -> Parameters {
        parse("paper-2005", include_str!("../parameters/paper-2005.toml")).expect("built in, tested")
    }

    /// The estimate for a machine of today.
    pub fn linux() -> Parameters {
        parse("linux-2026", include_str!("../parameters/linux-2026.toml")).expect("built in, tested")
    }

    /// A built-in set by name, or one from a file.
    pub fn named(name: &str) -> Result<Parameters, ParametersError> {
        match name {
            "paper-2005" => Ok(Self::paper()),
            "linux-2026" => Ok(Self::linux()),
            path => {
                let text = std::fs::read_to_string(Path::new(path));
                parse(path, &text.map_err(|error| ParametersError::Unreadable(path.into(), error))?)
            }
        }
    }

    /// The same machine when the yardstick takes so long: all processor time in proportion. Unchanged where either is
    /// not known (0).
    pub fn at_speed(&self, yardstick_us: f64) -> Parameters {
        let mut set = self.clone();
        if yardstick_us > 0.0 && self.processor.yardstick_us > 0.0 {
            let factor = yardstick_us / self.processor.yardstick_us;
            set.processor_times_mut().for_each(|time| *time *= factor);
            set.processor.yardstick_us = yardstick_us;
        }
        set
    }

    /// The times that processors work, without those that clocks decide: quanta, sleeps, how long a translation holds.
    fn processor_times_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        let Parameters { costs, engines, reads, read_units, contents, long_units, long_segments, .. } = self;
        let Parameters { shared, varied, processor, locks, load, .. } = self;
        [&mut costs.connection_us, &mut costs.parse_us, &mut costs.translate_us, &mut costs.translate_miss_us]
            .into_iter()
            .chain([&mut costs.lookup_us, &mut costs.header_us, &mut costs.transmit_us, &mut costs.segment_us])
            .chain([&mut costs.poll_us, &mut costs.wait_us, &mut costs.hand_off_us, &mut costs.pass_us])
            .chain([&mut costs.rouse_us, &mut costs.read_us, &mut costs.read_unit_us, &mut costs.read_long_unit_us])
            .chain([&mut costs.copy_unit_us, &mut costs.file_unit_us, &mut costs.varied_us, &mut load.varied_us])
            .chain([&mut costs.load_us, &mut costs.load_unit_us, &mut costs.try_us, &mut costs.process_us])
            .chain([&mut costs.spawn_us, &mut costs.spawn_shared_us, &mut costs.far_us, &mut costs.far_unit_us])
            .chain([&mut costs.remote_unit_us])
            .chain([&mut processor.switch_us, &mut processor.wake_us, &mut processor.rest_us, &mut processor.call_us])
            .chain([&mut processor.program_us, &mut load.shared_us, &mut load.shared_unit_us])
            .chain([&mut locks.acquire_us, &mut load.poll_us, &mut load.receive_us, &mut load.receive_unit_us])
            .chain([&mut load.segment_us, &mut load.segment_at_once_us, &mut load.send_us, &mut load.rouse_us])
            .chain(engines.values_mut())
            .chain(reads.values_mut())
            .chain(read_units.values_mut())
            .chain(contents.values_mut().flatten().map(|(_, us)| us))
            .chain(long_units.values_mut())
            .chain(long_segments.values_mut())
            .chain(shared.values_mut())
            .chain(varied.values_mut())
    }

    /// Longer content is only in the page cache, if there is one.
    pub(crate) fn content_bytes_max(&self, scenario: &Scenario) -> u64 {
        let MemoryParameters { content_bytes_max, content_share, .. } = self.memory;
        if content_bytes_max == 0 || scenario.page_cache_bytes == 0 {
            return u64::MAX;
        }
        let of_cache = scenario.data_cache_bytes.checked_div(content_share).filter(|&bytes| bytes > 0);
        of_cache.map_or(content_bytes_max, |bytes| bytes.min(content_bytes_max))
    }

    fn check(&self) -> Result<(), ParametersError> {
        let costs = &self.costs;
        let times = [
            costs.connection_us,
            costs.parse_us,
            costs.translate_us,
            costs.translate_miss_us,
            costs.lookup_us,
            costs.header_us,
            costs.transmit_us,
            costs.poll_us,
            costs.segment_us,
            costs.wait_us,
            costs.pass_us,
            costs.rouse_us,
            costs.hand_off_us,
            costs.read_us,
            costs.read_unit_us,
            costs.read_long_unit_us,
            costs.copy_unit_us,
            costs.file_unit_us,
            costs.load_us,
            costs.load_unit_us,
            costs.try_us,
            costs.spawn_us,
            costs.spawn_shared_us,
            costs.far_us,
            costs.far_unit_us,
            costs.remote_unit_us,
            costs.varied_us,
            costs.process_us,
            self.processor.switch_us,
            self.processor.program_us,
            self.processor.wake_us,
            self.processor.rest_us,
            self.processor.call_us,
            self.processor.sleeps_after_us,
            self.processor.yardstick_us,
            self.locks.acquire_us,
            self.memory.translation_fresh_us,
            self.load.poll_us,
            self.load.receive_us,
            self.load.receive_unit_us,
            self.load.segment_us,
            self.load.segment_at_once_us,
            self.load.varied_us,
            self.load.shared_us,
            self.load.shared_unit_us,
            self.load.send_us,
            self.load.rouse_us,
            self.network.client_delay_us,
            self.network.bits_per_s,
        ];
        let sound = |disk: &DiskParameters| {
            disk.latency_us >= 0.0
                && (0.0..=1.0).contains(&disk.spread)
                && disk.bytes_per_s > 0.0
                && disk.parallelism > 0
                && (0.0..1e12).contains(&disk.requests_per_s)
                && (0.0..1e12).contains(&disk.throttle_slice_us)
        };
        let rules = [
            (times.iter().all(|time| (0.0..1e12).contains(time)), "times and rates: 0 to 1e12"),
            (
                self.engines
                    .values()
                    .chain(self.reads.values())
                    .chain(self.read_units.values())
                    .chain(self.contents.values().flatten().map(|(_, us)| us))
                    .chain(self.long_units.values())
                    .chain(self.long_segments.values())
                    .chain(self.shared.values())
                    .chain(self.varied.values())
                    .all(|time| time.abs() < 1e12),
                "engines: -1e12 to 1e12",
            ),
            (
                self.contents.values().all(|points| is_ascending(points)),
                "contents: positive lengths in ascending order",
            ),
            ((0.0..=1.0).contains(&costs.spawn_waiting), "costs.spawn_waiting: 0 to 1"),
            (self.processor.quantum_us >= 1.0, "processor.quantum_us: at least 1"),
            (self.processor.granularity_us >= 1.0, "processor.granularity_us: at least 1"),
            (costs.requests_per_connection > 0, "costs.requests_per_connection: at least 1"),
            (costs.transmit_unit_bytes > 0, "costs.transmit_unit_bytes: at least 1"),
            (self.locks.shards > 0, "locks.shards: at least 1"),
            (self.memory.translation_entries > 0, "memory.translation_entries: at least 1"),
            (self.memory.held_ratio >= 1.0, "memory.held_ratio: at least 1"),
            (self.memory.held_ratio_threads >= 1.0, "memory.held_ratio_threads: at least 1"),
            (self.memory.file_bytes_mean > 0, "memory.file_bytes_mean: at least 1"),
            (self.concurrency.processes_per_processor > 0, "concurrency.processes_per_processor: at least 1"),
            (self.concurrency.threads_per_processor > 0, "concurrency.threads_per_processor: at least 1"),
            (self.concurrency.read_helpers > 0, "concurrency.read_helpers: at least 1"),
            (self.concurrency.send_quantum_bytes > 0, "concurrency.send_quantum_bytes: at least 1"),
            (
                self.concurrency.send_with_header_bytes == 0 || self.locks.front,
                "concurrency.send_with_header_bytes: only with locks.front, since that stage takes no lock",
            ),
            (self.disks.values().all(sound), "disks"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, field)) => Err(ParametersError::OutOfBounds(field)),
            None => Ok(()),
        }
    }
}

fn is_ascending(points: &[(u64, f64)]) -> bool {
    points.first().is_none_or(|first| first.0 > 0) && points.windows(2).all(|pair| pair[0].0 < pair[1].0)
}

fn parse(name: &str, text: &str) -> Result<Parameters, ParametersError> {
    let parameters: Parameters =
        toml::from_str(text).map_err(|error| ParametersError::Malformed(name.into(), Box::new(error)))?;
    parameters.check()?;
    Ok(parameters)
}

/// Microseconds as virtual time.
pub fn nanos(us: f64) -> Nanos {
    (us * 1e3).round() as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_half_the_speed_works_twice_as_long_and_its_clocks_go_as_before() {
        let mut set = Parameters::linux();
        set.engines.insert("amped".into(), 2.0);
        assert_eq!(set.at_speed(20.0), set, "its speed is not known");
        set.processor.yardstick_us = 10.0;
        let slow = set.at_speed(20.0);
        assert_eq!((slow.costs.header_us, slow.load.send_us), (2.0 * set.costs.header_us, 2.0 * set.load.send_us));
        assert_eq!((slow.engines["amped"], slow.processor.switch_us), (4.0, 2.0 * set.processor.switch_us));
        assert_eq!((slow.processor.quantum_us, &slow.disks), (set.processor.quantum_us, &set.disks));
        assert_eq!(slow.at_speed(10.0), set);
    }
}
