//! Applications that the server starts itself: `command` of a gateway.
//!
//! Owns: their sockets, processes and output. Guarantees: a connection to a FastCGI application that comes while no
//! instance runs waits in the listen queue of the socket; a program that listens itself is not started where another
//! one listens; what ends is started again, ever later if it ends young; what an instance writes is in the error log,
//! line by line; an instance and its process group end with the server, whatever ends it. Waits for nothing but the end
//! of instances when the server itself ends. It belongs to the main thread or the supervisor, because threads that
//! serve cannot start programs.
//!
//! # Reload and upgrade
//! A command that is changed is replaced at the same socket. What is unchanged is untouched. A process that takes over
//! makes a socket of its own in the place of its predecessor's, as soon as the place is its own. The predecessor's
//! instances go on with what has been asked of them, until it ends.

mod instance;
mod place;

use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use lamna_config::gateway::Instances;
use lamna_config::settings::Settings;
use lamna_io::listen::unix::OwnSocket;
use lamna_io::log::errors::{self, Level};
use lamna_sys::clock::unix_ms;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::admin::applications::ApplicationStatus;
use crate::admin::socket_path::make_directory;
use crate::process::supervisor::restart::Restart;
use instance::Instance;
use place::{Started, Wanted};

/// All of them. Without any it does nothing.
#[derive(Debug)]
pub struct Applications {
    all: Vec<Application>,
    /// Instances that have been told to end.
    ending: Vec<Instance>,
    /// The process that has started them: the copy that a forked one has is no business of it.
    process: u32,
}

#[derive(Debug)]
struct Application {
    settings: Started,
    socket: Option<OwnSocket>,
    instances: Vec<Instance>,
    restart: Restart,
    demand: Demand,
    history: History,
    /// Another program listens in its place: when it is looked again.
    taken_until: Option<Instant>,
}

/// The history of an application.
#[derive(Debug, Default)]
struct History {
    /// Processes that have ended, or could not be started.
    ends: u64,
    /// How the last one has, and when, in seconds since 1970.
    last: Option<(String, u64)>,
}

/// How many instances the listen queue asks for, if that decides.
#[derive(Debug)]
struct Demand {
    wanted: usize,
    /// When the present wait of connections began.
    since: Option<Instant>,
    /// When a connection waited last.
    last: Instant,
}

/// How long a connection waits before another instance is started.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// An instance that ends by itself is not replaced if no connection has waited for so long, and others remain.
const CALM: Duration = Duration::from_secs(60);
/// Instances for each processor, where the queue decides.
const INSTANCES_PER_PROCESSOR: usize = 8;
/// How long an instance that is told to end may take before it is killed.
const END_TIME_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether another program still listens where one is to be started.
const TAKEN_POLL: Duration = Duration::from_millis(100);
/// How often the end of instances is looked for while the server waits for nothing else.
const END_POLL: Duration = Duration::from_millis(5);

impl Applications {
    /// None yet.
    pub(crate) fn new() -> Applications {
        Applications { all: Vec::new(), ending: Vec::new(), process: std::process::id() }
    }

    /// Does what there is to do: starts those that the settings name, and ends those that they do not.
    pub(crate) fn follow(&mut self, settings: &Settings) {
        let wanted = place::wanted(settings);
        if !wanted.iter().copied().eq(self.all.iter().map(|one| one.settings.borrow())) {
            self.replace(&wanted);
        }
        self.look();
    }

    fn replace(&mut self, wanted: &[Wanted<'_>]) {
        let mut before = std::mem::take(&mut self.all);
        for &settings in wanted {
            let application = match before.iter().position(|one| one.settings.borrow().is_where(settings)) {
                None => Application::new(settings.to_owned(), None),
                Some(found) => {
                    let found = before.swap_remove(found);
                    if found.settings.borrow() == settings {
                        self.all.push(found);
                        continue;
                    }
                    self.ending.extend(found.instances);
                    Application::new(settings.to_owned(), found.socket)
                }
            };
            self.all.push(application);
        }
        self.ending.extend(before.into_iter().flat_map(|one| one.instances));
        self.ending.iter_mut().for_each(|instance| instance.tell_to_end(END_TIME_MAX));
    }

    /// The descriptors that they are waited for by: their output, and their listen queues where these decide. Their
    /// ends are signals.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let instances = self.all.iter().flat_map(|one| &one.instances).chain(&self.ending);
        let queues = self.all.iter().filter(|one| one.watches_queue()).filter_map(|one| one.socket.as_ref());
        instances.filter_map(Instance::output).chain(queues.map(AsFd::as_fd))
    }

