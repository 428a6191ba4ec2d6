//! The way of connections between engines: inboxes of workers, and the succession of engines.
//!
//! Owns: what lies between two engines. Guarantees: an item that is passed on is put into one inbox, or comes to an end
//! with the last engine of a row; whatever is in an inbox is taken once, or goes on when the inbox closes. Checked
//! against every interleaving in `model`. Wakes no worker: the receiving [`HandoverTarget`] does.

use std::sync::PoisonError;

use super::sync::{AtomicUsize, Mutex, MutexGuard, OnceLock, Relaxed};

/// The inboxes of an engine's workers for items `T`, and its successor.
#[derive(Debug)]
pub struct Mailboxes<T, H> {
    inboxes: Vec<Mutex<Inbox<T>>>,
    /// The worker that is given the next item.
    next: AtomicUsize,
    successor: OnceLock<H>,
}

/// The receiver of the items that an engine leaves behind.
pub trait HandoverTarget<T>: Sized {
    /// Takes `item`.
    ///
    /// # Errors
    /// The item, and whose successor is to have it, if this one has left as well.
    fn receive(&self, item: T) -> Result<(), (T, &Mailboxes<T, Self>)>;
}

#[derive(Debug)]
struct Inbox<T> {
    items: Vec<T>,
    /// Its worker takes nothing more.
    closed: bool,
}

impl<T, H: HandoverTarget<T>> Mailboxes<T, H> {
    /// Inboxes for `workers` workers, all empty.
    pub fn new(workers: usize) -> Mailboxes<T, H> {
        let inbox = || Mutex::new(Inbox { items: Vec::new(), closed: false });
        let inboxes = (0..workers).map(|_| inbox()).collect();
        Mailboxes { inboxes, next: AtomicUsize::new(0), successor: OnceLock::new() }
    }

    /// Appoints the receiver of all items that this engine leaves behind from now on. The first call counts.
    pub fn appoint(&self, successor: H) {
        let _ = self.successor.set(successor);
    }

    /// Puts `item` into an inbox, the next one in turn, and lets `welcome` change it for the worker whose it is.
    /// Returns which one that is.
    ///
    /// # Errors
    /// The item, if that inbox is closed.
    pub fn put(&self, mut item: T, welcome: impl FnOnce(&mut T, usize)) -> Result<usize, T> {
        let index = self.next.fetch_add(1, Relaxed) % self.inboxes.len();
        let mut inbox = self.inbox(index);
        if inbox.closed {
            return Err(item);
        }
        welcome(&mut item, index);
        inbox.items.push(item);
        Ok(index)
    }

    /// Gives `item` to the successor, or to that one's if it has left too. Without one the item ends here.
    pub fn pass_on(&self, mut item: T) {
        let mut giver = self;
        while let Some(handover_target) = giver.successor.get() {
            match handover_target.receive(item) {
                Ok(()) => return,
                Err((back, next)) => (item, giver) = (back, next),
            }
        }
    }

    /// Takes all that is in the inbox of worker `index`.
    pub fn take_all(&self, index: usize) -> Vec<T> {
        std::mem::take(&mut self.inbox(index).items)
    }

    /// Takes all that is there, and says whether this is the last time: `is_last` is asked before the inbox is looked
    /// at. So a caller that finds that it is the last time has everything that was put there before.
    pub fn take_all_and_ask(&self, index: usize, is_last: impl FnOnce() -> bool) -> (Vec<T>, bool) {
        let is_last = is_last();
        (self.take_all(index), is_last)
    }

    /// Takes one item of it.
    pub fn take_one(&self, index: usize) -> Option<T> {
        self.inbox(index).items.pop()
    }

    /// Worker `index` leaves: what is in its inbox, and what comes later, goes to the successor.
    pub fn close(&self, index: usize) {
        let mut inbox = self.inbox(index);
        inbox.closed = true;
        let items = std::mem::take(&mut inbox.items);
        drop(inbox);
        items.into_iter().for_each(|item| self.pass_on(item));
    }

    /// Nothing that is done under the lock can panic half-way.
    fn inbox(&self, index: usize) -> MutexGuard<'_, Inbox<T>> {
        self.inboxes[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
