//! Exit codes: what the program tells a service manager or a script.
//!
//! Owns: the numbers and which failure gets which. 69, 77 and 78 are those of sysexits.h, so that a unit file can say
//! `RestartPreventExitStatus=77 78`: starting again would fail in the same way.

use std::io;
use std::process::ExitCode;

use lamna_server::ServeError;
use lamna_server::admin::client::AskError;
use lamna_server::config::ConfigError;
use lamna_server::listen::BindError;

/// How the program ended. Death by a signal is reported by the system, as 128 + its number in a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done, or stopped by TERM or INT.
    Done,
    /// 1: something failed while running.
    Failure,
    /// 2: the command line makes no sense; clap uses the same number.
    Usage,
    /// 69: there is no server, or it does not answer; or `lamna-lab` is not installed.
    Unavailable,
    /// 77: not permitted to bind an address, to read a file or to control a server.
    NoPermission,
    /// 78: the configuration is invalid.
    Configuration,
}

/// The table of exit codes for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0   done, or stopped by TERM or INT
  1   failure while running
  2   wrong usage
  69  no server to control, or it does not answer; or lamna-lab is needed and missing
  77  no permission to bind an address, to read the configuration or to control a server
  78  configuration invalid";

impl Exit {
    /// Its number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 69,
            Exit::NoPermission => 77,
            Exit::Configuration => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A failure that has been put into words, and its code.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) exit: Exit,
    /// The message for standard error, without a newline at the end.
    pub(crate) report: String,
}

impl From<ConfigError> for Failed {
    fn from(error: ConfigError) -> Failed {
        let exit = match &error {
            ConfigError::Read { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => Exit::NoPermission,
            ConfigError::DirectoryAndSites { .. } => Exit::Usage,
            ConfigError::Read { .. } | ConfigError::Invalid { .. } => Exit::Configuration,
        };
        // No program name in front: editors find the place at the start of the line.
        let report = error.to_string();
        Failed { exit, report }
    }
}

impl From<BindError> for Failed {
    fn from(error: BindError) -> Failed {
        let exit = if error.is_permission_denied() { Exit::NoPermission } else { Exit::Failure };
        let report = format!("lamna: {error}");
        Failed { exit, report }
    }
}

impl From<ServeError> for Failed {
    fn from(error: ServeError) -> Failed {
        let report = format!("lamna: {error}");
        let exit = match &error {
            error if error.is_permission() => Exit::NoPermission,
            ServeError::Tls(_) => Exit::Configuration,
            _ => Exit::Failure,
        };
        Failed { exit, report }
    }
}

impl From<AskError> for Failed {
    fn from(error: AskError) -> Failed {
        let exit = match error {
            AskError::NoPermission(_) => Exit::NoPermission,
            AskError::NoServer(..) | AskError::Silent(_) | AskError::Gone(_) | AskError::Nonsense(..) => {
                Exit::Unavailable
            }
        };
        let report = format!("lamna: {error}");
        Failed { exit, report }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        let report = format!("lamna: cannot write to standard output: {error}");
        Failed { exit: Exit::Failure, report }
    }
}
