//! A new process takes the place of this one: its listening sockets, its control socket and its live connections.
//!
//! ```text
//!  this process                                     the new process: the program as it is on disk now
//!  begin: start it with LAMNA_UPGRADE ───────────>  inherited(): takes what was passed, binds nothing, owns no file
//!  look: serves as before                           starts its engine
//!  <──────────────────── "ready VERSION" ─────────  announces itself, takes connections
//!  leaves its files, confirms        ────────────>  owns the files of sockets, hears orders
//!  hands its connections over, ends  ────────────>  goes on with them
//! ```
//!
//! Owns: how a program is started again, and what is passed to it; the succession of processes ([`stage`]). Guarantees:
//! as long as the new process has not said that it serves, nothing has changed here, and nothing that it does at its
//! end changes anything here. One that says nothing for [`PATIENCE`] is killed and forgotten; a process is succeeded
//! once at most. Does not move connections ([`transfer`](lamna_engine::worker::migration::transfer)), nor stop serving
//! (`lifecycle`, `supervisor`).

mod choice;
pub(crate) mod environment;
mod stage;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_config::settings::Settings;
use lamna_engine::worker::migration::transfer::{Receiver, Sender};
use lamna_io::listen::{self, BindError, Listener, activation};
use lamna_io::scm_rights;
use lamna_proto::encoding::VERSION;
use lamna_sys::clock::Clock;
use lamna_sys::inherit;
use lamna_sys::metrics::operator_state::{OPERATOR_STATE_BYTES_MAX, OperatorState};
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::Tickets;
use lamna_tls::tickets::TICKETS_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{SocketType, sockopt};

use crate::process::error::ServeError;
use crate::process::orders::{ControlChannel, Order, Received};
use crate::process::running_engine::SwitchError;
use crate::process::upgrade::choice::Choice;
use crate::process::upgrade::environment::{Passed, UpgradeEnvironment};
use crate::process::upgrade::stage::{NotNow, Stage};

/// How long a new process may take until it serves.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long one that has closed its socket may take to end by itself, so that it is known how it ended.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Names what is passed to a new process.
const VARIABLE: &str = "LAMNA_UPGRADE";
/// The message of a process that serves, before the version of encoded connections that it takes.
const READY: &str = "ready ";

/// The inheritance of a process from the one whose place it takes.
#[derive(Debug)]
pub struct Inherited {
    /// Its listening sockets.
    pub listeners: Vec<Arc<Listener>>,
    /// Those of them that are named no more.
    pub(crate) removed: Vec<Arc<Listener>>,
    /// Its control sockets, if it had any.
    pub admin: Vec<Listener>,
    /// Where its connections come from.
    pub(crate) receiver: Arc<Receiver>,
    /// Its clock, by which the times of connections are told.
    pub(crate) clock: Clock,
    /// The settings that had been changed there while serving.
    pub(crate) choice: Choice,
    /// Where it says that the place is this process's, and what it passes on of its own orders; none from versions that
    /// do not.
    pub(crate) predecessor: Option<ControlChannel>,
    /// The line to the first process of a container ([`keeper`](crate::process::container)), if there is one.
    pub(crate) keeper: Option<ControlChannel>,
    /// The keys of its TLS tickets.
    pub(crate) tickets: Option<Tickets>,
    /// The orders of its operator that stay in force.
    pub(crate) operator: Option<Vec<u8>>,
}

/// The inheritance of this process, if it was started to take the place of another. To be asked once, at the start.
///
/// # Errors
/// The descriptors passed are not those announced.
pub fn inherited() -> Result<Option<Inherited>, ServeError> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let failed = |why: String| ServeError::Inherited(why);
    let environment = UpgradeEnvironment::parse(&text.to_string_lossy())
        .ok_or_else(|| failed(format!("{VARIABLE} makes no sense")))?;
    // A process that another program starts inherits variables that were not meant for it.
    if rustix::process::getppid().map(|parent| parent.as_raw_pid()) != Some(environment.parent) {
        return Ok(None);
    }
    let passed: Vec<Passed> = environment.listeners.iter().chain(&environment.admin).copied().collect();
    let lines = || [environment.handover].into_iter().chain(environment.predecessor).chain(environment.keeper);
    let numbers = lines().chain(passed.iter().map(|one| one.number)).chain(environment.tickets);
    let numbers: Vec<_> = numbers.chain(environment.operator).collect();
    let (lines, sockets) = (lines().count(), lines().count() + passed.len());
    let check = |descriptor: BorrowedFd<'_>, place| match place {
        place if place < lines => is_line(descriptor),
        place if place >= sockets => Ok(()),
        _ => activation::is_listening_stream(descriptor),
    };
    let descriptors = inherit::take(&numbers, check)
        .map_err(|(number, error)| failed(format!("descriptor {number} of {VARIABLE}: {error}")))?;
    environment.execute(passed, descriptors).map_err(|errno| failed(errno.to_string())).map(Some)
}

