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
    /// It answers no request that arrives: the process that has taken the place of its supervisor does.
    pub(super) has_left: bool,
}

impl Worker {
    /// Whether it has said that it has left, or nothing more will be heard of it. Reports of a failure to begin are no
    /// more of interest: another process serves.
    pub(super) fn look_for_leaving(&mut self) {
        loop {
            match self.line.receive() {
                Received::Message(message, _) => self.has_left |= Report::decode(&message) == Some(Report::Leaving),
                Received::Nothing => return,
                Received::End => {
                    self.has_left = true;
                    return;
                }
            }
        }
    }

    /// Its reports since the last look.
    pub(super) fn reports(&self) -> Vec<Report> {
        let mut reports = Vec::new();
        while let Received::Message(message, _) = self.line.receive() {
            reports.extend(Report::decode(&message));
        }
        reports
    }
}
