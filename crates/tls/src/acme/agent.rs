//! The thread that orders certificates: it looks what is due, orders it, and keeps what came of it.
//!
//! Owns: the order of work. It runs in each process that serves, once; the lock of a name decides which of them orders
//! it. It holds nothing that serving needs, and a process that ends does not wait for it: what it leaves behind are
//! whole files, and locks that end with the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lamna_config::acme::AcmeSettings;
use lamna_config::settings::{ListenAddress, Settings};
use lamna_io::listen::Listener;
use lamna_io::log::errors::{self, Level};

use super::http::Https;
use super::order::{Again, Authority, Challenge, Failed, Job, forget_account};
use super::record::{Record, Renewal};
use super::schedule::{self, Next};
use super::status::{date, now, seed, validity, within};
use super::watch::Watch;
use crate::automatic::StateFiles;
use crate::certificates::{self, Stamp};
use crate::client::Trust;

/// How often it is looked whether files have changed: another process may have ordered, or an operator wants a retry at
/// once.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Where challenges can be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReachablePorts {
    /// At the port of plain HTTP.
    pub http: bool,
    /// At a port of TLS.
    pub tls: bool,
}

impl ReachablePorts {
    /// Those of `listeners`.
    pub fn of(listeners: &[Arc<Listener>]) -> ReachablePorts {
        let is_tls =
            |listener: &Arc<Listener>| listener.speaks_tls() && matches!(listener.address(), ListenAddress::Tcp(_));
        ReachablePorts {
            http: listeners.iter().any(|listener| listener.is_for_plain_http()),
            tls: listeners.iter().any(is_tls),
        }
    }

    /// How the next attempt is made after so many failures: where there are two ways, the other one each time.
    fn challenge(self, failures: u32) -> Challenge {
        match (self.http, self.tls) {
            (true, true) if failures % 2 == 1 => Challenge::TlsAlpn,
            (true, _) => Challenge::Http,
            (false, _) => Challenge::TlsAlpn,
        }
    }
}

/// The certificates to look after, with their settings and files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    names: Vec<String>,
    settings: AcmeSettings,
    files: StateFiles,
    ports: ReachablePorts,
}

/// The ACME service as a server sees it: a thread while there are certificates to look after, and nothing otherwise.
#[derive(Debug)]
pub struct AcmeService {
    /// This process is the one that does it.
    is_here: bool,
    watch: Option<Arc<Watch<Task>>>,
}

impl AcmeService {
    /// Starts the service of a process for a server that listens at `listeners`. It orders the names in `settings` only
    /// where `is_here` is set.
    pub fn start(is_here: bool, settings: &Settings, listeners: &[Arc<Listener>]) -> AcmeService {
        let mut acme_service = AcmeService { is_here, watch: None };
        acme_service.follow(settings, listeners);
        acme_service
    }

    /// Goes on with `settings`.
    pub fn follow(&mut self, settings: &Settings, listeners: &[Arc<Listener>]) {
        let task = task_of(settings, ReachablePorts::of(listeners)).filter(|_| self.is_here);
        match (&self.watch, task) {
            (_, None) => self.stop(),
            (Some(watch), task) => watch.put(task),
            (None, Some(task)) => {
                let watch = Arc::new(Watch::new(task));
                let own = watch.clone();
                match thread::Builder::new().name("acme".to_owned()).spawn(move || work(&own)) {
                    Ok(_) => self.watch = Some(watch),
                    Err(error) => {
                        errors::report(
                            Level::Error,
                            format_args!("no certificate is ordered: no thread for it: {error}"),
                        );
                    }
                }
            }
        }
    }

    /// Begins nothing more.
    pub fn stop(&mut self) {
        self.watch.take().into_iter().for_each(|watch| watch.put(None));
    }
}

impl Drop for AcmeService {
    fn drop(&mut self) {
        self.stop();
    }
}

fn task_of(settings: &Settings, ports: ReachablePorts) -> Option<Task> {
    let names: Vec<String> = settings.automatic_names().into_iter().map(str::to_owned).collect();
    let files = if names.is_empty() { None } else { StateFiles::of(settings).ok() };
    files.map(|files| Task { names, settings: settings.acme.clone(), files, ports })
}

/// The next step for a name, and the state of its files from which it was derived.
struct Known {
    stamps: [Option<Stamp>; 2],
    next: Next,
}

/// Looks after the names of the task until there is none any more.
fn work(watch: &Watch<Task>) {
    let mut known: HashMap<String, Known> = HashMap::new();
    loop {
        let Some(task) = watch.task() else { return };
        let mut round = Round { task: &task, authority: None, https: None };
        for name in &task.names {
            if !watch.is(&task) {
                break;
            }
            if is_due(&task, name, &mut known) {
                round.handle(name);
            }
        }
        watch.wait_for_another(&task, LOOK_INTERVAL);
    }
}

/// Whether something is to be done about `name` now. Files are read only if they have changed.
fn is_due(task: &Task, name: &str, known: &mut HashMap<String, Known>) -> bool {
    let stamps = [task.files.certificate(name), task.files.record(name)].map(|path| certificates::stamp(&path));
    let known = match known.get(name).filter(|known| known.stamps == stamps) {
        Some(known) => known.next,
        None => {
            let next = look(task, name).1;
            known.insert(name.to_owned(), Known { stamps, next });
            next
        }
    };
    known.at() <= now()
}

/// The record of `name`, and the next step for it.
fn look(task: &Task, name: &str) -> (Record, Next) {
    let (record, validity) = (Record::read(&task.files, name), validity(&task.files, name));
    let seed = validity.map_or(0, |validity| seed(name, validity));
    let next = schedule::next(validity, &record, seed);
    (record, next)
}