impl UpgradeEnvironment {
    /// From numbers to what they stand for. The files of sockets are not this process's before it is told so.
    fn execute(self, passed: Vec<Passed>, descriptors: Vec<OwnedFd>) -> Result<Inherited, Errno> {
        let mut descriptors = descriptors;
        let operator = self.operator.and_then(|_| descriptors.pop()).and_then(|memory| operator_of(&memory));
        let tickets = self.tickets.and_then(|_| descriptors.pop()).and_then(|memory| tickets_of(&memory));
        let mut descriptors = descriptors.into_iter();
        let socket = descriptors.next().ok_or(Errno::BADF)?;
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        let mut line =
            |number: Option<RawFd>| number.and_then(|_| descriptors.next()).map(ControlChannel::inherit).transpose();
        let (predecessor, keeper) = (line(self.predecessor)?, line(self.keeper)?);
        let inherited = descriptors
            .zip(passed)
            .map(|(descriptor, one)| Listener::inherit(descriptor, one.has_file, self.lent.contains(&one.number)));
        let mut listeners = inherited.collect::<Result<Vec<_>, _>>()?;
        let admin = listeners.split_off(self.listeners.len());
        let listeners = listeners.into_iter().map(Arc::new).collect();
        let (receiver, clock) = (Arc::new(Receiver::new(socket)), Clock::since(self.clock_ms));
        Ok(Inherited {
            listeners,
            removed: Vec::new(),
            admin,
            receiver,
            clock,
            choice: self.choice,
            predecessor,
            keeper,
            tickets,
            operator,
        })
    }
}

impl Inherited {
    /// The listeners of a process with `settings`: those that it has inherited, as far as they are named, and further
    /// ones. The others are kept until the place is this process's, and closed then.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub fn listen(&mut self, settings: &Settings) -> Result<Vec<Arc<Listener>>, BindError> {
        let before = std::mem::take(&mut self.listeners);
        let now = listen::change(&before, &settings.listen)?;
        self.removed = listen::removed(&before, &now);
        Ok(now)
    }

    /// The settings of this process, for one that would otherwise have `settings`.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        self.choice.apply(settings);
    }
}

/// Says that this process serves, and which connections it takes. Waits until the other one has left the place to it,
/// or has gone, and has the files of `listeners` go with this process from then on.
pub(crate) fn take_over<'a>(
    receiver: &Receiver,
    predecessor: Option<&ControlChannel>,
    listeners: impl IntoIterator<Item = &'a Listener>,
) {
    // If the other one has gone meanwhile, all is well: this one serves.
    let _ = receiver.report(format!("{READY}{VERSION}").as_bytes());
    let until = Instant::now() + PATIENCE;
    while let Some(line) = predecessor
        && Instant::now() < until
        && matches!(line.receive(), Received::Nothing)
    {
        // Whatever it returns, looking tells.
        let _ = poll(&mut [PollFd::new(line, PollFlags::IN)], Some(&LOOK_INTERVAL));
    }
    listeners.into_iter().for_each(Listener::own_file);
}

/// The keys in the memory that another process has passed. Without them clients come as for the first time.
fn tickets_of(memory: &OwnedFd) -> Option<Tickets> {
    let mut bytes = [0; TICKETS_BYTES];
    let read = rustix::io::pread(memory, &mut bytes, 0).ok()?;
    (read == bytes.len()).then(|| Tickets::from_bytes(&bytes))
}

