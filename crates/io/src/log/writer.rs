//! The writer of access logs: one thread that takes full buffers from all workers.
//!
//! Owns: the log files and the thread. Guarantees that no worker ever waits for the log: a worker fills its own
//! [`LogBuffer`], hands it over without blocking and gets an emptied one back; when the writer cannot keep up, the
//! buffer is dropped and its lines are counted. Write errors (a full disk, a closed pipe) lose lines, which are counted
//! too, and never stop the server, nor other logs. Lines are written whole to files opened for appending, so that
//! several processes can share them. Does not rotate files.

use std::fmt;
use std::io::{self, Write as _};

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select, unbounded};
use lamna_config::access_log::{AccessLogs, LogTarget};
use lamna_sys::contain::{Point, contain, fail_if_asked};
use lamna_sys::shared_memory::SharedMemory;

use super::buffer::{FLUSH_BYTES, Lines, LogBuffer, LogCounters};
use super::sink::{Sink, Torn, cause};

/// Full buffers that may wait for the writer. With [`FLUSH_BYTES`], some 2 MiB: what a slow disk may be behind.
const FULL_BUFFERS_MAX: usize = 64;

/// Buffers that grew beyond this, because of a very long line, are not used again.
const KEPT_BUFFER_BYTES_MAX: usize = 4 * FLUSH_BYTES;

/// Shortest time between two reports of trouble on standard error.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// How long shutting down waits for the last lines: a reader of standard output that has stopped reading must not keep
/// the server from ending.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it waits without saying so.
const CLOSE_QUIET: Duration = Duration::from_millis(500);

/// The access logs of a server: the handle of their writer thread.
#[derive(Debug)]
pub struct AccessLog {
    logs: Arc<AccessLogs>,
    full: Sender<Lines>,
    emptied: Receiver<Lines>,
    commands: Sender<Command>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    counters: SharedMemory<LogCounters>,
}

impl AccessLog {
    /// Opens the targets and starts the writer; none if all logs are off. A file is created with mode 0640 if need be
    /// and is appended to. What becomes of lines is added to `counters`.
    ///
    /// # Errors
    /// The target that cannot be opened, or the first if the thread cannot be started, and why.
    pub fn open(
        logs: AccessLogs,
        counters: SharedMemory<LogCounters>,
    ) -> Result<Option<AccessLog>, (LogTarget, io::Error)> {
        let mut opened = Vec::new();
        for target in &logs.targets {
            let sink = match target {
                LogTarget::Off => continue,
                LogTarget::Stdout => Ok(Sink::Stdout),
                LogTarget::File(path) => Sink::file(path),
            };
            opened.push(OpenLog::new(sink.map_err(|error| (target.clone(), error))?));
        }
        let Some(first) = logs.targets.first().cloned() else { return Ok(None) };
        Self::start(logs, opened, counters).map(Some).map_err(|error| (first, error))
    }

    fn start(logs: AccessLogs, opened: Vec<OpenLog>, counters: SharedMemory<LogCounters>) -> io::Result<AccessLog> {
        let (full, full_receiver) = bounded(FULL_BUFFERS_MAX);
        let (emptied_sender, emptied) = bounded(FULL_BUFFERS_MAX);
        let (commands, command_receiver) = unbounded();
        let (end, ended) = bounded(0);
        let writer = Writer { logs: opened, emptied: emptied_sender, counters: counters.clone() };
        thread::Builder::new().name("access-log".into()).spawn(move || {
            writer.run(&full_receiver, &command_receiver);
            drop(end);
        })?;
        Ok(AccessLog { logs: Arc::new(logs), full, emptied, commands, ended, counters })
    }

    /// A buffer for one worker.
    pub fn buffer(&self) -> LogBuffer {
        LogBuffer::new(self.logs.clone(), self.full.clone(), self.emptied.clone(), self.counters.clone())
    }

    /// Has the files opened again by their names, for rotation by renaming. Returns at once. If that fails, it is
    /// reported and the log goes on in the old file. Without effect on standard output.
    pub fn reopen(&self) {
        // Fails only if the thread has died, and then nothing is written anyway.
        let _ = self.commands.send(Command::Reopen);
    }

    /// The counts of lines by outcome.
    pub fn counters(&self) -> &SharedMemory<LogCounters> {
        &self.counters
    }

