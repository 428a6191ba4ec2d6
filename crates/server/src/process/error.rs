//! Why a server does not start, or ends before it was told to.

use std::fmt;

use lamna_config::settings::LogTarget;
use lamna_io::listen::BindError;
use lamna_tls::TlsError;
use rustix::io::Errno;

/// Why a server did not start or ended early.
#[derive(Debug)]
pub enum ServeError {
    /// A directory cannot be opened.
    Root(std::path::PathBuf, Errno),
    /// The access log cannot be opened.
    Log(LogTarget, std::io::Error),
    /// Descriptors, memory or threads are lacking.
    Resources(std::io::Error),
    /// A limit is so low that no connection could be served: why, with the remedy.
    Limit(String),
    /// So many workers could not go on.
    Workers(usize),
    /// TLS cannot be spoken with what is configured.
    Tls(TlsError),
    /// A service cannot be used: which, and why, in words.
    Service(String),
    /// An unknown name in `without`.
    Without(String),
    /// The descriptors that another process has passed to this one cannot be used: why, in words.
    Inherited(String),
    /// An address cannot be listened at.
    Listen(BindError),
    /// A worker process cannot begin.
    Worker {
        /// Why, in words.
        cause: String,
        /// Whether a missing permission is the cause.
        permission: bool,
    },
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Root(path, errno) => write!(
                f,
                "cannot serve {}: {errno}. Name a directory that this user may search, or check the spelling.",
                path.display()
            ),
            ServeError::Log(target, error) => {
                let name = match target {
                    LogTarget::File(path) => path.display().to_string(),
                    LogTarget::Stdout | LogTarget::Off => "standard output".to_owned(),
                };
                write!(f, "cannot write {name}: {error}. Choose another place with --log FILE, or --log off.")
            }
            ServeError::Resources(error) => {
                write!(
                    f,
                    "cannot start: {error}. Raise the limits on open files (ulimit -n, LimitNOFILE=), on processes and threads \
                     (ulimit -u, TasksMax=) and on memory (ulimit -v, MemoryMax=), or ask for less."
                )
            }
            ServeError::Tls(error) => write!(f, "cannot start: {error}"),
            ServeError::Limit(why) | ServeError::Service(why) => write!(f, "cannot start: {why}"),
            ServeError::Workers(count) => write!(f, "{count} of the workers ended before they were told to"),
            ServeError::Without(name) => {
                write!(f, "{name} is not something to do without: openat2, nowait, cachestat or io_uring.")
            }
            ServeError::Inherited(why) => write!(f, "cannot take the place of another process: {why}"),
            ServeError::Listen(error) => error.fmt(f),
            ServeError::Worker { cause, .. } => f.write_str(cause),
        }
    }
}

impl std::error::Error for ServeError {}

impl ServeError {
    /// Whether the cause is a missing permission.
    pub fn is_permission(&self) -> bool {
        match self {
            ServeError::Root(_, errno) => matches!(*errno, Errno::ACCESS | Errno::PERM),
            ServeError::Log(_, error) | ServeError::Resources(error) => {
                error.kind() == std::io::ErrorKind::PermissionDenied
            }
            ServeError::Limit(_) | ServeError::Service(_) | ServeError::Tls(_) | ServeError::Workers(_) => false,
            ServeError::Without(_) | ServeError::Inherited(_) => false,
            ServeError::Listen(error) => error.is_permission_denied(),
            ServeError::Worker { permission, .. } => *permission,
        }
    }
}

impl From<Errno> for ServeError {
    fn from(errno: Errno) -> ServeError {
        ServeError::Resources(errno.into())
    }
}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> ServeError {
        ServeError::Resources(error)
    }
}
