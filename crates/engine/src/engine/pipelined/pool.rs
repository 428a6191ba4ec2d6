//! A pool of seven threads: the state that they share, and the inboxes between them.
//!
//! Owns: the inboxes, starting threads, and when all of them end. Guarantees: the pool lives as long as a connection
//! does, or the accept stage may bring one; a thread that panics ends it. Does not serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use lamna_io::waker::Waker;
use lamna_policy::schedule::Schedule;
use rustix::io::Errno;

use super::inbox::{Inbox, Outbox, Urgency};
use super::job::Job;
use super::route::{Duty, EDGES, RECEIVERS};
use crate::worker::connection_state::ConnectionState;
use crate::worker::context::TranslationTarget;
use crate::worker::helpers::queue::Queue;
use crate::worker::shared::Shared;

/// The state that the threads of a pool share.
#[derive(Debug)]
pub(super) struct Pool {
    /// The state that all pools share.
    pub shared: Arc<Shared>,
    /// Which worker it is.
    pub index: usize,
    /// In the order of [`RECEIVERS`].
    inboxes: Vec<Inbox<Box<Job>>>,
    /// Targets that the path helper is to compare with the file system, on behalf of no exchange.
    aging: (Sender<TranslationTarget>, Receiver<TranslationTarget>),
    /// Connections that applications answer.
    pub applications: Queue<ConnectionState>,
    /// Connections, and one for the accept stage as long as there may be more.
    live: AtomicUsize,
    /// Descriptors have run out: the read stage is to give up connections, or the data stage.
    shortages: [AtomicBool; 2],
    /// The read stage has.
    pub has_room: AtomicBool,
    is_over: AtomicBool,
}

/// The result of a thread of a pool.
pub(super) type End = Result<(), Errno>;

impl Pool {
    /// Worker `index`, without threads.
    ///
    /// # Errors
    /// No descriptors.
    pub(super) fn new(shared: &Arc<Shared>, index: usize) -> Result<Pool, Errno> {
        let inbox = |duty: Duty| Ok(Inbox::new(if duty.has_resting() { Some(Waker::new()?) } else { None }));
        Ok(Pool {
            shared: shared.clone(),
            index,
            inboxes: RECEIVERS.into_iter().map(inbox).collect::<Result<_, Errno>>()?,
            aging: unbounded(),
            applications: Queue::new(Schedule::default()),
            live: AtomicUsize::new(1),
            shortages: Default::default(),
            has_room: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        })
    }

    /// Starts the thread of `duty`, with whose end the pool ends.
    ///
    /// # Errors
    /// No memory for it.
    pub(super) fn start(
        self: &Arc<Pool>,
        duty: Duty,
        life: fn(&Arc<Pool>, Duty) -> End,
    ) -> Result<JoinHandle<End>, Errno> {
        let ends = EndsPool(self.clone());
        let thread = Builder::new().name(format!("{duty:?}-{}", self.index).to_lowercase());
        thread.spawn(move || life(&ends.0, duty)).map_err(|_| Errno::AGAIN)
    }

    /// The inbox of the thread of `duty`, which is given connections.
    pub(super) fn inbox(&self, duty: Duty) -> &Inbox<Box<Job>> {
        &self.inboxes[duty as usize]
    }

    /// There is an order of the main thread for all that are given connections.
    pub(super) fn ring_all(&self) {
        self.inboxes.iter().for_each(Inbox::ring);
    }

    /// There is something for the accept stage to look at. The main thread wakes it in the same way.
    pub(super) fn ring_accept(&self) {
        self.shared.control.waker(self.index).wake();
    }

    /// Has a target compared with the file system.
    pub(super) fn compare(&self, target: TranslationTarget) {
        // It fails only if there is no receiver, and that is here.
        let _ = self.aging.0.send(target);
        self.inbox(Duty::Path).ring();
    }

    /// Those targets of now.
    pub(super) fn aging(&self) -> impl Iterator<Item = TranslationTarget> {
        self.aging.1.try_iter().take(self.aging.1.len())
    }

    /// Has connections given up that rest with the stage of `duty`.
    pub(super) fn ask_for_room(&self, duty: Duty) {
        self.shortage(duty).store(true, Ordering::Release);
        self.inbox(duty).ring();
    }

    /// Whether the stage of `duty` has been asked for room, and has made none yet.
    pub(super) fn is_asked_for_room(&self, duty: Duty) -> bool {
        let shortage = self.shortage(duty);
        duty.has_resting() && shortage.load(Ordering::Relaxed) && shortage.swap(false, Ordering::Acquire)
    }

    fn shortage(&self, duty: Duty) -> &AtomicBool {
        &self.shortages[usize::from(duty == Duty::Data)]
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
        self.ring_accept();
    }

    /// How many connections it has, and one more if there may be further ones.
    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// One more that the pool has to live for.
    pub(super) fn count_in(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub(super) fn count_out(&self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }
}

/// Ends the pool when a thread of it returns, or panics.
pub(super) struct EndsPool(pub Arc<Pool>);

impl Drop for EndsPool {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The outboxes of one thread: one for each edge that begins at it.
pub(super) struct Outputs<'a>(Vec<(Duty, Outbox<'a, Box<Job>>)>);

impl<'a> Outputs<'a> {
    /// Those of the thread of `duty`.
    pub(super) fn new(pool: &'a Pool, duty: Duty) -> Outputs<'a> {
        let own = EDGES.into_iter().filter(|(from, _)| *from == duty);
        Outputs(own.map(|(_, to)| (to, Outbox::new(pool.inbox(to)))).collect())
    }

    /// Gives `job` to the thread of `to`.
    ///
    /// # Panics
    /// If there is no such edge.
    pub(super) fn put(&mut self, to: Duty, job: Box<Job>, urgency: Urgency) {
        let edge = self.0.iter_mut().find(|(duty, _)| *duty == to);
        edge.expect("a connection goes along an edge of the drawing").1.put(job, urgency);
    }

    /// The others hear of what they were given.
    pub(super) fn deliver(&mut self) {
        self.0.iter_mut().for_each(|(_, outbox)| outbox.deliver());
    }
}
