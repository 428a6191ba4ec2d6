//! Bounded queues between two threads, and what wakes them: how a connection gets from one stage to the next.
//!
//! Owns: the protocol of sleeping, waking and running out of room. Guarantees: nothing is lost, duplicated or
//! overtaken; nobody sleeps while there is something for it to do; a full queue never makes its producer wait, so that
//! no ring of stages can block itself: what has no room stays with the producer, in order, until the consumer has made
//! some. All of it is checked against every interleaving in `model`. Does not know what it carries.
//!
//! The proof in short: whoever sleeps first says so ([`Doorbell::prepare_sleep`]) and then looks once more; whoever gives first
//! gives and then looks whether somebody sleeps ([`Doorbell::ring`]). With a fence between the two steps on both sides, at
//! least one of them sees the other (Dekker's argument). The state of a doorbell changes by read-modify-write only, so that
//! its changes have one order. Want of room is said and looked for in the same way.

use std::collections::VecDeque;
use std::sync::Arc;

use super::sync::{AtomicBool, AtomicU8, Consumer, Ordering, Producer, PushError, fence, ring};

/// How a thread is woken that has lain down.
pub(super) trait Wake {
    /// Wakes it, also if it has not quite fallen asleep.
    fn wake(&self);
}

/// How soon something wants to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// When the consumer looks the next time, for whatever reason.
    Whenever,
    /// At once.
    Now,
}

/// How deep a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// It is woken for anything.
    Light,
    /// It is woken only for what is to be looked at at once.
    Deep,
}

/// What wakes one thread. Shared by it and all that give it something.
#[derive(Debug)]
pub(super) struct Doorbell<W> {
    state: AtomicU8,
    /// How the thread is woken.
    pub sleeper: W,
}

const AWAKE: u8 = 0;
const LIGHT: u8 = 1;
const DEEP: u8 = 2;

impl<W: Wake> Doorbell<W> {
    /// The doorbell of a thread that is awake.
    pub(super) fn new(sleeper: W) -> Doorbell<W> {
        Doorbell { state: AtomicU8::new(AWAKE), sleeper }
    }

    /// There is something new for the thread. One system call if it sleeps, none if not.
    pub(super) fn ring(&self, urgency: Urgency) {
        // What was given before is visible to whoever lies down after this.
        fence(Ordering::SeqCst);
        let wakes = match self.state.load(Ordering::Relaxed) {
            AWAKE => false,
            LIGHT => true,
            _ => urgency == Urgency::Now,
        };
        if wakes && self.state.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            self.sleeper.wake();
        }
    }

    /// The thread is going to sleep, as soon as it has looked once more for something to do.
    pub(super) fn prepare_sleep(&self, sleep: Sleep) {
        let state = if sleep == Sleep::Light { LIGHT } else { DEEP };
        self.state.swap(state, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// The thread is awake again, or did not sleep after all.
    pub(super) fn wake_up(&self) {
        self.state.swap(AWAKE, Ordering::AcqRel);
    }
}

/// A queue of `capacity` places from the thread of one doorbell to the thread of another.
pub(super) fn queue<T, W>(
    capacity: usize,
    from: &Arc<Doorbell<W>>,
    to: &Arc<Doorbell<W>>,
) -> (Outbox<T, W>, Inbox<T, W>) {
    let (producer, consumer) = ring(capacity);
    let short_of_room = Arc::new(AtomicBool::new(false));
    let outbox = Outbox {
        ring: producer,
        waiting: VecDeque::new(),
        short_of_room: short_of_room.clone(),
        to: to.clone(),
        given: None,
    };
    (outbox, Inbox { ring: consumer, short_of_room, from: from.clone(), taken: false })
}

/// The end of the thread that gives.
#[derive(Debug)]
pub(super) struct Outbox<T, W> {
    ring: Producer<T>,
    /// What had no room.
    waiting: VecDeque<T>,
    /// Something waits for the consumer to make room.
    short_of_room: Arc<AtomicBool>,
    to: Arc<Doorbell<W>>,
    /// The highest urgency of what was given since the last delivery.
    given: Option<Urgency>,
}

impl<T, W: Wake> Outbox<T, W> {
    /// Gives `item`. The consumer need not hear of it before [`deliver`](Outbox::deliver).
    pub(super) fn put(&mut self, item: T, urgency: Urgency) {
        self.given = self.given.max(Some(urgency));
        if !self.waiting.is_empty() {
            self.waiting.push_back(item);
        } else if let Err(PushError::Full(item)) = self.ring.push(item) {
            self.waiting.push_back(item);
        }
    }

    /// Fills room that was made, and wakes the consumer if it sleeps: once for a whole batch.
    pub(super) fn deliver(&mut self) {
        if !self.waiting.is_empty() {
            self.given = Some(Urgency::Now);
            self.refill();
            if !self.waiting.is_empty() {
                self.short_of_room.store(true, Ordering::Relaxed);
            }
        }
        if let Some(urgency) = self.given.take() {
            self.to.ring(urgency);
        }
    }

    /// Whether nothing can be delivered now: its thread may sleep, once it has lain down.
    pub(super) fn is_settled(&self) -> bool {
        // Without the flag the consumer has been told of an earlier want of room, and will not tell of this one.
        self.is_delivered() || self.ring.is_full() && self.short_of_room.load(Ordering::Relaxed)
    }

    /// Whether everything that was given is in the queue.
    pub(super) fn is_delivered(&self) -> bool {
        self.waiting.is_empty()
    }

    fn refill(&mut self) {
        while let Some(item) = self.waiting.pop_front() {
            if let Err(PushError::Full(item)) = self.ring.push(item) {
                self.waiting.push_front(item);
                return;
            }
        }
    }
}

/// The end of the thread that takes.
#[derive(Debug)]
pub(super) struct Inbox<T, W> {
    ring: Consumer<T>,
    short_of_room: Arc<AtomicBool>,
    from: Arc<Doorbell<W>>,
    /// Something was taken since the producer was last told about room.
    taken: bool,
}

impl<T, W: Wake> Inbox<T, W> {
    /// Takes the next item. To be called until there is none: only then does the producer hear of the room.
    pub(super) fn take(&mut self) -> Option<T> {
        match self.ring.pop() {
            Ok(item) => {
                self.taken = true;
                Some(item)
            }
            Err(_) => {
                self.tell_room();
                None
            }
        }
    }

    /// Whether nothing is to be taken: its thread may sleep, once it has lain down.
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    fn tell_room(&mut self) {
        if !std::mem::take(&mut self.taken) {
            return;
        }
        // What was taken before is visible as room to whoever lies down after this.
        fence(Ordering::SeqCst);
        if self.short_of_room.load(Ordering::Relaxed) {
            self.short_of_room.store(false, Ordering::Relaxed);
            self.from.ring(Urgency::Now);
        }
    }
}
