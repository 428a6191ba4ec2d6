//! Which task is next on a processor, as Linux 6.6 and later decide: earliest eligible virtual deadline first
//! (`kernel/sched/fair.c`; Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995), for tasks of the
//! same weight.
//!
//! Owns: the virtual time and the deadline of each task, and the ready tasks of each processor.
//!
//! A task is eligible if it has had no more than the mean of the tasks that want the processor. Of the eligible tasks
//! the one with the earliest deadline is next. The deadline is one slice after the task's virtual time when it was
//! placed. Until then the running task is protected (`RUN_TO_PARITY`). Against a task that wakes, it is protected only
//! as long as it is eligible itself and the waking task is not the next. After that, whether another task is next is
//! decided when a task wakes there, and at the tick.
//!
//! A task that sleeps after it has had too much stays behind the others by that much until they have caught up. If it
//! wakes before that, it continues where it was (`DELAY_DEQUEUE`; `ttwu_runnable`). A task that was owed time is owed
//! it when it wakes, within bounds (`PLACE_LAG`).
//!
//! Guarantees: a task is in one queue at most, and once. A queue that was asked for its next task and had none is
//! empty. Does not know weights, groups, or slices of a task's own.

use super::TaskId;
use crate::kernel::Nanos;

/// Whether a task is in a queue, and in which.
///
/// ```text
///          wake, put_back                 sleep, had too much
///  +---------------------- Elsewhere --------------------------+
///  |                        ^   ^                              |
///  v       next, steal      |   |  the others have caught up   v
/// Ready --------------------+   +-------------------------- Delayed
///  ^                           wake                            |
///  +-----------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// It runs, sleeps, or was never seen.
    #[default]
    Elsewhere,
    /// It wants this processor.
    Ready(usize),
    /// It sleeps, and is still in the queue of this processor for having had too much.
    Delayed(usize),
}

#[derive(Clone, Copy, Default)]
struct Entity {
    /// Time it has had, on the clock of its processor. Does not change while it is in a queue.
    virtual_time: i64,
    deadline: i64,
    /// While it sleeps: what it was owed.
    lag: i64,
    place: Place,
}

#[derive(Clone, Default)]
struct Queue {
    /// Those that are ready, and those that sleep and are delayed; and what they have to do.
    wanting: Vec<(TaskId, Nanos)>,
    /// The number of these that are ready.
    ready: usize,
    /// The virtual times of all in `wanting`.
    sum: i64,
    /// Mean of the virtual times when the last task left.
    left_at: i64,
    /// When it was last looked at whether the running task should go on.
    looked_at: Nanos,
    /// Tasks that woke since.
    woken: Vec<TaskId>,
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

    /// Where `task`, which sleeps, is still in the queue: that is where it has to wake.
    pub(super) fn delayed_on(&self, task: TaskId) -> Option<usize> {
        match self.entities.get(task.0 as usize)?.place {
            Place::Delayed(processor) => Some(processor),
            Place::Elsewhere | Place::Ready(_) => None,
        }
    }

    /// `task` has woken and wants `processor`, on which `running` runs. If it is delayed, it is there.
    pub(super) fn wake(&mut self, processor: usize, running: Option<TaskId>, task: TaskId, work: Nanos) {
        let place = self.entity(task).place;
        if place == Place::Elsewhere {
            self.place(processor, running, task);
        } else {
            debug_assert_eq!(place, Place::Delayed(processor), "{task:?} wakes");
            let had_too_much = self.entity(task).virtual_time > self.mean(processor, running);
            self.remove_task(processor, task);
            if !had_too_much {
                self.entity(task).lag = 0;
                self.place(processor, running, task);
            }
        }
        self.insert(task, work, Place::Ready(processor));
        self.queues[processor].woken.push(task);
    }

