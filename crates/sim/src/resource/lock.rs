//! A lock that blocks. Waiting costs the waiter its processor, so a contended lock costs two switches beside the time.

use std::collections::VecDeque;

use super::TaskId;
use crate::kernel::Nanos;

/// The owner of the lock after a release while others wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handover {
    /// None: the first waiter is woken and tries again, and any task that runs before it may take the lock (futexes on
    /// Linux, the default mutexes of Solaris).
    #[default]
    Compete,
    /// The first waiter at once, although it has no processor yet: fair, and the cause of lock convoys.
    Grant,
}

/// One lock.
#[derive(Default)]
pub struct Lock {
    handover: Handover,
    owner: Option<TaskId>,
    /// The waiters, and since when they wait.
    waiting: VecDeque<(TaskId, Nanos)>,
    /// Waited already, woken, and not yet the owner.
    woken: Vec<(TaskId, Nanos)>,
    /// Times it was asked for.
    pub acquisitions: u64,
    /// Times it was asked for in vain at first.
    pub contended: u64,
    /// Time waited by all tasks, until they owned it.
    pub waited: Nanos,
}

impl Lock {
    /// A free lock.
    pub fn new(handover: Handover) -> Self {
        Lock { handover, ..Default::default() }
    }

    /// `task` wants the lock: whether it owns it now. If not, it must block; it is woken by a [`Lock::release`] and
    /// then asks again.
    pub fn acquire(&mut self, task: TaskId, now: Nanos) -> bool {
        let since = self.waited_since(task);
        if self.owner == Some(task) {
            return true;
        }
        self.acquisitions += u64::from(since.is_none());
        if self.owner.is_none() {
            self.owner = Some(task);
            self.waited += since.map_or(0, |since| now - since);
            return true;
        }
        match since {
            Some(since) => self.waiting.push_front((task, since)),
            None => {
                self.contended += 1;
                self.waiting.push_back((task, now));
            }
        }
        false
    }

    /// The owner lets go. The task to wake, if one waits.
    #[must_use]
    pub fn release(&mut self, now: Nanos) -> Option<TaskId> {
        self.owner = None;
        let (task, since) = self.waiting.pop_front()?;
        match self.handover {
            Handover::Compete => self.woken.push((task, since)),
            Handover::Grant => {
                self.owner = Some(task);
                self.waited += now - since;
            }
        }
        Some(task)
    }

    /// Tasks that wait.
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// If `task` was woken to try again: since when it has waited. At most as many are woken as releases outran them.
    fn waited_since(&mut self, task: TaskId) -> Option<Nanos> {
        let place = self.woken.iter().position(|&(woken, _)| woken == task)?;
        Some(self.woken.swap_remove(place).1)
    }
}
