//! A new process takes the place of this one: its listening sockets, its control socket and its live connections.
//!
//! ```text
//!  this process                                     the new process: the program as it is on disk now
//!  begin: start it with LAMNA_UPGRADE ───────────>  heritage(): takes what was passed, binds nothing
//!  look: serves as before                           starts its engine
//!  <──────────────────── "ready VERSION" ─────────  announces itself, takes connections
//!  hands its connections over, ends  ────────────>  goes on with them
//! ```
//!
//! Owns: how a program is started again, and what is passed to it. Guarantees: as long as the new process has not said
//! that it serves, nothing has changed here; one that ends, or says nothing for [`PATIENCE`], is killed and forgotten.
//! Does not move connections ([`transfer`](crate::engine::transfer)), nor stop serving (`lifecycle`, `supervisor`).

mod choice;
mod will;

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_proto::encoding::VERSION;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{SocketType, sockopt};

use crate::config::settings::Settings;
use crate::engine::Clock;
use crate::engine::transfer::{Receiver, Sender};
use crate::io::pass;
use crate::lifecycle::ServeError;
use crate::listen::{Listener, activation};
use crate::shift::SwitchError;
use crate::sys::inherit;
use choice::Choice;
use will::{Passed, Will};

/// How long a new process may take until it serves.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Names what is passed to a new process.
const VARIABLE: &str = "LAMNA_UPGRADE";
/// What a process says that serves, before the version of encoded connections that it takes.
const READY: &str = "ready ";

/// What a process has from the one whose place it takes.
#[derive(Debug)]
pub struct Heritage {
    /// Its listening sockets.
    pub listeners: Vec<Listener>,
    /// Its control sockets, if it had any.
    pub admin: Vec<Listener>,
    /// Where its connections come from.
    pub(crate) receiver: Arc<Receiver>,
    /// Its clock, by which the times of connections are told.
    pub(crate) clock: Clock,
    /// What had been changed there while serving.
    pub(crate) choice: Choice,
}

/// What was passed to this process, if it was started to take the place of another. To be asked once, at the start.
///
/// # Errors
/// What was passed is not what was said.
pub fn heritage() -> Result<Option<Heritage>, ServeError> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let failed = |why: String| ServeError::Heritage(why);
    let will = Will::parse(&text.to_string_lossy()).ok_or_else(|| failed(format!("{VARIABLE} makes no sense")))?;
    // Whoever is started by another program inherits variables that were not meant for it.
    if rustix::process::getppid().map(|parent| parent.as_raw_pid()) != Some(will.parent) {
        return Ok(None);
    }
    let passed: Vec<Passed> = will.listeners.iter().chain(&will.admin).copied().collect();
    let numbers: Vec<_> = [will.handover].into_iter().chain(passed.iter().map(|one| one.number)).collect();
    let check = |descriptor: BorrowedFd<'_>, place| match place {
        0 => is_transfer(descriptor),
        _ => activation::is_listening_stream(descriptor),
    };
    let descriptors = inherit::take(&numbers, check)
        .map_err(|(number, error)| failed(format!("descriptor {number} of {VARIABLE}: {error}")))?;
    will.execute(passed, descriptors).map_err(|errno| failed(errno.to_string())).map(Some)
}

impl Will {
    /// From numbers to what they stand for.
    fn execute(self, passed: Vec<Passed>, descriptors: Vec<OwnedFd>) -> Result<Heritage, Errno> {
        let mut descriptors = descriptors.into_iter();
        let socket = descriptors.next().ok_or(Errno::BADF)?;
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        let inherited = descriptors.zip(passed).map(|(descriptor, one)| Listener::inherit(descriptor, one.has_file));
        let mut listeners = inherited.collect::<Result<Vec<_>, _>>()?;
        let admin = listeners.split_off(self.listeners.len());
        let (receiver, clock) = (Arc::new(Receiver::new(socket)), Clock::since(self.clock_ms));
        Ok(Heritage { listeners, admin, receiver, clock, choice: self.choice })
    }
}

impl Heritage {
    /// The settings of this process, for one that would otherwise have `settings`.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        self.choice.apply(settings);
    }
}

/// Says that this process serves, and which connections it takes.
pub(crate) fn report_ready(receiver: &Receiver) {
    // If the other one has gone meanwhile, all is well: this one serves.
    let _ = receiver.report(format!("{READY}{VERSION}").as_bytes());
}

fn is_transfer(descriptor: BorrowedFd<'_>) -> std::io::Result<()> {
    match sockopt::socket_type(descriptor)? {
        SocketType::SEQPACKET => Ok(()),
        _ => Err(std::io::Error::other("not a socket for connections")),
    }
}

