//! Measurements of a server by itself, twice a second: samples of counters, and the differences of two of them.
//!
//! Owns: reading the counters that workers hand over and what the kernel says of the process. Guarantees: nothing is
//! done on the way of a request, no lock is taken, and workers are not disturbed: the thread that supervises them takes
//! the samples. Figures that the kernel does not give count as nothing. Does not judge (`adapt`,
//! `lamna_policy::control`).

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use lamna_policy::control::Reading;
use lamna_sys::metrics::scoreboard::Waits;
use rustix::time::{ClockId, clock_gettime};

use crate::admin::api::Now;
use crate::admin::thread_stats;
use crate::admin::thread_stats::Times;
use crate::process::shared_metrics::SharedMetrics;

/// Counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    at: Instant,
    requests: u64,
    accepted: u64,
    sent_bytes: u64,
    hits: u64,
    stale: u64,
    misses: u64,
    cached: u64,
    blocked: u64,
    disk_bytes: u64,
    cpu_us: u64,
    helpers: Helpers,
    waits: Waits,
    switches: u64,
    tasks: HashMap<u32, Times>,
    /// Most threads of a worker that were busy at a time since the sample before.
    threads_busy_peak: u32,
}

/// The work of helpers so far.
#[derive(Clone, Copy, Debug, Default)]
struct Helpers {
    jobs: u64,
    begun: u64,
    done: u64,
    wait_us: u64,
    /// Most jobs that were under way at a time since the sample before.
    peak: u64,
}

/// The differences between two samples.
#[derive(Clone, Debug)]
pub(crate) struct Between {
    /// The measurements that the controller of engines goes by.
    pub(crate) reading: Reading,
    /// Time of threads that could have run and waited for a processor, in microseconds.
    pub(crate) run_queue_us: u64,
    /// How long jobs have waited for a helper thread, in microseconds, on average.
    pub(crate) helper_delay_us: f64,
    /// The most jobs that helpers had under way at a time.
    pub(crate) helpers_busy_peak: usize,
    /// Jobs that helpers finished in a second.
    pub(crate) helper_jobs_per_s: f64,
    /// How long connections have waited for a thread of a pool, in microseconds, on average.
    pub(crate) thread_delay_us: f64,
    /// The most threads of a worker that were busy at a time.
    pub(crate) threads_busy_peak: usize,
    /// Whether memory is scarce.
    pub(crate) is_short_of_memory: bool,
    /// All of it, to be shown.
    pub(crate) now: Now,
}

/// Bytes read from the disk that count as one wait for it: what the kernel reads ahead.
const WAIT_BYTES: u64 = 128 * 1024;
/// Share of ten seconds in which something waited for memory, in percent, from which on it is scarce.
const SHORT_OF_MEMORY_PERCENT: f64 = 10.0;

impl Sample {
    /// Reads everything, after the sample `before` if there was one. Peaks begin anew.
    pub(crate) fn take(shared_metrics: &SharedMetrics, before: Option<&Sample>) -> Sample {
        let (done, disk) = (&shared_metrics.done, &shared_metrics.disk);
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Sample {
            at: Instant::now(),
            requests: read(&done.work.requests),
            accepted: read(&done.work.connections),
            sent_bytes: read(&done.work.sent_bytes),
            hits: read(&done.work.hits),
            stale: read(&done.work.stale),
            misses: read(&done.work.misses),
            cached: read(&disk.open_cached) + read(&disk.read_cached),
            blocked: read(&disk.open_blocked) + read(&disk.read_blocked),
            disk_bytes: disk_bytes(),
            cpu_us: cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1000,
            helpers: Helpers {
                jobs: read(&disk.helper_jobs),
                begun: read(&disk.helper_jobs_begun),
                done: read(&disk.helper_jobs_done),
                wait_us: read(&disk.helper_wait_us),
                // Those that have been under way all the time have begun before.
                peak: disk
                    .helper_jobs_peak
                    .swap(0, Relaxed)
                    .max(read(&disk.helper_jobs_begun).saturating_sub(read(&disk.helper_jobs_done))),
            },
            waits: shared_metrics.scoreboard.waits(),
            switches: thread_stats::switches(),
            tasks: thread_stats::times(before.map_or(&HashMap::new(), |before| &before.tasks)),
            threads_busy_peak: shared_metrics.scoreboard.take_busy_peak(),
        }
    }

