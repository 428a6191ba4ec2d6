//! How files and messages are sent, as a setting. `io::send` carries it out.

/// How stretches of files are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendStrategy {
    /// By copy up to [`Plan::stretch_copy_bytes_max`], else by sendfile.
    Auto,
    /// Read and send.
    Copy,
    /// Send from a mapping.
    Mapped,
    /// `sendfile(2)`.
    Sendfile,
}

impl SendStrategy {
    /// Every strategy, in the order of documentation.
    pub const ALL: [SendStrategy; 4] =
        [SendStrategy::Auto, SendStrategy::Copy, SendStrategy::Mapped, SendStrategy::Sendfile];

    /// The name in configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SendStrategy::Auto => "auto",
            SendStrategy::Copy => "copy",
            SendStrategy::Mapped => "mapped",
            SendStrategy::Sendfile => "sendfile",
        }
    }

    /// The strategy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }
}

/// How a server sends: what is set for all its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For stretches of files.
    pub strategy: SendStrategy,
    /// Bytes of the longest stretch of a file that [`SendStrategy::Auto`] copies.
    pub stretch_copy_bytes_max: u64,
    /// Bytes of the longest message, head and content, that is copied from the cache to the output of a worker, where
    /// answers stand behind each other; longer content is gathered from where it is.
    pub message_copy_bytes_max: usize,
}

impl Default for Plan {
    /// The sizes are measured: results/engines/send.md.
    fn default() -> Plan {
        Plan { strategy: SendStrategy::Auto, stretch_copy_bytes_max: 32 * 1024, message_copy_bytes_max: 16 * 1024 }
    }
}
