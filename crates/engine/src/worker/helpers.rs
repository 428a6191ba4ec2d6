//! Helpers of an AMPED worker, who wait for the disk in its place: what they do, and those of them that are threads.
//!
//! Owns: jobs and notifications, which `helper_processes` has too; the threads, spawned as jobs wait, kept in reserve
//! for a while, bounded in number. Guarantees: a job is finished exactly once; what threads found they hand over, so
//! that nothing is read or built twice; of what has to be read, what most wait for comes first (`job_queue`), and what
//! is known and only has to be compared does not queue behind it. Does not decide what would block.

pub mod fork_server;
pub mod job_queue;
#[cfg(test)]
mod model;
pub mod processes;
pub(crate) mod queue;
pub mod runners;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use lamna_policy::schedule::Schedule;
use lamna_proto::exchange::ContentBuffer;

use crate::worker::helpers::job_queue::{JobId, JobQueue};
use crate::worker::helpers::queue::Queue;

use lamna_io::Counters;
use lamna_site::cache::Entry;
use lamna_sys::contain::contain;
use lamna_sys::usage::Usage;

use crate::worker::context::{FileRange, TranslationTarget, find_once};
use crate::worker::executor::{Completed, PendingId};
use crate::worker::read_buffer::ReadBuffer;
use crate::worker::shared::Shared;
use crate::worker::turn_budget::QUANTUM_BYTES;

/// A job for a helper.
#[derive(Debug)]
pub enum Job {
    /// Look a target up, so that its names and the content of a small file are in memory.
    Translate {
        /// The exchange that waits for it; none if a cached translation is being compared.
        pending: Option<PendingId>,
        /// The target.
        target: TranslationTarget,
        /// It has been looked up once, and still could not be had without waiting: return what is found.
        again: bool,
    },
    /// Read the beginning of a range of a file, into memory of its own or into the page cache.
    PageIn {
        /// The exchange that waits for it.
        pending: PendingId,
        /// The range.
        range: FileRange,
    },
}

impl Job {
    /// Whether a cached translation is to be compared with the file system.
    fn is_comparison(&self) -> bool {
        matches!(self, Job::Translate { target, .. } if target.previous.is_some())
    }

    /// Reads until the waiting exchange has all that it wants, this one among them. The size of a target is not known
    /// before it is looked up.
    fn reads(&self) -> u64 {
        match self {
            Job::Translate { .. } => 1,
            Job::PageIn { range, .. } => range.length.div_ceil(QUANTUM_BYTES).max(1),
        }
    }
}

/// A notification.
#[derive(Debug)]
pub struct Finished {
    /// The job that is over.
    pub job: Job,
    /// Its outcome.
    pub outcome: JobOutcome,
}

/// The outcome of a job.
#[derive(Debug)]
pub enum JobOutcome {
    /// All that it would have waited for is in memory: the worker does it without waiting.
    InMemory,
    /// The entry of a target, which the worker might not find again without waiting.
    Found(Arc<Entry>),
    /// The content, in memory of its own.
    Read(Arc<dyn ContentBuffer>),
    /// Reading failed.
    Failed,
    /// No helper finished it in time.
    Late,
    /// Nothing was done: the worker gives its connections away, and the successor has done what they wait for.
    Left,
}

impl JobOutcome {
    /// The step of `pending` that reading `range` has completed, if it has been carried out.
    pub fn of_read(self, shared: &Shared, pending: PendingId, range: &FileRange) -> Option<Completed> {
        match self {
            JobOutcome::InMemory => Some(range.read_as(shared, pending, None)),
            JobOutcome::Read(content) => Some(range.read_as(shared, pending, Some(content))),
            JobOutcome::Failed | JobOutcome::Late | JobOutcome::Found(_) => Some(Completed::Failed(pending)),
            JobOutcome::Left => None,
        }
    }
}

/// Carries jobs out in place of a worker.
pub trait Helpers {
    /// Has `job` done, for which `wanted` exchanges wait. Jobs queue if all helpers are busy: their number is bounded
    /// by that of connections. Returns the identifier by which it is known.
    fn submit(&mut self, job: Job, wanted: usize) -> Option<JobId>;

    /// One more waits for a job.
    fn want(&mut self, number: JobId);

    /// The next notification, if there is one.
    fn finished(&mut self) -> Option<Finished>;

