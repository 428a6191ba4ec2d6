//! Helpers of an AMPED worker, who wait for the disk in its place: what they do, and those of them that are threads.
//!
//! Owns: jobs and notifications, which `helper_processes` has too; the threads, spawned as jobs wait, kept in reserve for
//! a while, bounded in number. Guarantees: a job is finished exactly once; what threads found they hand over, so that nothing
//! is read or built twice. Does not decide what would block.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::cache::Entry;
use crate::engine::Shared;
use crate::engine::desk::{Stretch, Target, find_once};
use crate::engine::event_loop::Ticket;
use crate::engine::portion::Portion;
use crate::io::Counters;
use crate::sys::usage::Usage;

/// What a helper is asked to do.
#[derive(Debug)]
pub enum Job {
    /// Look a target up, so that its names and the content of a small file are in memory.
    Translate {
        /// Who waits for it; nobody if a cached translation is being compared.
        ticket: Option<Ticket>,
        /// The target.
        target: Target,
        /// It has been looked up once, and still could not be had without waiting: return what is found.
        again: bool,
    },
    /// Read the beginning of a stretch of a file, into memory of its own or into the page cache.
    PageIn {
        /// Who waits for it.
        ticket: Ticket,
        /// The stretch.
        stretch: Stretch,
    },
}

/// A notification.
#[derive(Debug)]
pub struct Finished {
    /// What was asked.
    pub job: Job,
    /// What was found, if the worker cannot find it again without waiting.
    pub entry: Option<Arc<Entry>>,
    /// What was read, if it was not brought into the page cache only.
    pub portion: Option<Box<Portion>>,
    /// Reading failed.
    pub failed: bool,
}

/// Who carries jobs out in place of a worker.
pub trait Helpers {
    /// Has `job` done. Jobs queue if all helpers are busy: their number is bounded by that of connections.
    fn submit(&mut self, job: Job);

    /// The next notification, if there is one.
    fn finished(&mut self) -> Option<Finished>;

    /// What is readable when there may be notifications; none if they wake the worker by its waker.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The helpers of one worker, threads of its process.
#[derive(Debug)]
pub struct HelperThreads {
    pool: Arc<Pool>,
    jobs: Sender<(Job, Instant)>,
    finished: Receiver<Finished>,
}

#[derive(Debug)]
struct Pool {
    shared: Arc<Shared>,
    worker: usize,
    /// With the time since which each waits.
    queue: Receiver<(Job, Instant)>,
    finished: Sender<Finished>,
    /// Threads that exist.
    threads: AtomicUsize,
    /// Jobs that have been submitted and not finished.
    pending: AtomicUsize,
}

/// How long a helper without work stays.
const RESERVE_TIME: Duration = Duration::from_secs(10);
/// Helpers read large stretches through a buffer of this many bytes.
const SCRATCH_BYTES: usize = 64 * 1024;

impl HelperThreads {
    /// Helpers for worker `worker`, none yet, and at any time at most as many as [`Control::helpers`] says.
    ///
    /// [`Control::helpers`]: crate::engine::Control::helpers
    pub fn new(shared: Arc<Shared>, worker: usize) -> HelperThreads {
        let (jobs, queue) = unbounded();
        let (sender, finished) = unbounded();
        let (threads, pending) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let pool = Arc::new(Pool { shared, worker, queue, finished: sender, threads, pending });
        HelperThreads { pool, jobs, finished }
    }

    fn spawn(&self) {
        self.pool.threads.fetch_add(1, SeqCst);
        let pool = self.pool.clone();
        let spawned = std::thread::Builder::new().name(format!("helper-{}", pool.worker)).spawn(move || pool.help());
        if spawned.is_err() {
            self.pool.threads.fetch_sub(1, SeqCst);
            if self.pool.threads.load(SeqCst) == 0 {
                // No memory for even one thread: better slow than never.
                self.pool.drain_queue();
            }
        }
    }
}

impl Helpers for HelperThreads {
    fn submit(&mut self, job: Job) {
        Counters::count(&self.pool.shared.abilities.counters.helper_jobs);
        let pending = self.pool.pending.fetch_add(1, SeqCst) + 1;
        self.jobs.send((job, Instant::now())).expect("the pool holds the receiver");
        let threads = self.pool.threads.load(SeqCst);
        if pending > threads && threads < self.pool.shared.control.helpers() {
            self.spawn();
        }
    }

    fn finished(&mut self) -> Option<Finished> {
        self.finished.try_recv().ok()
    }
}

impl Pool {
    /// The life of a helper.
    fn help(&self) {
        loop {
            match self.queue.recv_timeout(RESERVE_TIME) {
                Ok((job, submitted)) => self.finish(job, submitted),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.threads.fetch_sub(1, SeqCst);
                    // A job may have been counted on this thread just before it left: look once more.
                    if self.queue.is_empty() {
                        return;
                    }
                    self.threads.fetch_add(1, SeqCst);
                }
            }
        }
        self.threads.fetch_sub(1, SeqCst);
    }

    fn drain_queue(&self) {
        while let Ok((job, submitted)) = self.queue.try_recv() {
            self.finish(job, submitted);
        }
    }

    fn finish(&self, job: Job, submitted: Instant) {
        let counters = &self.shared.abilities.counters;
        counters.begin_helper_job(submitted.elapsed().as_micros() as u64);
        let finished = self.carry_out(job);
        counters.end_helper_job();
        self.pending.fetch_sub(1, SeqCst);
        // The worker is gone if nobody listens, and then nobody minds.
        let _ = self.finished.send(finished);
        self.shared.control.waker(self.worker).wake();
    }

    fn carry_out(&self, job: Job) -> Finished {
        let Pool { shared, .. } = self;
        let (mut entry, mut portion, mut failed) = (None, None, false);
        match &job {
            // The successor of the worker has it done.
            _ if shared.control.is_handing_over() => failed = true,
            Job::Translate { target, .. } => entry = Some(find_once(shared, target, shared.clock.now())),
            Job::PageIn { stretch, .. } => {
                let before = Usage::now();
                portion = Portion::read(stretch, &shared.store, &shared.abilities);
                match &portion {
                    Some(read) => stretch.handle_read(shared, read.length(), Usage::now().has_waited_since(before)),
                    None => failed = !stretch.page_in(shared, &mut vec![0; SCRATCH_BYTES]),
                }
            }
        }
        Finished { job, entry, portion, failed }
    }
}
