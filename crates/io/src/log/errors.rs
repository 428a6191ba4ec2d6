//! The error log: what went wrong, and what the server does by itself, one line each.
//!
//! ```text
//! 2026-11-23T02:34:14.123Z warning: site example.org: request 3f2a0c91d4b7e658: `/private/` is refused: user 33 may not read `/srv/www/private` (...)
//! {"time":"2026-11-23T02:34:14.123Z","level":"warning","site":"example.org","request_id":"...","message":"..."}
//! ```
//!
//! Owns: the lines and where they go. There is one log in a process, which its forked children go on with. Guarantees:
//! a report never waits for a reader that has stopped reading: a line that cannot be written now is counted, and said
//! with the next. Reports that peers can cause are bounded for all processes together ([`Peer`]). A file that was moved
//! away is left with the next line, so that rotation takes no signal. Messages to the operator who has started the
//! server ([`tell`]) stand on standard error in any case.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use lamna_config::error_log::{ErrorLogFormat, ErrorLogSettings};
use lamna_policy::words::count;
use lamna_sys::clock::unix_ms;
use lamna_sys::shared_memory::{SharedMemory, process_shared};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::calendar::Calendar;
use super::sink::open_file;

pub use lamna_config::error_log::Level;

/// Kinds of reports that peers can cause, each bounded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A client asked for a file that may not be read.
    Denied,
    /// A client asked for a directory that has no index file and is not listed.
    Unlisted,
    /// The file system failed.
    Failed,
    /// An application did not answer, or not as it should.
    Gateway,
    /// An application said something for the error log.
    Application,
    /// A client network had as many connections as it may have.
    Crowded,
    /// A TLS handshake has failed.
    Handshake,
}

const PEERS: usize = 7;

/// So many lines of one kind at once, and then one in [`INTERVAL_MS`]: at most 4 MB in a day.
const BURST: u64 = 20;
const INTERVAL_MS: u64 = 6_000;

/// The most that a pipe takes in one piece (PIPE_BUF).
#[cfg(test)]
const LINE_BYTES_MAX: usize = 4096;
/// Maximum length of a message, in characters: escaped and with its prefix, one line fits in a single atomic pipe
/// write.
const MESSAGE_CHARACTERS_MAX: usize = 500;

process_shared! {
    /// State that all processes of a server share.
    #[derive(Debug, Default)]
    struct Shared {
        /// By kind: the instant, in milliseconds, up to which its lines are used up.
        used_up_ms: [AtomicU64; PEERS],
        /// By kind: how many were not written since the last that was.
        withheld: [AtomicU64; PEERS],
        /// Lines that could not be written since the last that could.
        lost: AtomicU64,
    }
}

static SHARED: OnceLock<SharedMemory<Shared>> = OnceLock::new();
static LOG: RwLock<Option<Arc<Log>>> = RwLock::new(None);

struct Log {
    settings: ErrorLogSettings,
    /// If it is one.
    file: Mutex<Option<File>>,
}

/// The subject of a line.
#[derive(Clone, Copy, Default, Serialize)]
struct About<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<&'a str>,
    /// The ID of the request.
    #[serde(rename = "request_id", skip_serializing_if = "Option::is_none")]
    request: Option<&'a str>,
}

/// One line as JSON.
#[derive(Serialize)]
struct Line<'a> {
    time: &'a str,
    level: &'a str,
    #[serde(flatten)]
    about: About<'a>,
    message: &'a str,
}

/// From now on lines are written as these settings say. Before, they go to standard error as text. To be called first
/// in a process that forks others.
///
/// # Errors
/// The file cannot be opened; then everything is as it was.
pub fn open(settings: &ErrorLogSettings) -> io::Result<()> {
    let _ = shared();
    let is_same = |log: &Arc<Log>| log.settings == *settings;
    if current().as_ref().is_some_and(is_same) {
        return Ok(());
    }
    let file = settings.file.as_deref().map(open_file).transpose()?;
    let log = Log { settings: settings.clone(), file: Mutex::new(file) };
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(log));
    Ok(())
}

/// Writes a line about the server.
pub fn report(level: Level, message: fmt::Arguments<'_>) {
    write(level, About::default(), &message.to_string(), 0);
}

