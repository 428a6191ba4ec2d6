//! A pool of seven threads: the state that they share, and the inboxes between them.
//!
//! Owns: the inboxes, starting threads, and when all of them end. Guarantees: the pool lives as long as a connection
//! does, or the accept stage may bring one; a thread that panics ends it. Does not serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use lamna_io::wait::Token;
use lamna_io::waker::Waker;
use lamna_policy::schedule::Schedule;
use rustix::io::Errno;

use super::inbox::Inbox;
use super::job::{Job, Jobs};
use super::route::{Duty, EDGES, HELPERS, STAGES};
use crate::worker::connection_state::ConnectionState;
use crate::worker::context::TranslationTarget;
use crate::worker::helpers::queue::Queue;
use crate::worker::idle_set::parked_connections::ParkedConnections;
use crate::worker::idle_set::{GENERATION_OURS, WAKER};
use crate::worker::shared::Shared;

/// The state that the threads of a pool share.
pub(super) struct Pool {
    /// The state that all pools share.
    pub shared: Arc<Shared>,
    /// Which worker it is.
    pub index: usize,
    /// In the order of duties.
    inboxes: Vec<Inbox<Box<Job>>>,
    /// Targets that the path helper is to compare with the file system, on behalf of no exchange.
    pub aging: (Sender<TranslationTarget>, Receiver<TranslationTarget>),
    /// Connections that applications answer.
    pub applications: Queue<ConnectionState>,
    /// Connections whose peers are to ask for something. The read stage waits for them.
    pub home: Parked,
    /// Connections whose peers are to take something. The data stage waits for them.
    pub slow: Parked,
    is_over: AtomicBool,
}

/// The life of a thread of a pool, and its result.
pub(super) type Life = fn(&Arc<Pool>, Duty) -> End;
pub(super) type End = Result<(), Errno>;

/// Connections that rest.
pub(super) type Parked = ParkedConnections<'static, Box<Job>>;

/// By which what wakes a thread is known in its poll.
pub(super) const BELL: Token = Token { index: WAKER, generation: GENERATION_OURS };

impl Pool {
    /// Worker `index`, without threads.
    ///
    /// # Errors
    /// No descriptors.
    pub(super) fn new(shared: &Arc<Shared>, index: usize) -> Result<Pool, Errno> {
        // Connections rest with two of them, which wait for sockets.
        let waker = |duty| if matches!(duty, Duty::Read | Duty::Data) { Waker::new().map(Some) } else { Ok(None) };
        let receivers = STAGES.into_iter().chain(HELPERS);
        let (home, slow) = (shared.clone(), shared.clone());
        Ok(Pool {
            shared: shared.clone(),
            index,
            inboxes: receivers.map(|duty| waker(duty).map(Inbox::new)).collect::<Result<_, Errno>>()?,
            aging: unbounded(),
            applications: Queue::new(Schedule::default()),
            home: Parked::new(move |idle, _| home.score(index).show_idle(idle)),
            slow: Parked::new(move |_, count| slow.score(index).show_slow(count)),
            is_over: AtomicBool::new(false),
        })
    }

    /// Starts the thread of `duty`, with whose end the pool ends.
    ///
    /// # Errors
    /// No memory for it.
    pub(super) fn start(self: &Arc<Pool>, duty: Duty, life: Life) -> Result<JoinHandle<End>, Errno> {
        let ends = EndsPool(self.clone());
        let thread = Builder::new().name(format!("{duty:?}-{}", self.index).to_lowercase());
        thread.spawn(move || life(&ends.0, duty)).map_err(|_| Errno::AGAIN)
    }

    /// The inbox of the thread of `duty`, which is given connections.
    pub(super) fn inbox(&self, duty: Duty) -> &Inbox<Box<Job>> {
        &self.inboxes[duty as usize]
    }

    /// The connections that rest with the stage of `duty`: with the data stage, or at home.
    pub(super) fn parked(&self, duty: Duty) -> &Parked {
        if duty == Duty::Data { &self.slow } else { &self.home }
    }

    /// There is an order of the main thread for all that are given connections.
    pub(super) fn ring_all(&self) {
        self.inboxes.iter().for_each(Inbox::ring);
    }

    /// Has a target compared with the file system.
    pub(super) fn compare(&self, target: TranslationTarget) {
        // It fails only if there is no receiver, and that is here.
        let _ = self.aging.0.send(target);
        self.inbox(Duty::Path).ring();
    }

    /// Whether all its threads are to return.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// All its threads return.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.applications.end();
        self.ring_all();
        // The accept stage is woken as the main thread wakes it.
        self.shared.control.waker(self.index).wake();
    }
}

/// Ends the pool when a thread of it returns, or panics.
pub(super) struct EndsPool(pub Arc<Pool>);

impl Drop for EndsPool {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The edges that begin at one thread, and the connections that are to go along them.
pub(super) struct Outputs<'a> {
    pool: &'a Pool,
    edges: Vec<(Duty, Jobs)>,
}

/// Connections that are given together: few, so that the next thread can begin before this one is done with all that it
/// has.
const BATCH: usize = 8;

impl<'a> Outputs<'a> {
    /// Those of the thread of `duty`.
    pub(super) fn new(pool: &'a Pool, duty: Duty) -> Outputs<'a> {
        let own = EDGES.into_iter().filter(|(from, _)| *from == duty);
        Outputs { pool, edges: own.map(|(_, to)| (to, Vec::new())).collect() }
    }

    /// Gives `job` to the thread of `to`, which may sleep on until the next delivery.
    ///
    /// # Panics
    /// If there is no such edge.
    pub(super) fn put(&mut self, to: Duty, job: Box<Job>) {
        let edge = self.edges.iter_mut().find(|(duty, _)| *duty == to);
        let (_, jobs) = edge.expect("a connection goes along an edge of the drawing");
        if jobs.len() == BATCH {
            self.pool.inbox(to).give(jobs);
        }
        jobs.push(job);
    }

    /// The others hear of what they were given: once for all that this thread had to do. Returns whether there was
    /// anything.
    pub(super) fn deliver(&mut self) -> bool {
        let mut has_given = false;
        for (to, jobs) in self.edges.iter_mut().filter(|(_, jobs)| !jobs.is_empty()) {
            self.pool.inbox(*to).deliver(jobs);
            has_given = true;
        }
        has_given
    }
}