    /// How long there is nothing to do if nothing happens.
    pub(crate) fn due(&self) -> Duration {
        let now = Instant::now();
        let ends = self.ending.iter().filter_map(Instance::kill_at);
        let due = self.all.iter().filter_map(Application::due).chain(ends).min();
        due.map_or(Duration::MAX, |due| due.saturating_duration_since(now))
    }

    /// How they are doing.
    pub(crate) fn status(&self) -> Vec<ApplicationStatus> {
        self.all.iter().map(Application::status).collect()
    }

    fn look(&mut self) {
        self.ending.retain_mut(|instance| instance.look().is_none());
        self.all.iter_mut().for_each(Application::look);
    }

    /// Ends all of them, and waits until they have ended.
    pub(crate) fn end(&mut self) {
        self.ending.extend(self.all.drain(..).flat_map(|one| one.instances));
        self.ending.iter_mut().for_each(|instance| instance.tell_to_end(END_TIME_MAX));
        while !self.ending.is_empty() {
            self.look();
            thread::sleep(END_POLL);
        }
    }

    /// In a forked process: they are its parent's.
    pub(crate) fn forget(&mut self) {
        self.all.clear();
        self.ending.clear();
    }
}

impl Drop for Applications {
    /// The server has failed, if there are any left.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            let all = self.all.iter_mut().flat_map(|one| &mut one.instances).chain(&mut self.ending);
            all.for_each(Instance::kill);
        }
    }
}

impl Application {
    fn new(settings: Started, socket: Option<OwnSocket>) -> Application {
        let wanted = match settings.instances() {
            Instances::Fixed(number) => number.get() as usize,
            Instances::Auto => 1,
        };
        let demand = Demand { wanted, since: None, last: Instant::now() };
        Application {
            settings,
            socket,
            instances: Vec::new(),
            restart: Restart::of_applications(),
            demand,
            history: History::default(),
            taken_until: None,
        }
    }

    fn most(&self) -> usize {
        match self.settings.instances() {
            Instances::Fixed(number) => number.get() as usize,
            Instances::Auto => {
                thread::available_parallelism().map_or(1, NonZero::get).saturating_mul(INSTANCES_PER_PROCESSOR)
            }
        }
    }

    /// Whether a new waiting connection would matter.
    fn watches_queue(&self) -> bool {
        self.demand.wanted < self.most() && self.demand.since.is_none() && self.instances.len() == self.demand.wanted
    }

    fn due(&self) -> Option<Instant> {
        let start = (self.instances.len() < self.demand.wanted).then(|| self.not_before().unwrap_or_else(Instant::now));
        let more = self.demand.since.map(|since| since + WAIT_MAX);
        start.into_iter().chain(more).min()
    }

    fn look(&mut self) {
        let mut ended = Vec::new();
        self.instances.retain_mut(|instance| match instance.look() {
            None => true,
            Some(status) => {
                ended.push((instance.started, format!("process {} has ended ({status})", instance.id())));
                false
            }
        });
        for (started, how) in ended {
            let pause = self.restart.handle_death(started, Instant::now());
            let again = match pause.is_zero() {
                true => String::new(),
                false => format!("; it is started again in {} ms", pause.as_millis()),
            };
            errors::report(Level::Warning, format_args!("application {}: {how}{again}", self.name()));
            self.history.add(how);
        }
        self.follow_demand(self.instances.len());
        self.fill();
    }

    fn name(&self) -> String {
        self.settings.name()
    }

    /// The time before which no process is to be started.
    fn not_before(&self) -> Option<Instant> {
        self.restart.not_before().into_iter().chain(self.taken_until).max()
    }

    fn status(&self) -> ApplicationStatus {
        let (last, last_at) = self.history.last.clone().unzip();
        ApplicationStatus {
            address: self.name(),
            command: self.settings.program().to_vec(),
            processes: self.instances.iter().map(Instance::status).collect(),
            ends: self.history.ends,
            last,
            last_at,
        }
    }