/// Memory for another process, with the keys in it: neither a file nor the environment, which others may read.
fn memory_of(tickets: &Tickets) -> Result<OwnedFd, Errno> {
    let memory = rustix::fs::memfd_create("lamna-tickets", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::io::pwrite(&memory, &tickets.to_bytes(), 0)?;
    Ok(memory)
}

/// The orders in the memory that another process has passed.
fn operator_of(memory: &OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; OPERATOR_STATE_BYTES_MAX];
    let mut length = 0;
    loop {
        match rustix::io::pread(memory, &mut bytes[length..], length as u64).ok()? {
            0 => break,
            read => length += read,
        }
    }
    bytes.truncate(length);
    Some(bytes)
}

/// Memory for another process, with the orders of the operator; none if there never were any.
fn memory_of_operator(state: &OperatorState) -> std::io::Result<Option<File>> {
    let Some((1.., bytes)) = state.read() else { return Ok(None) };
    let mut memory = File::from(rustix::fs::memfd_create("lamna-operator", rustix::fs::MemfdFlags::CLOEXEC)?);
    memory.write_all(&bytes)?;
    Ok(Some(memory))
}

fn is_line(descriptor: BorrowedFd<'_>) -> std::io::Result<()> {
    match sockopt::socket_type(descriptor)? {
        SocketType::SEQPACKET => Ok(()),
        _ => Err(std::io::Error::other("not a socket of the process before this one")),
    }
}

/// How this process can be succeeded by another.
#[derive(Debug)]
pub struct Succession {
    program: Option<Program>,
    /// The settings of the program's arguments and its file.
    configured: Settings,
    /// Duplicates of the control sockets, and whether their files go with them.
    admin: Vec<(OwnedFd, bool)>,
    /// The line to the first process of a container, if there is one.
    keeper: Option<Arc<ControlChannel>>,
    /// The keys of TLS tickets, if there are any.
    tickets: Option<Arc<Tickets>>,
    /// The orders of the operator that stay in force.
    operator: Option<SharedMemory<OperatorState>>,
    stage: Stage<Candidate>,
    /// The outcome of the last one, until it is asked for.
    outcome: Option<Result<String, String>>,
}

/// Why another process is to take the place of this one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Purpose {
    /// The program may be another one.
    Upgrade,
    /// Other settings, which are described in words.
    Change(String),
    /// Another configuration.
    Reload(Box<Settings>),
}

/// A process that serves in the place of this one.
#[derive(Debug)]
pub(crate) struct Successor {
    /// Its id.
    pub(crate) process: u32,
    /// Where connections go.
    pub(crate) sender: Arc<Sender>,
    /// Whether it understands connections as this version encodes them.
    pub(crate) takes_connections: bool,
    line: ControlChannel,
}

/// Why there is no successor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NoSuccessor {
    pub(crate) purpose: Purpose,
    pub(crate) why: String,
}

/// A process that may become the successor.
#[derive(Debug)]
struct Candidate {
    child: Child,
    socket: OwnedFd,
    /// Where it is told that the place is its own.
    line: ControlChannel,
    deadline: Instant,
    /// Its end of the socket is closed: it is ending, until this moment by itself.
    ending: Option<Instant>,
    purpose: Purpose,
    /// The configuration before, if another one holds from now on.
    before: Option<Settings>,
}

