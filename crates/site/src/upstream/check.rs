//! Asking the places of an application whether they are well.
//!
//! ```text
//!  checks (a thread for each place) --claim--> ask --verdict--> row of the place (all processes)
//!                                                                 |
//!                                     health of the place <-------+  (each process)
//! ```
//!
//! Owns: [`Checks`], threads that do not serve, and one check ([`ask`]). Guarantees: who serves waits for no check. Of
//! several processes one asks at a time, and all hear of it: a place is asked about as often as the settings say,
//! however many processes serve. Ends with the group.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant as Moment};

use lamna_config::gateway::CheckSettings;
use lamna_io::log::errors::{Level, report};
use lamna_proto::gateway::AnswerStep;
use lamna_proto::gateway::http1::{AnswerReader, Asked};
use lamna_proto::gateway::proxy::{self, Sender};
use lamna_sys::clock::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::dial::{Dial, Dialled};
use super::group::{Group, Located};
use super::link::{Link, send_preface};

/// The threads that check the places of a group. They end when it is dropped, which waits for none of them.
#[derive(Debug)]
pub(super) struct Checks(Arc<End>);

#[derive(Debug, Default)]
struct End {
    has_come: Mutex<bool>,
    changed: Condvar,
}

impl Checks {
    /// Begins to check the places of `group`, for a site of this name. A thread that cannot be had is said, and its
    /// place is not checked.
    pub(super) fn start(group: &Arc<Group>, site: &str, clock: Clock) -> Checks {
        let end = Arc::new(End::default());
        let Some(check) = &group.settings.check else {
            // What a configuration before this one has found out is not found out any more.
            (0..group.settings.upstreams.len())
                .filter_map(|index| group.row(index))
                .for_each(|row| _ = row.set_down(false));
            return Checks(end);
        };
        for index in 0..group.settings.upstreams.len() {
            let (group_of, end, check) = (Arc::downgrade(group), end.clone(), check.clone());
            let label = site.to_owned();
            let thread = thread::Builder::new().name("checks".to_owned());
            let started = thread.spawn(move || keep_checking(&group_of, index, &check, &label, clock, &end));
            if let Err(error) = started {
                let name = group.name(index);
                report(Level::Error, format_args!("site {site}: upstream {name} is not checked: {error}"));
            }
        }
        Checks(end)
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        *self.0.has_come.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

fn keep_checking(group: &Weak<Group>, index: usize, check: &CheckSettings, site: &str, clock: Clock, end: &End) {
    let interval = Duration::from_millis(u64::from(check.interval_ms));
    let mut heard = None;
    if let Some(group) = group.upgrade().filter(|group| group.row(index).is_some_and(|row| row.counts().is_down)) {
        // A group before this one, or another process, has found out.
        (0..check.misses).for_each(|_| _ = group.handle_check(index, clock.now(), false));
    }
    loop {
        {
            let Some(group) = group.upgrade() else { return };
            round(&group, index, check, site, clock, &mut heard);
        }
        let has_come = end.has_come.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = end.changed.wait_timeout_while(has_come, interval, |has_come| !*has_come);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
    }
}

/// Checks, unless another process has just done so, and hears what came of it.
fn round(group: &Arc<Group>, index: usize, check: &CheckSettings, site: &str, clock: Clock, heard: &mut Option<u64>) {
    let Some(row) = group.row(index) else {
        // It is not among those that all processes know: each asks for itself.
        let outcome = ask(group, index, check);
        group.handle_check(index, clock.now(), outcome.is_ok());
        return;
    };
    // A process that is a little early must not be left out for a whole interval.
    if row.claim_check(clock.now().ms(), u64::from(check.interval_ms - check.interval_ms / 8)) {
        let outcome = ask(group, index, check);
        row.publish_check(outcome.is_ok());
        if let Err(why) = &outcome {
            group.note_check(index, &format!("the check of {} has failed: {why}", check.path));
        }
        let (number, has_passed) = row.last_check();
        *heard = Some(number);
        let is_down = group.handle_check(index, clock.now(), has_passed);
        let name = group.name(index);
        match (row.set_down(is_down), is_down) {
            (false, true) => {
                let why = outcome.err().unwrap_or_default();
                report(
                    Level::Error,
                    format_args!("site {site}: upstream {name} is down: check of {}: {why}", check.path),
                );
            }
            (true, false) => report(Level::Warning, format_args!("site {site}: upstream {name} is well again")),
            _ => {}
        }
        return;
    }
    let (number, has_passed) = row.last_check();
    if number > 0 && *heard != Some(number) {
        *heard = Some(number);
        let _ = group.handle_check(index, clock.now(), has_passed);
    }
}

/// Asks once.
///
/// # Errors
/// The place is not well: why.
fn ask(group: &Arc<Group>, index: usize, check: &CheckSettings) -> Result<(), String> {
    let until = Moment::now() + Duration::from_millis(u64::from(check.timeout_ms));
    let mut link = connect(group, index, until)?;
    let host = group.settings.host.clone().unwrap_or_else(|| group.authority_of(index));
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: lamna-check\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        check.path
    );
    let status = converse(&mut link, request.as_bytes(), until);
    drop(link);
    let status = status?;
    match check.statuses.iter().any(|statuses| statuses.contains(&status)) {
        true => Ok(()),
        false => Err(format!("its answer is {status}")),
    }
}

fn connect(group: &Arc<Group>, index: usize, until: Moment) -> Result<Link, String> {
    let destination = loop {
        match group.locate(index) {
            Located::At(destination) => break destination,
            Located::Failed(why) => return Err(format!("the name cannot be looked up: {why}")),
            Located::Unknown if Moment::now() >= until => return Err(LATE.to_owned()),
            Located::Unknown => thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut dial = Dial::new(destination);
    let socket = loop {
        match dial.go_on() {
            Dialled::Connected(socket) => break socket,
            Dialled::Failed(errno) => return Err(errno.to_string()),
            Dialled::Waiting => {
                let Some(socket) = dial.socket() else { return Err(Errno::BADF.to_string()) };
                wait(&PollFd::from_borrowed_fd(socket, PollFlags::OUT), until)?;
            }
        }
    };
    if let Some(version) = group.settings.send_proxy {
        send_preface(&socket, &proxy::header(version, Sender::Own)).map_err(|errno| errno.to_string())?;
    }
    let mut link = Link::new(socket, group.session(index)?);
    while !link.handshake().map_err(|error| format!("TLS: {error}"))? {
        wait_for(&link, true, until)?;
    }
    Ok(link)
}

/// Sends a request. The status of its answer.
fn converse(link: &mut Link, request: &[u8], until: Moment) -> Result<u16, String> {
    let mut reader = AnswerReader::new(Asked { is_head: false, upgrade: None });
    let (mut sent, mut received) = (0, Vec::with_capacity(ANSWER_BYTES_MAX));
    loop {
        while sent < request.len() {
            match link.send(&request[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.to_string()),
            }
        }
        link.flush().map_err(|errno| errno.to_string())?;
        match link.receive(&mut received) {
            Ok(0) => return Err("it closed the connection without an answer".to_owned()),
            Ok(_) => {}
            Err(Errno::AGAIN) => {
                wait_for(link, sent == request.len(), until)?;
                continue;
            }
            Err(errno) => return Err(errno.to_string()),
        }
        loop {
            let step = reader.read(&received).map_err(|error| error.to_string())?;
            let consumed = match step {
                AnswerStep::Head { head, .. } => return Ok(head.status),
                AnswerStep::Interim { consumed, .. } => consumed,
                AnswerStep::Incomplete { consumed } => {
                    received.drain(..consumed);
                    break;
                }
                _ => return Err("its answer is none".to_owned()),
            };
            received.drain(..consumed);
        }
        if received.len() == received.capacity() {
            return Err(reader.handle_full().to_string());
        }
    }
}

/// A head fits.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const LATE: &str = "it did not answer in time";

fn wait_for(link: &Link, is_sent: bool, until: Moment) -> Result<(), String> {
    let mut flags = PollFlags::IN;
    flags.set(PollFlags::OUT, !is_sent || link.wants_write());
    wait(&PollFd::from_borrowed_fd(link.socket(), flags), until)
}

fn wait(socket: &PollFd<'_>, until: Moment) -> Result<(), String> {
    let left = until.saturating_duration_since(Moment::now());
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut [socket.clone()], Some(&timeout)) {
        Ok(0) => Err(LATE.to_owned()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(io::Error::from(errno).to_string()),
    }
}
