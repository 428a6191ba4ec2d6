//! The lines that one worker has not handed to the writer of the access log yet.
//!
//! Owns: the worker's side of the hand-over, and the counters that both sides share. Guarantees that a worker never
//! waits: what cannot be handed over is dropped and counted. Does not know where lines go.

use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use lamna_config::settings::LogFormat;
use lamna_proto::counter::Row;
use lamna_sys::shared_memory::{SharedMemory, shared_counters};

use super::line::{self, LogTime, Record};

/// Bytes at which a worker hands its buffer over: large enough to make the hand-over and the write rare.
pub const FLUSH_BYTES: usize = 32 * 1024;

/// The lines of one worker that have not been handed over. Those left are handed over when it is dropped.
#[derive(Debug)]
pub struct LogBuffer {
    format: LogFormat,
    time: LogTime,
    bytes: Vec<u8>,
    lines: u64,
    full: Sender<Full>,
    emptied: Receiver<Vec<u8>>,
    counters: SharedMemory<LogCounters>,
}

impl LogBuffer {
    /// An empty buffer that is exchanged through these channels.
    pub(super) fn new(
        format: LogFormat,
        full: Sender<Full>,
        emptied: Receiver<Vec<u8>>,
        counters: SharedMemory<LogCounters>,
    ) -> LogBuffer {
        LogBuffer { format, time: LogTime::new(0), bytes: Vec::new(), lines: 0, full, emptied, counters }
    }

    /// Adds the line of a response that ended at this millisecond since the epoch. Hands the buffer over when it holds
    /// [`FLUSH_BYTES`]; never waits.
    pub fn push(&mut self, unix_ms: u64, record: &Record<'_>) {
        self.time.update(unix_ms);
        line::append(&mut self.bytes, self.format, &self.time, record);
        self.lines += 1;
        if self.bytes.len() >= FLUSH_BYTES {
            self.flush();
        }
    }

    /// Hands over what there is, to be called when the worker goes idle and at least each second; never waits. If the
    /// writer is too far behind, the lines are dropped and counted.
    pub fn flush(&mut self) {
        if self.lines == 0 {
            return;
        }
        let full = Full { bytes: std::mem::take(&mut self.bytes), lines: std::mem::take(&mut self.lines) };
        match self.full.try_send(full) {
            Ok(()) => self.bytes = self.emptied.try_recv().unwrap_or_default(),
            Err(TrySendError::Full(unsent) | TrySendError::Disconnected(unsent)) => {
                self.counters.dropped.fetch_add(unsent.lines, Ordering::Relaxed);
                self.bytes = unsent.bytes;
                self.bytes.clear();
            }
        }
    }

    /// Whether there are lines to flush.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
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

/// A buffer of whole lines on its way to the writer.
pub(super) struct Full {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crossbeam_channel::bounded;

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
        }
    }

    #[test]
    fn a_writer_that_is_behind_has_lines_dropped_and_counted() {
        let (full, waiting) = bounded(1);
        let (_, emptied) = bounded(1);
        let counters = SharedMemory::<LogCounters>::default();
        let mut buffer = LogBuffer::new(LogFormat::Combined, full, emptied, counters.clone());
        for _ in 0..3 {
            buffer.push(0, &record("/"));
            buffer.push(0, &record("/"));
            buffer.flush();
        }
        assert_eq!(counters.dropped(), 4);
        assert_eq!(waiting.try_recv().map(|full: Full| full.lines), Ok(2));
        drop(waiting);
        buffer.push(0, &record("/"));
        drop(buffer);
        assert_eq!(counters.dropped(), 5);
    }
}