/// How this process was started.
#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Succession {
    /// That of a process that was started by its own program, with what comes to `configured`. To be called before its
    /// file on disk may have been replaced.
    pub(crate) fn of_program(
        configured: &Settings,
        admin: &[Listener],
        keeper: Option<Arc<ControlChannel>>,
    ) -> Succession {
        let duplicate = |listener: &Listener| Some((listener.as_fd().try_clone_to_owned().ok()?, listener.has_file()));
        let (program, admin) = (Program::own(), admin.iter().filter_map(duplicate).collect());
        Succession { program, admin, keeper, ..Succession::impossible(configured) }
    }

    /// That of a process that cannot be succeeded.
    pub(crate) fn impossible(configured: &Settings) -> Succession {
        let configured = configured.clone();
        let (admin, stage) = (Vec::new(), Stage::Alone);
        Succession {
            program: None,
            configured,
            admin,
            keeper: None,
            tickets: None,
            operator: None,
            stage,
            outcome: None,
        }
    }

    /// The successor is to go on with these keys.
    pub(crate) fn set_tickets(&mut self, tickets: Arc<Tickets>) {
        self.tickets = Some(tickets);
    }

    /// The successor is to go on with the orders that are in force.
    pub(crate) fn set_operator(&mut self, state: SharedMemory<OperatorState>) {
        self.operator = Some(state);
    }

    /// The configuration is another one from now on.
    pub(crate) fn set_configured(&mut self, configured: Settings) {
        self.configured = configured;
    }

    /// The settings of the program's arguments and its file.
    pub(crate) fn configured(&self) -> &Settings {
        &self.configured
    }

    /// Whether the server may be changed now, in whatever way.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check_open(&self) -> Result<(), SwitchError> {
        self.stage.may_begin().map_err(|not_now| match not_now {
            NotNow::Begun => SwitchError::NotNow("another process is taking over already".to_owned()),
            NotNow::Left => SwitchError::NotNow("another process has taken over".to_owned()),
            NotNow::Ending => SwitchError::Impossible("the server is about to end".to_owned()),
        })
    }

    /// Starts a process that is to serve with `settings`, as far as they can be chosen while serving, in the place of
    /// this one, with these listeners and this clock.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn begin(
        &mut self,
        settings: &Settings,
        listeners: &[Arc<Listener>],
        clock: Clock,
        purpose: Purpose,
    ) -> Result<(), SwitchError> {
        let impossible = |why: &str| Err(SwitchError::Impossible(why.to_owned()));
        let Some(program) = &self.program else {
            return impossible("this process was not started by the program itself, and cannot start another like it");
        };
        if std::process::id() == 1 {
            return impossible(
                "this is the first process of a container, whose end would end everything: it could not be left behind",
            );
        }
        self.check_open()?;
        let configured = if let Purpose::Reload(configured) = &purpose { configured } else { &self.configured };
        if !Choice::is_all(configured, settings) {
            return impossible("only the architecture and its numbers can be chosen for another process");
        }
        let choice = Choice::between(configured, settings);
        let failed = |error: std::io::Error| {
            SwitchError::Impossible(format!("{} cannot be started: {error}", program.path.display()))
        };
        let mut candidate = self.start(program, choice, listeners, clock, purpose.clone()).map_err(failed)?;
        if let Purpose::Reload(configured) = purpose {
            candidate.before = Some(std::mem::replace(&mut self.configured, *configured));
        }
        self.outcome = None;
        // It was found open above, and nothing has happened since; one that is not wanted must not live on.
        self.stage.begin(candidate).map_err(|candidate| {
            candidate.kill();
            SwitchError::NotNow("another process is taking over already".to_owned())
        })
    }

    fn start(
        &self,
        program: &Program,
        choice: Choice,
        listeners: &[Arc<Listener>],
        clock: Clock,
        purpose: Purpose,
    ) -> std::io::Result<Candidate> {
        let (ours, theirs) = scm_rights::pair()?;
        let (line, their_line) = ControlChannel::pair()?;
        let mut passed = Vec::new();
        let mut pass_on = |descriptor: BorrowedFd<'_>, has_file| {
            let (duplicate, number) = inherit::pass_on(descriptor)?;
            passed.push(duplicate);
            Ok::<Passed, Errno>(Passed { number, has_file })
        };
        let mut environment = UpgradeEnvironment {
            parent: std::process::id() as i32,
            clock_ms: clock.origin_ms(),
            handover: pass_on(theirs.as_fd(), false)?.number,
            predecessor: Some(pass_on(their_line.as_fd(), false)?.number),
            admin: self
                .admin
                .iter()
                .map(|(admin, has_file)| pass_on(admin.as_fd(), *has_file))
                .collect::<Result<_, _>>()?,
            keeper: self
                .keeper
                .as_ref()
                .map(|keeper| pass_on(keeper.as_fd(), false))
                .transpose()?
                .map(|one| one.number),
            choice,
            ..UpgradeEnvironment::default()
        };
        if let Some(tickets) = &self.tickets {
            environment.tickets = Some(pass_on(memory_of(tickets)?.as_fd(), false)?.number);
        }
        if let Some(memory) = self.operator.as_deref().map(memory_of_operator).transpose()?.flatten() {
            environment.operator = Some(pass_on(memory.as_fd(), false)?.number);
        }
        for listener in listeners {
            let passed = pass_on(listener.as_fd(), listener.has_file())?;
            environment.lent.extend(listener.is_lent().then_some(passed.number));
            environment.listeners.push(passed);
        }
        let mut command = Command::new(&program.path);
        // What a service manager passed was for this process.
        command.args(&program.arguments).env_remove("LISTEN_PID").env_remove("LISTEN_FDS");
        let child = command.env(VARIABLE, environment.to_string()).spawn()?;
        let deadline = Instant::now() + PATIENCE;
        Ok(Candidate { child, socket: ours, line, deadline, ending: None, purpose, before: None })
    }

    /// Looks at the candidate: a successor, once and for good, or why there is none. None if nothing has come yet.
    pub(crate) fn look(&mut self) -> Option<Result<Successor, NoSuccessor>> {
        let mut failed = None;
        let found = self.stage.look(|candidate| {
            let purpose = candidate.purpose.clone();
            let before = candidate.before.clone();
            let looked = candidate.look();
            if !matches!(looked, stage::Look::Nothing(_)) {
                failed = Some((purpose, before));
            }
            looked
        })?;
        let (purpose, before) = failed?;
        match found {
            Ok(successor) => {
                self.outcome = Some(Ok(match purpose {
                    Purpose::Change(done) => done,
                    Purpose::Reload(_) => "another process serves with the new configuration".to_owned(),
                    Purpose::Upgrade => {
                        "another process has taken over; this one hands over what it has, and ends".to_owned()
                    }
                }));
                Some(Ok(successor))
            }
            Err(why) => {
                self.outcome = Some(Err(why.clone()));
                before.into_iter().for_each(|before| self.configured = before);
                Some(Err(NoSuccessor { purpose, why }))
            }
        }
    }

    /// The outcome of the last one, once; none if that is not known yet.
    pub(crate) fn outcome(&mut self) -> Option<Result<String, String>> {
        self.outcome.take()
    }

    /// The server ends: gives a process up that has not said yet that it serves, and starts no other.
    pub(crate) fn end(&mut self) {
        if let Some(candidate) = self.stage.end() {
            candidate.kill();
            self.outcome = Some(Err("the server is about to end".to_owned()));
        }
    }

    /// In a copy that a fork has made: lets go of what is the parent's.
    pub(crate) fn forget(&mut self) {
        *self = Succession::impossible(&self.configured);
    }

    /// Whether a process has been started, of which nothing has come yet.
    pub(crate) fn is_begun(&self) -> bool {
        matches!(self.stage, Stage::Begun(_))
    }

    /// Readable when something has come. It is also to be looked at now and then, because time may be over.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            // The end of one that is ending says nothing: its parent hears of that by a signal.
            Stage::Begun(candidate) if candidate.ending.is_none() => Some(candidate.socket.as_fd()),
            _ => None,
        }
    }

    /// The line to the first process of a container, if there is one.
    pub(crate) fn keeper(&self) -> Option<&Arc<ControlChannel>> {
        self.keeper.as_ref()
    }
}

