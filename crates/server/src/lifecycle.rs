//! The life of a server in one process: from settings to running workers, orders, draining, and the end.
//!
//! Owns: the order in which things start and stop. Guarantees: listening sockets stay open until
//! the last worker has returned; the access log is written out before the process ends. Serves nothing itself.

use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::commons::Commons;
use crate::config::settings::{Architecture, ListenAddress, LogTarget, Settings};
use crate::engine::Shared;
use crate::io::Abilities;
use crate::listen::Listener;
use crate::orders::{Order, Orders};
use crate::shift::{self, Leaving, NotNext, Shift, SwitchError};
use crate::supervisor;

/// How long draining waits for what is being sent before it gives up.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);

/// Why a server did not start or ended early.
#[derive(Debug)]
pub enum ServeError {
    /// A directory cannot be opened.
    Root(std::path::PathBuf, Errno),
    /// The access log cannot be opened.
    Log(LogTarget, std::io::Error),
    /// Descriptors, memory or threads are lacking.
    Resources(std::io::Error),
    /// So many workers could not go on.
    Workers(usize),
    /// An unknown name in `without`.
    Without(String),
    /// A worker process cannot begin.
    Worker {
        /// Why, in words.
        cause: String,
        /// Whether a missing permission is the cause.
        permission: bool,
    },
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Root(path, errno) => write!(
                f,
                "cannot serve {}: {errno}. Name a directory that this user may search, or check the spelling.",
                path.display()
            ),
            ServeError::Log(target, error) => {
                let name = match target {
                    LogTarget::File(path) => path.display().to_string(),
                    LogTarget::Stdout | LogTarget::Off => "standard output".to_owned(),
                };
                write!(f, "cannot write {name}: {error}. Choose another place with --log FILE, or --log off.")
            }
            ServeError::Resources(error) => {
                write!(f, "cannot start: {error}. The limits on open files and threads (ulimit -a) may be too low.")
            }
            ServeError::Workers(count) => write!(f, "{count} of the workers ended before they were told to"),
            ServeError::Without(name) => {
                write!(f, "{name} is not something to do without: openat2, nowait, cachestat or io_uring.")
            }
            ServeError::Worker { cause, .. } => f.write_str(cause),
        }
    }
}

impl std::error::Error for ServeError {}

impl ServeError {
    /// Whether the cause is a missing permission.
    pub fn is_permission(&self) -> bool {
        match self {
            ServeError::Root(_, errno) => matches!(*errno, Errno::ACCESS | Errno::PERM),
            ServeError::Log(_, error) | ServeError::Resources(error) => {
                error.kind() == std::io::ErrorKind::PermissionDenied
            }
            ServeError::Workers(_) | ServeError::Without(_) => false,
            ServeError::Worker { permission, .. } => *permission,
        }
    }
}

impl From<Errno> for ServeError {
    fn from(errno: Errno) -> ServeError {
        ServeError::Resources(errno.into())
    }
}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> ServeError {
        ServeError::Resources(error)
    }
}

/// Serves until a signal ends it. To be called before the process has threads.
///
/// # Errors
/// What keeps it from starting.
pub fn serve(settings: &Settings, listeners: Vec<Listener>) -> Result<(), ServeError> {
    raise_descriptor_limit();
    let settings = &possible(settings)?;
    let commons = Commons::new()?;
    let orders = Orders::by_signals()?;
    let result = if settings.architecture.is_of_processes() {
        supervisor::serve(settings, listeners, &commons, orders)
    } else {
        let server = Server::start(settings, listeners, &commons, 0)?;
        announce(settings, &server.shift.shared.listeners);
        server.run(orders)
    };
    for line in commons.to_string().lines() {
        eprintln!("lamna: {line}");
    }
    result
}

/// The server in one process: all there is, or one worker process of several.
#[derive(Debug)]
pub struct Server {
    shift: Shift,
    leaving: Leaving,
}

impl Server {
    /// A server for programs that are more than a server: it starts at once, and goes on until it is stopped.
    ///
    /// # Errors
    /// What keeps it from starting.
    pub fn open(settings: &Settings, listeners: Vec<Listener>) -> Result<Server, ServeError> {
        Server::start(&possible(settings)?, listeners, &Commons::new()?, 0)
    }

    /// Starts the workers. The first takes seat `first_seat` at the board.
    pub(crate) fn start(
        settings: &Settings,
        listeners: Vec<Listener>,
        commons: &Commons,
        first_seat: usize,
    ) -> Result<Server, ServeError> {
        let shift = Shift::first(settings, listeners, commons, first_seat)?;
        Ok(Server { shift, leaving: Leaving::default() })
    }

    /// What it serves with.
    pub fn settings(&self) -> &Settings {
        &self.shift.settings
    }

    /// Goes on with other settings, and so perhaps with another engine, without losing a connection or a byte. Returns when
    /// the new engine serves; the old one may still be handing over (see [`Server::is_changing`]). Where it listens cannot
    /// be changed.
    ///
    /// # Errors
    /// Why not; then everything is as it was.
    pub fn change(&mut self, settings: &Settings) -> Result<(), SwitchError> {
        self.reap();
        if self.shift.shared.control.is_draining() {
            return Err(SwitchError::Impossible("the server is about to end".to_owned()));
        }
        let Some(seat) = self.leaving.free_seats(&self.shift, settings.workers) else {
            let why = "an engine with many workers is still handing over: try again in a moment";
            return Err(SwitchError::Impossible(why.to_owned()));
        };
        match self.shift.next(settings, seat) {
            Ok(next) => {
                let previous = std::mem::replace(&mut self.shift, next);
                previous.leave_to(&self.shift);
                self.leaving.push(previous);
                Ok(())
            }
            Err(not_next) => {
                let NotNext { error, begun } = *not_next;
                begun.into_iter().for_each(|shift| self.leaving.push(shift));
                Err(error)
            }
        }
    }

