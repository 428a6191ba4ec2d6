//! Reading the configuration again: when the new value of a key is in force.
//!
//! Owns: [`Reload`], the column that rows of settings, sites and routes have. Does not carry anything out: the process
//! asks the rows what it refuses, and tests hold it to the others.

/// When a new value is in force once the configuration has been read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// At once, in the engine that serves. An engine of processes is replaced by other processes.
    AtOnce,
    /// From the next request on, of connections that are open as well: another engine takes them over.
    Requests,
    /// For connections that begin then.
    Connections,
    /// For certificates that are ordered then.
    Certificates,
    /// Not before a restart: the new configuration is refused, because it names this.
    Restart(&'static str),
}

impl Reload {
    /// As the manual says it.
    pub fn words(self) -> &'static str {
        match self {
            Reload::AtOnce => "at once",
            Reload::Requests => "next request",
            Reload::Connections => "next connection",
            Reload::Certificates => "next certificate",
            Reload::Restart(_) => "refused: takes a restart",
        }
    }
}