impl Successor {
    /// Tells it that the place is its own: this process has left its files, and hears no more orders.
    pub(crate) fn confirm(&self) {
        self.line.order(Order::TakeOver);
    }

    /// Passes on an order that was given to this process while it still had the place.
    pub(crate) fn order(&self, order: Order) {
        self.line.order(order);
    }
}

/// How often a process that is waited for is looked at if it says nothing.
const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

type Look = stage::Look<Candidate, Successor>;

impl Candidate {
    fn look(mut self) -> Look {
        let now = Instant::now();
        if self.ending.is_none() {
            let mut message = [0; 64];
            match scm_rights::receive_with(self.socket.as_fd(), &mut message, false) {
                Ok((bytes, _)) if bytes > 0 => return self.judge(&message[..bytes]),
                Err(Errno::AGAIN) => {}
                _ => self.ending = Some(now + END_PATIENCE),
            }
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            return Look::Failed(format!("the new process has ended before it served ({status})"));
        }
        if self.ending.is_some_and(|until| until <= now) {
            self.kill();
            return Look::Failed("the new process let go of what it was passed, and was killed".to_owned());
        }
        if self.deadline <= now {
            self.kill();
            return Look::Failed(format!(
                "the new process did not serve within {} s, and was killed",
                PATIENCE.as_secs()
            ));
        }
        Look::Nothing(self)
    }

