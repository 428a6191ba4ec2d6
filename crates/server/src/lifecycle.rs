//! The life of a server: from settings to running workers, signals, draining, and the end.
//!
//! Owns: the order in which things start and stop, and what signals mean. Guarantees: listening sockets stay open until
//! the last worker has returned; the access log is written out before the process ends. Serves nothing itself.

use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::cache::Store;
use crate::config::settings::{Architecture, ListenAddress, Settings};
use crate::content::answers;
use crate::engine::{self, Clock, Control, Counters, Shared};
use crate::io::Abilities;
use crate::listen::Listener;
use crate::log::AccessLog;
use crate::site::Sites;

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
    Log(std::io::Error),
    /// Descriptors, memory or threads are lacking.
    Resources(std::io::Error),
    /// So many workers could not go on.
    Workers(usize),
    /// An unknown name in `without`.
    Without(String),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Root(path, errno) => write!(
                f,
                "cannot serve {}: {errno}. Name a directory that this user may search, or check the spelling.",
                path.display()
            ),
            ServeError::Log(error) => write!(f, "{error}. Choose another place with --log FILE, or --log off."),
            ServeError::Resources(error) => {
                write!(f, "cannot start: {error}. The limits on open files and threads (ulimit -a) may be too low.")
            }
            ServeError::Workers(count) => write!(f, "{count} of the workers ended before they were told to"),
            ServeError::Without(name) => {
                write!(f, "{name} is not something to do without: openat2, nowait or cachestat.")
            }
        }
    }
}

impl std::error::Error for ServeError {}

