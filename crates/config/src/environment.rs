//! Checks outside of the configuration: the addresses and log files that it names.
//!
//! Owns: finding out whether they can be used, and saying what to do about it if not. Makes nothing and keeps nothing
//! open.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, open};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::address::AdminAddress;
use super::depth::Depth;
use super::settings::{ListenAt, ListenSettings, LogTarget};

/// Whether one can listen there beside `others`: a message and what to do about it if not.
pub(super) fn check_listen(at: &ListenAt, others: &[ListenSettings], depth: Depth) -> Result<(), (String, String)> {
    if let Some(other) = others.iter().map(|other| &other.at).find(|other| other.overlaps(at)) {
        let is_same = other == at;
        let message = match is_same {
            true => format!("`{at}` is named twice"),
            false => format!("`{at}` and `{other}` overlap: only one socket can listen there"),
        };
        return Err((message, "leave one of them out".to_owned()));
    }
    match (depth, at) {
        (Depth::Check(probe), ListenAt::Address(address)) => probe(address),
        // A kernel without one of the families listens in the other.
        (Depth::Check(_), ListenAt::EveryAddress(_)) | (Depth::Text | Depth::Serve, _) => Ok(()),
    }
}

/// Whether the server can be controlled here beside what it listens at: as [`check_listen`].
pub(super) fn check_admin(
    admin: &AdminAddress,
    listen: &[ListenSettings],
    depth: Depth,
) -> Result<(), (String, String)> {
    let AdminAddress::At(address) = admin else { return Ok(()) };
    let rename = |(message, hint): (String, String)| (message, hint.replace("--listen", "--admin"));
    check_listen(&ListenAt::Address(address.clone()), listen, depth).map_err(rename)
}

/// Whether the access log can be opened: a message and what to do about it if not. Makes nothing.
pub(super) fn check_log(target: &LogTarget, depth: Depth) -> Result<(), (String, String)> {
    let LogTarget::File(path) = target else { return Ok(()) };
    check_log_file(path, "access log", depth).map_err(|(message, hint)| match path.is_dir() {
        true => (message, "name a file, `-` or `off`".to_owned()),
        false => (message, hint),
    })
}

/// Whether lines can be appended to `path`, which is to be the `log` of this name.
pub(super) fn check_log_file(path: &Path, log: &str, depth: Depth) -> Result<(), (String, String)> {
    let shown = path.display();
    let directory = path.parent().unwrap_or(Path::new("/"));
    let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS);
    let change = || format!("change its owner or mode for this user ({}), or choose another place", geteuid());
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err((format!("the {log} `{shown}` is a directory"), "name a file or `-`".to_owned()))
        }
        Ok(_) => {
            let may = match depth {
                Depth::Text | Depth::Serve => may(path, Access::WRITE_OK),
                // What is a socket, say, may be written and not be opened. Without a reader a pipe would keep us
                // waiting.
                Depth::Check(_) => {
                    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    open(path, flags, Mode::empty()).map(drop)
                }
            };
            may.map_err(|errno| (format!("the {log} `{shown}` cannot be written: {errno}"), change()))
        }
        Err(_) => may(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| match errno {
            Errno::NOENT => (
                format!("the directory `{}` of the {log} does not exist", directory.display()),
                "make it first, or choose another place".to_owned(),
            ),
            _ if directory.exists() && !directory.is_dir() => (
                format!("`{}`, where the {log} is to be, is not a directory", directory.display()),
                "choose another place".to_owned(),
            ),
            errno => (format!("no {log} can be made in `{}`: {errno}", directory.display()), change()),
        }),
    }
}
