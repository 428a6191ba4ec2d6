//! The work queue of a pool and the orders to it, run through every interleaving (`models`).
//!
//! The sources of `work_queue` and `control` are compiled a second time, over loom's primitives. Its condition variable
//! never times out, so whatever passes here needs no timeout to come right.

#[path = "../../worker/control.rs"]
#[allow(
    clippy::duplicate_mod,
    dead_code,
    private_interfaces,
    unreachable_pub,
    reason = "the same source over other primitives"
)]
mod control;
#[path = "work_queue.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod work_queue;

/// The synchronisation primitives of both in the model: loom's.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};

    pub(super) use lamna_loom::Waker;
}

use std::sync::Arc;

use control::Control;
use lamna_loom::{Tally, check, check_within, spawn};
use work_queue::{Turn, WorkQueue};

/// A pool whose connections are numbers.
#[derive(Clone)]
struct Pool {
    work_queue: Arc<WorkQueue<usize>>,
    control: Arc<Control>,
    served: Tally,
    moved: Tally,
}

impl Pool {
    fn new(places: usize, threads: usize) -> Pool {
        let control = Control::new(1, threads, 4).unwrap();
        Pool {
            work_queue: Arc::new(WorkQueue::new(places)),
            control: Arc::new(control),
            served: Tally::default(),
            moved: Tally::default(),
        }
    }

    /// The life of a thread, as in production: `serve` says whether it is done with a connection.
    fn live(&self, serve: impl Fn(&Pool, usize)) {
        while let Turn::Serve(connection) = self.work_queue.next(|| self.control.threads(), None) {
            serve(self, connection);
        }
    }

    fn start(&self, serve: fn(&Pool, usize)) -> loom::thread::JoinHandle<()> {
        self.work_queue.enlist(4).unwrap();
        let pool = self.clone();
        spawn(move || pool.live(serve))
    }

    fn push(&self, connection: usize) {
        self.work_queue.push(connection, || self.control.is_closing());
    }

    /// The reaction of the keeper to changed wishes of the main thread. Returns the threads that it started.
    fn handle_wake(&self, serve: fn(&Pool, usize)) -> Vec<loom::thread::JoinHandle<()>> {
        let mut started = Vec::new();
        while self.work_queue.enlist(self.control.threads()).is_some() {
            let pool = self.clone();
            started.push(spawn(move || pool.live(serve)));
        }
        self.work_queue.call_all();
        started
    }
}

/// The request is there already.
fn answer(pool: &Pool, connection: usize) {
    pool.served.note(connection);
}

/// The peer never says anything: the thread waits until it is interrupted, as `Driver::serve` does.
fn wait_for_peer(pool: &Pool, connection: usize) {
    loop {
        if pool.control.is_stopping() {
            return pool.served.note(connection);
        }
        if pool.control.is_handing_over() {
            return pool.moved.note(connection);
        }
        pool.control.interrupt(false).wait();
    }
}

#[test]
fn each_connection_is_served_once_and_threads_end_when_nothing_more_comes() {
    check(|| {
        let pool = Pool::new(4, 2);
        let threads = [pool.start(answer), pool.start(answer)];
        pool.push(1);
        pool.push(2);
        pool.work_queue.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(pool.served.sorted(), [1, 2]);
    });
}

#[test]
fn who_waits_for_room_is_woken_when_there_is_some() {
    check(|| {
        let pool = Pool::new(1, 1);
        let thread = pool.start(answer);
        (1..=3).for_each(|connection| pool.push(connection));
        pool.work_queue.close();
        thread.join().unwrap();
        assert_eq!(pool.served.sorted(), [1, 2, 3]);
    });
}

#[test]
fn a_pool_that_shrinks_while_connections_come_strands_none() {
    check_within(2, || {
        let pool = Pool::new(4, 2);
        let threads = [pool.start(answer), pool.start(answer)];
        let main = pool.clone();
        let main = spawn(move || main.control.set_threads(1));
        pool.push(1);
        pool.control.waker(0).wait();
        assert!(pool.handle_wake(answer).is_empty());
        // One thread is left, or both if the other has not come to see it. None waits for a connection in vain.
        pool.push(2);
        main.join().unwrap();
        pool.work_queue.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(pool.served.sorted(), [1, 2]);
    });
}

/// Without the end of the pool, which would wake them too.
#[test]
fn a_thread_too_many_ends_for_the_wish_alone() {
    check(|| {
        let pool = Pool::new(4, 2);
        let threads = [pool.start(answer), pool.start(answer)];
        pool.control.set_threads(1);
        pool.handle_wake(answer);
        while pool.work_queue.threads() > 1 {
            loom::thread::yield_now();
        }
        pool.work_queue.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_pool_that_grows_has_its_new_threads_serve() {
    check_within(2, || {
        let pool = Pool::new(4, 1);
        let first = pool.start(wait_for_peer);
        pool.push(1);
        let main = pool.clone();
        let main = spawn(move || main.control.set_threads(2));
        pool.control.waker(0).wait();
        let grown = pool.handle_wake(answer);
        assert_eq!(grown.len(), 1);
        pool.push(2);
        main.join().unwrap();
        pool.control.stop();
        pool.work_queue.close();
        grown.into_iter().chain([first]).for_each(|thread| thread.join().unwrap());
        assert_eq!(pool.served.sorted(), [1, 2]);
    });
}

#[test]
fn a_change_of_engine_interrupts_threads_and_every_connection_moves_once() {
    check(|| {
        let pool = Pool::new(4, 1);
        let thread = pool.start(wait_for_peer);
        let main = pool.clone();
        let main = spawn(move || main.control.hand_over());
        pool.push(1);
        pool.push(2);
        pool.control.waker(0).wait();
        // What the end of the pool does.
        assert!(pool.control.is_handing_over(), "whoever is woken finds why");
        pool.work_queue.close();
        pool.work_queue.clear().into_iter().for_each(|connection| pool.moved.note(connection));
        main.join().unwrap();
        thread.join().unwrap();
        assert_eq!((pool.moved.sorted(), pool.served.sorted()), (vec![1, 2], vec![]));
    });
}
