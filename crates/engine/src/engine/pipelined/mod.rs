//! PIPELINED: five stages and two helpers in threads of their own, and connections that move from one to the next
//! (Choi, Kim, Ersoz and Das, "A Multi-Threaded PIPELINED Web Server Architecture for SMP/SoC Machines", 4).
//!
//! Its whole character: each basic step of a request is a thread. What a stage would have to wait for at the disk goes to
//! a helper, together with the connection that wants it, and the stage takes up the next one. A pool of these seven
//! threads serves for one processor; all pools share the caches, in one process; nobody shares a connection, because a
//! [`StageJob`] is in one place at a time. It costs a queue between steps that an event loop takes one after the other, and
//! a context switch when a stage has no more to do, which a batch of requests shares. It buys that a step which is slow
//! for one request delays nobody, with seven threads for each processor instead of MT's 64.
//!
//! ```text
//!            idle connections wait here                         slow ones wait here
//!  accept ──> read request ──> find file ───> send header ───> read file, send data ──┐ a large file goes round,
//!                 ^              ^  v              │                 ^   v      ^─────┘ a turn at a time
//!                 │           path helper          │              read helper │
//!                 └────────────────────────────────┴─────────────────────────────┘ persistent connections
//! ```
//!
//! # How the core's steps became stages
//! Each stage gives a connection a turn of the drive loop that all engines have (`worker/drive.rs`), and does its own
//! [`Duty`](hands::Duty) of it. What it leaves is a [`Task`](hands::Task) that goes with the connection.
//! - *Read request* receives, and has the core parse what has arrived. It leaves looking up.
//! - *Find file* looks the target up and tells the core, which writes the head. What is not in the cache is tried without
//!   waiting, then left to the path helper, which passes the connection back with what it found. A translation of a file
//!   of at most 256 KB includes its content, so that is read there as well. Requests that have been received behind the first
//!   are parsed and looked up here too: so a batch passes the stages once.
//! - *Send header* sends what is ready. A head and content in memory are one message: so a small cached response takes
//!   three stages, and the connection is home again. To send its content in a stage of its own would be a second packet.
//! - *Read file and send data* has what remains: files that are not held in memory, whose head the core writes only when
//!   their first piece can be sent (a file that cannot be read is a 500, not a broken 200), and connections that take
//!   less than they are offered.
//! - Going home wakes nobody: the first event of an idle connection does ([`Urgency::Whenever`]).
//!
//! Stages that are spread over processors hand every connection from one processor's cache to another's: with the setting
//! `pin` a pool stays on one processor (measured: 6 to 7 us for a small cached request, where two processors took 8.4).
//!
//! A connection whose request an application answers leaves the stages for a thread that waits for the application (`applications`).
//!
//! A full queue makes no stage wait (see [`mod@queue`]), so the ring of stages cannot block itself. A stage that panics ends
//! its pool and the connections in it, and another pool takes its place.

mod accept;
mod applications;
mod data;
mod find;
mod hands;
mod header;
mod helpers;
#[cfg(test)]
mod model;
mod parked_connections;
mod queue;
mod read;
mod stage_job;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use lamna_io::wait::{Poll, Token};
use lamna_io::waker::Waker;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use rustix::io::Errno;

use crate::engine::pipelined::stage_job::StageJob;
use crate::worker::shared::Shared;
use queue::{Doorbell, Inbox, Outbox, Sleep, Urgency, Wake, queue};

/// What queues are made of. The model has another one.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};

    pub(super) use rtrb::{Consumer, Producer, PushError};

    pub(super) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        rtrb::RingBuffer::new(capacity)
    }
}

/// Serves as worker `index`, with a pool of seven threads of which this is one, until told to drain or stop.
///
/// # Errors
/// No threads, descriptors or memory to begin with, or what makes waiting impossible.
pub fn run(shared: &Arc<Shared>, index: usize) -> Result<(), Errno> {
    let pool = Arc::new(Pool::new(shared, index)?);
    let _ends = EndsPool(pool.clone());
    let Plumbing { accept, read, find, header, data, path_helper, read_helper } = Plumbing::new(&pool);
    let stages = [
        pool.start("read", move |pool| read::run(pool, read))?,
        pool.start("find", move |pool| find::run(pool, find))?,
        pool.start("header", move |pool| header::run(pool, header))?,
        pool.start("data", move |pool| data::run(pool, data))?,
    ];
    let helpers = [
        pool.start("path", move |pool| helpers::translate_paths(pool, path_helper))?,
        pool.start("page", move |pool| helpers::read_pages(pool, read_helper))?,
    ];
    accept::run(&pool, accept)?;
    pool.end();
    let step = stages.into_iter().try_for_each(join);
    // Told to stop, nobody waits for the disk, and so for a helper.
    if !shared.control.is_stopping() {
        return step.and(helpers.into_iter().try_for_each(join));
    }
    step
}