    /// Judges its message about itself.
    fn judge(self, message: &[u8]) -> Look {
        let version = std::str::from_utf8(message).ok().and_then(|text| text.strip_prefix(READY)?.parse::<u16>().ok());
        let Some(version) = version else {
            self.kill();
            return Look::Failed("the new process does not speak as one that takes over".to_owned());
        };
        let (process, sender) = (self.child.id(), Arc::new(Sender::new(self.socket)));
        Look::Ready(Successor { process, sender, takes_connections: version == VERSION, line: self.line })
    }

    /// Ends it, and waits until it has ended.
    fn kill(mut self) {
        // It has not been waited for, so the number is still its own; if this fails it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// By the path that it was started by, if that is this program: it may be a link that will be changed.
    fn own() -> Option<Program> {
        let real = std::env::current_exe().ok()?;
        let mut words = std::env::args_os();
        let name = words.next().filter(|name| Path::new(name).components().count() > 1);
        let started_by = name.and_then(|name| std::path::absolute(name).ok());
        let is_own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == real);
        Some(Program { path: started_by.filter(is_own).unwrap_or(real), arguments: words.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has said this, and does nothing.
    fn candidate(says: &[&[u8]], patience: Duration) -> Candidate {
        let (ours, theirs) = scm_rights::pair().unwrap();
        says.iter().for_each(|message| scm_rights::send(theirs.as_fd(), message, None).unwrap());
        started(Command::new("sleep").arg("1000").stdin(theirs), ours, patience)
    }

    fn started(command: &mut Command, socket: OwnedFd, patience: Duration) -> Candidate {
        let (child, (line, _)) = (command.spawn().unwrap(), ControlChannel::pair().unwrap());
        let (deadline, purpose) = (Instant::now() + patience, Purpose::Upgrade);
        Candidate { child, socket, line, deadline, ending: None, purpose, before: None }
    }

    fn outcome(candidate: Candidate) -> Result<Option<bool>, String> {
        match candidate.look() {
            Look::Nothing(candidate) => {
                candidate.kill();
                Ok(None)
            }
            Look::Ready(successor) => {
                let process = rustix::process::Pid::from_raw(successor.process as i32).unwrap();
                rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
                Ok(Some(successor.takes_connections))
            }
            Look::Failed(why) => Err(why),
        }
    }

    #[test]
    fn how_one_has_ended_is_told_even_if_it_closed_its_socket_long_before() {
        let (ours, theirs) = scm_rights::pair().unwrap();
        let mut script = Command::new("sh");
        let mut candidate =
            started(script.args(["-c", "read x; exit 78"]).stdin(std::process::Stdio::piped()), ours, PATIENCE);
        drop(theirs);
        let resume_queued = candidate.child.stdin.take();
        let Look::Nothing(mut candidate) = candidate.look() else { panic!("it has not ended yet") };
        drop(resume_queued);
        let why = loop {
            match candidate.look() {
                Look::Nothing(again) => candidate = again,
                Look::Failed(why) => break why,
                Look::Ready(_) => panic!("it has said nothing"),
            }
        };
        assert!(why.contains("(exit status: 78)"), "{why}");
    }

    #[test]
    fn who_speaks_this_version_takes_connections_and_who_speaks_another_only_takes_over() {
        let own = format!("ready {VERSION}");
        assert_eq!(outcome(candidate(&[own.as_bytes()], PATIENCE)), Ok(Some(true)));
        assert_eq!(outcome(candidate(&[b"ready 65535"], PATIENCE)), Ok(Some(false)));
    }

    #[test]
    fn who_is_silent_is_waited_for_and_killed_in_the_end() {
        assert_eq!(outcome(candidate(&[], PATIENCE)), Ok(None));
        assert!(outcome(candidate(&[], Duration::ZERO)).unwrap_err().contains("did not serve within"));
    }

    #[test]
    fn who_says_something_else_does_not_take_over() {
        for nonsense in [&b"hello"[..], b"ready ", b"ready x", b"\xff"] {
            assert!(outcome(candidate(&[nonsense], PATIENCE)).unwrap_err().contains("does not speak"));
        }
    }

    #[test]
    fn a_process_that_was_not_started_by_the_program_is_not_succeeded() {
        let settings = Settings::default();
        let mut upgrade_in_progress = Succession::impossible(&settings);
        assert!(upgrade_in_progress.begin(&settings, &[], Clock::start(), Purpose::Upgrade).is_err());
        assert!(upgrade_in_progress.look().is_none() && !upgrade_in_progress.is_begun());
    }
}
