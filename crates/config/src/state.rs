//! Where a server keeps what is to be there after the next start.

use std::path::PathBuf;

/// Where a service, or this user, keeps what is to be there after the next start. A service manager may name several
/// directories: the first one is taken.
pub fn state_directory() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_service = std::env::var_os("STATE_DIRECTORY").and_then(|all| std::env::split_paths(&all).next());
    of_service
        .filter(|path| !path.as_os_str().is_empty())
        .or_else(|| path("XDG_STATE_HOME").map(|state| state.join("lamna")))
        .or_else(|| path("HOME").map(|home| home.join(".local/state/lamna")))
}
