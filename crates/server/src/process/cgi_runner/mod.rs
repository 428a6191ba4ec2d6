//! The process that runs CGI programs (RFC 3875): a FastCGI application that starts a program for each request.
//!
//! ```text
//!  a serving thread --FastCGI--> runner --environment, content--> program (a process group of its own)
//!                   <-----------        <--output, messages-----
//! ```
//!
//! Owns: [`run`], the life of that process, which the server starts as it does other applications (`process::applications`). So no process that
//! serves ever forks, and engines know nothing of CGI. Guarantees: at most so many programs at once; each has bounded time and output, and
//! ends with its process group when its request does: when the client leaves, and when the runner ends, whatever ends it. Does not know
//! which files are programs: the server has found them beneath its root. It trusts the server, which alone can reach its socket.

mod program;
mod pump;
mod request;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lamna_sys::contain::contain;
use lamna_sys::signals::{Signal, Signals};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// The bounds of programs, and how they are started.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Programs at once. Requests beyond that wait for one to end.
    pub programs_max: usize,
    /// How long a program may take.
    pub time_max: Duration,
    /// Bytes that a program may print.
    pub output_bytes_max: u64,
    /// By the end of a file's name, without the dot: what runs such files. Others are run by the system.
    pub interpreters: BTreeMap<String, String>,
}

/// The stack of a thread of the runner beyond the standard library's frames.
const STACK_BYTES: usize = 256 * 1024;

/// Runs programs for connections to the listening socket that is standard input, until SIGTERM: then what has begun is
/// finished.
///
/// # Errors
/// Standard input is no socket, or there are no threads.
pub fn run(limits: &Limits) -> io::Result<()> {
    let signals = Signals::take(&[Signal::TERM])?;
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.local_addr()?;
    let turn = Mutex::new(());
    thread::scope(|scope| {
        for number in 0..limits.programs_max.max(1) {
            let thread = thread::Builder::new().name(format!("program-{number}")).stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, || {
                while let Some(stream) = accept(&listener, &signals, &turn) {
                    let serve = || pump::serve(stream, limits);
                    contain("The request that a program was to answer ends; the others go on.", serve);
                }
            })?;
        }
        Ok(())
    })
}

/// The next connection; none if it is time to end. One thread at a time waits for it.
fn accept(listener: &UnixListener, signals: &Signals, turn: &Mutex<()>) -> Option<std::os::unix::net::UnixStream> {
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let mut waited = [PollFd::new(signals, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut waited, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        // The signal stays pending, so that all see it.
        if !waited[0].revents().is_empty() {
            return None;
        }
        match listener.accept() {
            Ok((stream, _)) => return Some(stream),
            // Who had connected has left, or there is no descriptor at the moment.
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// After a connection that could not be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
