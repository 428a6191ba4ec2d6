//! Files with code that services are made of.
//!
//! Owns: reading one whole, within a bound, and what tells it from another. Judges nothing of what is in it.

use std::fs;
use std::path::Path;

/// The largest file.
const BYTES_MAX: u64 = 256 << 20;

/// Reads the content of the file.
///
/// # Errors
/// Why it cannot be read, in words.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, String> {
    let path = file.display();
    let unread = |error: std::io::Error| format!("{path} cannot be read: {error}");
    if fs::metadata(file).map_err(unread)?.len() > BYTES_MAX {
        return Err(format!("{path} has more than {BYTES_MAX} bytes"));
    }
    fs::read(file).map_err(unread)
}

/// FNV-1a: not against malice, which has the server already when it can write the file.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
