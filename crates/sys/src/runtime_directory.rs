//! Where a server of this user may have sockets of its own.
//!
//! Owns: the order of preference. Makes no directory, and looks at none.

use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The name of the server's directory within one that others may enter.
pub const NAME: &str = "lamna";

/// With `$LAMNA_RUNTIME_DIR` that alone; else `/run/lamna` for root, `lamna` in `$RUNTIME_DIRECTORY` and in
/// `$XDG_RUNTIME_DIR`, `/tmp/lamna-UID`.
pub fn directories() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(only) = variable("LAMNA_RUNTIME_DIR") {
        return vec![only];
    }
    let user = geteuid();
    let of_root = user.is_root().then(|| "/run/lamna".into());
    // Several are separated by colons (systemd.exec(5)).
    let of_service = std::env::var("RUNTIME_DIRECTORY").ok();
    let of_service = of_service.iter().flat_map(|list| list.split(':')).filter(|path| path.starts_with('/'));
    let of_service: Vec<PathBuf> = of_service.map(|path| Path::new(path).join(NAME)).collect();
    let of_session = variable("XDG_RUNTIME_DIR").map(|path| path.join(NAME));
    let of_all = [format!("/tmp/lamna-{user}").into()];
    of_root.into_iter().chain(of_service).chain(of_session).chain(of_all).collect()
}