    /// A descriptor that is readable when there may be notifications; none if they wake the worker by its waker.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When to ask for notifications even if nothing has become readable.
    fn due(&self) -> Option<lamna_proto::time::Instant> {
        None
    }
}

/// The helpers of one worker, threads of its process.
#[derive(Debug)]
pub struct HelperThreads {
    pool: Arc<Pool>,
    finished: Receiver<Finished>,
}

#[derive(Debug)]
struct Pool {
    shared: Arc<Shared>,
    worker: usize,
    queue: Queue<Submitted>,
    finished: Sender<Finished>,
}

/// A job, and since when it has waited.
#[derive(Debug)]
struct Submitted {
    job: Job,
    at: Instant,
}

impl Submitted {
    fn add_to(self, job_queue: &mut JobQueue<Submitted>, wanted: usize) -> Option<JobId> {
        if self.job.is_comparison() {
            // Looking names up rarely takes the disk, and a hot file is behind each.
            job_queue.add_at_once(self);
            return None;
        }
        let reads = self.job.reads();
        Some(job_queue.add(self, wanted, reads))
    }
}

/// The synchronisation primitives of the queue. The model substitutes loom's.
mod sync {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    use std::sync::{PoisonError, WaitTimeoutResult};
    use std::time::Duration;

    /// Waits until another thread wakes it, or for `time`. Whether that is over is said beside the guard.
    pub(super) fn rest<'a, T>(
        condvar: &Condvar,
        _: &Mutex<T>,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, result): (_, WaitTimeoutResult) =
            condvar.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }
}

/// How long a helper without work stays.
pub(crate) const RESERVE_TIME: Duration = Duration::from_secs(10);
/// Helpers read large ranges through a buffer of this many bytes.
const SCRATCH_BYTES: usize = 64 * 1024;

impl HelperThreads {
    /// Helpers for worker `worker`, none yet, and at any time at most as many as [`Control::helpers`] says.
    ///
    /// [`Control::helpers`]: crate::worker::control::Control::helpers
    pub fn new(shared: Arc<Shared>, worker: usize) -> HelperThreads {
        let (sender, finished) = unbounded();
        let queue = Queue::new(shared.schedule);
        let pool = Arc::new(Pool { shared, worker, queue, finished: sender });
        HelperThreads { pool, finished }
    }

    fn spawn(&self) {
        let (pool, builder) = (self.pool.clone(), Builder::new().name(format!("helper-{}", self.pool.worker)));
        // Better slow than never.
        make(&self.pool.queue, builder, move || pool.help(), |submitted| self.pool.finish(submitted));
    }
}

impl Helpers for HelperThreads {
    fn submit(&mut self, job: Job, wanted: usize) -> Option<JobId> {
        Counters::count(&self.pool.shared.abilities.counters.helper_jobs);
        let submitted = Submitted { job, at: Instant::now() };
        let helpers_max = self.pool.shared.control.helpers();
        let (number, hires) = self.pool.queue.submit(helpers_max, |job_queue| submitted.add_to(job_queue, wanted));
        if hires {
            self.spawn();
        }
        number
    }

    fn want(&mut self, number: JobId) {
        self.pool.queue.want(number);
    }

    fn finished(&mut self) -> Option<Finished> {
        self.finished.try_recv().ok()
    }
}

impl Drop for HelperThreads {
    fn drop(&mut self) {
        self.pool.queue.end();
    }
}

impl Pool {
    /// The life of a helper.
    fn help(&self) {
        while let Some(submitted) = self.queue.next(RESERVE_TIME, self.shared.control.helpers()) {
            self.finish(submitted);
        }
    }

    fn finish(&self, Submitted { job, at }: Submitted) {
        let counters = &self.shared.abilities.counters;
        counters.begin_helper_job(at.elapsed().as_micros() as u64);
        let finished = self.carry_out(job);
        counters.end_helper_job();
        // The worker is gone if nobody listens, and then nobody minds.
        let _ = self.finished.send(finished);
        self.shared.control.waker(self.worker).wake();
    }

    fn carry_out(&self, job: Job) -> Finished {
        let Pool { shared, .. } = self;
        let outcome = match &job {
            _ if shared.control.is_handing_over() => JobOutcome::Left,
            // It answers for a panic itself.
            Job::Translate { target, .. } => JobOutcome::Found(find_once(shared, target, shared.clock.now())),
            Job::PageIn { range, .. } => contain(READ_FAILED, || read(shared, range)).unwrap_or(JobOutcome::Failed),
        };
        Finished { job, outcome }
    }
}

