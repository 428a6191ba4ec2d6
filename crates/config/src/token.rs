//! Tokens in files: what opens the control endpoint over TCP.
//!
//! Owns: the form of a token. Makes none: `admin::token` does.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Characters that a configured token has at least, so that it cannot be tried out.
const LENGTH_MIN: usize = 16;
/// Bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 1024;

/// Reads a token that an administrator has put into a file.
///
/// # Errors
/// It cannot be read, or is no token.
pub fn read(file: &Path) -> io::Result<String> {
    parse(OpenOptions::new().read(true).open(file)?)
}

/// Reads the token in a file that is open.
///
/// # Errors
/// As [`read`].
pub fn parse(opened: File) -> io::Result<String> {
    let mut text = String::new();
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let token = text.trim();
    if token.len() < LENGTH_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = format!("a token has at least {LENGTH_MIN} characters, and no spaces within");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(token.to_owned())
}