impl ServeError {
    /// Whether the cause is a missing permission.
    pub fn is_permission(&self) -> bool {
        match self {
            ServeError::Root(_, errno) => matches!(*errno, Errno::ACCESS | Errno::PERM),
            ServeError::Log(error) | ServeError::Resources(error) => {
                error.kind() == std::io::ErrorKind::PermissionDenied
            }
            ServeError::Workers(_) | ServeError::Without(_) => false,
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

/// Serves until a signal ends it.
///
/// # Errors
/// What keeps it from starting.
pub fn serve(settings: &Settings, listeners: Vec<Listener>) -> Result<(), ServeError> {
    raise_descriptor_limit();
    let signals = Signals::install()?;
    let shared = Arc::new(prepare(settings, listeners)?);
    announce(settings, &shared);
    let workers = start(settings, &shared)?;
    supervise(&signals, &shared, &workers);
    // One that could not go on, or panicked, has said why on standard error.
    let failed = workers.into_iter().map(Worker::join).filter(|end| !matches!(end, Ok(Ok(())))).count();
    finish(shared);
    if failed == 0 { Ok(()) } else { Err(ServeError::Workers(failed)) }
}

/// Everything that the workers share.
fn prepare(settings: &Settings, listeners: Vec<Listener>) -> Result<Shared, ServeError> {
    let sites = Sites::open(settings).map_err(|(path, errno)| ServeError::Root(path, errno))?;
    let log = AccessLog::open(&settings.log, settings.log_format).map_err(ServeError::Log)?;
    Ok(Shared {
        sites,
        store: Store::new(settings.cache_bytes_max, descriptor_limit() / CACHE_DESCRIPTOR_SHARE),
        abilities: Abilities::without(&settings.without).map_err(ServeError::Without)?,
        limits: Arc::new(settings.limits.clone()),
        pages: Arc::new(answers::pages()),
        listeners,
        log,
        clock: Clock::start(),
        control: Control::new(settings.workers, settings.threads, settings.threads_max)?,
        counters: Counters::default(),
    })
}

fn start(settings: &Settings, shared: &Arc<Shared>) -> Result<Vec<Worker>, ServeError> {
    let (architecture, helpers_max) = (settings.architecture, settings.helpers_max);
    let mut workers = Vec::new();
    for index in 0..settings.workers {
        let shared = shared.clone();
        let work = move || {
            let result = match architecture {
                Architecture::Sped => engine::sped::run(&shared, index),
                Architecture::Amped => engine::amped::run(&shared, index, helpers_max),
                Architecture::Pipelined => engine::pipelined::run(&shared, index),
                Architecture::ThreadPool => engine::thread_pool::run(&shared, index),
                Architecture::ThreadPerRequest => engine::thread_per_request::run(&shared, index),
                Architecture::ThreadPerSession => engine::thread_per_session::run(&shared),
            };
            if let Err(errno) = result {
                eprintln!("lamna: worker {index} cannot go on: {errno}");
            }
            result
        };
        workers.push(thread::Builder::new().name(format!("worker-{index}")).spawn(work)?);
    }
    Ok(workers)
}

/// One line: where, how, and how many.
fn announce(settings: &Settings, shared: &Shared) {
    let addresses: Vec<String> = shared.listeners.iter().map(url).collect();
    let roots: Vec<String> = settings.sites.iter().map(|site| site.root.display().to_string()).collect();
    let workers = if settings.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", settings.workers) };
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

/// What to type into a browser, or into curl's `--unix-socket`.
fn url(listener: &Listener) -> String {
    match listener.address() {
        ListenAddress::Tcp(address) => format!("http://{address}"),
        unix @ ListenAddress::Unix(_) => unix.to_string(),
    }
}

/// Waits for signals, and does what they ask, until the workers have returned.
fn supervise(signals: &Signals, shared: &Shared, workers: &[Worker]) {
    let mut drain_until: Option<Instant> = None;
    let mut interrupts = 0;
    while workers.iter().any(|worker| !worker.is_finished()) {
        let timeout = if drain_until.is_some() { DRAIN_POLL } else { IDLE_POLL };
        for signal in signals.wait(timeout) {
            match signal {
                SIGHUP => {
                    if let Some(log) = &shared.log {
                        log.reopen();
                    }
                }
                SIGINT if interrupts > 0 => shared.control.stop(),
                SIGINT | SIGTERM => {
                    interrupts += usize::from(signal == SIGINT);
                    if drain_until.is_none() {
                        drain_until = Some(Instant::now() + DRAIN_TIME_MAX);
                        eprintln!("lamna: finishing what has begun, at most {} s", DRAIN_TIME_MAX.as_secs());
                        shared.control.drain();
                    }
                }
                _ => {}
            }
        }
        if drain_until.is_some_and(|until| until <= Instant::now()) {
            shared.control.stop();
        }
    }
}

/// How often the end of the workers is looked for while draining, and while nothing is expected.
const DRAIN_POLL: Duration = Duration::from_millis(10);
const IDLE_POLL: Duration = Duration::from_secs(1);

/// Writes the log out and says what was done.
fn finish(shared: Arc<Shared>) {
    if let Some(log) = &shared.log {
        log.close();
        let counters = log.counters();
        if counters.dropped() + counters.lost() > 0 {
            eprintln!("lamna: access log lines dropped: {}, lost: {}", counters.dropped(), counters.lost());
        }
    }
    eprintln!("{}", summary(&shared));
    release(shared);
}

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

const RELEASE_TIME_MAX: Duration = Duration::from_secs(1);

fn summary(shared: &Shared) -> String {
    let (done, disk) = (&shared.counters, &shared.abilities.counters);
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
    format!(
        "lamna: served {} requests on {} connections; names: {} cached, {} would have blocked; reads: {} cached, {} would \
         have blocked; residency tests: {} by cachestat, {} by page, {} not possible; helper jobs: {}; accept pauses: {}, \
         idle connections shed: {}; cache: {} bytes",
        read(&done.requests),
        read(&done.connections),
        read(&disk.open_cached),
        read(&disk.open_blocked),
        read(&disk.read_cached),
        read(&disk.read_blocked),
        read(&disk.tested_by_cachestat),
        read(&disk.tested_by_page),
        read(&disk.untested),
        read(&disk.helper_jobs),
        read(&done.accept_pauses),
        read(&done.idle_shed),
        shared.store.bytes(),
    )
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

/// Signals as a stream that can be waited for.
struct Signals {
    receiver: crossbeam_channel::Receiver<i32>,
}

impl Signals {
    /// Takes over the signals that a server answers to. SIGXFSZ is ignored: a full log file is an error like others.
    fn install() -> Result<Signals, std::io::Error> {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP, SIGXFSZ])?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                if sender.send(signal).is_err() {
                    return;
                }
            }
        })?;
        Ok(Signals { receiver })
    }

    /// The signals that have arrived, waiting for the first at most `timeout`.
    fn wait(&self, timeout: Duration) -> Vec<i32> {
        let first = self.receiver.recv_timeout(timeout).ok();
        first.into_iter().chain(self.receiver.try_iter()).collect()
    }
}