    /// More instances if a connection waits although all run, and fewer when one ends after a calm time.
    fn follow_demand(&mut self, running: usize) {
        if self.settings.instances() != Instances::Auto {
            return;
        }
        let now = Instant::now();
        let demand = &mut self.demand;
        if now.saturating_duration_since(demand.last) >= CALM {
            demand.wanted = demand.wanted.min(running.max(1));
        }
        let waits = self.socket.as_ref().is_some_and(|socket| is_readable(socket.as_fd()));
        if !waits {
            demand.since = None;
            return;
        }
        demand.last = now;
        let since = *demand.since.get_or_insert(now);
        if now.saturating_duration_since(since) < WAIT_MAX {
            return;
        }
        demand.since = None;
        let most = self.most();
        // Those that have been asked for come first.
        if running >= self.demand.wanted {
            self.demand.wanted = (self.demand.wanted + 1).min(most);
        }
    }

    /// Starts instances until there are as many as there should be.
    fn fill(&mut self) {
        while self.instances.len() < self.demand.wanted {
            let now = Instant::now();
            if self.not_before().is_some_and(|at| at > now) {
                return;
            }
            let started = self.listen().and_then(|may_start| match may_start {
                true => Instance::start(&self.settings, self.socket.as_ref().map(AsFd::as_fd), self.name()).map(Some),
                false => Ok(None),
            });
            match started {
                Ok(Some(instance)) => self.instances.push(instance),
                Ok(None) => return,
                Err(error) => {
                    let pause = self.restart.handle_death(now, now);
                    let name = self.name();
                    let program = self.settings.program().first().map_or("", String::as_str);
                    let how = format!("`{program}` cannot be started: {error}");
                    let again = pause.as_millis();
                    errors::report(Level::Error, format_args!("application {name}: {how}; again in {again} ms"));
                    return self.history.add(how);
                }
            }
        }
    }

    /// Binds the socket that is handed over. Where the program listens itself: whether no other process does.
    fn listen(&mut self) -> std::io::Result<bool> {
        if let Some(path) = self.settings.handed().filter(|_| self.socket.is_none()) {
            // Its directory is that of control sockets, if it is one of ours.
            if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
                make_directory(directory)?;
            }
            self.socket = Some(OwnSocket::bind_over(path)?);
        }
        let Some(place) = self.settings.own_place() else { return Ok(true) };
        if place::is_free(place)? {
            self.taken_until = None;
            return Ok(true);
        }
        if self.taken_until.is_none() {
            let name = self.name();
            let line =
                format!("application {name}: another process listens there; it is started when that one has ended");
            errors::report(Level::Warning, format_args!("{line}"));
        }
        self.taken_until = Some(Instant::now() + TAKEN_POLL);
        Ok(false)
    }
}

impl History {
    fn add(&mut self, how: String) {
        self.ends += 1;
        self.last = Some((how, unix_ms() / 1000));
    }
}

