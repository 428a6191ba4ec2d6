//! A worker process, seen by its supervisor.
//!
//! Owns: the line to it, and what it has said. Does not start it, and does not wait for it.

use std::time::Instant;

use rustix::process::Pid;

use crate::process::orders::{ControlChannel, Received, Report};

/// A worker process.
pub(super) struct Worker {
    pub(super) process: Pid,
    pub(super) line: ControlChannel,
    pub(super) started: Instant,
    /// It has been told to go.
    pub(super) leaving: bool,
}

impl Worker {
    /// Its reports since the last look.
    pub(super) fn reports(&self) -> Vec<Report> {
        let mut reports = Vec::new();
        while let Received::Message(message, _) = self.line.receive() {
            reports.extend(Report::decode(&message));
        }
        reports
    }
}
