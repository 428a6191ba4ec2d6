//! Texts as values of settings: paths, addresses, names.
//!
//! Owns: what a row of the table needs to read one.

use std::path::{Path, PathBuf, absolute};

use crate::settings::{ListenAddress, ListenAt};

/// Puts a value that is one into its place.
pub(super) fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

/// The absolute path that a text means.
pub(super) fn path(text: &str, base: &Path) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("is not a path".to_owned());
    }
    let path = base.join(text);
    // It fails without a working directory only; what uses the path then says what is wrong with it.
    Ok(absolute(&path).unwrap_or(path))
}

/// An address whose path, if it is one, is relative to `base`.
pub(super) fn at(address: ListenAddress, base: &Path) -> Result<ListenAddress, String> {
    match address {
        ListenAddress::Unix(socket) => Ok(ListenAddress::Unix(path(&socket.to_string_lossy(), base)?)),
        tcp @ ListenAddress::Tcp(_) => Ok(tcp),
    }
}

/// Where a text says to listen, with paths relative to `base`.
pub(crate) fn listen_at(text: &str, base: &Path) -> Result<ListenAt, String> {
    match text.parse().map_err(|error| format!("{error}"))? {
        ListenAt::Address(address) => at(address, base).map(ListenAt::Address),
        every @ ListenAt::EveryAddress(_) => Ok(every),
    }
}

/// The name or the number of a user or a group.
pub(super) fn account_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && !text.contains([':', '/', '\0']) && !text.starts_with('-');
    if is_name { Ok(text.to_owned()) } else { Err("is not the name of a user or a group".to_owned()) }
}

/// A path as text.
pub(super) fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
