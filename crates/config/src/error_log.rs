//! Where the error log goes, and how much of it there is: the settings of `log::errors`.
//!
//! Owns: the types and their names.

use std::path::PathBuf;

/// How the error log is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLogSettings {
    /// The file; none for standard error.
    pub file: Option<PathBuf>,
    /// How a line is written.
    pub format: ErrorLogFormat,
    /// The least important lines that are written.
    pub level: Level,
}

impl Default for ErrorLogSettings {
    fn default() -> ErrorLogSettings {
        ErrorLogSettings { file: None, format: ErrorLogFormat::Text, level: Level::Info }
    }
}

/// How a line of the error log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl ErrorLogFormat {
    /// Every format, in the order of documentation.
    pub const ALL: [ErrorLogFormat; 2] = [ErrorLogFormat::Text, ErrorLogFormat::Json];

    /// The name in configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ErrorLogFormat::Text => "text",
            ErrorLogFormat::Json => "json",
        }
    }

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<ErrorLogFormat> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }
}

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something that was asked for was not done.
    Error,
    /// Something is not as it should be, and the server copes.
    Warning,
    /// An action of the server.
    Info,
}

/// Bytes from the beginning of a line within which other programs say its level, behind a time and a process.
const LEVEL_WITHIN_BYTES: usize = 120;

/// The level that other programs mean by a word.
fn level_named(word: &[u8]) -> Option<Level> {
    let is_one_of = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    match () {
        () if is_one_of(&["error", "err", "critical", "crit", "fatal", "alert", "emerg", "panic"]) => {
            Some(Level::Error)
        }
        () if is_one_of(&["warning", "warn"]) => Some(Level::Warning),
        () if is_one_of(&["notice", "info", "debug", "trace"]) => Some(Level::Info),
        () => None,
    }
}

impl Level {
    /// Every level, the most important first.
    pub const ALL: [Level; 3] = [Level::Error, Level::Warning, Level::Info];

    /// The level of a line of another program: what it says itself near its beginning, in capitals or before `:` or
    /// `]`, as in `[INFO]`, `PHP Warning:` and `ERROR in app`. A warning where it says nothing.
    pub fn of_line(line: &[u8]) -> Level {
        let line = &line[..line.len().min(LEVEL_WITHIN_BYTES)];
        let mut start = 0;
        for word in line.split(|byte| !byte.is_ascii_alphabetic()) {
            let end = start + word.len();
            let is_marked = word.iter().all(u8::is_ascii_uppercase) || matches!(line.get(end), Some(b':' | b']'));
            if let Some(level) = level_named(word).filter(|_| is_marked) {
                return level;
            }
            start = end + 1;
        }
        Level::Warning
    }

    /// The name in configuration and in lines.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
        }
    }

    /// The level of this name.
    pub fn from_name(name: &str) -> Option<Level> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_another_program_has_the_level_that_it_says() {
        for (line, level) in [
            ("[2026-11-28 08:08:07 +0000] [25801] [INFO] Starting gunicorn 23.0.0", Level::Info),
            ("INFO:     Uvicorn running on unix socket /run/app.sock", Level::Info),
            ("[28-Nov-2026 08:08:07] NOTICE: ready to handle connections", Level::Info),
            ("E, [2026-11-28T08:08:07 #1] ERROR -- : no", Level::Error),
            ("PHP message: PHP Warning:  Undefined variable $a in /srv/error.php on line 1", Level::Warning),
            ("PHP Fatal error:  Uncaught Exception: info", Level::Error),
            ("PHP Notice:  error", Level::Info),
            ("2026/11/28 08:08:07 [crit] 1#1: no", Level::Error),
            ("an error of no level, and info beside it", Level::Warning),
            ("", Level::Warning),
        ] {
            assert_eq!(Level::of_line(line.as_bytes()), level, "{line}");
        }
    }
}
