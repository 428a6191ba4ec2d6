//! Telling a service manager what it cannot see: sd_notify(3).
//!
//! Owns: finding its socket, and one message. Does nothing where there is none.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager `state`, as `MAINPID=1234`, if there is one that wants to know. What it does not hear is its
/// own loss.
pub(crate) fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
