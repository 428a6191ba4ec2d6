//! Categories of a server's work (JAWS over ATM, Table 2 and figures 6 to 10), and which system call belongs to which.

use std::collections::HashMap;

/// Categories of a server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Taking connections and receiving from them.
    Reading,
    /// Sending to connections.
    Writing,
    /// Names, attributes and content of files.
    Files,
    /// Locks, and waking other threads or processes.
    Synchronization,
    /// Waiting for events, and being switched.
    Switching,
    /// Everything outside the kernel.
    Http,
    /// Writing to files.
    Logging,
    /// Work of a ring in the kernel, of whatever kind.
    Ring,
    /// Closing connections, their options, memory, time, threads and processes.
    Other,
}

impl Category {
    /// All of them, in the order in which they are drawn.
    pub const ALL: [Category; 9] = [
        Category::Reading,
        Category::Writing,
        Category::Files,
        Category::Synchronization,
        Category::Switching,
        Category::Http,
        Category::Logging,
        Category::Ring,
        Category::Other,
    ];

    /// The name of its metric, in microseconds by request.
    pub fn metric(self) -> &'static str {
        match self {
            Category::Reading => "reading_us",
            Category::Writing => "writing_us",
            Category::Files => "files_us",
            Category::Synchronization => "synchronization_us",
            Category::Switching => "switching_us",
            Category::Http => "http_us",
            Category::Logging => "logging_us",
            Category::Ring => "ring_us",
            Category::Other => "other_us",
        }
    }

    /// The category that a step of Lamna's own account belongs to (docs/configuration.md, `account`).
    pub fn of_step(step: &str) -> Category {
        match step {
            "accept" | "receive" => Category::Reading,
            "send" => Category::Writing,
            "translate" | "read" => Category::Files,
            "synchronize" => Category::Synchronization,
            "wait" => Category::Switching,
            "protocol" => Category::Http,
            "log" => Category::Logging,
            "ring" => Category::Ring,
            _ => Category::Other,
        }
    }
}

/// The kind of file behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A connection, or what connections come from.
    Socket,
    /// A file or directory.
    File,
    /// A pipe or an eventfd, by which threads and processes wake each other.
    Pipe,
    /// An epoll instance or something else without content.
    Nothing,
}

impl Kind {
    /// From the link in /proc/PID/fd (proc_pid_fd(5)).
    pub fn of_link(link: &str) -> Kind {
        if link.starts_with("socket:") {
            Kind::Socket
        } else if link.starts_with("pipe:") || link.contains("eventfd") {
            Kind::Pipe
        } else if link.starts_with('/') {
            Kind::File
        } else {
            Kind::Nothing
        }
    }
}

/// Descriptors of one process.
#[derive(Clone, Debug, Default)]
pub struct Descriptors(HashMap<i64, Kind>);

impl Descriptors {
    /// One is known.
    pub fn insert(&mut self, descriptor: i64, kind: Kind) {
        self.0.insert(descriptor, kind);
    }

    fn kind(&self, descriptor: i64) -> Kind {
        self.0.get(&descriptor).copied().unwrap_or(Kind::Nothing)
    }

    /// A call has returned `result`: it may have made or closed a descriptor.
    pub fn handle_result(&mut self, call: i64, first: i64, result: i64) {
        let made = match call {
            libc::SYS_accept | libc::SYS_accept4 | libc::SYS_socket => Some(Kind::Socket),
            libc::SYS_openat | libc::SYS_openat2 => Some(Kind::File),
            libc::SYS_eventfd2 => Some(Kind::Pipe),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => Some(Kind::File),
            _ => None,
        };
        if let Some(kind) = made.filter(|_| result >= 0) {
            self.insert(result, kind);
        } else if call == libc::SYS_close {
            self.0.remove(&first);
        }
    }