    /// The differences since `before`, with so many connections of each worker open now.
    pub(crate) fn since(&self, before: &Sample, connections: &[u32], shared_metrics: &SharedMetrics) -> Between {
        let interval_us = ((self.at - before.at).as_micros() as u64).max(1);
        let cpu_us = self.cpu_us.saturating_sub(before.cpu_us);
        let run_queue_us = self.run_queue_us_since(before);
        // Engines that simply wait for the disk do not count that they did; the kernel does.
        let waits = (self.disk_bytes - before.disk_bytes).div_ceil(WAIT_BYTES);
        let blocked = self.blocked - before.blocked;
        // A batch that took long because there was much to do, or because others had the processor, has not stood
        // still.
        let still_us = (connections.len() as u64 * interval_us).saturating_sub(cpu_us + run_queue_us);
        let reading = Reading {
            interval_ms: interval_us / 1000,
            requests: self.requests - before.requests,
            accepted: self.accepted - before.accepted,
            connections: connections.iter().copied().map(u64::from).sum(),
            sent_bytes: self.sent_bytes - before.sent_bytes,
            blocked: waits.max(blocked),
            cpu_us,
            stalled_ms: (self.waits.stalled_ms - before.waits.stalled_ms).min(still_us / 1000),
        };
        // Who waits while nobody is taken up has no end of waiting to be counted.
        let delay_us = |waited_us: u64, taken: u64, queued: u64| match taken {
            0 if queued > 0 => interval_us as f64,
            taken => mean(waited_us, taken),
        };
        let helper_queue = self.helpers.jobs.saturating_sub(self.helpers.begun);
        let begun = self.helpers.begun - before.helpers.begun;
        let helper_delay_us = delay_us(self.helpers.wait_us - before.helpers.wait_us, begun, helper_queue);
        let (taken_up, thread_queue) = (self.waits.taken_up - before.waits.taken_up, u64::from(self.waits.queued));
        let thread_wait_us = 1000 * (self.waits.waited_ms - before.waits.waited_ms);
        let thread_delay_us = delay_us(thread_wait_us, taken_up, thread_queue);
        let memory_pressure_percent = thread_stats::memory_pressure_percent();
        let is_short_of_memory = memory_pressure_percent.is_some_and(|percent| percent >= SHORT_OF_MEMORY_PERCENT);
        let (hits, stale) = (self.hits - before.hits, self.stale - before.stale);
        let lookups = hits + stale + self.misses - before.misses;
        let (idle, slow) = shared_metrics.scoreboard.idle_and_slow();
        let per_processor = |us: u64| us as f64 / interval_us as f64;
        let now = Now {
            interval_ms: reading.interval_ms,
            requests_per_s: reading.requests_per_s(),
            cpu_us_per_request: reading.cost_us(),
            bytes_per_request: mean(reading.sent_bytes, reading.requests),
            hit_ratio: mean(hits, lookups),
            would_block_ratio: mean(blocked, blocked + self.cached - before.cached),
            disk_waits: reading.blocked,
            stalled_ratio: per_processor(reading.stalled_ms * 1000),
            helper_queue,
            helper_delay_us,
            helpers_busy_peak: self.helpers.peak,
            thread_queue,
            thread_delay_us,
            threads_busy_peak: u64::from(self.threads_busy_peak),
            connections_idle: u64::from(idle),
            connections_slow: u64::from(slow),
            run_queue_processors: per_processor(run_queue_us),
            switches_per_request: mean(self.switches.saturating_sub(before.switches), reading.requests),
            memory_pressure_percent,
            workers_busy: self.workers_busy_since(before, interval_us),
        };
        Between {
            reading,
            run_queue_us,
            helper_delay_us,
            helpers_busy_peak: self.helpers.peak as usize,
            helper_jobs_per_s: (self.helpers.done - before.helpers.done) as f64 * 1e6 / interval_us as f64,
            thread_delay_us,
            threads_busy_peak: self.threads_busy_peak as usize,
            is_short_of_memory,
            now,
        }
    }

    fn run_queue_us_since(&self, before: &Sample) -> u64 {
        let since = |(tid, times): (&u32, &Times)| {
            let before_us = before.tasks.get(tid).map_or(0, |before| before.run_queue_us);
            times.run_queue_us.saturating_sub(before_us)
        };
        self.tasks.iter().map(since).sum()
    }