/// One look at all names. What an authority has answered counts until its end.
struct Round<'a> {
    task: &'a Task,
    authority: Option<Result<Authority, Failed>>,
    /// The HTTPS client for the authority.
    https: Option<Https>,
}

impl Round<'_> {
    /// Does what is due about `name`, unless another process is doing it.
    fn handle(&mut self, name: &str) {
        let files = &self.task.files;
        let _lock = match files.lock(name) {
            Ok(Some(lock)) => lock,
            Ok(None) => return,
            Err(error) => {
                return errors::report(Level::Error, format_args!("{name}: no certificate is ordered: {error}"));
            }
        };
        // Another process may have done it just before.
        let (mut record, next) = look(self.task, name);
        match next {
            next if next.at() > now() => return,
            Next::Order(_) => self.order(name, &mut record),
            Next::Ask(_) => self.ask(name, &mut record),
        }
        if let Err(error) = record.write(files, name) {
            errors::report(Level::Error, format_args!("{}: cannot be written: {error}", files.record(name).display()));
        }
    }

    fn authority(&mut self) -> Result<&Authority, Failed> {
        let (task, https) = (self.task, &mut self.https);
        let authority = self.authority.get_or_insert_with(|| {
            let trust = Trust::of(task.settings.roots.as_deref()).map_err(|error| Failed::of(error.to_string()))?;
            open(task, https.insert(Https::new(trust)))
        });
        authority.as_ref().map_err(Clone::clone)
    }

    fn order(&mut self, name: &str, record: &mut Record) {
        let task = self.task;
        let challenge = task.ports.challenge(record.failures);
        let directory = &task.settings.directory;
        errors::report(
            Level::Info,
            format_args!("{name}: ordering a certificate from {directory}, by {}", challenge.name()),
        );
        let leaf = task.files.leaf(name);
        let (profile, files) = (task.settings.profile.as_deref(), &task.files);
        let job = Job { name, challenge, profile, leaf: leaf.as_deref(), files };
        let mut done = self.authority().and_then(|authority| authority.order(&job));
        if let Some(again) = done.as_ref().err().map(|failed| failed.again).filter(|again| *again != Again::Same) {
            prepare(again, files);
            self.authority = None;
            done = self.authority().and_then(|authority| authority.order(&job));
        }
        let retry_after = self.https.as_ref().map_or(0, Https::take_retry_after);
        match done {
            Ok(()) => {
                record.succeed(now());
                let validity = validity(files, name);
                let until = validity.map_or(0, |validity| u64::try_from(validity.until).unwrap_or(0));
                let renewed = validity.map_or(0, |validity| schedule::renew_at(validity, record, seed(name, validity)));
                let (until, renewed) = (date(until), date(renewed));
                errors::report(
                    Level::Info,
                    format_args!("{name}: a certificate was issued, valid until {until}, to be renewed on {renewed}"),
                );
            }
            Err(failed) => {
                let pause = schedule::pause(record.failures + 1, random()).max(retry_after.min(schedule::PAUSE_MAX_S));
                record.fail(&failed.words, now(), pause);
                let until = validity(files, name).and_then(|validity| u64::try_from(validity.until).ok());
                let meanwhile = match until.filter(|until| *until > now()) {
                    Some(until) => format!("the one before is served, valid until {}", date(until)),
                    None => "until there is one, handshakes for it fail".to_owned(),
                };
                errors::report(
                    Level::Error,
                    format_args!(
                        "{name}: no certificate was issued by {directory}: {failed}; the next attempt is {}; {meanwhile}",
                        within(pause)
                    ),
                );
            }
        }
    }

    /// Asks when the certificate is to be renewed. That no answer comes is no failure: its age says it as well.
    fn ask(&mut self, name: &str, record: &mut Record) {
        let files = &self.task.files;
        let (Some(leaf), Some(validity)) = (files.leaf(name), validity(files, name)) else { return };
        let of = u64::try_from(validity.until).unwrap_or(0);
        let known = record.renewal.take().filter(|renewal| renewal.of == of).and_then(|renewal| renewal.window);
        let (window, again) = match self.authority().and_then(|authority| authority.renewal(&leaf)) {
            Ok(Some(said)) => (Some(said.window), schedule::ask_again(said.ask_again_after)),
            Ok(None) => (None, schedule::ASK_AGAIN_MAX_S),
            Err(_) => (known, schedule::ASK_AGAIN_FAILED_S),
        };
        record.renewal = Some(Renewal { of, window, ask_at: now() + again });
    }
}

fn open(task: &Task, https: &Https) -> Result<Authority, Failed> {
    let _lock = task.files.lock_to_register().map_err(|error| Failed::of(error.to_string()))?;
    let open = || Authority::open(&task.files, &task.settings, https);
    match open() {
        Err(failed) if failed.again != Again::Same => {
            prepare(failed.again, &task.files);
            open()
        }
        other => other,
    }
}

/// Makes different what may be different the next time.
fn prepare(again: Again, files: &StateFiles) {
    if again == Again::WithAnotherAccount {
        forget_account(files);
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without random numbers pauses are as long as they are.
    let _ = crate::crypto::fill_random(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_are_two_ways_each_failure_is_followed_by_the_other() {
        let ports = |http, tls| ReachablePorts { http, tls };
        let two: Vec<&str> = (0..4).map(|failures| ports(true, true).challenge(failures).name()).collect();
        assert_eq!(two, ["http-01", "tls-alpn-01", "http-01", "tls-alpn-01"]);
        for failures in 0..3 {
            assert_eq!(ports(true, false).challenge(failures), Challenge::Http);
            assert_eq!(ports(false, true).challenge(failures), Challenge::TlsAlpn);
        }
    }
}