    /// Whether an engine is still handing its connections over.
    pub fn is_changing(&mut self) -> bool {
        self.reap();
        !self.leaving.is_empty()
    }

    /// Ends at once. Returns when all is over.
    pub fn stop(mut self) {
        self.shift.shared.control.stop();
        while !self.shift.is_over() || self.is_changing() {
            thread::sleep(DRAIN_POLL);
        }
        self.end();
    }

    fn reap(&mut self) {
        if let Some(took) = self.leaving.reap(&self.shift) {
            self.shift.shared.counters.handover_us.store(took.as_micros() as u64, Relaxed);
        }
    }

    /// Does what it is ordered until the workers have returned, and writes the log out.
    ///
    /// # Errors
    /// [`ServeError::Workers`].
    pub(crate) fn run(mut self, mut orders: Orders) -> Result<(), ServeError> {
        self.obey(&mut orders);
        match self.end() {
            0 => Ok(()),
            failed => Err(ServeError::Workers(failed)),
        }
    }

    /// Lets go of everything. Returns how many workers have failed.
    fn end(self) -> usize {
        let shared = self.shift.shared.clone();
        let failed = self.shift.join();
        shared.counters.cache_bytes.fetch_add(shared.store.bytes(), Relaxed);
        shared.log.iter().for_each(|log| log.close());
        release(shared);
        failed
    }

    fn obey(&mut self, orders: &mut Orders) {
        let mut end: Option<Instant> = None;
        let mut drains = false;
        while !self.shift.is_over() {
            let busy = end.is_some() || !self.leaving.is_empty();
            orders.wait(std::iter::empty(), Some(if busy { DRAIN_POLL } else { IDLE_POLL }));
            self.reap();
            while let Some(order) = orders.receive() {
                match order {
                    Order::Reopen => self.shift.shared.log.iter().for_each(|log| log.reopen()),
                    Order::Drain if end.is_none() => {
                        end = Some(Instant::now() + DRAIN_TIME_MAX);
                        if !orders.have_supervisor() {
                            report_draining();
                        }
                        drains = true;
                    }
                    Order::Drain => {}
                    Order::Stop => end = Some(Instant::now()),
                }
            }
            // Not before an engine that is handing over has done so: what it has is to be finished as well.
            if drains && self.leaving.is_empty() {
                self.shift.shared.control.drain();
            }
            if let Some(late) = end.and_then(|end| Instant::now().checked_duration_since(end)) {
                self.shift.shared.control.stop();
                if late > STOP_TIME_MAX {
                    return;
                }
            }
        }
    }
}

/// The settings with an architecture that this kernel carries.
fn possible(settings: &Settings) -> Result<Settings, ServeError> {
    let mut settings = settings.clone();
    Abilities::without(&settings.without).map_err(ServeError::Without)?;
    if let Err(errno) = shift::is_possible(&settings) {
        settings.architecture = Architecture::Amped;
        eprintln!(
            "lamna: io_uring is not to be had here ({errno}): serving as amped instead of proactor. {}",
            shift::IO_URING_NEEDS
        );
    }
    Ok(settings)
}

/// One line: where, how, and how many.
pub(crate) fn announce(settings: &Settings, listeners: &[Listener]) {
    let addresses: Vec<String> = listeners.iter().map(url).collect();
    let roots: Vec<String> = settings.sites.iter().map(|site| site.root.display().to_string()).collect();
    let count = match settings.architecture {
        Architecture::Mp => settings.processes,
        _ => settings.workers,
    };
    let kind = if settings.architecture.is_of_processes() { "process" } else { "worker" };
    let workers = match (count, kind) {
        (1, kind) => format!("1 {kind}"),
        (count, "process") => format!("{count} processes"),
        (count, kind) => format!("{count} {kind}s"),
    };
    eprintln!(
        "lamna: serving {} at {} ({}, {workers})",
        roots.join(", "),
        addresses.join(", "),
        settings.architecture.name()
    );
    if std::io::stderr().is_terminal() {
        eprintln!("lamna: press Ctrl-C to stop");
    }
}

/// One line that says that draining has begun.
pub(crate) fn report_draining() {
    eprintln!("lamna: finishing what has begun, at most {} s", DRAIN_TIME_MAX.as_secs());
}

/// What to type into a browser, or into curl's `--unix-socket`.
fn url(listener: &Listener) -> String {
    match listener.address() {
        ListenAddress::Tcp(address) => format!("http://{address}"),
        unix @ ListenAddress::Unix(_) => unix.to_string(),
    }
}

/// How often the end of the workers is looked for while draining, and while nothing is expected.
const DRAIN_POLL: Duration = Duration::from_millis(10);
const IDLE_POLL: Duration = Duration::from_secs(1);
/// How long a worker that was told to stop is waited for: it may be waiting for a disk.
const STOP_TIME_MAX: Duration = Duration::from_secs(1);
/// How long helpers that still wait for a disk are waited for.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(1);

/// Lets go of what is shared, and with it of the files of Unix sockets, once helpers have done so. They end with their
/// workers; one that still waits for a disk is not waited for.
fn release(mut shared: Arc<Shared>) {
    let until = Instant::now() + RELEASE_TIME_MAX;
    while let Err(still_shared) = Arc::try_unwrap(shared)
        && Instant::now() < until
    {
        shared = still_shared;
        thread::sleep(Duration::from_millis(1));
    }
}

/// Connections need descriptors: take as many as we are allowed to.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it fails the old limit stays, and running out is survived.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