    /// The virtual time and the deadline of a task that comes to `processor`: owed as much as when it left.
    pub(super) fn place(&mut self, processor: usize, running: Option<TaskId>, task: TaskId) {
        let others = self.queues[processor].wanting.len() as i64 + i64::from(running.is_some());
        let mean = self.mean(processor, running);
        let (slice, bound) = (self.slice, (2 * self.slice).max(self.tick as i64));
        let entity = self.entity(task);
        debug_assert_eq!(entity.place, Place::Elsewhere, "{task:?} is placed");
        // With it in the mean it shall be owed that much.
        let owed = if others > 0 { entity.lag.clamp(-bound, bound) * (others + 1) / others } else { 0 };
        entity.virtual_time = mean - owed;
        entity.deadline = entity.virtual_time + slice;
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
            self.insert(task, 0, Place::Delayed(processor));
        }
    }

    /// It has worked so long, and runs.
    pub(super) fn charge(&mut self, task: TaskId, worked: Nanos) {
        let entity = self.entity(task);
        debug_assert_eq!(entity.place, Place::Elsewhere, "{task:?} runs");
        entity.virtual_time += worked as i64;
    }

    /// Whether `running`, which could go on, has to make room for another one now: if its slice is over when it is
    /// looked at, or if it has had more than the mean and the one to be next has just woken, which is what
    /// `wakeup_preempt_fair` is about. That another one is to be next who waited already does not matter before the
    /// tick.
    pub(super) fn is_over(&mut self, processor: usize, running: TaskId, now: Nanos) -> bool {
        let queue = &mut self.queues[processor];
        let looked_at = !queue.woken.is_empty() || now / self.tick > queue.looked_at / self.tick;
        if !looked_at || queue.wanting.is_empty() {
            queue.woken.clear();
            return false;
        }
        queue.looked_at = now;
        let slice = self.slice;
        let entity = self.entity(running);
        let used_up = entity.virtual_time >= entity.deadline;
        if used_up {
            entity.deadline = entity.virtual_time + slice;
        }
        let is_over = (used_up || self.has_more_than_mean(processor, running)) && {
            let next = self.first(processor, Some(running));
            let queue = &self.queues[processor];
            next.is_some_and(|index| used_up || queue.woken.contains(&queue.wanting[index].0))
        };
        self.queues[processor].woken.clear();
        is_over
    }

    fn has_more_than_mean(&self, processor: usize, running: TaskId) -> bool {
        let entity = &self.entities[running.0 as usize];
        entity.virtual_time > self.mean(processor, Some(running))
    }

    /// `task` yields `processor` to the next.
    pub(super) fn put_back(&mut self, processor: usize, task: TaskId, work: Nanos) {
        self.insert(task, work, Place::Ready(processor));
    }

    /// Takes the next task for `processor`, on which no task runs.
    pub(super) fn next(&mut self, processor: usize, now: Nanos) -> Option<(TaskId, Nanos)> {
        let index = self.first(processor, None)?;
        let queue = &mut self.queues[processor];
        queue.looked_at = now;
        queue.woken.clear();
        Some(self.remove(processor, index))
    }

    /// Takes away a task that is ready and may run elsewhere, from the processor that has most of them.
    pub(super) fn steal(&mut self, is_free: impl Fn(TaskId) -> bool) -> Option<(TaskId, Nanos)> {
        let entities = &self.entities;
        let is_ready = |task: TaskId| matches!(entities[task.0 as usize].place, Place::Ready(_));
        let free = |&(task, _): &(TaskId, Nanos)| is_free(task) && is_ready(task);
        let count = |&processor: &usize| self.queues[processor].wanting.iter().filter(|one| free(one)).count();
        let longest = (0..self.queues.len()).max_by_key(count)?;
        let index = self.queues[longest].wanting.iter().position(free)?;
        Some(self.remove(longest, index))
    }

    /// Tasks that are ready on `processor`.
    pub(super) fn ready_len(&self, processor: usize) -> usize {
        self.queues[processor].ready
    }

    /// The index in the queue of the task that goes before all others, `running` included. Those that sleep and have
    /// waited long enough leave the queue.
    fn first(&mut self, processor: usize, running: Option<TaskId>) -> Option<usize> {
        loop {
            let index = self.most_eligible(processor, running)?;
            let (task, _) = self.queues[processor].wanting[index];
            if self.entity(task).place != Place::Delayed(processor) {
                return Some(index);
            }
            self.remove(processor, index);
            self.entity(task).lag = 0;
        }
    }

    fn most_eligible(&self, processor: usize, running: Option<TaskId>) -> Option<usize> {
        let mean = self.mean(processor, running);
        let eligible = |task: TaskId| {
            let entity = &self.entities[task.0 as usize];
            (entity.virtual_time <= mean).then_some(entity.deadline)
        };
        let wanting = self.queues[processor].wanting.iter().enumerate();
        let best = wanting.filter_map(|(index, &(task, _))| Some((eligible(task)?, index))).min()?;
        let kept = running.and_then(eligible).is_some_and(|deadline| deadline <= best.0);
        (!kept).then_some(best.1)
    }

    /// The mean virtual time of the tasks that want the processor, rounded up so that one is eligible.
    fn mean(&self, processor: usize, running: Option<TaskId>) -> i64 {
        let queue = &self.queues[processor];
        let of = |task: TaskId| self.entities.get(task.0 as usize).map_or(0, |entity| entity.virtual_time);
        let (count, sum) =
            (queue.wanting.len() as i64 + i64::from(running.is_some()), queue.sum + running.map_or(0, of));
        if count == 0 { queue.left_at } else { -(-sum).div_euclid(count) }
    }

    /// `task`, which is in no queue, goes to `place`.
    fn insert(&mut self, task: TaskId, work: Nanos, place: Place) {
        let (processor, is_ready) = match place {
            Place::Ready(processor) => (processor, true),
            Place::Delayed(processor) => (processor, false),
            Place::Elsewhere => return,
        };
        let entity = self.entity(task);
        debug_assert_eq!(entity.place, Place::Elsewhere, "{task:?} goes to {place:?}");
        entity.place = place;
        let virtual_time = entity.virtual_time;
        let queue = &mut self.queues[processor];
        queue.wanting.push((task, work));
        queue.sum += virtual_time;
        queue.ready += usize::from(is_ready);
    }

    fn remove_task(&mut self, processor: usize, task: TaskId) {
        let index = self.queues[processor].wanting.iter().position(|&(other, _)| other == task);
        if let Some(index) = index {
            self.remove(processor, index);
        }
    }

    /// Takes what is at `index` of a queue, which there is, out of it.
    fn remove(&mut self, processor: usize, index: usize) -> (TaskId, Nanos) {
        let queue = &mut self.queues[processor];
        let (task, work) = queue.wanting.swap_remove(index);
        let entity = &mut self.entities[task.0 as usize];
        queue.sum -= entity.virtual_time;
        queue.ready -= usize::from(entity.place == Place::Ready(processor));
        entity.place = Place::Elsewhere;
        (task, work)
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
    use proptest::prelude::*;

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

    /// Each task in one queue at most, once, and as its place says; what is summed up is right.
    fn check(fair: &Fair) {
        let mut seen = vec![0; fair.entities.len()];
        for (processor, queue) in fair.queues.iter().enumerate() {
            let (mut sum, mut ready) = (0, 0);
            for &(task, _) in &queue.wanting {
                let entity = &fair.entities[task.0 as usize];
                assert!([Place::Ready(processor), Place::Delayed(processor)].contains(&entity.place), "{task:?}");
                seen[task.0 as usize] += 1;
                sum += entity.virtual_time;
                ready += usize::from(entity.place == Place::Ready(processor));
            }
            assert_eq!((queue.sum, queue.ready), (sum, ready));
        }
        for (entity, &times) in fair.entities.iter().zip(&seen) {
            assert_eq!(times, usize::from(entity.place != Place::Elsewhere));
        }
    }

    /// Processors and tasks that are driven by numbers: wakes of tasks that sleep, and on a processor work, sleep, or a
    /// look at whether it is over.
    struct World {
        fair: Fair,
        running: [Option<TaskId>; 3],
        /// Whether each task sleeps.
        sleeps: [bool; 7],
        now: Nanos,
    }

    impl World {
        fn wake(&mut self, task: usize, preferred: usize) {
            let id = TaskId(task as u32);
            if !std::mem::take(&mut self.sleeps[task]) {
                return;
            }
            let processor = self.fair.delayed_on(id).unwrap_or(preferred);
            match self.running[processor] {
                Some(running) => self.fair.wake(processor, Some(running), id, 1),
                None => {
                    self.fair.place(processor, None, id);
                    self.running[processor] = Some(id);
                }
            }
        }

        fn work(&mut self, processor: usize, worked: Nanos, sleeps: bool) {
            let Some(task) = self.running[processor] else { return };
            self.now += worked;
            self.fair.charge(task, worked);
            if sleeps {
                self.sleeps[task.0 as usize] = true;
                self.fair.sleep(processor, task);
            } else if self.fair.is_over(processor, task, self.now) {
                self.fair.put_back(processor, task, 1);
            } else {
                return;
            }
            let next = self.fair.next(processor, self.now).or_else(|| {
                let stolen = self.fair.steal(|task| task.0 % 2 == 0)?;
                self.fair.place(processor, None, stolen.0);
                Some(stolen)
            });
            self.running[processor] = next.map(|(task, _)| task);
        }

        /// Every task that is awake has a processor or is in a queue, and an idle processor has no queue.
        fn check(&self) {
            check(&self.fair);
            let ready: usize = (0..3).map(|processor| self.fair.ready_len(processor)).sum();
            let awake = self.sleeps.iter().filter(|&&sleeps| !sleeps).count();
            assert_eq!(ready + self.running.iter().flatten().count(), awake);
            for (running, queue) in self.running.iter().zip(&self.fair.queues) {
                assert!(running.is_some() || queue.wanting.is_empty());
            }
        }
    }

    proptest! {
        #[test]
        fn a_task_is_in_one_queue_at_most_and_none_that_is_awake_is_forgotten(
            steps in prop::collection::vec((0..3_usize, 0..7_usize, 0..2 * SLICE, any::<bool>()), 1..400),
        ) {
            let fair = Fair::new(3, SLICE, TICK);
            let mut world = World { fair, running: [None; 3], sleeps: [true; 7], now: 0 };
            for (processor, task, worked, sleeps) in steps {
                world.wake(task, processor);
                world.check();
                world.work(processor, worked, sleeps);
                world.check();
            }
        }
    }

    #[test]
    fn who_sleeps_delayed_wakes_where_it_is_and_nowhere_else() {
        let mut fair = Fair::new(2, SLICE, TICK);
        fair.place(0, None, LONG);
        fair.wake(0, Some(LONG), SHORT, 1);
        fair.charge(LONG, SLICE);
        fair.sleep(0, LONG);
        assert_eq!(fair.delayed_on(LONG), Some(0));
        assert_eq!(fair.steal(|_| true), Some((SHORT, 1)), "who sleeps is not taken");
        assert_eq!(fair.ready_len(0), 0);
        fair.wake(0, None, LONG, 1);
        assert_eq!((fair.delayed_on(LONG), fair.ready_len(0)), (None, 1));
    }
}