/// How this process can be succeeded by another.
#[derive(Debug)]
pub struct Succession {
    program: Option<Program>,
    /// What the program's arguments and its file come to.
    configured: Settings,
    /// Duplicates of the control sockets, and whether their files go with them.
    admin: Vec<(OwnedFd, bool)>,
    state: State,
    /// What has come of the last one, until somebody has asked.
    outcome: Option<Result<(), String>>,
}

/// ```text
///  None --begin--> Begun --"ready"--> Decided --look--> None
///    ^               |
///    +-ends, silent--+
/// ```
#[derive(Debug)]
enum State {
    None,
    Begun(Candidate),
    Decided(Successor),
}

/// A process that serves in the place of this one.
#[derive(Clone, Debug)]
pub(crate) struct Successor {
    /// Its id.
    pub(crate) process: u32,
    /// Where connections go.
    pub(crate) sender: Arc<Sender>,
    /// Whether it understands connections as this version encodes them.
    pub(crate) takes_connections: bool,
}

/// A process that may become the successor.
#[derive(Debug)]
struct Candidate {
    child: Child,
    socket: OwnedFd,
    deadline: Instant,
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
    pub(crate) fn of_program(configured: &Settings, admin: &[Listener]) -> Succession {
        let duplicate = |listener: &Listener| Some((listener.as_fd().try_clone_to_owned().ok()?, listener.has_file()));
        Succession {
            program: Program::own(),
            admin: admin.iter().filter_map(duplicate).collect(),
            ..Succession::impossible(configured)
        }
    }

    /// That of a process that cannot be succeeded.
    pub(crate) fn impossible(configured: &Settings) -> Succession {
        Succession {
            program: None,
            configured: configured.clone(),
            admin: Vec::new(),
            state: State::None,
            outcome: None,
        }
    }

    /// The configuration is another one from now on. Returns what it was.
    pub(crate) fn set_configured(&mut self, configured: Settings) -> Settings {
        std::mem::replace(&mut self.configured, configured)
    }

    /// What the program's arguments and its file come to.
    pub(crate) fn configured(&self) -> &Settings {
        &self.configured
    }

    /// Starts a process that is to serve with `settings`, as far as they can be chosen while serving, in the place of this
    /// one, with these listeners and this clock.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn begin(
        &mut self,
        settings: &Settings,
        listeners: &[Listener],
        clock: Clock,
    ) -> Result<(), SwitchError> {
        let impossible = |why: &str| Err(SwitchError::Impossible(why.to_owned()));
        let Some(program) = &self.program else {
            return impossible("this process was not started by the program itself, and cannot start another like it");
        };
        if !matches!(self.state, State::None) {
            return impossible("another process is taking over already");
        }
        if !Choice::is_all(&self.configured, settings) {
            return impossible("only the architecture and its numbers can be chosen for another process");
        }
        let candidate = self.start(program, settings, listeners, clock);
        let failed = |error: std::io::Error| {
            SwitchError::Impossible(format!("{} cannot be started: {error}", program.path.display()))
        };
        self.state = State::Begun(candidate.map_err(failed)?);
        self.outcome = None;
        Ok(())
    }

    fn start(
        &self,
        program: &Program,
        settings: &Settings,
        listeners: &[Listener],
        clock: Clock,
    ) -> std::io::Result<Candidate> {
        let (ours, theirs) = pass::pair()?;
        let mut passed = Vec::new();
        let mut pass_on = |descriptor: BorrowedFd<'_>, has_file| {
            let (duplicate, number) = inherit::pass_on(descriptor)?;
            passed.push(duplicate);
            Ok::<Passed, Errno>(Passed { number, has_file })
        };
        let will = Will {
            parent: std::process::id() as i32,
            clock_ms: clock.origin_ms(),
            handover: pass_on(theirs.as_fd(), false)?.number,
            listeners: listeners.iter().map(|one| pass_on(one.as_fd(), one.has_file())).collect::<Result<_, _>>()?,
            admin: self
                .admin
                .iter()
                .map(|(admin, has_file)| pass_on(admin.as_fd(), *has_file))
                .collect::<Result<_, _>>()?,
            choice: Choice::between(&self.configured, settings),
        };
        let mut command = Command::new(&program.path);
        // What a service manager passed was for this process.
        command.args(&program.arguments).env_remove("LISTEN_PID").env_remove("LISTEN_FDS");
        let child = command.env(VARIABLE, will.to_string()).spawn()?;
        Ok(Candidate { child, socket: ours, deadline: Instant::now() + PATIENCE })
    }

    /// What has come of it: a successor, once, or why there is none. None if nothing has come yet.
    pub(crate) fn look(&mut self) -> Option<Result<Successor, SwitchError>> {
        match std::mem::replace(&mut self.state, State::None) {
            State::None => None,
            State::Decided(successor) => Some(Ok(successor)),
            State::Begun(candidate) => match candidate.look() {
                Ok(Look::Nothing(candidate)) => {
                    self.state = State::Begun(candidate);
                    None
                }
                Ok(Look::Ready(successor)) => {
                    self.outcome = Some(Ok(()));
                    Some(Ok(successor))
                }
                Err(why) => {
                    self.outcome = Some(Err(why.clone()));
                    Some(Err(SwitchError::Impossible(why)))
                }
            },
        }
    }

    /// What has come of the last one, once; none if that is not known yet.
    pub(crate) fn outcome(&mut self) -> Option<Result<(), String>> {
        self.outcome.take()
    }

    /// Waits until something has come of it. A successor is what the next look finds.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn wait(&mut self) -> Result<(), SwitchError> {
        loop {
            if let Some(decided) = self.look() {
                self.state = State::Decided(decided?);
                return Ok(());
            }
            let mut waits: Vec<_> =
                self.descriptor().map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).into_iter().collect();
            // Whatever it returns, looking tells.
            let _ = poll(&mut waits, Some(&LOOK_INTERVAL));
        }
    }

    /// Gives a process up that has not said yet that it serves.
    pub(crate) fn abandon(&mut self) {
        if let State::Begun(candidate) = std::mem::replace(&mut self.state, State::None) {
            candidate.end();
            self.outcome = Some(Err("the server is about to end".to_owned()));
        }
    }

    /// In a copy that a fork has made: lets go of what is the parent's.
    pub(crate) fn forget(&mut self) {
        *self = Succession::impossible(&self.configured);
    }

    /// Whether a process has been started, of which nothing has come yet.
    pub(crate) fn is_begun(&self) -> bool {
        !matches!(self.state, State::None)
    }

    /// Readable when something has come. It is also to be looked at now and then, because time may be over.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Begun(candidate) => Some(candidate.socket.as_fd()),
            State::None | State::Decided(_) => None,
        }
    }
}

