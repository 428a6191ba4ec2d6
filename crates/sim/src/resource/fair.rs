//! Who is next on a processor, as Linux 6.6 and later say: earliest eligible virtual deadline first (`kernel/sched/fair.c`; Stoica and
//! Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995), for tasks of the same weight.
//!
//! Owns: the virtual time and the deadline of each task, and the ready tasks of each processor. A task is eligible that has had no
//! more than the mean of those that want the processor; of these the one with the earliest deadline is next, which is one slice
//! after its virtual time when it was placed. It is protected until then (`RUN_TO_PARITY`), from a task that wakes only as long as it is
//! eligible itself. After that it is looked at whether another is next: when a task wakes there, or at the tick. A task that sleeps having had too much
//! stays behind the others by that much until they have caught up (`DELAY_DEQUEUE`); one that was owed time is owed it when it
//! wakes, within bounds (`PLACE_LAG`). Does not know weights, groups, or slices of a task's own.

use super::TaskId;
use crate::kernel::Nanos;

#[derive(Clone, Copy, Default)]
struct Entity {
    /// Time it has had, on the clock of its processor.
    virtual_time: i64,
    deadline: i64,
    /// While it sleeps: what it was owed.
    lag: i64,
    /// It sleeps, and is still in the queue for having had too much.
    delayed: bool,
}

#[derive(Clone, Default)]
struct Queue {
    /// Those that are ready, and those that sleep and are delayed.
    wanting: Vec<(TaskId, Nanos)>,
    /// Mean of the virtual times when the last task left.
    left_at: i64,
    /// When it was last looked at whether the running task should go on.
    looked_at: Nanos,
    /// A task woke since.
    woken: bool,
}

/// See the module. Which task runs where is told with each call.
pub(super) struct Fair {
    entities: Vec<Entity>,
    queues: Vec<Queue>,
    slice: i64,
    tick: Nanos,
}

impl Fair {
    /// For so many processors, whose tasks are protected for `slice` and looked at every `tick` (both positive).
    pub(super) fn new(processors: usize, slice: Nanos, tick: Nanos) -> Fair {
        let queues = vec![Queue::default(); processors];
        Fair { entities: Vec::new(), queues, slice: slice.clamp(1, i64::MAX as u64) as i64, tick: tick.max(1) }
    }

    /// `task` has woken and wants `processor`, on which `running` runs.
    pub(super) fn wake(&mut self, processor: usize, running: Option<TaskId>, task: TaskId, work: Nanos) {
        let still_there = std::mem::take(&mut self.entity(task).delayed);
        if still_there {
            let had_too_much = self.entity(task).virtual_time > self.mean(processor, running);
            self.queues[processor].wanting.retain(|&(other, _)| other != task);
            if !had_too_much {
                self.entity(task).lag = 0;
                self.place(processor, running, task);
            }
        } else {
            self.place(processor, running, task);
        }
        let queue = &mut self.queues[processor];
        queue.wanting.push((task, work));
        queue.woken = true;
    }

    /// The virtual time and the deadline of a task that comes to `processor`: owed as much as when it left.
    pub(super) fn place(&mut self, processor: usize, running: Option<TaskId>, task: TaskId) {
        let others = self.queues[processor].wanting.len() as i64 + i64::from(running.is_some());
        let mean = self.mean(processor, running);
        let (slice, bound) = (self.slice, (2 * self.slice).max(self.tick as i64));
        let entity = self.entity(task);
        // With it in the mean it shall be owed that much.
        let owed = if others > 0 { entity.lag.clamp(-bound, bound) * (others + 1) / others } else { 0 };
        entity.virtual_time = mean - owed;
        entity.deadline = entity.virtual_time + slice;
        entity.delayed = false;
    }

    /// `task`, which runs on `processor`, goes to sleep.
    pub(super) fn sleep(&mut self, processor: usize, task: TaskId) {
        let mean = self.mean(processor, Some(task));
        let queue = &mut self.queues[processor];
        queue.left_at = mean;
        let has_others = !queue.wanting.is_empty();
        let entity = self.entity(task);
        entity.lag = mean - entity.virtual_time;
        if entity.lag < 0 && has_others {
            entity.delayed = true;
            self.queues[processor].wanting.push((task, 0));
        }
    }

    /// It has worked so long.
    pub(super) fn charge(&mut self, task: TaskId, worked: Nanos) {
        self.entity(task).virtual_time += worked as i64;
    }

    /// Whether `running`, which could go on, has to make room for another one now: if its slice is over when it is looked at, or if
    /// one woke and it has had more than the mean, which is what `entity_eligible` in `__pick_eevdf` is about.
    pub(super) fn is_over(&mut self, processor: usize, running: TaskId, now: Nanos) -> bool {
        let queue = &mut self.queues[processor];
        let woken = std::mem::take(&mut queue.woken);
        let looked_at = woken || now / self.tick > queue.looked_at / self.tick;
        if !looked_at || queue.wanting.is_empty() {
            return false;
        }
        queue.looked_at = now;
        let (mean, slice) = (self.mean(processor, Some(running)), self.slice);
        let entity = self.entity(running);
        if entity.virtual_time >= entity.deadline {
            entity.deadline = entity.virtual_time + slice;
        } else if !woken || entity.virtual_time <= mean {
            return false;
        }
        self.first(processor, Some(running)).is_some()
    }

    /// `task` yields `processor` to the next.
    pub(super) fn put_back(&mut self, processor: usize, task: TaskId, work: Nanos) {
        self.queues[processor].wanting.push((task, work));
    }

