//! The protocol of the inboxes, run through every interleaving and every reordering that the memory model allows.
//!
//! The source of `inbox` is compiled a second time, over loom's primitives.

#[path = "inbox.rs"]
#[allow(clippy::duplicate_mod, reason = "the same source over other primitives")]
mod inbox;

/// The primitives of `inbox` in the model.
mod sync {
    use std::time::Duration;

    pub(super) use lamna_loom::Waker;
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};

    /// Time never passes.
    pub(super) fn sleep<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, _: Duration) -> MutexGuard<'a, T> {
        condvar.wait(guard).unwrap()
    }
}

use std::sync::Arc;

use inbox::Inbox;
use lamna_loom::{Waker, check, spawn};
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};

type ModelInbox = Arc<Inbox<usize>>;

/// The inbox of a thread that waits for nothing else.
fn parking() -> ModelInbox {
    Arc::new(Inbox::new(None))
}

/// The inbox of a thread that sleeps in epoll.
fn polling() -> ModelInbox {
    Arc::new(Inbox::new(Some(Waker::default())))
}

/// Takes what lies ready, and sleeps if that is nothing.
fn take(inbox: &ModelInbox) -> Vec<usize> {
    let mut items = Vec::new();
    let Some(waker) = &inbox.waker else {
        inbox.wait(&mut items, None);
        return items;
    };
    if inbox.may_sleep() {
        waker.wait();
        waker.reset();
    }
    inbox.take(&mut items);
    items
}

/// Delivers the numbers up to `count`, one by one.
fn produce(inbox: &ModelInbox, count: usize) {
    (0..count).for_each(|number| inbox.deliver(&mut vec![number]));
}

/// Takes numbers until there have been `count`.
fn consume(inbox: &ModelInbox, count: usize) {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(take(inbox));
    }
    assert!(taken.into_iter().eq(0..count), "in order, and once");
}

#[test]
fn everything_arrives_once_and_in_order_and_the_thread_sleeps_in_between() {
    for inbox in [parking, polling] {
        check(move || {
            let inbox = inbox();
            let consumer = {
                let inbox = inbox.clone();
                spawn(move || consume(&inbox, 3))
            };
            produce(&inbox, 3);
            consumer.join().unwrap();
        });
    }
}

#[test]
fn what_is_given_before_a_delivery_may_be_taken_and_afterwards_it_is() {
    check(|| {
        let inbox = parking();
        let consumer = {
            let inbox = inbox.clone();
            spawn(move || consume(&inbox, 3))
        };
        (0..2).for_each(|number| inbox.give(&mut vec![number]));
        inbox.deliver(&mut vec![2]);
        consumer.join().unwrap();
    });
}

#[test]
fn two_threads_that_give_each_other_everything_never_block_each_other() {
    fn stage(own: &ModelInbox, other: &ModelInbox) {
        produce(other, 2);
        consume(own, 2);
    }
    check(|| {
        let (one, other) = (parking(), polling());
        let thread = {
            let (one, other) = (one.clone(), other.clone());
            spawn(move || stage(&other, &one))
        };
        stage(&one, &other);
        thread.join().unwrap();
    });
}

#[test]
fn whoever_is_rung_for_finds_what_was_to_be_looked_at() {
    for inbox in [parking, polling] {
        check(move || {
            let (inbox, is_over) = (inbox(), Arc::new(AtomicBool::new(false)));
            let caller = {
                let (inbox, is_over) = (inbox.clone(), is_over.clone());
                spawn(move || {
                    is_over.store(true, Relaxed);
                    inbox.ring();
                })
            };
            while !is_over.load(Relaxed) {
                assert!(take(&inbox).is_empty());
            }
            caller.join().unwrap();
        });
    }
}
