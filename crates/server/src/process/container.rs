//! The first process of a container: it starts the server as a process of its own, and outlives it and its successors.
//!
//! ```text
//!  process 1, which stays            the server                      its successor
//!  fork ──────────────────────────>  serves
//!  TERM, INT, HUP, USR2 ── line ──>  drains, stops, reloads, starts ──>  serves
//!  <── "succeeded by PID" ─────────  leaves the line to it, ends
//!  waits for whoever is the last, ends as that one has ended
//! ```
//!
//! With the first process of a process namespace every other one ends (pid_namespaces(7)), so a server that is
//! succeeded by another process must not be the first. Orders go over a line that a server leaves to its successor: the
//! process that serves reads it, so none is lost on the way from one to the other.
//!
//! Owns: that process. Guarantees: it waits for every process that becomes its child; it ends with the status of the
//! last server. Serves nothing; where it cannot be had, the server is the first process itself, and says why it is not
//! succeeded.

use std::os::fd::AsFd;
use std::process::id;

use lamna_io::listen::activation;
use lamna_sys::fork::fork;
use lamna_sys::say::say;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, setpgid, wait};

use crate::process::orders::{ControlChannel, Orders, Received, Report};

/// The id of the first process.
const FIRST: u32 = 1;

/// Has `serve` serve: in this process, or in one that it outlives if it is the first of a container. To be called
/// before there are threads. Returns the status to end with.
pub fn run(serve: impl FnOnce(Option<ControlChannel>) -> i32) -> i32 {
    if id() != FIRST {
        return serve(None);
    }
    let mut serve = Some(serve);
    match start(|line| serve.take().map_or(1, |serve| serve(Some(line)))) {
        Ok((server, line, orders)) => keep(server, &line, orders),
        Err(errno) => {
            say!("lamna: the first process serves itself, because it cannot start another: {errno}");
            serve.take().map_or(1, |serve| serve(None))
        }
    }
}

fn start(serve: impl FnOnce(ControlChannel) -> i32) -> Result<(Pid, ControlChannel, Orders), Errno> {
    // Before there is a server, so that no order is lost.
    let orders = Orders::by_signals()?;
    let (ours, theirs) = ControlChannel::pair()?;
    // Each process drops the end that is the other's.
    let mut ends = (Some(ours), Some(theirs));
    let server = fork(|| {
        ends.0 = None;
        activation::set_started_as(FIRST);
        // What a terminal sends to a group goes to the first process only, which passes it on. If it fails both get it.
        let _ = setpgid(None, None);
        ends.1.take().map_or(1, serve)
    })?;
    Ok((server, ends.0.take().ok_or(Errno::PIPE)?, orders))
}

/// Passes orders on until the last server has ended. Returns its status.
fn keep(server: Pid, line: &ControlChannel, mut orders: Orders) -> i32 {
    let (mut server, mut is_open) = (server, true);
    loop {
        orders.wait(is_open.then_some(line.as_fd()).into_iter(), None);
        while let Some(order) = orders.receive() {
            line.order(order);
        }
        let ended = reap();
        // Whoever has ended has said before who succeeds it.
        while is_open {
            match line.receive() {
                Received::Message(message, _) => {
                    if let Some(Report::Succeeded(process)) = Report::decode(&message) {
                        server = Pid::from_raw(process as i32).unwrap_or(server);
                    }
                }
                Received::Nothing => break,
                Received::End => is_open = false,
            }
        }
        if let Some((_, status)) = ended.iter().find(|(process, _)| *process == server) {
            return status_of(*status);
        }
    }
}

/// Waits for those that have ended: the server, and whatever has lost its parent.
fn reap() -> Vec<(Pid, WaitStatus)> {
    std::iter::from_fn(|| wait(WaitOptions::NOHANG).ok().flatten()).collect()
}

/// As a shell tells it.
fn status_of(status: WaitStatus) -> i32 {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or(signal).unwrap_or(1)
}