    /// Takes the next task for `processor`, on which nobody runs.
    pub(super) fn next(&mut self, processor: usize, now: Nanos) -> Option<(TaskId, Nanos)> {
        let place = self.first(processor, None)?;
        let queue = &mut self.queues[processor];
        (queue.looked_at, queue.woken) = (now, false);
        Some(queue.wanting.swap_remove(place))
    }

    /// Takes away a task that is ready and may run elsewhere, from whoever has most of them.
    pub(super) fn steal(&mut self, is_free: impl Fn(TaskId) -> bool) -> Option<(TaskId, Nanos)> {
        let entities = &self.entities;
        let free = |&(task, _): &(TaskId, Nanos)| is_free(task) && !entities[task.0 as usize].delayed;
        let count = |queue: &Queue| queue.wanting.iter().filter(|one| free(one)).count();
        let queue = self.queues.iter_mut().max_by_key(|queue| count(queue))?;
        let place = queue.wanting.iter().position(free)?;
        Some(queue.wanting.remove(place))
    }

    /// Tasks that are ready on `processor`.
    pub(super) fn ready_len(&self, processor: usize) -> usize {
        let wanting = self.queues[processor].wanting.iter();
        wanting.filter(|(task, _)| !self.entities[task.0 as usize].delayed).count()
    }

    /// The place in the queue of the task that goes before all others, `running` included. Those that sleep and have waited long
    /// enough leave the queue.
    fn first(&mut self, processor: usize, running: Option<TaskId>) -> Option<usize> {
        loop {
            let place = self.most_eligible(processor, running)?;
            let (task, _) = self.queues[processor].wanting[place];
            if !self.entity(task).delayed {
                return Some(place);
            }
            (self.entity(task).delayed, self.entity(task).lag) = (false, 0);
            self.queues[processor].wanting.swap_remove(place);
        }
    }

    fn most_eligible(&self, processor: usize, running: Option<TaskId>) -> Option<usize> {
        let mean = self.mean(processor, running);
        let eligible = |task: TaskId| {
            let entity = &self.entities[task.0 as usize];
            (entity.virtual_time <= mean).then_some(entity.deadline)
        };
        let wanting = self.queues[processor].wanting.iter().enumerate();
        let best = wanting.filter_map(|(place, &(task, _))| Some((eligible(task)?, place))).min()?;
        let kept = running.and_then(eligible).is_some_and(|deadline| deadline <= best.0);
        (!kept).then_some(best.1)
    }

    /// Of the virtual times of those that want the processor, rounded up so that somebody is eligible.
    fn mean(&self, processor: usize, running: Option<TaskId>) -> i64 {
        let queue = &self.queues[processor];
        let wanting = queue.wanting.iter().map(|&(task, _)| task).chain(running);
        let of = |task: TaskId| self.entities.get(task.0 as usize).map_or(0, |entity| entity.virtual_time);
        let (count, sum) = wanting.fold((0, 0), |(count, sum), task| (count + 1, sum + of(task)));
        if count == 0 { queue.left_at } else { -(-sum).div_euclid(count) }
    }

    fn entity(&mut self, task: TaskId) -> &mut Entity {
        let index = task.0 as usize;
        if index >= self.entities.len() {
            self.entities.resize(index + 1, Entity::default());
        }
        &mut self.entities[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Nanos = 1_000;
    const TICK: Nanos = 4_000;
    const LONG: TaskId = TaskId(0);
    const SHORT: TaskId = TaskId(1);

    /// One processor on which `LONG` runs.
    fn with_one_running() -> Fair {
        let mut fair = Fair::new(1, SLICE, TICK);
        fair.place(0, None, LONG);
        fair
    }

    #[test]
    fn a_task_that_wakes_waits_until_the_slice_of_the_other_is_over_and_not_longer() {
        let mut fair = with_one_running();
        fair.charge(LONG, SLICE / 2);
        fair.wake(0, Some(LONG), SHORT, 1);
        assert!(!fair.is_over(0, LONG, SLICE / 2), "nothing is owed to it");
        fair.charge(LONG, SLICE / 2);
        assert!(!fair.is_over(0, LONG, TICK - 1), "nobody looks");
        assert!(fair.is_over(0, LONG, TICK));
        fair.put_back(0, LONG, 1);
        assert_eq!(fair.next(0, TICK), Some((SHORT, 1)));
    }

    #[test]
    fn a_task_that_is_owed_time_takes_the_processor_when_it_wakes() {
        let mut fair = with_one_running();
        fair.wake(0, Some(LONG), SHORT, 1);
        fair.charge(LONG, SLICE);
        assert!(fair.is_over(0, LONG, TICK));
        fair.put_back(0, LONG, 1);
        assert_eq!(fair.next(0, TICK), Some((SHORT, 1)));
        fair.charge(SHORT, SLICE / 4);
        fair.sleep(0, SHORT);
        assert_eq!(fair.next(0, TICK), Some((LONG, 1)));
        fair.charge(LONG, 1);
        fair.wake(0, Some(LONG), SHORT, 1);
        assert!(fair.is_over(0, LONG, TICK + 1));
    }

    #[test]
    fn who_had_too_much_stays_behind_until_the_others_have_caught_up() {
        let mut fair = with_one_running();
        fair.wake(0, Some(LONG), SHORT, 1);
        fair.charge(LONG, SLICE / 2);
        fair.sleep(0, LONG);
        assert_eq!(fair.next(0, 500), Some((SHORT, 1)));
        fair.charge(SHORT, SLICE / 4);
        fair.wake(0, Some(SHORT), LONG, 1);
        assert!(!fair.is_over(0, SHORT, 750));
        fair.wake(0, Some(SHORT), TaskId(2), 1);
        fair.sleep(0, SHORT);
        assert_eq!(fair.next(0, 750), Some((TaskId(2), 1)));
    }
}
