//! Helpers of an AMPED worker, who wait for the disk in its place: what they do, and those of them that are threads.
//!
//! Owns: jobs and notifications, which `helper_processes` has too; the threads, spawned as jobs wait, kept in reserve for
//! a while, bounded in number. Guarantees: a job is finished exactly once; what threads found they hand over, so that nothing
//! is read or built twice; what is known and only has to be compared does not queue behind what has to be read. Does not
//! decide what would block.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select_biased, unbounded};

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

impl Job {
    /// Whether a cached translation is to be compared with the file system.
    fn is_comparison(&self) -> bool {
        matches!(self, Job::Translate { target, .. } if target.previous.is_some())
    }
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
    comparisons: Sender<(Job, Instant)>,
    jobs: Sender<(Job, Instant)>,
    finished: Receiver<Finished>,
}

#[derive(Debug)]
struct Pool {
    shared: Arc<Shared>,
    worker: usize,
    /// Jobs that compare what is known, which is looking names up and rarely takes the disk: a hot file is behind each. With
    /// the time since which each waits.
    comparisons: Receiver<(Job, Instant)>,
    /// All others.
    queue: Receiver<(Job, Instant)>,
    finished: Sender<Finished>,
    /// Threads that exist.
    threads: AtomicUsize,
    /// Jobs that have been submitted and not finished.
    pending: AtomicUsize,
}

/// What a helper finds when it looks for work.
#[derive(Debug)]
enum Next {
    /// A job, and since when it has waited.
    Job(Job, Instant),
    /// None came for [`RESERVE_TIME`].
    Nothing,
    /// None will come: the worker is gone.
    Over,
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
        let (compare, comparisons) = unbounded();
        let (jobs, queue) = unbounded();
        let (sender, finished) = unbounded();
        let (threads, pending) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let pool = Arc::new(Pool { shared, worker, comparisons, queue, finished: sender, threads, pending });
        HelperThreads { pool, comparisons: compare, jobs, finished }
    }

    fn send(&self, job: Job) {
        let lane = if job.is_comparison() { &self.comparisons } else { &self.jobs };
        lane.send((job, Instant::now())).expect("the pool holds the receivers");
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
        self.send(job);
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
            match self.next() {
                Next::Job(job, submitted) => self.finish(job, submitted),
                Next::Over => break,
                Next::Nothing => {
                    self.threads.fetch_sub(1, SeqCst);
                    // A job may have been counted on this thread just before it left: look once more.
                    if self.comparisons.is_empty() && self.queue.is_empty() {
                        return;
                    }
                    self.threads.fetch_add(1, SeqCst);
                }
            }
        }
        self.threads.fetch_sub(1, SeqCst);
    }

    /// What is to be done next, waited for.
    fn next(&self) -> Next {
        let job = select_biased! {
            // The worker is gone with both its ends: what it has left behind comes first.
            recv(self.comparisons) -> job => job.or_else(|_| self.queue.recv()),
            recv(self.queue) -> job => job,
            default(RESERVE_TIME) => return Next::Nothing,
        };
        job.map_or(Next::Over, |(job, submitted)| Next::Job(job, submitted))
    }

    fn drain_queue(&self) {
        while let Ok((job, submitted)) = self.comparisons.try_recv().or_else(|_| self.queue.try_recv()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::file::Stamps;
    use crate::engine::desk::Desk;
    use crate::engine::testing;
    use lamna_proto::exchange::Translate;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};

    #[test]
    fn what_is_known_is_compared_before_what_is_cold_is_read_and_nothing_is_left_behind() {
        let (shared, _root) = testing::shared(1, 1);
        let shared = Arc::new(shared);
        let mut desk = Desk::new(&shared);
        let helpers = HelperThreads::new(shared.clone(), 0);
        let representation = Representation::with_content(&Description::of(Status(200)), b"x");
        let entry = Arc::new(Entry::new(Resource::one(Status(200), representation), Stamps::none(), 1));
        for (path, previous) in [(&b"/cold"[..], None), (b"/colder", None), (b"/hot", Some(entry))] {
            let asked = Translate { host: None, path, query: None, path_and_query: path };
            let mut target = desk.take(&asked);
            target.previous = previous;
            helpers.send(Job::Translate { ticket: None, target, again: false });
        }
        let pool = helpers.pool.clone();
        drop(helpers);
        let mut paths = Vec::new();
        while let Next::Job(Job::Translate { target, .. }, _) = pool.next() {
            paths.push(String::from_utf8_lossy(target.path()).into_owned());
        }
        assert_eq!(paths, ["/hot", "/cold", "/colder"]);
    }
}
