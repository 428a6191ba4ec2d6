//! The token that orders over TCP need: a process that can read a file of the server's user may give orders.
//!
//! The kernel does not name the user that connects over TCP. Any program on the machine can be made to connect: a proxy
//! that forwards too much, a program that fetches what it is told to. So an order over TCP carries a secret.
//!
//! Owns: making it, keeping it in `ADDRESS.token` beside control sockets (mode 0600, in a directory of mode 0700),
//! finding it again for `lamna ctl`, and comparing it. Guarantees: the time that a comparison takes does not tell how
//! much of a token was right.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lamna_config::token::{parse, read};

use super::socket_path;

/// A token, and the file that goes with the server.
#[derive(Debug)]
pub(super) struct Token {
    text: String,
    /// The file that is removed with it, and the process that made it: a forked one must not remove it.
    file: Option<(PathBuf, u32)>,
    /// Whether it is removed: not by a process that was to take over and did not come to that.
    removes: bool,
}

/// Bytes of a made token; written with twice as many digits.
const BYTES: usize = 32;

impl Token {
    /// The one that an administrator has put into a file.
    ///
    /// # Errors
    /// It cannot be read, or is no token.
    pub(super) fn read(file: &Path) -> io::Result<Token> {
        Ok(Token { text: read(file)?, file: None, removes: false })
    }

    /// A new one for the server at this address, which [`find`] finds.
    ///
    /// # Errors
    /// There is no directory that is this user's own, or it cannot be written.
    pub(super) fn make(address: SocketAddr) -> io::Result<Token> {
        let mut bytes = [0; BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = socket_path::with_directory(|directory| {
            let path = directory.join(name(address));
            // Of a server that was killed: nobody else listens at this address.
            let _ = std::fs::remove_file(&path);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(text.as_bytes())?;
            Ok(path)
        })?;
        Ok(Token { text, file: Some((path, std::process::id())), removes: true })
    }

    /// That of the process whose place this one takes; a new one if it had none.
    ///
    /// # Errors
    /// As [`Token::make`].
    pub(super) fn inherit(address: SocketAddr) -> io::Result<Token> {
        // One that another user could have put there would be that user's to use.
        let found = socket_path::own_directories().into_iter().map(|directory| directory.join(name(address)));
        match found.filter_map(|path| Some((read_own(&path).ok()?, path))).next() {
            Some((text, path)) => Ok(Token { text, file: Some((path, std::process::id())), removes: false }),
            None => Token::make(address),
        }
    }

    /// From now on the file goes with this process: it serves.
    pub(super) fn keep(&mut self) {
        self.removes = true;
    }

    /// Leaves the file to another process.
    pub(super) fn leave_file(&mut self) {
        self.file = None;
    }

    /// Whether `given` is this token.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        let own = self.text.as_bytes();
        // The length is no secret.
        own.len() == given.len()
            && black_box(own.iter().zip(given).fold(0, |different, (own, given)| different | (own ^ given))) == 0
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let own = self.file.as_ref().filter(|(_, process)| self.removes && *process == std::process::id());
        if let Some((path, _)) = own {
            // One that stays behind opens nothing.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The token of the server that is reached at `address`, if this user may read it. One that listens on every interface
/// is reached by any address of this machine, of which only loopback is known to be one: a token is not sent elsewhere.
pub(super) fn find(address: SocketAddr) -> Option<String> {
    let every: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let is_loopback = address.ip().is_loopback();
    let addresses = [address].into_iter().chain(is_loopback.then(|| SocketAddr::new(every, address.port())));
    let names: Vec<String> = addresses.map(name).collect();
    let directories = socket_path::trusted_directories();
    let paths = directories.iter().flat_map(|directory| names.iter().map(move |name| directory.join(name)));
    paths.into_iter().find_map(|path| read_own(&path).ok())
}

/// Reads one that a server has made: not through a link that another user has put there, and without waiting for the
/// other end of a pipe.
fn read_own(file: &Path) -> io::Result<String> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32;
    parse(OpenOptions::new().read(true).custom_flags(flags).open(file)?)
}

fn name(address: SocketAddr) -> String {
    format!("{address}.token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_and_nothing_else() {
        let token = Token { text: "0123456789abcdef".into(), file: None, removes: false };
        assert!(token.is(b"0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdeg", "1123456789abcdef", "0123456789abcdef0"] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_file_holds_a_token_or_says_why_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert_eq!(read(&path).unwrap(), "0123456789abcdef");
        for text in ["short", "0123456789 abcdef", ""] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("at least 16"), "{text}");
        }
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
        assert!(read_own(&directory.path().join("link")).is_err());
    }
}
