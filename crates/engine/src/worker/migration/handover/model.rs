//! The way of connections between engines, run through every interleaving (`models`): while an engine takes the place
//! of another, a third takes its place, and others give it connections all the time.

#[path = "mailboxes.rs"]
#[allow(clippy::duplicate_mod, unreachable_pub, reason = "the same source over other primitives")]
mod mailboxes;

/// The synchronisation primitives of the model: loom's.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    pub(super) use loom::sync::{Mutex, MutexGuard};

    pub(super) use lamna_loom::OnceLock;
}

use std::sync::Arc;

use lamna_loom::{Tally, Waker, check, spawn};
use mailboxes::{HandoverTarget, Mailboxes};
use sync::{AtomicBool, Relaxed};

/// An engine of one worker, as connections see it.
#[derive(Debug)]
struct Engine {
    mailboxes: Mailboxes<usize, Arc<Engine>>,
    waker: Waker,
}

impl HandoverTarget<usize> for Arc<Engine> {
    fn receive(&self, item: usize) -> Result<(), (usize, &Mailboxes<usize, Self>)> {
        self.put(item).map_err(|back| (back, &self.mailboxes))
    }
}

impl Engine {
    fn new() -> Arc<Engine> {
        Arc::new(Engine { mailboxes: Mailboxes::new(1), waker: Waker::default() })
    }

    fn put(&self, item: usize) -> Result<(), usize> {
        self.mailboxes.put(item, |_, _| ())?;
        self.waker.wake();
        Ok(())
    }

    /// As `Shared::adopt`.
    fn adopt(&self, item: usize) {
        if let Err(back) = self.put(item) {
            self.mailboxes.pass_on(back);
        }
    }

    /// The worker of an engine that stays: takes what comes until there have been `count`.
    fn take(&self, count: usize) -> Vec<usize> {
        let taken = Tally::default();
        while taken.sorted().len() < count {
            self.waker.wait();
            self.waker.reset();
            self.mailboxes.take_all(0).into_iter().for_each(|item| taken.note(item));
        }
        taken.sorted()
    }

    /// The worker of an engine that hands over: what it has, what has arrived, and what arrives later.
    fn leave(&self) {
        self.mailboxes.take_all(0).into_iter().for_each(|item| self.mailboxes.pass_on(item));
        self.mailboxes.close(0);
    }
}

#[test]
fn what_is_given_to_an_engine_that_leaves_reaches_the_next_one_once() {
    check(|| {
        let (first, second, third) = (Engine::new(), Engine::new(), Engine::new());
        first.mailboxes.appoint(second.clone());
        let handover_target = second.clone();
        let old = spawn(move || {
            first.mailboxes.pass_on(1);
            first.mailboxes.pass_on(2);
        });
        let next = third.clone();
        let leaver = spawn(move || {
            handover_target.mailboxes.appoint(next);
            handover_target.leave();
        });
        assert_eq!(third.take(2), [1, 2]);
        old.join().unwrap();
        leaver.join().unwrap();
        assert!(third.mailboxes.take_one(0).is_none(), "each arrives once");
    });
}

#[test]
fn what_arrives_from_elsewhere_while_an_engine_leaves_reaches_the_next_one_once() {
    check(|| {
        let (leaving, next) = (Engine::new(), Engine::new());
        leaving.mailboxes.appoint(next.clone());
        let (arrivals, leaver) = (leaving.clone(), leaving.clone());
        let arrivals = spawn(move || (1..=2).for_each(|item| arrivals.adopt(item)));
        let leaver = spawn(move || leaver.leave());
        assert_eq!(next.take(2), [1, 2]);
        arrivals.join().unwrap();
        leaver.join().unwrap();
    });
}

/// As a process or thread does that serves one connection at a time.
#[test]
fn a_worker_that_takes_one_at_a_time_sleeps_only_when_there_is_none() {
    check(|| {
        let (old, new) = (Engine::new(), Engine::new());
        old.mailboxes.appoint(new.clone());
        let giver = spawn(move || (1..=2).for_each(|item| old.mailboxes.pass_on(item)));
        let taken = Tally::default();
        while taken.sorted().len() < 2 {
            match new.mailboxes.take_one(0) {
                Some(item) => taken.note(item),
                None => {
                    new.waker.wait();
                    new.waker.reset();
                }
            }
        }
        assert_eq!(taken.sorted(), [1, 2]);
        giver.join().unwrap();
    });
}

/// As an event loop ends: it returns when it is to drain and has no connection.
#[test]
fn what_was_adopted_before_the_order_to_drain_is_taken_by_who_finds_the_order() {
    check(|| {
        let engine = Engine::new();
        let draining = Arc::new(AtomicBool::new(false));
        let (adopter, order) = (engine.clone(), draining.clone());
        let main = spawn(move || {
            (1..=2).for_each(|item| adopter.adopt(item));
            order.store(true, Relaxed);
            adopter.waker.wake();
        });
        let taken = Tally::default();
        loop {
            engine.waker.wait();
            engine.waker.reset();
            let (items, drains) = engine.mailboxes.take_all_and_ask(0, || draining.load(Relaxed));
            items.into_iter().for_each(|item| taken.note(item));
            if drains {
                break;
            }
        }
        assert_eq!(taken.sorted(), [1, 2]);
        main.join().unwrap();
    });
}
