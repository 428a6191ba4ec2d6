//! Socket activation: listening sockets that a service manager bound and passed to this process (sd_listen_fds(3)).
//!
//! Owns: the reading of LISTEN_PID and LISTEN_FDS and the checks. LISTEN_FDNAMES is ignored: every listener serves
//! every site. The variables stay set, which is harmless: they name this process, not its children.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use lamna_config::settings::ListenAddress;
use rustix::fs::OFlags;
use rustix::io::{Errno, FdFlags};
use rustix::net::{SocketType, sockopt};

use super::{BindError, Listener, listener, tune_tcp};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lamna_sys as sys;

/// `SD_LISTEN_FDS_START`: the first descriptor after the standard ones.
const FIRST: RawFd = 3;

/// The process id that this program was started as, if that is another process than this one; 0 if it is not.
static STARTED_AS: AtomicU32 = AtomicU32::new(0);

/// This process was started by one that the program had been started as, and that has this id: what was passed to that
/// one is for this one.
pub fn set_started_as(id: u32) {
    STARTED_AS.store(id, Relaxed);
}

fn started_as() -> u32 {
    match STARTED_AS.load(Relaxed) {
        0 => std::process::id(),
        other => other,
    }
}

/// The listeners that were passed, or none. A second call gets none: they belong to who asked first.
///
/// # Errors
/// The variables make no sense, or a descriptor is not a listening stream socket.
pub(super) fn listeners() -> Result<Vec<Listener>, BindError> {
    let variable = |name| std::env::var(name).ok();
    let count = passed_count(variable("LISTEN_PID").as_deref(), variable("LISTEN_FDS").as_deref(), started_as())?;
    adopt(count)
}

/// How many descriptors were passed to the process with the id `own_pid`, given the values of LISTEN_PID and
/// LISTEN_FDS. Variables meant for another process, as inherited by a child, count as absent.
fn passed_count(listen_pid: Option<&str>, listen_fds: Option<&str>, own_pid: u32) -> Result<u16, BindError> {
    let (Some(pid), Some(count)) = (listen_pid, listen_fds) else {
        return Ok(0);
    };
    if pid.parse() != Ok(own_pid) {
        return Ok(0);
    }
    count.parse().map_err(|_| BindError {
        what: "cannot use the sockets of the service manager".into(),
        error: Errno::INVAL.into(),
        remedy: format!("LISTEN_FDS is `{}` instead of a number", count.escape_debug()),
    })
}

fn adopt(count: u16) -> Result<Vec<Listener>, BindError> {
    let failed = |number, error| BindError {
        what: format!("cannot use descriptor {number} of the service manager"),
        error,
        remedy: "every passed descriptor must be a listening stream socket: ListenStream= with Accept=no".into(),
    };
    let numbers: Vec<RawFd> = (FIRST..FIRST + RawFd::from(count)).collect();
    let descriptors = sys::inherit::take(&numbers, |one, _| is_listening_stream(one))
        .map_err(|(number, error)| failed(number, error))?;
    (FIRST..)
        .zip(descriptors)
        .map(|(number, descriptor)| match prepare(descriptor) {
            Ok(mut listener) => {
                listener.lent = true;
                Ok(listener)
            }
            Err(errno) => Err(failed(number, errno.into())),
        })
        .collect()
}

/// That `descriptor` is a stream socket that listens.
///
/// # Errors
/// It is none, or no socket at all.
pub fn is_listening_stream(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let is_stream = sockopt::socket_type(descriptor)? == SocketType::STREAM;
    if is_stream && sockopt::socket_acceptconn(descriptor)? {
        return Ok(());
    }
    Err(io::Error::other("not a listening stream socket"))
}