    /// Writes what workers have handed over so far and ends the thread, waiting five seconds at most. Lines handed over
    /// later are counted as dropped.
    pub fn close(&self) {
        let _ = self.commands.send(Command::Close);
        if self.has_ended_within(CLOSE_QUIET) {
            return;
        }
        let rest = CLOSE_TIMEOUT.saturating_sub(CLOSE_QUIET);
        report(format_args!(
            "the last lines cannot be written yet, because nobody reads them or the disk is slow; waiting for at most {} s",
            CLOSE_TIMEOUT.as_secs()
        ));
        // It is stuck: the process ends without it.
        if !self.has_ended_within(rest) {
            report(format_args!("the last lines are lost"));
        }
    }

    fn has_ended_within(&self, time: Duration) -> bool {
        !matches!(self.ended.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }
}

enum Command {
    Reopen,
    Close,
}

/// The state of the thread.
struct Writer {
    /// In the order of the targets.
    logs: Vec<OpenLog>,
    emptied: Sender<Lines>,
    counters: SharedMemory<LogCounters>,
}

/// A log that is written.
struct OpenLog {
    sink: Sink,
    /// Whether the sink ends in the middle of a line because a write stopped there.
    torn: bool,
    reporter: Reporter,
    /// Its lines of a buffer that has those of other logs between them.
    gathered: Vec<u8>,
}

impl OpenLog {
    fn new(sink: Sink) -> OpenLog {
        OpenLog { sink, torn: false, reporter: Reporter::default(), gathered: Vec::new() }
    }
}

impl Writer {
    fn run(mut self, full: &Receiver<Lines>, commands: &Receiver<Command>) {
        loop {
            select! {
                recv(full) -> message => match message {
                    Ok(buffer) => self.accept(buffer),
                    Err(_) => return,
                },
                recv(commands) -> command => match command {
                    Ok(Command::Reopen) => self.logs.iter_mut().for_each(OpenLog::reopen),
                    // Disconnected: the handle was dropped without being closed. Workers may still have buffers, so go
                    // on until they are gone; but a disconnected channel is always ready, so leave the selection.
                    Err(_) => return full.iter().for_each(|buffer| self.accept(buffer)),
                    Ok(Command::Close) => return full.try_iter().for_each(|buffer| self.accept(buffer)),
                },
            }
        }
    }

    /// Writes a buffer and returns it, emptied, to the workers.
    fn accept(&mut self, mut buffer: Lines) {
        match &buffer.stretches[..] {
            [all] => self.write(all.target, &buffer.bytes, all.lines),
            _ => self.write_gathered(&buffer),
        }
        if buffer.bytes.capacity() <= KEPT_BUFFER_BYTES_MAX {
            buffer.clear();
            // If the workers have enough of them, this one is freed.
            let _ = self.emptied.try_send(buffer);
        }
    }

    /// Writes to each log what there is for it, at once.
    fn write_gathered(&mut self, buffer: &Lines) {
        let mut start = 0;
        for stretch in &buffer.stretches {
            self.logs[stretch.target].gathered.extend_from_slice(&buffer.bytes[start..stretch.end]);
            start = stretch.end;
        }
        for target in 0..self.logs.len() {
            let mut bytes = std::mem::take(&mut self.logs[target].gathered);
            if !bytes.is_empty() {
                let of_target = buffer.stretches.iter().filter(|stretch| stretch.target == target);
                self.write(target, &bytes, of_target.map(|stretch| stretch.lines).sum());
            }
            if bytes.capacity() <= KEPT_BUFFER_BYTES_MAX {
                bytes.clear();
                self.logs[target].gathered = bytes;
            }
        }
    }

    /// Writes so many lines to one log. Those that are lost are counted.
    fn write(&mut self, target: usize, bytes: &[u8], lines: u64) {
        let log = &mut self.logs[target];
        let written = contain("Lines of the access log are lost.", || {
            fail_if_asked(Point::Log, b"");
            log.write(bytes)
        });
        match written {
            Some(Ok(())) => self.count(lines, 0),
            Some(Err(Torn { written_bytes, error })) => {
                let whole_lines = memchr::memchr_iter(b'\n', &bytes[..written_bytes]).count() as u64;
                self.count(whole_lines, lines.saturating_sub(whole_lines));
                self.logs[target].complain(&error.into(), self.counters.lost());
            }
            None => {
                // Whether its last line was written whole is not known.
                log.torn = true;
                self.count(0, lines);
            }
        }
    }

