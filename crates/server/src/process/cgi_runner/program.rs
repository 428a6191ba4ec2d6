//! One program: how it is started, and how it ends.
//!
//! Owns: its process. Guarantees: its environment is what the request says and a PATH, and nothing of the server's; it
//! has no descriptor but its pipes; it runs in the directory that it is in, in a process group of its own, which is
//! killed when this is dropped. Does not move bytes (`pump`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use lamna_sys::inherit::prepare_program;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::Limits;

/// Where programs find others (what `confstr(3)` and service managers have).
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// See the module.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    /// Its exit status has been taken, and with it the number of its process group.
    is_reaped: bool,
    end: OwnedFd,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

/// Why there is none: what the client is told, and what the error log.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: &'static str,
    pub(super) why: String,
}

impl Program {
    /// Starts the program that the variables of a request name.
    ///
    /// # Errors
    /// It cannot be.
    pub(super) fn start(variables: &[(OsString, OsString)], limits: &Limits) -> Result<Program, Refused> {
        let file = variables.iter().find(|(name, _)| name == "SCRIPT_FILENAME").map(|(_, value)| Path::new(value));
        let Some((file, directory)) = file.and_then(|file| Some((file, file.parent()?))) else {
            return Err(Refused { status: "500 Internal Server Error", why: "no SCRIPT_FILENAME was given".into() });
        };
        let interpreter = file.extension().and_then(OsStr::to_str).and_then(|end| limits.interpreters.get(end));
        let mut command = match interpreter {
            Some(interpreter) => {
                let mut command = Command::new(interpreter);
                command.arg(file);
                command
            }
            None => Command::new(file),
        };
        command.env_clear().env("PATH", PATH).envs(variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(directory).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        prepare_program(&mut command);
        let refused = |error: &io::Error| refused(file, interpreter, error);
        let mut child = command.spawn().map_err(|error| refused(&error))?;
        let end = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(end) => end,
            Err(errno) => {
                kill(&mut child);
                return Err(refused(&errno.into()));
            }
        };
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Program { child, is_reaped: false, end, stdin, stdout, stderr })
    }

    /// Readable when it has ended.
    pub(super) fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Kills the processes that are left of its group. It keeps the number of the group until its status is taken.
    pub(super) fn kill_group(&self) {
        if !self.is_reaped {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }

    /// The exit status. To be asked for when `end` is readable; processes that are left of its group are killed.
    pub(super) fn status(&mut self) -> io::Result<ExitStatus> {
        self.kill_group();
        self.is_reaped = true;
        self.child.wait()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Also if it has ended: others of its group may not have.
        if !self.is_reaped {
            kill(&mut self.child);
        }
    }
}

fn kill(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    // It has been killed: this takes no time.
    let _ = child.wait();
}

fn refused(file: &Path, interpreter: Option<&String>, error: &io::Error) -> Refused {
    let what =
        interpreter.map_or_else(|| file.display().to_string(), |program| format!("{program} for {}", file.display()));
    let (status, hint) = match (error.kind(), interpreter) {
        (io::ErrorKind::PermissionDenied, None) => ("403 Forbidden", ": is it executable?".to_owned()),
        (io::ErrorKind::NotFound, None) if !file.exists() => ("404 Not Found", String::new()),
        // The system says of the program what is so of the one that is to run it.
        (io::ErrorKind::NotFound, None) => ("502 Bad Gateway", first_line(file).map_or_else(String::new, hint_about)),
        _ => ("502 Bad Gateway", String::new()),
    };
    Refused { status, why: format!("{what} cannot be started: {error}{hint}") }
}

/// Bytes of a first line that the kernel reads, at most.
const FIRST_LINE_BYTES: u64 = 256;

/// The first line of a program, as far as the kernel reads it, if it names what is to run it.
fn first_line(file: &Path) -> Option<Vec<u8>> {
    let mut beginning = Vec::new();
    File::open(file).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut beginning).ok()?;
    let line = beginning.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    Some(line.to_vec())
}

/// The fault in a first line that names nothing that is there.
fn hint_about(line: Vec<u8>) -> String {
    let name = line.trim_ascii_start().split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    let ends = if line.ends_with(b"\r") { "; its lines end with CR LF, and have to end with LF" } else { "" };
    format!(": its first line names `{}`, which is not there{ends}", name.escape_ascii())
}
