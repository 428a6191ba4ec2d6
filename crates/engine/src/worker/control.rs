//! Orders of the main thread to the workers, and the wakers by which it wakes them.
//!
//! Owns: the orders of one engine, and the wakers of the threads that are to hear of them. Guarantees: a thread that
//! was woken finds the order that woke it, and so does a thread that begins to wait after the order was given. The
//! models of the engines compile this over loom. Does not decide when.

use lamna_config::settings::HELPERS_MAX;
use rustix::io::Errno;

use super::sync::{AtomicBool, AtomicUsize, Relaxed, Waker};

/// The orders of the main thread to the workers of one engine, and their wakers.
#[derive(Debug)]
pub struct Control {
    draining: AtomicBool,
    stopping: AtomicBool,
    handing_over: AtomicBool,
    retiring: AtomicBool,
    finishing: AtomicBool,
    superseded: AtomicBool,
    /// Workers that have begun.
    begun: AtomicUsize,
    wakers: Vec<Waker>,
    /// Never reset: a thread that waits for one of them sees it, whenever it begins to wait.
    drain_begun: Waker,
    stop_begun: Waker,
    threads: AtomicUsize,
    threads_max: usize,
    helpers: AtomicUsize,
}

impl Control {
    /// Control over `workers` workers, of which an engine that has threads for connections is to have `threads`, and
    /// never more than `threads_max`.
    ///
    /// # Errors
    /// No descriptors.
    pub fn new(workers: usize, threads: usize, threads_max: usize) -> Result<Control, Errno> {
        let wakers = (0..workers).map(|_| Waker::new()).collect::<Result<_, _>>()?;
        let threads_max = threads_max.max(1);
        Ok(Control {
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            handing_over: AtomicBool::new(false),
            retiring: AtomicBool::new(false),
            finishing: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
            begun: AtomicUsize::new(0),
            wakers,
            drain_begun: Waker::new()?,
            stop_begun: Waker::new()?,
            threads: AtomicUsize::new(threads.clamp(1, threads_max)),
            threads_max,
            helpers: AtomicUsize::new(HELPERS_MAX),
        })
    }

    /// Take no new connections, finish what has begun, return.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
        self.drain_begun.wake();
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Return now.
    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.drain_begun.wake();
        self.stop_begun.wake();
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Give all connections to the successor, return.
    pub fn hand_over(&self) {
        self.handing_over.store(true, Relaxed);
        self.drain_begun.wake();
        self.stop_begun.wake();
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Take no new connections, serve those that there are to their own end, return.
    pub fn retire(&self) {
        self.retiring.store(true, Relaxed);
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Finish connections of another engine, from the beginning: those that cannot go on in another process at the
    /// moment, or ever. To be said before there are workers.
    pub fn finish(&self) {
        self.finishing.store(true, Relaxed);
    }

    /// The workers that finish connections of this engine answer no request that begins: another process serves, and
    /// lets other clients in.
    pub fn supersede(&self) {
        self.superseded.store(true, Relaxed);
    }

    /// Whether another process serves that lets other clients in.
    pub fn is_superseded(&self) -> bool {
        self.superseded.load(Relaxed)
    }

    /// Whether workers are to finish connections of another engine.
    pub fn is_finishing(&self) -> bool {
        self.finishing.load(Relaxed)
    }

    /// Whether workers are to end when their connections have ended. For engines of processes that serve one at a time.
    pub fn is_retiring(&self) -> bool {
        self.retiring.load(Relaxed)
    }

    /// Whether workers are to give their connections to the successor.
    pub fn is_handing_over(&self) -> bool {
        self.handing_over.load(Relaxed)
    }

    /// Whether workers are to take no more connections, for whatever reason.
    pub fn is_closing(&self) -> bool {
        self.is_draining() || self.is_stopping() || self.is_handing_over()
    }

    /// A worker has everything that it needs.
    pub fn report_begun(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// How many workers have begun.
    pub fn begun(&self) -> usize {
        self.begun.load(Relaxed)
    }

    /// Whether workers are to finish.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Whether workers are to return at once.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// The waker of a thread that waits in `poll(2)`, besides its connection: awake from the moment that it is to look
    /// at its orders again. `draining` is whether it has seen that it is to drain.
    pub fn interrupt(&self, draining: bool) -> &Waker {
        if draining { &self.stop_begun } else { &self.drain_begun }
    }

    /// How many threads a pool is to have now.
    pub fn threads(&self) -> usize {
        self.threads.load(Relaxed)
    }

    /// The most threads for connections.
    pub fn threads_max(&self) -> usize {
        self.threads_max
    }

    /// Makes a pool grow or shrink to `threads`, at least 1 and at most `threads_max`, while it serves. Threads that
    /// are serving finish first.
    pub fn set_threads(&self, threads: usize) {
        self.threads.store(threads.clamp(1, self.threads_max), Relaxed);
        self.wakers.iter().for_each(Waker::wake);
    }

    /// The most helper threads that each worker is to have now.
    pub fn helpers(&self) -> usize {
        self.helpers.load(Relaxed)
    }

    /// Lets each worker have `helpers` helper threads at most, and at least one. Those that are too many end when they
    /// have nothing to do.
    pub fn set_helpers(&self, helpers: usize) {
        self.helpers.store(helpers.max(1), Relaxed);
    }

    /// The waker of worker `index`.
    pub fn waker(&self, index: usize) -> &Waker {
        &self.wakers[index]
    }
}