    fn count(&self, written_lines: u64, lost_lines: u64) {
        self.counters.written.fetch_add(written_lines, Ordering::Relaxed);
        self.counters.lost.fetch_add(lost_lines, Ordering::Relaxed);
    }
}

impl OpenLog {
    /// Writes whole lines, after ending the one that the sink may end in, so that the next does not run into it.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Torn> {
        if self.torn {
            self.sink.write_all(b"\n").map_err(|torn| Torn { written_bytes: 0, ..torn })?;
            self.torn = false;
        }
        self.sink.write_all(bytes).inspect_err(|torn| {
            self.torn |= bytes[..torn.written_bytes].last().is_some_and(|&last| last != b'\n');
        })
    }

    fn complain(&mut self, error: &io::Error, lost: u64) {
        if self.reporter.is_due(Instant::now()) {
            let lost = lamna_policy::words::count(lost, "line");
            report(format_args!("cannot write {}: {}; {lost} lost so far", self.sink, cause(error)));
        }
    }

    /// Failures are not subject to the interval: there is one for each signal, and its sender waits to know.
    fn reopen(&mut self) {
        match self.sink.reopen() {
            Ok(()) => self.torn &= matches!(self.sink, Sink::Stdout),
            Err(error) => {
                report(format_args!("cannot reopen {}: {}; going on with the old file", self.sink, cause(&error)));
            }
        }
    }
}

/// Says when trouble may be reported again.
#[derive(Default)]
struct Reporter {
    last: Option<Instant>,
}

impl Reporter {
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.last.is_none_or(|last| now.duration_since(last) >= REPORT_INTERVAL);
        if due {
            self.last = Some(now);
        }
        due
    }
}

/// A line on standard error. If that fails as well it is lost.
fn report(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "access log: {message}");
}

#[cfg(test)]
mod tests {
    use super::super::buffer::Stretch;
    use super::super::buffer::tests::{one, record};
    use super::*;
    use lamna_config::settings::{Settings, SiteSettings};
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn open(path: &Path) -> AccessLog {
        AccessLog::open(one(LogTarget::File(path.to_owned())), SharedMemory::default())
            .expect("the file can be opened")
            .expect("the log is on")
    }

    fn lines(path: &Path) -> Vec<String> {
        fs::read_to_string(path).expect("the log").lines().map(str::to_owned).collect()
    }

    /// Waits for what the writer thread will do sooner or later.
    fn wait_until(condition: impl Fn() -> bool) {
        while !condition() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_log_that_is_off_is_none() {
        assert!(AccessLog::open(one(LogTarget::Off), SharedMemory::default()).expect("nothing to open").is_none());
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error() {
        let target = LogTarget::File("/nonexistent/access.log".into());
        let (named, error) = AccessLog::open(one(target.clone()), SharedMemory::default()).expect_err("no directory");
        assert_eq!((named, error.kind()), (target, io::ErrorKind::NotFound));
    }

    #[test]
    fn the_lines_of_all_workers_reach_the_file_whole_and_in_their_order() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("access.log");
        let log = open(&path);
        thread::scope(|scope| {
            for worker in 0..4 {
                let mut buffer = log.buffer();
                // Stays below what may wait for the writer, so nothing is dropped.
                scope.spawn(move || (0..3000).for_each(|i| buffer.push(0, 0, &record(&format!("/{worker}/{i:05}")))));
            }
        });
        let counters = log.counters().clone();
        log.close();
        assert_eq!((counters.written(), counters.dropped(), counters.lost()), (12_000, 0, 0));
        let lines = lines(&path);
        assert_eq!(lines.len(), 12_000);
        for worker in 0..4 {
            let start = format!("GET /{worker}/");
            let own: Vec<_> = lines.iter().filter(|line| line.contains(&start)).collect();
            assert!(own.len() == 3000 && own.is_sorted());
        }
    }

    #[test]
    fn a_file_is_appended_to_and_created_for_owner_and_group_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("access.log");
        for target in ["/first", "/second"] {
            let log = open(&path);
            log.buffer().push(0, 0, &record(target));
            log.close();
        }
        assert_eq!(lines(&path).len(), 2);
        let mode = fs::metadata(&path).expect("the log").permissions().mode();
        assert_eq!(mode & 0o137, 0, "{mode:o}");
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let log = open(Path::new("/dev/full"));
        let mut buffer = log.buffer();
        for target in ["/1", "/2", "/3"] {
            buffer.push(0, 0, &record(target));
            buffer.flush();
        }
        let counters = log.counters().clone();
        log.close();
        assert_eq!((counters.written(), counters.dropped(), counters.lost()), (0, 0, 3));
    }

