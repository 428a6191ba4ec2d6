//! Reading a secret from the user at the terminal.
//!
//! Owns: turning its echo off and on again. Guarantees: however reading ends, the terminal is as it was. A signal that
//! ends the process in between leaves it without echo, as other programs do; `stty sane` helps.

#![allow(unsafe_code)]

use std::io::{self, BufRead, IsTerminal, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

/// The first line of standard input, without its end. The user who types it is asked by `prompt`, and does not see it.
///
/// # Errors
/// Standard input cannot be read.
pub fn read_secret(prompt: &str) -> io::Result<Vec<u8>> {
    let input = io::stdin();
    let quiet = input.is_terminal().then(|| {
        _ = write!(io::stderr(), "{prompt}");
        Quiet::begin(input.as_raw_fd())
    });
    let mut line = Vec::new();
    input.lock().read_until(b'\n', &mut line)?;
    if quiet.is_some() {
        _ = writeln!(io::stderr());
    }
    while matches!(line.last(), Some(b'\n' | b'\r')) {
        line.pop();
    }
    Ok(line)
}

/// A terminal that shows nothing of what is typed.
struct Quiet(Option<(i32, libc::termios)>);

impl Quiet {
    fn begin(terminal: i32) -> Quiet {
        let mut before = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the structure is written whole if the call succeeds, and read only then.
        let before = unsafe {
            if libc::tcgetattr(terminal, before.as_mut_ptr()) != 0 {
                return Quiet(None);
            }
            before.assume_init()
        };
        let mut silent = before;
        silent.c_lflag &= !libc::ECHO;
        // SAFETY: the structure is valid, and lives as long as the call.
        unsafe { libc::tcsetattr(terminal, libc::TCSAFLUSH, &raw const silent) };
        Quiet(Some((terminal, before)))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some((terminal, before)) = &self.0 {
            // SAFETY: as in `begin`.
            unsafe { libc::tcsetattr(*terminal, libc::TCSAFLUSH, &raw const *before) };
        }
    }
}