    /// The share of a processor that each worker's first thread had.
    fn workers_busy_since(&self, before: &Sample, interval_us: u64) -> Vec<f64> {
        let worker = |(tid, times): (&u32, &Times)| {
            let index: usize = times.name.strip_prefix("worker-")?.parse().ok()?;
            let before_us = before.tasks.get(tid).map_or(0, |before| before.cpu_us);
            Some((index, *tid, times.cpu_us.saturating_sub(before_us) as f64 / interval_us as f64))
        };
        let mut workers: Vec<_> = self.tasks.iter().filter_map(worker).collect();
        workers.sort_unstable_by_key(|(index, tid, _)| (*index, *tid));
        workers.into_iter().map(|(_, _, busy)| busy).collect()
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

/// `sum` for each of `count`, and nothing if there were none.
fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

/// Bytes that this process has had read from disks (proc_pid_io(5)); 0 where the kernel does not say.
fn disk_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(happens: impl FnOnce(&SharedMetrics)) -> Between {
        let shared_metrics = SharedMetrics::new(lamna_sys::clock::Clock::start()).unwrap();
        let before = Sample::take(&shared_metrics, None);
        happens(&shared_metrics);
        Sample::take(&shared_metrics, Some(&before)).since(&before, &[4, 3], &shared_metrics)
    }

    #[test]
    fn a_reading_is_what_happened_between_two_samples() {
        let Between { reading, .. } = between(|shared_metrics| {
            shared_metrics.done.work.requests.fetch_add(10, Relaxed);
            shared_metrics.done.work.sent_bytes.fetch_add(5_000, Relaxed);
            shared_metrics.disk.read_blocked.fetch_add(2, Relaxed);
        });
        assert_eq!((reading.requests, reading.sent_bytes, reading.connections), (10, 5_000, 7));
        assert!(reading.blocked >= 2);
    }

    #[test]
    fn waiting_is_told_as_a_mean_and_what_nobody_did_as_nothing() {
        let nothing = between(|_| ());
        assert_eq!((nothing.helper_delay_us, nothing.thread_delay_us, nothing.now.hit_ratio), (0.0, 0.0, 0.0));
        let some = between(|shared_metrics| {
            shared_metrics.disk.begin_helper_job(400);
            shared_metrics.disk.begin_helper_job(200);
            shared_metrics.disk.end_helper_job();
            shared_metrics.disk.helper_jobs.fetch_add(5, Relaxed);
            shared_metrics.scoreboard.take(0);
            (0..3).for_each(|_| shared_metrics.scoreboard.score(0).begin_thread(30));
            shared_metrics.scoreboard.score(0).show_queued(2);
            shared_metrics.done.work.hits.fetch_add(3, Relaxed);
            shared_metrics.done.work.misses.fetch_add(1, Relaxed);
        });
        assert_eq!((some.helper_delay_us, some.helpers_busy_peak, some.now.helper_queue), (300.0, 2, 3));
        assert_eq!((some.thread_delay_us, some.threads_busy_peak, some.now.thread_queue), (30_000.0, 3, 2));
        assert_eq!(some.now.hit_ratio, 0.75);
    }

    #[test]
    fn who_waits_while_nobody_is_taken_up_waits_long() {
        let stuck = between(|shared_metrics| {
            shared_metrics.disk.helper_jobs.fetch_add(5, Relaxed);
            shared_metrics.scoreboard.take(0);
            shared_metrics.scoreboard.score(0).show_queued(2);
        });
        assert!(stuck.helper_delay_us > 0.0 && stuck.thread_delay_us > 0.0);
    }

    #[test]
    fn a_loop_has_stood_still_no_longer_than_the_time_that_there_was() {
        let stalled = between(|shared_metrics| {
            shared_metrics.scoreboard.take(0);
            shared_metrics.scoreboard.score(0).add_stall(1 << 40);
            std::thread::sleep(std::time::Duration::from_millis(20));
        });
        let Reading { stalled_ms, interval_ms, .. } = stalled.reading;
        // The interval is told in whole milliseconds.
        assert!(stalled_ms <= 2 * (interval_ms + 1), "{stalled_ms} of {interval_ms}");
    }
}
