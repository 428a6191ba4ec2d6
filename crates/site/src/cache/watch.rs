//! Noticing changes: one thread that watches the directories of cached entries with inotify(7).
//!
//! Owns: the requests to watch, the thread, and when it was last awake with nothing left to tell. Guarantees: what is
//! said to be watched was compared after the watches were there (see [`Entry`]); if events are lost, a root is switched
//! or the thread is late, nothing is taken to be fresh for longer than without it. Not watched, and so compared as if
//! there were no watcher: what lies behind symbolic links, has several hard links, is on a file system that others may
//! change (network, FUSE), or is beyond the bound on watches.
//!
//! Watched entries are compared now and then, too, which finds changes that inotify does not report: stores into a
//! mapping of a file, a file system mounted over a directory.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use lamna_io::waker::Waker;
use lamna_sys::clock::Clock;
use lamna_sys::contain::{Point, contain, fail_if_asked};
use lamna_sys::shared_memory::SharedMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use super::counters::Counters;
use super::directories::Directories;
use super::entry::Entry;

/// An entry that is to be watched.
#[derive(Debug)]
pub struct WatchRequest {
    /// The directory beneath which its names are.
    pub root: Arc<OwnedFd>,
    /// Its names: whatever happens to one of them may make it another.
    pub names: Vec<Vec<u8>>,
    /// The entry.
    pub entry: Weak<Entry>,
}

/// The way to the thread, which ends when this does.
#[derive(Debug)]
pub struct Watcher {
    requests: Sender<WatchRequest>,
    queue: Receiver<WatchRequest>,
    shared: Arc<Shared>,
    roots: Vec<PathBuf>,
    clock: Clock,
    counters: SharedMemory<Counters>,
    is_spawned: AtomicBool,
}

/// State shared between the watcher thread and the others.
#[derive(Debug)]
struct Shared {
    awake_ms: AtomicU64,
    waker: Waker,
    is_over: AtomicBool,
}

/// Requests that may wait. One that finds no room is made again later.
const QUEUE_MAX: usize = 4096;
/// How often the thread shows that it is awake, and looks whether a root has been switched.
const TICK_MS: u64 = 200;

impl Watcher {
    /// A watcher of what lies beneath `roots`; its thread begins with the first request.
    ///
    /// # Errors
    /// No descriptors.
    pub fn new(
        roots: Vec<PathBuf>,
        clock: Clock,
        counters: SharedMemory<Counters>,
    ) -> Result<Watcher, rustix::io::Errno> {
        let (requests, queue) = bounded(QUEUE_MAX);
        let shared = Shared { awake_ms: AtomicU64::new(0), waker: Waker::new()?, is_over: AtomicBool::new(false) };
        let is_spawned = AtomicBool::new(false);
        Ok(Watcher { requests, queue, shared: Arc::new(shared), roots, clock, counters, is_spawned })
    }

    /// When the thread last had nothing left to tell, in the server's milliseconds. Zero: never.
    pub(super) fn awake_ms(&self) -> u64 {
        self.shared.awake_ms.load(Relaxed)
    }

    pub(super) fn submit(&self, request: WatchRequest) {
        if !self.is_spawned.swap(true, Relaxed) {
            self.spawn();
        }
        match self.requests.try_send(request) {
            Ok(()) => self.shared.waker.wake(),
            Err(refused) => {
                if let Some(entry) = refused.into_inner().entry.upgrade() {
                    entry.want_watch_again();
                }
            }
        }
    }

    fn spawn(&self) {
        let Ok(directories) = Directories::new(self.roots.clone(), self.counters.clone()) else { return };
        let (queue, shared, clock) = (self.queue.clone(), self.shared.clone(), self.clock);
        let work = move || {
            let watching = shared.clone();
            let run = || Work { directories, queue, shared, clock, ticked_ms: 0 }.run();
            if contain("Files are compared each second instead of being watched.", run).is_none() {
                // What was watched is not any more, so no other thread may show that it is awake.
                watching.awake_ms.store(0, Relaxed);
            }
        };
        // Without the thread everything is compared as if there were no watcher.
        let _ = std::thread::Builder::new().name("watcher".to_owned()).spawn(work);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        self.shared.waker.wake();
    }
}

/// The thread's own.
struct Work {
    directories: Directories,
    queue: Receiver<WatchRequest>,
    shared: Arc<Shared>,
    clock: Clock,
    ticked_ms: u64,
}

impl Work {
    fn run(mut self) {
        while !self.shared.is_over.load(Relaxed) {
            self.wait();
            // What is read from here on includes everything that has happened before.
            let now_ms = self.clock.now().ms();
            if !self.tell() {
                return;
            }
            if now_ms >= self.ticked_ms + TICK_MS {
                self.ticked_ms = now_ms;
                self.directories.look_at_roots();
            }
            self.shared.awake_ms.store(now_ms, Relaxed);
            self.take_requests();
        }
    }

    fn wait(&self) {
        let timeout = Timespec { tv_sec: 0, tv_nsec: (TICK_MS * 1_000_000) as i64 };
        let mut waited = [
            PollFd::from_borrowed_fd(self.directories.descriptor(), PollFlags::IN),
            PollFd::new(self.shared.waker.descriptor(), PollFlags::IN),
        ];
        // An interrupted wait is a short one.
        let _ = poll(&mut waited, Some(&timeout));
        if !waited[1].revents().is_empty() {
            self.shared.waker.reset();
        }
    }

    /// Tells entries what has happened. False if that can no longer be known.
    fn tell(&mut self) -> bool {
        let known = self.directories.tell();
        if !known {
            self.directories.disturb_all();
            self.shared.awake_ms.store(0, Relaxed);
        }
        known
    }

    /// A few at a time, so that events do not wait for long.
    fn take_requests(&mut self) {
        for _ in 0..REQUESTS_AT_ONCE {
            match self.queue.try_recv() {
                Ok(request) => {
                    fail_if_asked(Point::Watch, b"");
                    self.directories.watch(&request);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
        self.shared.waker.wake();
    }
}

const REQUESTS_AT_ONCE: usize = 16;

/// The inotify events of a watch on a directory.
pub(super) const EVENTS: inotify::WatchFlags = inotify::WatchFlags::MODIFY
    .union(inotify::WatchFlags::ATTRIB)
    .union(inotify::WatchFlags::CREATE)
    .union(inotify::WatchFlags::DELETE)
    .union(inotify::WatchFlags::MOVE)
    .union(inotify::WatchFlags::DELETE_SELF)
    .union(inotify::WatchFlags::MOVE_SELF)
    .union(inotify::WatchFlags::EXCL_UNLINK)
    .union(inotify::WatchFlags::ONLYDIR);
