//! The lines that one worker has not handed to the writer of the access log yet.
//!
//! Owns: the worker's side of the hand-over, and the counters that both sides share. Guarantees that a worker never
//! waits: what cannot be handed over is dropped and counted. Does not know where lines go.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use lamna_config::access_log::{AccessLogs, RouteLog, SiteLog};
use lamna_proto::counter::Row;
use lamna_sys::shared_memory::{SharedMemory, shared_counters};

use super::line::{self, LogTime, Record};

/// Bytes at which a worker hands its buffer over: large enough to make the hand-over and the write rare.
pub const FLUSH_BYTES: usize = 32 * 1024;

/// The lines of one worker that have not been handed over. Those left are handed over when it is dropped.
#[derive(Debug)]
pub struct LogBuffer {
    logs: Arc<AccessLogs>,
    time: LogTime,
    lines: Lines,
    full: Sender<Lines>,
    emptied: Receiver<Lines>,
    counters: SharedMemory<LogCounters>,
}

impl LogBuffer {
    /// An empty buffer that is exchanged through these channels.
    pub(super) fn new(
        logs: Arc<AccessLogs>,
        full: Sender<Lines>,
        emptied: Receiver<Lines>,
        counters: SharedMemory<LogCounters>,
    ) -> LogBuffer {
        LogBuffer { logs, time: LogTime::new(0), lines: Lines::default(), full, emptied, counters }
    }

    /// Whether its lines go to one log, whatever site they are of.
    pub fn is_of_one_log(&self) -> bool {
        !self.logs.differ_by_site()
    }

    /// The log of requests of no site.
    pub fn of_server(&self) -> Option<u32> {
        self.logs.server
    }

    /// The log of requests of the site with this index.
    pub fn of_site(&self, site: u32) -> SiteLog {
        self.logs.sites.get(site as usize).copied().unwrap_or(SiteLog { log: self.logs.server, asks_routes: false })
    }

    /// The log of requests of this site whose routes say `rule`.
    pub fn of_route(&self, site: u32, rule: Option<&RouteLog>) -> Option<u32> {
        self.logs.of_route(site, rule)
    }

    /// Whether lines of `log` say what requests are called, whatever else is set.
    pub fn names_requests(&self, log: u32) -> bool {
        self.logs.logs[log as usize].1.names_requests()
    }

    /// Adds the line of a response to `log` that ended at this millisecond since the epoch. Hands the buffer over when
    /// it holds [`FLUSH_BYTES`]; never waits.
    pub fn push(&mut self, log: u32, unix_ms: u64, record: &Record<'_>) {
        self.time.update(unix_ms);
        let (target, format) = &self.logs.logs[log as usize];
        line::append(&mut self.lines.bytes, format, &self.time, record);
        self.lines.end_line(*target);
        if self.lines.bytes.len() >= FLUSH_BYTES {
            self.flush();
        }
    }

    /// Hands over what there is, to be called when the worker goes idle and at least each second; never waits. If the
    /// writer is too far behind, the lines are dropped and counted.
    pub fn flush(&mut self) {
        if self.is_empty() {
            return;
        }
        match self.full.try_send(std::mem::take(&mut self.lines)) {
            Ok(()) => self.lines = self.emptied.try_recv().unwrap_or_default(),
            Err(TrySendError::Full(unsent) | TrySendError::Disconnected(unsent)) => {
                self.counters.dropped.fetch_add(unsent.count(), Ordering::Relaxed);
                self.lines = unsent;
                self.lines.clear();
            }
        }
    }

    /// Whether there are lines to flush.
    pub fn is_empty(&self) -> bool {
        self.lines.bytes.is_empty()
    }
}

impl Drop for LogBuffer {
    fn drop(&mut self) {
        self.flush();
    }
}

shared_counters! {
    /// Counts of lines by outcome, since the log was opened.
    pub struct LogCounters {
        /// Lines written completely.
        pub(super) written = Row::UNTOLD;
        /// Lines that workers dropped because the writer was too far behind, or had been closed.
        pub(super) dropped = Row::counter("lamna_log_lines_missing_total").labels(&[("cause", "dropped")])
            .family("Access log lines that were not written.").json("log_lines_dropped").text("log lines", "dropped");
        /// Lines that could not be written, or only in part.
        pub(super) lost = Row::counter("lamna_log_lines_missing_total").labels(&[("cause", "lost")])
            .json("log_lines_lost").text("log lines", "lost");
    }
}

impl LogCounters {
    /// Lines written completely.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Lines that workers dropped because the writer was too far behind, or had been closed.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Lines that could not be written, or only in part.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Whole lines on their way to the writer, in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    /// Which of them go where.
    pub(super) stretches: Vec<Stretch>,
}

/// Lines in a row that go to the same place.
#[derive(Debug)]
pub(super) struct Stretch {
    /// The index of the target.
    pub(super) target: usize,
    /// Where they end in the bytes.
    pub(super) end: usize,
    pub(super) lines: u64,
}

impl Lines {
    /// The bytes behind the last line are one for this target.
    fn end_line(&mut self, target: usize) {
        let end = self.bytes.len();
        match self.stretches.last_mut().filter(|last| last.target == target) {
            Some(last) => (last.end, last.lines) = (end, last.lines + 1),
            None => self.stretches.push(Stretch { target, end, lines: 1 }),
        }
    }

    /// How many lines there are.
    pub(super) fn count(&self) -> u64 {
        self.stretches.iter().map(|stretch| stretch.lines).sum()
    }

    /// Leaves the room for others.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.stretches.clear();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use lamna_config::settings::{LogTarget, Settings};

    pub(in crate::log) fn record(target: &str) -> Record<'_> {
        Record {
            user: None,
            client: None,
            method: b"GET",
            target: target.as_bytes(),
            version: "HTTP/1.1",
            status: 200,
            bytes: 1,
            referer: None,
            user_agent: None,
            host: None,
            duration_us: 1,
            tls: None,
            id: None,
            request: None,
        }
    }

    /// One log in the combined format, to this target.
    pub(in crate::log) fn one(target: LogTarget) -> AccessLogs {
        AccessLogs::of(&Settings { log: target, ..Settings::default() })
    }

    #[test]
    fn a_writer_that_is_behind_has_lines_dropped_and_counted() {
        let (full, waiting) = bounded(1);
        let (_, emptied) = bounded(1);
        let counters = SharedMemory::<LogCounters>::default();
        let mut buffer = LogBuffer::new(Arc::new(one(LogTarget::Stdout)), full, emptied, counters.clone());
        for _ in 0..3 {
            buffer.push(0, 0, &record("/"));
            buffer.push(0, 0, &record("/"));
            buffer.flush();
        }
        assert_eq!(counters.dropped(), 4);
        assert_eq!(waiting.try_recv().map(|full: Lines| full.count()), Ok(2));
        drop(waiting);
        buffer.push(0, 0, &record("/"));
        drop(buffer);
        assert_eq!(counters.dropped(), 5);
    }
}
