//! Common parts of the models of synchronisation. A model is the source of some synchronisation, compiled a second time
//! over loom's primitives and run through every interleaving and reordering that the memory model allows, but for those
//! that take more than so many preemptions.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use loom::sync::{Condvar, Mutex};
use rustix::io::Errno;

/// Runs `model` through its executions. A panic, a deadlock or a thread that waits for ever fails.
pub fn check(model: impl Fn() + Sync + Send + 'static) {
    check_within(3, model);
}

/// The same with at most so many preemptions: switches away from a thread that could have gone on. Defects of
/// synchronisation show with very few (Musuvathi and Qadeer, PLDI 2007), and each more costs ten times the executions.
pub fn check_within(preemptions_max: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(model);
}

/// A thread of a model.
pub fn spawn<T: 'static>(work: impl FnOnce() -> T + 'static) -> loom::thread::JoinHandle<T> {
    loom::thread::spawn(work)
}

/// Stands for the waker of production, an eventfd: awake from being woken until it is reset.
#[derive(Debug, Default)]
pub struct Waker {
    awake: Mutex<bool>,
    changed: Condvar,
}

impl Waker {
    /// One that is not awake.
    ///
    /// # Errors
    /// None: that of production may lack a descriptor.
    pub fn new() -> Result<Waker, Errno> {
        Ok(Waker::default())
    }

    /// From now on it is awake.
    pub fn wake(&self) {
        *self.awake.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// It is no longer.
    pub fn reset(&self) {
        *self.awake.lock().unwrap() = false;
    }

    /// Waits until it is awake.
    pub fn wait(&self) {
        let mut awake = self.awake.lock().unwrap();
        while !*awake {
            awake = self.changed.wait(awake).unwrap();
        }
    }
}

/// Stands for the cell of the standard library that is written once.
#[derive(Debug)]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    writing: Mutex<()>,
    is_written: AtomicBool,
}

impl<T> OnceLock<T> {
    /// Not written yet.
    #[allow(clippy::new_without_default, reason = "as the models use it")]
    pub fn new() -> OnceLock<T> {
        OnceLock { value: std::sync::OnceLock::new(), writing: Mutex::new(()), is_written: AtomicBool::new(false) }
    }

    /// The value, if it has been written.
    pub fn get(&self) -> Option<&T> {
        self.is_written.load(Acquire).then(|| self.value.get().expect("it was written before"))
    }

    /// Writes the value.
    ///
    /// # Errors
    /// It was written before: the one that was not taken.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _writing = self.writing.lock().unwrap();
        self.value.set(value)?;
        self.is_written.store(true, Release);
        Ok(())
    }

    /// The value, which is made if nobody has written it.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if !self.is_written.load(Acquire) {
            let _ = self.set(make());
        }
        self.get().expect("it has just been written")
    }
}

/// Counts where things ended up. Loom does not look into it: it is no part of what is checked.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<std::sync::Mutex<Vec<usize>>>);

impl Tally {
    /// `item` has ended up here.
    pub fn note(&self, item: usize) {
        self.0.lock().unwrap().push(item);
    }

    /// The noted items, in order of size.
    pub fn sorted(&self) -> Vec<usize> {
        let mut noted = self.0.lock().unwrap().clone();
        noted.sort_unstable();
        noted
    }
}