/// Makes the thread of a helper that was hired for `queue`, which lives `life`. Where there is no memory for even one
/// thread, `left` is given each job that waits.
pub(crate) fn make<T>(queue: &Queue<T>, builder: Builder, life: impl FnOnce() + Send + 'static, left: impl FnMut(T)) {
    if builder.spawn(life).is_err() && queue.has_lost_all() {
        std::iter::from_fn(|| queue.take()).for_each(left);
    }
}

/// Reads the beginning of a range for the exchange that waits for it. Waits for the disk.
pub fn read_range(shared: &Shared, pending: PendingId, range: &FileRange) -> Completed {
    let outcome = contain(READ_FAILED, || read(shared, range)).unwrap_or(JobOutcome::Failed);
    outcome.of_read(shared, pending, range).unwrap_or(Completed::Failed(pending))
}

/// Reads the beginning of `range`, into memory of its own or into the page cache.
fn read(shared: &Shared, range: &FileRange) -> JobOutcome {
    let piece = (shared.schedule == Schedule::Srpt).then(|| range.piece_in_order());
    let before = Usage::now();
    if let Some(content) = ReadBuffer::read(piece.as_ref().unwrap_or(range), &shared.store, &shared.abilities) {
        range.handle_read(shared, content.bytes().len() as u64, Usage::now().has_waited_since(before));
        return JobOutcome::Read(Arc::new(content));
    }
    match range.page_in(shared, &mut vec![0; SCRATCH_BYTES]) {
        true => JobOutcome::InMemory,
        false => JobOutcome::Failed,
    }
}

/// Text for the log when reading a file has panicked: the consequence for the connection.
const READ_FAILED: &str = "The connection that waited for it ends.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::context::WorkerContext;
    use crate::worker::testing;
    use lamna_config::proxies::Peer;
    use lamna_io::file_state::Stamps;
    use lamna_policy::schedule::Schedule;
    use lamna_proto::exchange::RequestedResource;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};

    #[test]
    fn helpers_end_with_their_worker() {
        let (shared, _root) = testing::shared(1, 1);
        let shared = Arc::new(shared);
        let mut context = WorkerContext::new(&shared);
        let mut helpers = HelperThreads::new(shared.clone(), 0);
        let target = context.take(
            &RequestedResource {
                host: None,
                path: b"/a",
                query: None,
                path_and_query: b"/a",
                request: None,
                is_again: false,
                redirects: 0,
                led: None,
                found: None,
            },
            Peer::default(),
        );
        helpers.submit(Job::Translate { pending: None, target, again: true }, 1);
        while helpers.finished().is_none() {
            std::thread::yield_now();
        }
        let pool = helpers.pool.clone();
        assert_eq!(pool.queue.helpers(), 1, "it rests");
        drop(helpers);
        while pool.queue.helpers() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_known_is_compared_first_and_of_what_is_cold_what_most_wait_for() {
        let (shared, _root) = testing::shared(1, 1);
        let mut context = WorkerContext::new(&shared);
        let representation = Representation::with_content(&Description::of(Status(200)), b"x").unwrap();
        let entry = Arc::new(Entry::new(Resource::one(Status(200), representation), Stamps::none(), 1));
        let mut job_queue = JobQueue::new(Schedule::RoundRobin);
        for (path, wanted, previous) in
            [(&b"/cold"[..], 1, None), (b"/popular", 2, None), (b"/colder", 1, None), (b"/hot", 1, Some(entry))]
        {
            let mut target = context.take(
                &RequestedResource {
                    host: None,
                    path,
                    query: None,
                    path_and_query: path,
                    request: None,
                    is_again: false,
                    redirects: 0,
                    led: None,
                    found: None,
                },
                Peer::default(),
            );
            target.previous = previous;
            let job = Job::Translate { pending: None, target, again: false };
            Submitted { job, at: Instant::now() }.add_to(&mut job_queue, wanted);
        }
        let mut paths = Vec::new();
        while let Some(Submitted { job: Job::Translate { target, .. }, .. }) = job_queue.take() {
            paths.push(String::from_utf8_lossy(target.path()).into_owned());
        }
        assert_eq!(paths, ["/hot", "/popular", "/cold", "/colder"]);
    }
}
