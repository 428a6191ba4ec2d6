//! Telling a service manager what it cannot see: sd_notify(3).
//!
//! Owns: finding its socket, messages, and when the watchdog is due. Does nothing where there is none.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Tells the service manager `state`, as `MAINPID=1234`, if there is one that wants to know. What it does not hear is
/// its own loss.
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

/// Tells it that the configuration is read again; `READY=1` is to follow (`Type=notify-reload` goes by the time).
pub(crate) fn notify_reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000));
}

/// The keep-alive for the service manager, so that it does not end the server (`WatchdogSec=`).
///
/// `WATCHDOG_PID` is not looked at: after an upgrade it is still that of the first process.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Half of what it waits, as sd_watchdog_enabled(3) recommends.
    interval: Duration,
    next: Instant,
}

impl Watchdog {
    /// None if no manager waits.
    pub(crate) fn of_environment() -> Option<Watchdog> {
        let text = std::env::var("WATCHDOG_USEC").ok()?;
        interval(&text).map(|interval| Watchdog { interval, next: Instant::now() })
    }

    /// In how long it is due.
    pub(crate) fn due(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Says that the server goes on, if it is time.
    pub(crate) fn look(&mut self) {
        if self.due().is_zero() {
            notify("WATCHDOG=1");
            self.next = Instant::now() + self.interval;
        }
    }
}

fn interval(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|us| *us > 0).map(|us: u64| Duration::from_micros(us / 2).max(Duration::from_millis(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_due_twice_in_its_time_and_never_at_once() {
        assert_eq!(interval("30000000"), Some(Duration::from_secs(15)));
        assert_eq!(interval("1"), Some(Duration::from_millis(1)));
        for nothing in ["", "0", "-1", "x"] {
            assert_eq!(interval(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn it_is_due_at_once_and_then_not_before_its_interval() {
        let mut dog = Watchdog { interval: Duration::from_secs(3600), next: Instant::now() };
        assert!(dog.due().is_zero());
        dog.look();
        assert!(dog.due() > Duration::from_secs(3000));
    }
}
