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

impl Level {
    /// Every level, the most important first.
    pub const ALL: [Level; 3] = [Level::Error, Level::Warning, Level::Info];

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