fn join(stage: JoinHandle<Result<(), Errno>>) -> Result<(), Errno> {
    // One that panicked has said so on standard error. The pool is to be made again.
    stage.join().unwrap_or(Err(Errno::CANCELED))
}

type Gives<T = Box<StageJob>> = Outbox<T, Sleeper>;
type Takes<T = Box<StageJob>> = Inbox<T, Sleeper>;

/// What the seven threads of a pool have in common.
struct Pool {
    shared: Arc<Shared>,
    index: usize,
    bells: Bells,
    /// Connections, and one for the accept stage as long as there may be more.
    live: AtomicUsize,
    /// The accept stage needs descriptors: idle connections are to be given up.
    sheds: AtomicBool,
    /// The same is asked of the data stage.
    sheds_slow: AtomicBool,
    /// Some have been.
    shed: AtomicBool,
    over: AtomicBool,
    /// Connections that applications answer.
    applications: applications::Threads,
}

struct Bells {
    accept: Arc<Doorbell<Sleeper>>,
    read: Arc<Doorbell<Sleeper>>,
    find: Arc<Doorbell<Sleeper>>,
    header: Arc<Doorbell<Sleeper>>,
    data: Arc<Doorbell<Sleeper>>,
    path_helper: Arc<Doorbell<Sleeper>>,
    read_helper: Arc<Doorbell<Sleeper>>,
}

/// How each thread sleeps.
enum Sleeper {
    /// In epoll, where also the main thread wakes it.
    Controlled(Arc<Shared>, usize),
    /// In epoll.
    Polling(Waker),
    /// Parked; known as soon as it runs, and it looks at its queues before it sleeps.
    Parked(OnceLock<Thread>),
}

impl Wake for Sleeper {
    fn wake(&self) {
        match self {
            Sleeper::Controlled(shared, index) => shared.control.waker(*index).wake(),
            Sleeper::Polling(waker) => waker.wake(),
            Sleeper::Parked(thread) => thread.get().into_iter().for_each(Thread::unpark),
        }
    }
}

impl Pool {
    fn new(shared: &Arc<Shared>, index: usize) -> Result<Pool, Errno> {
        let polling = || Ok::<_, Errno>(Arc::new(Doorbell::new(Sleeper::Polling(Waker::new()?))));
        let parked = || Arc::new(Doorbell::new(Sleeper::Parked(OnceLock::new())));
        let bells = Bells {
            accept: Arc::new(Doorbell::new(Sleeper::Controlled(shared.clone(), index))),
            read: polling()?,
            find: parked(),
            header: parked(),
            data: polling()?,
            path_helper: parked(),
            read_helper: parked(),
        };
        let (sheds, sheds_slow) = (AtomicBool::new(false), AtomicBool::new(false));
        let (shed, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (live, applications) = (AtomicUsize::new(1), applications::Threads::default());
        Ok(Pool { shared: shared.clone(), index, bells, live, sheds, sheds_slow, shed, over, applications })
    }

    fn start(
        self: &Arc<Pool>,
        name: &str,
        stage: impl FnOnce(&Arc<Pool>) -> Result<(), Errno> + Send + 'static,
    ) -> Result<JoinHandle<Result<(), Errno>>, Errno> {
        let ends = EndsPool(self.clone());
        let thread = std::thread::Builder::new().name(format!("{name}-{}", self.index));
        thread.spawn(move || stage(&ends.0)).map_err(|_| Errno::AGAIN)
    }

    /// Whether all its threads are to return.
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// All its threads return.
    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.ring_all();
    }

    fn ring_all(&self) {
        let Bells { accept, read, find, header, data, path_helper, read_helper } = &self.bells;
        for doorbell in [accept, read, find, header, data, path_helper, read_helper] {
            doorbell.ring(Urgency::Now);
        }
    }