    #[test]
    fn a_buffer_is_handed_over_when_it_is_full() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("access.log");
        let log = open(&path);
        let mut buffer = log.buffer();
        while log.counters().written() == 0 {
            buffer.push(0, 0, &record("/"));
        }
        assert!(fs::metadata(&path).expect("the log").len() >= FLUSH_BYTES as u64);
    }

    #[test]
    fn lines_go_to_a_new_file_after_rotation() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, rotated) = (directory.path().join("access.log"), directory.path().join("access.log.1"));
        let log = open(&path);
        let mut buffer = log.buffer();
        buffer.push(0, 0, &record("/before"));
        buffer.flush();
        wait_until(|| log.counters().written() == 1);
        fs::rename(&path, &rotated).expect("the log is there");
        log.reopen();
        wait_until(|| path.exists());
        buffer.push(0, 0, &record("/after"));
        buffer.flush();
        log.close();
        assert!(lines(&rotated).len() == 1 && lines(&rotated)[0].contains("/before"));
        assert!(lines(&path).len() == 1 && lines(&path)[0].contains("/after"));
    }

    #[test]
    fn each_log_has_its_own_lines_in_their_order_and_a_full_one_takes_none_from_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let site = |log: &Path| SiteSettings { log: Some(LogTarget::File(log.into())), ..SiteSettings::default() };
        let sites = vec![site(&path("a")), site(Path::new("/dev/full")), site(&path("b")), site(&path("a"))];
        let logs = AccessLogs::of(&Settings { sites, log: LogTarget::Off, ..Settings::default() });
        let log = AccessLog::open(logs, SharedMemory::default()).expect("files").expect("logs");
        let mut buffer = log.buffer();
        for round in 0..2000 {
            for site in [0, 1, 2, 3, 3] {
                let of_site = buffer.of_site(site).log.expect("it has a log");
                buffer.push(of_site, 0, &record(&format!("/{site}/{round:05}")));
            }
        }
        buffer.flush();
        let counters = log.counters().clone();
        log.close();
        assert_eq!((counters.written(), counters.dropped(), counters.lost()), (8000, 0, 2000));
        let rounds = |site: u32| (0..2000).map(move |round| format!("/{site}/{round:05}"));
        let targets = |name| lines(&path(name)).iter().map(|line| line.split(' ').nth(6).unwrap().to_owned()).collect();
        let (of_a, of_b): (Vec<String>, Vec<String>) = (targets("a"), targets("b"));
        assert_eq!(of_b, rounds(2).collect::<Vec<_>>());
        let expected: Vec<_> =
            (0..2000).flat_map(|round| [0, 3, 3].map(|site| format!("/{site}/{round:05}"))).collect();
        assert_eq!(of_a, expected);
    }

    #[test]
    fn a_failed_reopening_keeps_the_old_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let logs = directory.path().join("logs");
        fs::create_dir(&logs).expect("a new directory");
        let log = open(&logs.join("access.log"));
        let moved = directory.path().join("moved");
        fs::rename(&logs, &moved).expect("the directory is there");
        log.reopen();
        log.buffer().push(0, 0, &record("/"));
        log.close();
        assert_eq!(lines(&moved.join("access.log")).len(), 1);
    }

    #[test]
    fn the_line_after_one_written_in_part_starts_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("access.log");
        fs::write(&path, "half a li").expect("a new file");
        let (emptied, _returned) = bounded(1);
        let log = OpenLog { torn: true, ..OpenLog::new(Sink::file(&path).expect("the file")) };
        let mut writer = Writer { logs: vec![log], emptied, counters: SharedMemory::default() };
        writer.accept(Lines { bytes: b"whole\n".to_vec(), stretches: vec![Stretch { target: 0, end: 6, lines: 1 }] });
        assert_eq!(lines(&path), ["half a li", "whole"]);
    }

    #[test]
    fn trouble_is_reported_once_in_each_interval() {
        let start = Instant::now();
        let mut reporter = Reporter::default();
        let due = [0, 1, 9, 10, 11, 20].map(|seconds| reporter.is_due(start + Duration::from_secs(seconds)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
