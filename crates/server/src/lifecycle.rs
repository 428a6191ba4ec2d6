//! The life of a server in one process: from settings to running workers, orders, draining, and the end.
//!
//! Owns: the order in which things start and stop. Guarantees: listening sockets stay open until
//! the last worker has returned; the access log is written out before the process ends. Serves nothing itself.

use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cache::{Bounds, Store, Watcher};
use crate::commons::Commons;
use crate::config::settings::{Architecture, HelperKind, ListenAddress, LogTarget, Settings};
use crate::content::answers;
use crate::engine::nursery::Nursery;
use crate::engine::{self, Clock, Control, Shared};
use crate::io::Abilities;
use crate::listen::Listener;
use crate::log::AccessLog;
use crate::orders::{Order, Orders};
use crate::site::Sites;
use crate::supervisor;

/// How long draining waits for what is being sent before it gives up.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);

/// A thread that serves, and how it ends.
type Worker = JoinHandle<Result<(), Errno>>;

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
        announce(settings, &server.shared.listeners);
        server.run(orders)
    };
    for line in commons.to_string().lines() {
        eprintln!("lamna: {line}");
    }
    result
}

/// The server in one process: all there is, or one worker process of several.
pub(crate) struct Server {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
}

impl Server {
    /// Starts the workers. The first takes seat `first_seat` at the board.
    pub(crate) fn start(
        settings: &Settings,
        listeners: Vec<Listener>,
        commons: &Commons,
        first_seat: usize,
    ) -> Result<Server, ServeError> {
        let shared = Arc::new(prepare(settings, listeners, commons, first_seat)?);
        let mut workers = Vec::new();
        for index in 0..settings.workers {
            shared.board.take(first_seat + index);
            let (shared, settings) = (shared.clone(), settings.clone());
            let work = move || {
                let result = engine::run(&shared, index, &settings);
                if let Err(errno) = result {
                    eprintln!("lamna: worker {index} cannot go on: {errno}");
                }
                shared.seat(index).clear();
                result
            };
            workers.push(thread::Builder::new().name(format!("worker-{index}")).spawn(work)?);
        }
        Ok(Server { shared, workers })
    }

    /// Does what it is ordered until the workers have returned, and writes the log out.
    ///
    /// # Errors
    /// [`ServeError::Workers`].
    pub(crate) fn run(self, mut orders: Orders) -> Result<(), ServeError> {
        self.obey(&mut orders);
        let finished = self.workers.into_iter().filter(JoinHandle::is_finished);
        // One that could not go on, or panicked, has said why on standard error.
        let failed = finished.map(Worker::join).filter(|end| !matches!(end, Ok(Ok(())))).count();
        self.shared.counters.cache_bytes.fetch_add(self.shared.store.bytes(), Relaxed);
        self.shared.log.iter().for_each(AccessLog::close);
        release(self.shared);
        if failed == 0 { Ok(()) } else { Err(ServeError::Workers(failed)) }
    }

    fn obey(&self, orders: &mut Orders) {
        let mut end: Option<Instant> = None;
        while self.workers.iter().any(|worker| !worker.is_finished()) {
            orders.wait(std::iter::empty(), Some(if end.is_some() { DRAIN_POLL } else { IDLE_POLL }));
            while let Some(order) = orders.receive() {
                match order {
                    Order::Reopen => self.shared.log.iter().for_each(AccessLog::reopen),
                    Order::Drain if end.is_none() => {
                        end = Some(Instant::now() + DRAIN_TIME_MAX);
                        if !orders.have_supervisor() {
                            report_draining();
                        }
                        self.shared.control.drain();
                    }
                    Order::Drain => {}
                    Order::Stop => end = Some(Instant::now()),
                }
            }
            if let Some(late) = end.and_then(|end| Instant::now().checked_duration_since(end)) {
                self.shared.control.stop();
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
    let abilities = Abilities::without(&settings.without).map_err(ServeError::Without)?;
    if settings.architecture == Architecture::Proactor
        && let Err(errno) = engine::proactor::test(&abilities)
    {
        settings.architecture = Architecture::Amped;
        eprintln!(
            "lamna: io_uring is not to be had here ({errno}): serving as amped instead of proactor. It takes Linux 6.1, \
             kernel.io_uring_disabled=0 and a seccomp profile that allows it."
        );
    }
    Ok(settings)
}

/// Everything that the workers of a process share.
fn prepare(
    settings: &Settings,
    listeners: Vec<Listener>,
    commons: &Commons,
    first_seat: usize,
) -> Result<Shared, ServeError> {
    // First of all, because later there are threads.
    let nursery = (settings.helpers == HelperKind::Processes).then(|| Nursery::start(settings)).transpose()?;
    let sites = Sites::open(settings).map_err(|(path, errno)| ServeError::Root(path, errno))?;
    let abilities = Abilities::without(&settings.without).map_err(ServeError::Without)?;
    let clock = Clock::start();
    let store = store(settings, &sites, clock, commons);
    let log = AccessLog::open(&settings.log, settings.log_format, commons.log.clone())
        .map_err(|error| ServeError::Log(settings.log.clone(), error))?;
    Ok(Shared {
        sites,
        store,
        abilities: Abilities { counters: commons.disk.clone(), ..abilities },
        limits: Arc::new(settings.limits.clone()),
        pages: Arc::new(answers::pages()),
        listeners,
        log,
        clock,
        control: Control::new(settings.workers, settings.threads, settings.threads_max)?,
        counters: commons.done.clone(),
        board: commons.board.clone(),
        first_seat,
        alarm: commons.alarm.clone(),
        nursery,
    })
}

fn store(settings: &Settings, sites: &Sites, clock: Clock, commons: &Commons) -> Store {
    let is_small = settings.architecture == Architecture::Mp;
    let bounds = Bounds {
        bytes_max: settings.cache_bytes_max,
        descriptors_max: descriptor_limit() / CACHE_DESCRIPTOR_SHARE,
        entries_max: is_small.then_some(settings.process_translations_max),
    };
    // Small caches are of many processes, and there are few inotify instances for each user.
    let watches = settings.cache_watch && !is_small;
    let watcher = watches.then(|| Watcher::new(sites.root_paths(), clock, commons.cache.clone()).ok()).flatten();
    Store::with(bounds, settings.cache_policy, watcher, commons.cache.clone())
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

/// The cache may hold every fourth descriptor: the others are for connections.
const CACHE_DESCRIPTOR_SHARE: u64 = 4;

fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(1 << 20)
}

/// Connections need descriptors: take as many as we are allowed to.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it fails the old limit stays, and running out is survived.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