    fn count_in(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// One less that the pool has to live for.
    fn count_out(&self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    fn close(&self, job: Box<StageJob>) {
        drop(job);
        self.count_out();
    }
}

/// Ends the pool when a thread of it returns, or panics.
struct EndsPool(Arc<Pool>);

impl Drop for EndsPool {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Doorbell<Sleeper> {
    /// Where the thread parks from now on.
    fn introduce(&self) {
        if let Sleeper::Parked(thread) = &self.sleeper {
            let _ = thread.set(std::thread::current());
        }
    }

    /// Parks until there is something to do, or until `timeout_ms` has passed.
    fn park(&self, timeout_ms: Option<u64>, has_work: impl Fn() -> bool) {
        self.prepare_sleep(Sleep::Light);
        if !has_work() {
            let _step = step_timer::step(Step::Wait);
            match timeout_ms {
                Some(ms) => std::thread::park_timeout(Duration::from_millis(ms)),
                None => std::thread::park(),
            }
        }
        self.wake_up();
    }

    /// Waits for events until there is something to do besides, or until `timeout_ms` has passed.
    fn poll(
        &self,
        poll: &mut Poll,
        sleep: Sleep,
        timeout_ms: Option<u64>,
        has_work: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        self.prepare_sleep(sleep);
        let step = poll.wait(if has_work() { Some(0) } else { timeout_ms });
        self.wake_up();
        step
    }

    /// Has rings of the doorbell interrupt `poll`.
    fn register(&self, poll: &Poll) -> Result<(), Errno> {
        match &self.sleeper {
            Sleeper::Polling(waker) => poll.add_bell(waker.descriptor().as_fd(), BELL),
            Sleeper::Controlled(shared, index) => {
                poll.add_bell(shared.control.waker(*index).descriptor().as_fd(), BELL)
            }
            Sleeper::Parked(_) => Ok(()),
        }
    }
}

/// Connections have other generations.
const GENERATION_OURS: u32 = 0;
const BELL: Token = Token { index: u32::MAX, generation: GENERATION_OURS };

/// The queues of a pool, by who holds their ends.
struct Plumbing {
    accept: accept::StageQueues,
    read: read::StageQueues,
    find: find::StageQueues,
    header: header::StageQueues,
    data: data::StageQueues,
    path_helper: helpers::PathEnds,
    read_helper: helpers::ReadEnds,
}

/// Places of a queue: more than connections arrive or go on in one batch of events, so that want of room is rare.
const PLACES: usize = 1024;

impl Plumbing {
    fn new(pool: &Pool) -> Plumbing {
        let Bells { accept, read, find, header, data, path_helper, read_helper } = &pool.bells;
        let (accept_gives, read_takes_new) = queue(PLACES, accept, read);
        let (read_gives, find_takes) = queue(PLACES, read, find);
        let (find_asks, path_helper_takes) = queue(PLACES, find, path_helper);
        let (path_helper_gives, find_takes_found) = queue(PLACES, path_helper, find);
        let (find_gives, header_takes) = queue(PLACES, find, header);
        let (header_sends_home, read_takes_answered) = queue(PLACES, header, read);
        let (header_gives, data_takes) = queue(PLACES, header, data);
        let (data_sends_home, read_takes_sent) = queue(PLACES, data, read);
        let (data_asks, read_helper_takes) = queue(PLACES, data, read_helper);
        let (read_helper_gives, data_takes_read) = queue(PLACES, read_helper, data);
        Plumbing {
            accept: accept::StageQueues { to_read: accept_gives },
            read: read::StageQueues {
                from_accept: read_takes_new,
                from_header: read_takes_answered,
                from_data: read_takes_sent,
                to_find: read_gives,
            },
            find: find::StageQueues {
                from_read: find_takes,
                from_helper: find_takes_found,
                to_helper: find_asks,
                to_header: find_gives,
            },
            header: header::StageQueues { from_find: header_takes, to_read: header_sends_home, to_data: header_gives },
            data: data::StageQueues {
                from_header: data_takes,
                from_helper: data_takes_read,
                to_helper: data_asks,
                to_read: data_sends_home,
            },
            path_helper: helpers::PathEnds { from_find: path_helper_takes, to_find: path_helper_gives },
            read_helper: helpers::ReadEnds { from_data: read_helper_takes, to_data: read_helper_gives },
        }
    }
}