fn is_readable(socket: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Read};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use super::*;
    use lamna_config::gateway::{CommandSettings, GatewayProtocol, GatewaySettings, UpstreamSettings};
    use lamna_config::route::{RouteSettings, Switch};
    use lamna_config::settings::SiteSettings;

    fn settings(socket: &Path, script: &str, instances: Instances) -> Settings {
        let address = format!("unix:{}", socket.display()).parse().unwrap();
        let mut gateway = GatewaySettings::new(GatewayProtocol::FastCgi, vec![UpstreamSettings::new(address)]);
        let program = ["sh", "-c", script].map(str::to_owned).to_vec();
        gateway.command = Some(CommandSettings { program, instances, socket: socket.to_owned() });
        let mut site = SiteSettings::new("/".into());
        site.routes.push(RouteSettings { gateway: Switch::Set(gateway), ..RouteSettings::default() });
        Settings { sites: vec![site], ..Settings::default() }
    }

    fn fixed(number: u32) -> Instances {
        Instances::Fixed(NonZero::new(number).unwrap())
    }

    fn lines(file: &Path) -> Vec<String> {
        fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Looks until it is so.
    fn until(applications: &mut Applications, mut is_so: impl FnMut(&Applications) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so(applications) {
            assert!(Instant::now() < end, "{applications:?}");
            applications.look();
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// One that has ended, and has not been waited for by its new parent, is gone.
    fn exists(process: &str) -> bool {
        let stat = fs::read_to_string(Path::new("/proc").join(process).join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    /// The kernel kills a process group one process after the other.
    fn is_soon_gone(process: &str) -> bool {
        let end = Instant::now() + Duration::from_secs(60);
        while exists(process) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        !exists(process)
    }

    #[test]
    fn as_many_run_as_are_wanted_and_all_end_with_their_process_groups() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, file) = (directory.path().join("s"), directory.path().join("file"));
        let script = format!("sleep 1000 & echo $$ >> {0}; echo $! >> {0}; wait", file.display());
        let mut applications = Applications::new();
        applications.follow(&settings(&socket, &script, fixed(3)));
        until(&mut applications, |_| lines(&file).len() == 6);
        UnixStream::connect(&socket).unwrap();
        let processes = lines(&file);
        assert!(processes.iter().all(|one| exists(one)), "{processes:?}");
        applications.end();
        assert!(processes.iter().all(|one| is_soon_gone(one)), "{processes:?}");
        assert!(!socket.exists());
    }

    #[test]
    fn what_ignores_the_request_to_end_is_killed_when_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, file) = (directory.path().join("s"), directory.path().join("file"));
        let script = format!("trap '' TERM; echo $$ >> {}; while :; do sleep 1; done", file.display());
        let mut applications = Applications::new();
        applications.follow(&settings(&socket, &script, fixed(1)));
        until(&mut applications, |_| lines(&file).len() == 1);
        drop(applications);
        assert!(!exists(&lines(&file)[0]));
    }

    #[test]
    fn what_ends_is_started_again_and_ever_later() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, file) = (directory.path().join("s"), directory.path().join("file"));
        let script = format!("echo x >> {}", file.display());
        let mut applications = Applications::new();
        applications.follow(&settings(&socket, &script, fixed(1)));
        until(&mut applications, |_| lines(&file).len() == 3);
        assert!(applications.all[0].restart.not_before().is_some());
        assert!(socket.exists(), "connections wait meanwhile");
    }

    #[test]
    fn a_changed_command_is_replaced_at_the_same_socket_and_an_unchanged_one_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, other) = (directory.path().join("s"), directory.path().join("other"));
        let mut applications = Applications::new();
        let both = |script: &str| {
            let mut both = settings(&socket, script, fixed(1));
            both.sites.extend(settings(&other, "exec sleep 1001", fixed(1)).sites);
            both
        };
        applications.follow(&both("exec sleep 1000"));
        until(&mut applications, |all| all.all.iter().all(|one| one.instances.len() == 1));
        let ids = |all: &Applications| all.all.iter().map(|one| one.instances[0].id()).collect::<Vec<_>>();
        let before = ids(&applications);
        let waits = UnixStream::connect(&socket).unwrap();
        applications.follow(&both("exec sleep 1002"));
        until(&mut applications, |all| all.ending.is_empty());
        let after = ids(&applications);
        assert!(before[0] != after[0] && before[1] == after[1], "{before:?} {after:?}");
        assert!(!exists(&before[0].to_string()));
        waits.set_nonblocking(true).unwrap();
        let read = (&waits).read(&mut [0]);
        assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "who waited still does");
        applications.follow(&Settings::default());
        until(&mut applications, |all| all.ending.is_empty());
        assert!(!socket.exists() && !other.exists());
    }

    #[test]
    fn the_queue_asks_for_more_instances() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let mut applications = Applications::new();
        // No instance takes a connection, so a client that connects waits.
        applications.follow(&settings(&socket, "exec sleep 1000", Instances::Auto));
        until(&mut applications, |all| all.all[0].instances.len() == 1);
        let _waits = UnixStream::connect(&socket).unwrap();
        let most = applications.all[0].most();
        until(&mut applications, |all| all.all[0].instances.len() == most);
        assert!(!applications.all[0].watches_queue());
    }

    #[test]
    fn a_program_that_does_not_exist_is_tried_again_later() {
        let directory = tempfile::tempdir().unwrap();
        let mut applications = Applications::new();
        let mut settings = settings(&directory.path().join("s"), "", fixed(2));
        if let Switch::Set(gateway) = &mut settings.sites[0].routes[0].gateway {
            gateway.command.as_mut().unwrap().program = vec!["/no/such/program".to_owned()];
        }
        applications.follow(&settings);
        assert!(applications.all[0].instances.is_empty() && applications.due() < Duration::MAX);
    }
}
