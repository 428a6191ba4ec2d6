//! Exit codes and failures of the program.
//!
//! Owns: the numbers. They are a part of those of `lamna`, so that `lamna load` and `lamna-lab load` end alike.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: something failed while running.
    Failure,
    /// 2: the command line makes no sense; clap uses the same number.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
        })
    }
}

/// A failure that has been put into words, and its code.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) exit: Exit,
    /// The message for standard error, without a newline at the end.
    pub(crate) report: String,
}

/// A failure while running.
pub(crate) fn failure(what: impl Display) -> Failed {
    Failed { exit: Exit::Failure, report: format!("lamna-lab: {what}") }
}

/// A command line that makes no sense.
pub(crate) fn usage(what: impl Display) -> Failed {
    Failed { exit: Exit::Usage, report: format!("lamna-lab: {what}") }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        failure(format!("cannot write to standard output: {error}"))
    }
}
