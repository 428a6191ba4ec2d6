//! The protocol of the queues, run through every interleaving and every reordering that the memory model allows.
//!
//! The source of `queue` is compiled a second time, over loom's atomics and a ring made of them. The ring of production
//! is `rtrb`'s, which is checked by its own authors; the model's keeps the same promises and no more.

#[path = "queue.rs"]
#[allow(clippy::duplicate_mod, reason = "the same source over other atomics")]
mod queue;

/// What `queue` is made of in the model.
mod sync {
    use std::sync::Arc;

    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};

    #[derive(Debug)]
    struct Ring<T> {
        places: Vec<loom::sync::Mutex<Option<T>>>,
        head: AtomicUsize,
        tail: AtomicUsize,
    }

    #[derive(Debug)]
    pub(super) struct Producer<T>(Arc<Ring<T>>);
    #[derive(Debug)]
    pub(super) struct Consumer<T>(Arc<Ring<T>>);
    #[derive(Debug)]
    pub(super) enum PushError<T> {
        Full(T),
    }

    pub(super) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let places = (0..capacity).map(|_| loom::sync::Mutex::new(None)).collect();
        let ring = Arc::new(Ring { places, head: AtomicUsize::new(0), tail: AtomicUsize::new(0) });
        (Producer(ring.clone()), Consumer(ring))
    }

    impl<T> Producer<T> {
        pub(super) fn push(&mut self, item: T) -> Result<(), PushError<T>> {
            if self.is_full() {
                return Err(PushError::Full(item));
            }
            let tail = self.0.tail.load(Ordering::Relaxed);
            *self.0.places[tail % self.0.places.len()].lock().unwrap() = Some(item);
            self.0.tail.store(tail + 1, Ordering::Release);
            Ok(())
        }

        pub(super) fn is_full(&self) -> bool {
            let taken = self.0.head.load(Ordering::Acquire);
            self.0.tail.load(Ordering::Relaxed) - taken == self.0.places.len()
        }
    }

    impl<T> Consumer<T> {
        pub(super) fn pop(&mut self) -> Result<T, ()> {
            if self.is_empty() {
                return Err(());
            }
            let head = self.0.head.load(Ordering::Relaxed);
            let item = self.0.places[head % self.0.places.len()].lock().unwrap().take().expect("the place is taken");
            self.0.head.store(head + 1, Ordering::Release);
            Ok(item)
        }

        pub(super) fn is_empty(&self) -> bool {
            self.0.tail.load(Ordering::Acquire) == self.0.head.load(Ordering::Relaxed)
        }
    }
}

use std::sync::Arc;

use loom::sync::{Condvar, Mutex};
use queue::{Doorbell, Inbox, Outbox, Sleep, Urgency, Wake, queue};

/// Sleeps as a thread that parks does: being woken before is remembered once.
struct Sleeper {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Sleeper {
    fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Sleeper {
    fn sleep(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !std::mem::take(&mut *woken) {
            woken = self.changed.wait(woken).unwrap();
        }
    }
}

type ModelBell = Arc<Doorbell<Sleeper>>;

fn doorbell() -> ModelBell {
    Arc::new(Doorbell::new(Sleeper { woken: Mutex::new(false), changed: Condvar::new() }))
}

fn sleep_unless(doorbell: &ModelBell, sleep: Sleep, has_work: impl Fn() -> bool) {
    doorbell.prepare_sleep(sleep);
    if !has_work() {
        doorbell.sleeper.sleep();
    }
    doorbell.wake_up();
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Gives the numbers up to `count` and sees them delivered, as a stage does.
fn produce(doorbell: &ModelBell, mut outbox: Outbox<usize, Sleeper>, count: usize) {
    for number in 0..count {
        outbox.put(number, Urgency::Now);
        outbox.deliver();
    }
    while !outbox.is_delivered() {
        sleep_unless(doorbell, Sleep::Light, || !outbox.is_settled());
        outbox.deliver();
    }
}

/// Takes numbers until there have been `count`, as a stage does.
fn consume(doorbell: &ModelBell, mut inbox: Inbox<usize, Sleeper>, count: usize) {
    let mut expected = 0;
    loop {
        while let Some(number) = inbox.take() {
            assert_eq!(number, expected);
            expected += 1;
        }
        if expected == count {
            return;
        }
        sleep_unless(doorbell, Sleep::Light, || !inbox.is_empty());
    }
}

#[test]
fn everything_arrives_once_and_in_order_and_both_sides_sleep_and_wake_when_there_is_room_for_one() {
    check(|| {
        let (from, to) = (doorbell(), doorbell());
        let (outbox, inbox) = queue(1, &from, &to);
        let consumer = loom::thread::spawn(move || consume(&to, inbox, 3));
        produce(&from, outbox, 3);
        consumer.join().unwrap();
    });
}

#[test]
fn two_stages_that_give_each_other_more_than_there_is_room_for_never_block_each_other() {
    fn stage(doorbell: &ModelBell, mut outbox: Outbox<usize, Sleeper>, mut inbox: Inbox<usize, Sleeper>) {
        const COUNT: usize = 2;
        let mut received = 0;
        (0..COUNT).for_each(|number| outbox.put(number, Urgency::Now));
        loop {
            outbox.deliver();
            while let Some(number) = inbox.take() {
                assert_eq!(number, received);
                received += 1;
            }
            if received == COUNT && outbox.is_delivered() {
                return;
            }
            sleep_unless(doorbell, Sleep::Light, || !inbox.is_empty() || !outbox.is_settled());
        }
    }
    check(|| {
        let (one, other) = (doorbell(), doorbell());
        let (forth, forth_in) = queue(1, &one, &other);
        let (back, back_in) = queue(1, &other, &one);
        let thread = loom::thread::spawn(move || stage(&other, back, forth_in));
        stage(&one, forth, back_in);
        thread.join().unwrap();
    });
}

#[test]
fn what_can_wait_is_taken_at_the_next_wake_and_at_once_by_who_sleeps_lightly() {
    check(|| {
        let (from, to) = (doorbell(), doorbell());
        let (mut outbox, mut inbox) = queue(2, &from, &to);
        let giver = loom::thread::spawn(move || {
            outbox.put(1, Urgency::Whenever);
            outbox.deliver();
            outbox.put(2, Urgency::Now);
            outbox.deliver();
        });
        // Deep sleep ends at the urgent one, and then both are there.
        sleep_unless(&to, Sleep::Deep, || !inbox.is_empty());
        let mut taken = 0;
        while taken < 2 {
            match inbox.take() {
                Some(number) => {
                    taken += 1;
                    assert_eq!(number, taken);
                }
                None => sleep_unless(&to, Sleep::Light, || !inbox.is_empty()),
            }
        }
        giver.join().unwrap();
    });
}

#[test]
fn light_sleep_ends_for_what_can_wait() {
    check(|| {
        let (from, to) = (doorbell(), doorbell());
        let (mut outbox, mut inbox) = queue(1, &from, &to);
        let giver = loom::thread::spawn(move || {
            outbox.put(0, Urgency::Whenever);
            outbox.deliver();
        });
        while inbox.take().is_none() {
            sleep_unless(&to, Sleep::Light, || !inbox.is_empty());
        }
        giver.join().unwrap();
    });
}