    /// The category of a call with these first two arguments.
    pub fn category(&self, call: i64, first: i64, second: i64) -> Category {
        use Category::{Files, Logging, Other, Reading, Ring, Switching, Synchronization, Writing};
        match call {
            libc::SYS_accept | libc::SYS_accept4 | libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg => {
                Reading
            }
            libc::SYS_read | libc::SYS_readv | libc::SYS_ioctl => match self.kind(first) {
                Kind::Socket => Reading,
                Kind::File => Files,
                Kind::Pipe => Synchronization,
                Kind::Nothing => Other,
            },
            libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_sendfile => Writing,
            libc::SYS_splice if self.kind(second) == Kind::Socket => Writing,
            libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 => match self.kind(first) {
                Kind::Socket => Writing,
                Kind::File => Logging,
                Kind::Pipe => Synchronization,
                Kind::Nothing => Other,
            },
            libc::SYS_close if self.kind(first) == Kind::File => Files,
            _ if is_of_files(call) => Files,
            libc::SYS_futex | libc::SYS_flock | libc::SYS_semop | libc::SYS_semtimedop | libc::SYS_tgkill => {
                Synchronization
            }
            libc::SYS_io_uring_enter => Ring,
            _ if waits(call) => Switching,
            _ => Other,
        }
    }
}

fn is_of_files(call: i64) -> bool {
    let files = [
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_lseek,
        libc::SYS_pread64,
        libc::SYS_preadv,
        libc::SYS_preadv2,
        libc::SYS_readahead,
        libc::SYS_fadvise64,
        libc::SYS_getdents64,
        libc::SYS_readlinkat,
        libc::SYS_faccessat,
        libc::SYS_mincore,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_splice,
    ];
    files.contains(&call) || is_of_files_of_old(call)
}

fn waits(call: i64) -> bool {
    let waits = [
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_epoll_ctl,
        libc::SYS_ppoll,
        libc::SYS_pselect6,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_sched_yield,
        libc::SYS_restart_syscall,
    ];
    waits.contains(&call) || waits_of_old(call)
}

/// Calls that newer architectures do without.
#[cfg(target_arch = "x86_64")]
fn is_of_files_of_old(call: i64) -> bool {
    [libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink].contains(&call)
}

#[cfg(target_arch = "x86_64")]
fn waits_of_old(call: i64) -> bool {
    [libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_select].contains(&call)
}

#[cfg(not(target_arch = "x86_64"))]
fn is_of_files_of_old(_: i64) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn waits_of_old(_: i64) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;

    #[test]
    fn what_is_behind_a_descriptor_decides() {
        let mut known = Descriptors::default();
        for (descriptor, link) in [(3, "socket:[7]"), (4, "/srv/a.html"), (5, "anon_inode:[eventfd]"), (6, "pipe:[8]")]
        {
            known.insert(descriptor, Kind::of_link(link));
        }
        let category = |call, descriptor| known.category(call, descriptor, 0);
        assert_eq!(category(libc::SYS_read, 3), Category::Reading);
        assert_eq!(category(libc::SYS_read, 4), Category::Files);
        assert_eq!(category(libc::SYS_write, 3), Category::Writing);
        assert_eq!(category(libc::SYS_write, 4), Category::Logging);
        assert_eq!(category(libc::SYS_write, 5), Category::Synchronization);
        assert_eq!(category(libc::SYS_read, 6), Category::Synchronization);
        assert_eq!(category(libc::SYS_close, 3), Category::Other);
        assert_eq!(category(libc::SYS_close, 4), Category::Files);
        assert_eq!(category(libc::SYS_close, 99), Category::Other);
    }

    #[test]
    fn descriptors_that_calls_make_and_close_are_known() {
        let mut known = Descriptors::default();
        known.handle_result(libc::SYS_accept4, 3, 9);
        known.handle_result(libc::SYS_openat, -100, 10);
        known.handle_result(libc::SYS_openat, -100, -2);
        assert_eq!(known.category(libc::SYS_read, 9, 0), Category::Reading);
        assert_eq!(known.category(libc::SYS_read, 10, 0), Category::Files);
        known.handle_result(libc::SYS_close, 9, 0);
        assert_eq!(known.category(libc::SYS_read, 9, 0), Category::Other);
        assert_eq!(known.category(libc::SYS_read, -2, 0), Category::Other);
    }

    #[test]
    fn every_category_has_a_metric() {
        for category in Category::ALL {
            assert!(Metric::named(category.metric()).is_some(), "{category:?}");
        }
    }
}