/// Writes a line that a peer has caused, about a site, unless there were too many of its kind lately; then it is
/// counted, and `message` is not asked for. `request` is the ID of the request. Both are empty if they are not known.
pub fn report_peer(peer: Peer, site: &str, request: &str, message: impl FnOnce() -> (Level, String)) {
    let Some(withheld) = shared().admit(peer, unix_ms()) else { return };
    let (level, message) = message();
    let about = About {
        site: Some(site).filter(|site| !site.is_empty()),
        request: Some(request).filter(|request| !request.is_empty()),
    };
    write(level, about, &message, withheld);
}

/// Writes a message to the operator who has started the server: on standard error, without the time if that is where
/// the log is, in text. A log elsewhere gets it as well.
pub fn tell(level: Level, line: fmt::Arguments<'_>) {
    let log = current();
    let settings = log.as_ref().map(|log| &log.settings);
    if settings.is_some_and(|settings| level > settings.level) {
        return;
    }
    let is_elsewhere = settings.is_some_and(|settings| settings.file.is_some());
    let is_text = settings.is_none_or(|settings| settings.format == ErrorLogFormat::Text);
    if is_elsewhere || !is_text {
        report(level, line);
    }
    if is_elsewhere || is_text {
        let mark = if level == Level::Info { "" } else { level.name() };
        let colon = if mark.is_empty() { "" } else { ": " };
        write_now(rustix::stdio::stderr(), format!("lamna: {mark}{colon}{line}\n").as_bytes());
    }
}

fn shared() -> &'static SharedMemory<Shared> {
    SHARED.get_or_init(SharedMemory::default)
}

fn current() -> Option<Arc<Log>> {
    LOG.read().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Shared {
    /// Whether a line of this kind may be written at `now_ms`: then how many were not since the last.
    fn admit(&self, peer: Peer, now_ms: u64) -> Option<u64> {
        let slot = peer as usize;
        let advance = |used_up_ms: u64| {
            let next = used_up_ms.max(now_ms) + INTERVAL_MS;
            (next <= now_ms + BURST * INTERVAL_MS).then_some(next)
        };
        if self.used_up_ms[slot].fetch_update(Relaxed, Relaxed, advance).is_err() {
            self.withheld[slot].fetch_add(1, Relaxed);
            return None;
        }
        Some(self.withheld[slot].swap(0, Relaxed))
    }
}

fn write(level: Level, about: About<'_>, message: &str, withheld: u64) {
    let log = current();
    let default = ErrorLogSettings::default();
    let settings = log.as_ref().map_or(&default, |log| &log.settings);
    if level > settings.level {
        return;
    }
    let lost = shared().lost.swap(0, Relaxed);
    let mut shown: String = message.chars().take(MESSAGE_CHARACTERS_MAX).collect();
    if withheld > 0 {
        shown.push_str(&format!(" ({} like this before it not written)", count(withheld, "line")));
    }
    if lost > 0 {
        shown.push_str(&format!(" ({} before it could not be written)", count(lost, "line")));
    }
    let line = line(settings.format, level, about, &shown, unix_ms());
    let written = match &log {
        Some(log) if log.settings.file.is_some() => log.write_to_file(line.as_bytes()),
        _ => write_now(rustix::stdio::stderr(), line.as_bytes()),
    };
    if !written {
        shared().lost.fetch_add(lost + 1, Relaxed);
    }
}

fn line(format: ErrorLogFormat, level: Level, about: About<'_>, message: &str, now_ms: u64) -> String {
    let seconds: String =
        Calendar::from_unix_seconds(now_ms / 1000).rfc3339()[..19].iter().map(|byte| char::from(*byte)).collect();
    let time = format!("{seconds}.{:03}Z", now_ms % 1000);
    let level = level.name();
    let mut line = match format {
        ErrorLogFormat::Text => {
            let site = about.site.map(|site| format!("site {site}: ")).unwrap_or_default();
            let request = about.request.map(|request| format!("request {request}: ")).unwrap_or_default();
            let one_line: String =
                message.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
            format!("{time} {level}: {site}{request}{one_line}")
        }
        ErrorLogFormat::Json => serde_json::to_string(&Line { time: &time, level, about, message })
            .expect("strings can always be written to memory"),
    };
    line.push('\n');
    line
}

impl Log {
    fn write_to_file(&self, line: &[u8]) -> bool {
        let Some(path) = &self.settings.file else { return false };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !file.as_ref().is_some_and(|file| is_at(file, path)) {
            // If it cannot be opened again, the old one is better than none.
            *file = open_file(path).ok().or_else(|| file.take());
        }
        file.as_ref().is_some_and(|file| write_now(file.as_fd(), line))
    }
}

/// Whether `path` names the open file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: io::Result<Metadata>| metadata.ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let there = identity(std::fs::metadata(path));
    there.is_some() && there == identity(file.metadata())
}