pub(super) fn prepare(descriptor: OwnedFd) -> Result<Listener, Errno> {
    rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    let flags = rustix::fs::fcntl_getfl(&descriptor)?;
    rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
    let listener = listener(descriptor)?;
    if let ListenAddress::Tcp(_) = listener.address {
        tune_tcp(&listener.descriptor)?;
    }
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::super::bind;
    use super::super::tests::assert_prepared;
    use super::*;
    use lamna_config::settings::ListenSettings;
    use std::net::TcpListener;
    use std::process::Command;

    #[test]
    fn variables_for_another_process_are_ignored() {
        let count = |pid, fds| passed_count(pid, fds, 42).map_err(|error| error.to_string());
        assert_eq!(count(Some("42"), Some("2")), Ok(2));
        assert_eq!(count(Some("43"), Some("2")), Ok(0));
        assert_eq!(count(Some("x"), Some("2")), Ok(0));
        assert_eq!(count(Some("42"), None), Ok(0));
        assert_eq!(count(None, Some("2")), Ok(0));
        assert!(count(Some("42"), Some("-1")).unwrap_err().contains("`-1`"));
    }

    /// Runs [`activated`] in a process of its own that has `passed` as descriptor 3, and gives back what it printed.
    fn run_activated(passed: OwnedFd, listen: &str) -> String {
        let script = r#"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@""#;
        let output = Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().expect("the test binary is known"))
            .args(["--exact", "listen::activation::tests::activated", "--ignored", "--nocapture"])
            .env("LISTEN_AT", listen)
            .stdin(passed)
            .output()
            .expect("a shell can be run");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    #[test]
    #[ignore = "needs the descriptors that run_activated passes"]
    fn activated() {
        let listen = std::env::var("LISTEN_AT").unwrap_or_default();
        let addresses: Vec<ListenSettings> = listen.split_whitespace().map(|text| text.parse().unwrap()).collect();
        match bind(&addresses) {
            Ok(listeners) => {
                assert_prepared(&listeners[0]);
                println!("\nlistens on {} of {}", listeners[0].address(), listeners.len());
            }
            Err(error) => println!("\n{error}"),
        }
    }

    #[test]
    fn a_listening_socket_of_the_service_manager_is_used() {
        let passed = TcpListener::bind("127.0.0.1:0").unwrap();
        let expected = format!("listens on {} of 1", passed.local_addr().unwrap());
        let output = run_activated(passed.into(), "");
        assert!(output.contains(&expected), "{output}");
    }

    #[test]
    fn of_what_is_passed_beside_addresses_one_that_matches_is_used_and_another_is_said_to_be_unused() {
        let passed = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = passed.local_addr().unwrap();
        // Bound again it would be in use.
        let output = run_activated(passed.try_clone().unwrap().into(), &format!("127.0.0.1:0 {address}"));
        assert!(output.contains(" of 2") && !output.contains("not used"), "{output}");
        let output = run_activated(passed.into(), "127.0.0.1:0");
        assert!(output.contains(&format!("has passed a socket for {address}, which")), "{output}");
        assert!(output.contains(" of 1"), "{output}");
    }

    #[test]
    fn a_socket_of_both_families_stands_for_a_port_of_every_address() {
        let Ok(passed) = TcpListener::bind("[::]:0") else {
            return; // A machine without IPv6.
        };
        let port = passed.local_addr().unwrap().port();
        if sockopt::ipv6_v6only(&passed).unwrap() {
            return; // Sockets of IPv6 take no IPv4 here, unless they are told to.
        }
        let output = run_activated(passed.try_clone().unwrap().into(), &port.to_string());
        assert!(output.contains(&format!("listens on [::]:{port} of 1")) && !output.contains("not used"), "{output}");
        let output = run_activated(passed.into(), &format!("[::]:{port}"));
        assert!(output.contains(" of 1"), "{output}");
    }

    #[test]
    fn another_descriptor_of_the_service_manager_is_refused() {
        let file = tempfile::tempfile().unwrap();
        let output = run_activated(file.into(), "");
        assert!(output.contains("cannot use descriptor 3"), "{output}");
        assert!(output.contains("ListenStream="), "{output}");
    }
}