/// How often a process that is waited for is looked at if it says nothing.
const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// What has come of a candidate.
enum Look {
    Nothing(Candidate),
    Ready(Successor),
}

impl Candidate {
    fn look(mut self) -> Result<Look, String> {
        let mut message = [0; 64];
        let received = pass::receive_with(self.socket.as_fd(), &mut message, false);
        let late = self.deadline <= Instant::now();
        match received {
            Ok((bytes, _)) if bytes > 0 => return self.judge(&message[..bytes]),
            Err(Errno::AGAIN) if !late && matches!(self.child.try_wait(), Ok(None)) => return Ok(Look::Nothing(self)),
            _ => {}
        }
        match self.end() {
            Some(status) if !late => Err(format!("the new process has ended before it served ({status})")),
            _ => Err(format!("the new process did not serve within {} s, and was killed", PATIENCE.as_secs())),
        }
    }

    /// What it says of itself.
    fn judge(self, message: &[u8]) -> Result<Look, String> {
        let version = std::str::from_utf8(message).ok().and_then(|text| text.strip_prefix(READY)?.parse::<u16>().ok());
        let Some(version) = version else {
            self.end();
            return Err("the new process does not speak as one that takes over".to_owned());
        };
        let (process, sender) = (self.child.id(), Arc::new(Sender::new(self.socket)));
        Ok(Look::Ready(Successor { process, sender, takes_connections: version == VERSION }))
    }

    /// Kills it, unless it is ending already. How it ended.
    fn end(mut self) -> Option<ExitStatus> {
        // It has not been waited for, so the number is still its own; if this fails it is gone.
        let _ = self.child.kill();
        self.child.wait().ok()
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
        let (ours, theirs) = pass::pair().unwrap();
        says.iter().for_each(|message| pass::send(theirs.as_fd(), message, None).unwrap());
        let child = Command::new("sleep").arg("1000").stdin(theirs).spawn().unwrap();
        Candidate { child, socket: ours, deadline: Instant::now() + patience }
    }

    fn outcome(candidate: Candidate) -> Result<Option<bool>, String> {
        match candidate.look() {
            Ok(Look::Nothing(candidate)) => {
                candidate.end();
                Ok(None)
            }
            Ok(Look::Ready(successor)) => {
                let process = rustix::process::Pid::from_raw(successor.process as i32).unwrap();
                rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
                Ok(Some(successor.takes_connections))
            }
            Err(why) => Err(why),
        }
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
        let mut succession = Succession::impossible(&settings);
        assert!(succession.begin(&settings, &[], Clock::start()).is_err());
        assert!(succession.look().is_none() && !succession.is_begun());
    }
}
