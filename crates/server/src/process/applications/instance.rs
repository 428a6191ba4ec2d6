//! One process of an application.
//!
//! Owns: how it is started, what it writes, and how it ends. Guarantees: it has no descriptor but its socket (0;
//! `/dev/null` if it listens itself) and the pipe to the error log (1 and 2), is in a process group of its own, gets no
//! variable that is meant for the server, and is killed if the server dies. A process group is never signalled after
//! its number may have become another's.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lamna_config::gateway::ProgramPlace;
use lamna_io::log::errors::{self, Level};
use lamna_sys::inherit::prepare_program;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::place::Started;
use crate::admin::applications::ProcessStatus;

/// See the module.
#[derive(Debug)]
pub(super) struct Instance {
    child: Child,
    pub(super) started: Instant,
    /// The pipe of its output, until that has ended.
    output: Option<io::PipeReader>,
    line: Vec<u8>,
    /// Where it listens, for the log.
    name: String,
    /// It has been told to end: when it is killed.
    kill_at: Option<Instant>,
    is_killed: bool,
}

/// A longer line is broken.
const LINE_BYTES_MAX: usize = 4096;
/// Bytes of output that are read in one look, so that no application holds the others up.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Variables that a service manager has set for the server.
const OF_SERVICE_MANAGER: &[&str] =
    &["LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

impl Instance {
    /// Starts one that takes connections from `socket`, or listens itself.
    pub(super) fn start(settings: &Started, socket: Option<BorrowedFd<'_>>, name: String) -> io::Result<Instance> {
        let place = settings.own_place();
        let fill = |text: &String| place.map_or_else(|| text.clone(), |place| place.fill(text));
        let mut words = settings.program().iter().map(fill);
        let program = words.next().ok_or(io::ErrorKind::NotFound)?;
        let stdin = match socket {
            Some(socket) => socket.try_clone_to_owned()?.into(),
            None => Stdio::null(),
        };
        let (output, theirs) = io::pipe()?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        let mut command = Command::new(program);
        command.args(words).stdin(stdin).stdout(theirs.try_clone()?).stderr(theirs);
        command.process_group(0);
        prepare_program(&mut command);
        for variable in OF_SERVICE_MANAGER {
            command.env_remove(variable);
        }
        for (variable, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"LAMNA_")) {
            command.env_remove(variable);
        }
        if let Some(place) = place {
            // What the server itself was told of that kind is not for it.
            ProgramPlace::VARIABLES.iter().for_each(|name| _ = command.env_remove(name));
            command.envs(place.variables());
        }
        let child = command.spawn()?;
        let (started, output) = (Instant::now(), Some(output));
        Ok(Instance { child, started, output, line: Vec::new(), name, kill_at: None, is_killed: false })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn status(&self) -> ProcessStatus {
        ProcessStatus { pid: self.id(), uptime_s: self.started.elapsed().as_secs() }
    }

    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn kill_at(&self) -> Option<Instant> {
        self.kill_at.filter(|_| !self.is_killed)
    }

    /// Passes its output on, and says how it has ended, once. Ends it if it has had its time.
    pub(super) fn look(&mut self) -> Option<ExitStatus> {
        self.pass_output_on(READ_BYTES_MAX);
        if self.kill_at().is_some_and(|at| at <= Instant::now()) {
            let (name, id) = (&self.name, self.id());
            let line = format!("application {name}: process {id} has not ended in time, and is killed");
            errors::report(Level::Warning, format_args!("{line}"));
            self.signal(Signal::KILL);
            self.is_killed = true;
        }
        if !self.has_ended() {
            return None;
        }
        // Not waited for, it keeps the number of its process group.
        self.signal(Signal::KILL);
        let status = self.child.wait().ok()?;
        self.pass_output_on(READ_BYTES_MAX);
        self.say();
        Some(status)
    }

    /// Has it end within `patience`. A second time changes nothing.
    pub(super) fn tell_to_end(&mut self, patience: Duration) {
        if self.kill_at.is_none() {
            self.kill_at = Some(Instant::now() + patience);
            if !self.has_ended() {
                self.signal(Signal::TERM);
                // A stopped process could not follow.
                self.signal(Signal::CONT);
            }
        }
    }

    /// Kills it, and waits until it has gone.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        // It has been killed: this takes no time.
        let _ = self.child.wait();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.pid()), options), Ok(Some(_)))
    }

    fn signal(&self, signal: Signal) {
        // One that has no process any more needs no signal.
        let _ = kill_process_group(self.pid(), signal);
    }

    fn pass_output_on(&mut self, most: usize) {
        let mut buffer = [0; 4096];
        let mut read = 0;
        while read < most {
            let Some(output) = &mut self.output else { return };
            match output.read(&mut buffer) {
                Ok(0) => self.output = None,
                Ok(bytes) => {
                    read += bytes;
                    self.take(&buffer[..bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.output = None,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' || self.line.len() == LINE_BYTES_MAX {
                self.say();
            }
            if byte != b'\n' {
                self.line.push(byte);
            }
        }
    }

    fn say(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.trim_ascii().is_empty() {
            let (name, id, text) = (&self.name, self.id(), String::from_utf8_lossy(&line));
            let level = Level::of_line(&line);
            errors::report(level, format_args!("application {name}, process {id}: {}", text.trim_end()));
        }
    }
}