/// Writes a line in one piece, if that can be done without waiting for a reader.
fn write_now(to: BorrowedFd<'_>, line: &[u8]) -> bool {
    let ready = poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    ready.is_ok_and(|ready| ready > 0) && rustix::io::write(to, line) == Ok(line.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_has_time_level_site_and_message_in_both_forms() {
        let about = About { site: Some("a.example"), request: Some("7f") };
        let text = line(ErrorLogFormat::Text, Level::Warning, about, "two\nlines", 1_795_233_600_042);
        assert_eq!(text, "2026-11-21T04:00:00.042Z warning: site a.example: request 7f: two lines\n");
        let json = line(ErrorLogFormat::Json, Level::Warning, about, "", 1_795_233_600_042);
        assert!(json.contains("\"site\":\"a.example\",\"request_id\":\"7f\""), "{json}");
        let json = line(ErrorLogFormat::Json, Level::Error, About::default(), "two\nlines", 1_795_233_600_042);
        let expected =
            serde_json::json!({"time": "2026-11-21T04:00:00.042Z", "level": "error", "message": "two\nlines"});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), expected);
    }

    #[test]
    fn what_peers_cause_is_bounded_by_kind_and_what_was_withheld_is_counted() {
        let shared = Shared::default();
        let admitted = |peer, now_ms| (0..1000).filter(|_| shared.admit(peer, now_ms).is_some()).count() as u64;
        assert_eq!(admitted(Peer::Denied, 1_000_000), BURST);
        assert_eq!(admitted(Peer::Failed, 1_000_000), BURST, "another kind is another matter");
        assert_eq!(shared.admit(Peer::Denied, 1_000_000 + INTERVAL_MS), Some(1000 - BURST));
        let day = (1..=86_400).map(|second| admitted(Peer::Denied, 1_100_000 + second * 1000)).sum::<u64>();
        assert!(day <= BURST + 86_400_000 / INTERVAL_MS, "{day} lines in a day");
    }

    #[test]
    fn a_file_that_is_moved_away_is_left_with_the_next_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("error.log");
        let settings = ErrorLogSettings { file: Some(path.clone()), ..ErrorLogSettings::default() };
        let log = Log { settings, file: Mutex::new(Some(open_file(&path).unwrap())) };
        assert!(log.write_to_file(b"one\n"));
        std::fs::rename(&path, directory.path().join("error.log.1")).unwrap();
        assert!(log.write_to_file(b"two\n") && log.write_to_file(b"three\n"));
        let content = |name| std::fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!((content("error.log.1"), content("error.log")), ("one\n".to_owned(), "two\nthree\n".to_owned()));
    }

    #[test]
    fn who_reports_does_not_wait_for_a_reader_that_has_stopped() {
        let (reader, pipe) = io::pipe().unwrap();
        let line = [b'x'; LINE_BYTES_MAX];
        let written = (0..1000).take_while(|_| write_now(pipe.as_fd(), &line)).count();
        assert!(written < 1000, "a pipe is full at some point, and this test goes on");
        drop(reader);
    }

    proptest! {
        #[test]
        fn a_line_is_one_line_of_bounded_length(message in "\\PC{0,40}|[\\x00-\\x20\"\\\\\u{2028}]{0,2000}", site in "\\PC{0,8}") {
            let shown: String = message.chars().take(MESSAGE_CHARACTERS_MAX).collect();
            for format in ErrorLogFormat::ALL {
                let longest = "x".repeat(64);
                let about = About { site: Some(&site), request: Some(&longest) };
                let line = line(format, Level::Error, about, &shown, 0);
                prop_assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
                prop_assert!(!line.trim_end().contains(char::is_control));
                prop_assert!(line.len() <= LINE_BYTES_MAX - 512, "with a long name of a site and two counts");
            }
        }
    }
}
