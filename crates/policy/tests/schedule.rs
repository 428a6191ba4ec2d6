//! The order of service against a plain list, and the bound on waiting against anything that may come.

use lamna_policy::schedule::{PASSED_OVER_MAX, Priority, Queue, Schedule, Urgency, WaiterId, auto};
use proptest::prelude::*;

const SLOTS: u32 = 12;

#[derive(Clone, Debug)]
enum Operation {
    Push(u32, Priority),
    Resume(u32, Priority),
    Update(u32, Priority),
    Remove(u32),
    Change(Schedule),
    Pop,
}

fn priorities() -> impl Strategy<Value = Priority> {
    // Few values, so that there are equals; and the largest there is.
    let remaining = prop_oneof![0..9_u64, Just(u64::MAX)];
    (remaining, 0..8_u8, any::<bool>()).prop_map(|(remaining, urgency, incremental)| Priority {
        remaining,
        urgency: Urgency::new(urgency).expect("below eight"),
        incremental,
    })
}

fn schedules() -> impl Strategy<Value = Schedule> {
    prop::sample::select(Schedule::ALL.to_vec())
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let id = 0..SLOTS;
    let operation = prop_oneof![
        5 => (id.clone(), priorities()).prop_map(|(id, priority)| Operation::Push(id, priority)),
        5 => (id.clone(), priorities()).prop_map(|(id, priority)| Operation::Resume(id, priority)),
        2 => (id.clone(), priorities()).prop_map(|(id, priority)| Operation::Update(id, priority)),
        1 => id.prop_map(Operation::Remove),
        1 => schedules().prop_map(Operation::Change),
        9 => Just(Operation::Pop),
    ];
    prop::collection::vec(operation, 0..200)
}

#[derive(Clone, Copy)]
struct Waiting {
    id: u32,
    priority: Priority,
    arrived: u64,
    queued: u64,
    since: u64,
}

/// The rules written for reading: a list of those that wait, oldest first.
struct Reference {
    schedule: Schedule,
    waiting: Vec<Waiting>,
    arrivals: Vec<Option<u64>>,
    queued: u64,
    choices: u64,
    patience: u64,
    passed_over: u32,
}

impl Reference {
    fn new(schedule: Schedule, patience: u32) -> Reference {
        let arrivals = vec![None; SLOTS as usize];
        let patience = patience.into();
        Reference { schedule, waiting: Vec::new(), arrivals, queued: 0, choices: 0, patience, passed_over: 0 }
    }

    fn enter(&mut self, id: u32, priority: Priority, is_new: bool) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == id) {
            waiting.priority = priority;
            return;
        }
        self.queued += 1;
        let known = self.arrivals[id as usize].filter(|_| !is_new);
        let arrived = known.unwrap_or(self.queued);
        self.arrivals[id as usize] = Some(arrived);
        self.waiting.push(Waiting { id, priority, arrived, queued: self.queued, since: self.choices });
    }

    fn order(&self, waiting: &Waiting) -> (Urgency, (u32, u64), u64) {
        let rank = match self.schedule {
            Schedule::Fifo if !waiting.priority.incremental => (0, waiting.arrived),
            // Fewer choices are made here than `auto` looks at before it decides.
            Schedule::Fifo | Schedule::RoundRobin | Schedule::Auto => (0, waiting.queued),
            Schedule::Srpt => (waiting.priority.remaining.max(1).ilog2(), waiting.arrived),
        };
        (waiting.priority.urgency, rank, waiting.queued)
    }

    fn pop(&mut self) -> Option<WaiterId> {
        let best = (0..self.waiting.len()).min_by_key(|&at| self.order(&self.waiting[at]))?;
        let is_overdue = self.choices >= self.waiting[0].since + self.patience;
        let at = if is_overdue && self.passed_over == PASSED_OVER_MAX { 0 } else { best };
        self.passed_over = if is_overdue && at != 0 { self.passed_over + 1 } else { 0 };
        self.choices += 1;
        Some(WaiterId(self.waiting.remove(at).id))
    }
}

proptest! {
    #[test]
    fn the_choice_is_that_of_a_plain_list(schedule in schedules(), patience in 0..20_u32, operations in operations()) {
        let mut queue = Queue::new(schedule).with_patience(patience);
        let mut reference = Reference::new(schedule, patience);
        for operation in operations {
            match operation {
                Operation::Push(id, priority) => {
                    queue.push(WaiterId(id), priority);
                    reference.enter(id, priority, true);
                }
                Operation::Resume(id, priority) => {
                    queue.resume(WaiterId(id), priority);
                    reference.enter(id, priority, false);
                }
                Operation::Update(id, priority) => {
                    queue.update(WaiterId(id), priority);
                    if reference.waiting.iter().any(|waiting| waiting.id == id) {
                        reference.enter(id, priority, false);
                    }
                }
                Operation::Remove(id) => {
                    queue.remove(WaiterId(id));
                    reference.waiting.retain(|waiting| waiting.id != id);
                }
                Operation::Change(schedule) => {
                    queue.change_schedule(schedule);
                    reference.schedule = schedule;
                }
                Operation::Pop => prop_assert_eq!(queue.pop(), reference.pop()),
            }
            prop_assert_eq!(queue.len(), reference.waiting.len());
            for id in 0..SLOTS {
                prop_assert_eq!(queue.waits(WaiterId(id)), reference.waiting.iter().any(|waiting| waiting.id == id));
            }
        }
    }

    /// The victim is the longest and the least urgent. Everybody else is more urgent, shorter and insatiable.
    #[test]
    fn nobody_starves(
        schedule in schedules(),
        patience in 0..40_u32,
        ahead in 0..30_u32,
        newcomers in prop::collection::vec((0..3_u32, priorities()), 0..400),
    ) {
        let mut queue = Queue::new(schedule).with_patience(patience);
        let victim = WaiterId(0);
        (1..=ahead).for_each(|id| queue.push(WaiterId(id), Priority { urgency: Urgency::HIGHEST, ..Priority::of(1) }));
        queue.push(victim, Priority { remaining: u64::MAX, urgency: Urgency::LOWEST, incremental: false });
        let bound = u64::from(patience) + u64::from(PASSED_OVER_MAX + 1) * u64::from(ahead + 1);
        let mut next = ahead + 1;
        let mut newcomers = newcomers.into_iter();
        let mut choices = 0;
        loop {
            let Some(chosen) = queue.pop() else { unreachable!("the victim waits") };
            choices += 1;
            if chosen == victim {
                break;
            }
            prop_assert!(choices < bound, "waits after {} choices", choices);
            queue.resume(chosen, Priority { urgency: Urgency::HIGHEST, ..Priority::of(1) });
            if let Some((count, priority)) = newcomers.next() {
                for _ in 0..count {
                    queue.push(WaiterId(next), priority);
                    next += 1;
                }
            }
        }
    }

    #[test]
    fn nobody_waits_for_more_work_than_the_bound_where_turns_differ(
        schedule in schedules(),
        turn in 1..1000_u64,
        patience in 0..20_u32,
        ahead in 0..20_u32,
        newcomers in prop::collection::vec((0..3_u32, 1..3000_u64), 0..400),
    ) {
        let mut queue = Queue::new(schedule).with_turn(turn).with_patience(patience);
        let victim = WaiterId(0);
        (1..=ahead).for_each(|id| queue.push(WaiterId(id), Priority::of(u64::from(id))));
        queue.push(victim, Priority { remaining: u64::MAX, urgency: Urgency::LOWEST, incremental: false });
        // Each that waited before, and the victim, lets three times its own turn pass, and the turn that has begun.
        let each = (u64::from(PASSED_OVER_MAX) + 2) * turn;
        let bound = (u64::from(patience) + 1) * turn + each * u64::from(ahead + 1);
        let mut priorities: Vec<u64> = (0..=ahead).map(u64::from).collect();
        let mut work = 0;
        let mut newcomers = newcomers.into_iter();
        while let Some(chosen) = queue.pop().filter(|chosen| *chosen != victim) {
            prop_assert!(work <= bound, "waits after {work} units of {bound}");
            let (count, units) = newcomers.next().unwrap_or((0, 1));
            work += priorities[chosen.0 as usize].clamp(1, turn);
            priorities[chosen.0 as usize] = units;
            queue.resume(chosen, Priority::of(units));
            for _ in 0..count {
                queue.push(WaiterId(priorities.len() as u32), Priority::of(units));
                priorities.push(units);
            }
        }
    }

    #[test]
    fn memory_grows_with_those_that_wait_and_not_with_choices(
        schedule in schedules(), priorities in prop::collection::vec(priorities(), 50..300),
    ) {
        let mut queue = Queue::new(schedule);
        prop_assert_eq!(queue.memory_bytes(), 0);
        (0..SLOTS).for_each(|id| queue.push(WaiterId(id), Priority::of(1)));
        let warm = queue.memory_bytes();
        for priority in priorities {
            if let Some(id) = queue.pop() {
                queue.resume(id, priority);
            }
            queue.update(WaiterId(3), priority);
            queue.remove(WaiterId(5));
            queue.push(WaiterId(5), priority);
        }
        prop_assert_eq!(queue.memory_bytes(), warm);
        prop_assert!(warm <= 128 * SLOTS as usize, "{warm} bytes");
    }
}

/// Which slots have turns until all have finished, if each turn gives one.
fn turns(mut queue: Queue, priorities: &[Priority]) -> Vec<u32> {
    let mut left: Vec<u64> = priorities.iter().map(|priority| priority.remaining).collect();
    (0..).zip(priorities).for_each(|(id, &priority)| queue.push(WaiterId(id), priority));
    let mut order = Vec::new();
    while let Some(WaiterId(id)) = queue.pop() {
        order.push(id);
        left[id as usize] -= 1;
        if left[id as usize] > 0 {
            queue.resume(WaiterId(id), Priority { remaining: left[id as usize], ..priorities[id as usize] });
        }
    }
    order
}

#[test]
fn fifo_finishes_one_after_the_other_round_robin_serves_by_turns_and_srpt_the_shortest_first() {
    let priorities = [Priority::of(4), Priority::of(1), Priority::of(2)];
    assert_eq!(turns(Queue::new(Schedule::Fifo), &priorities), [0, 0, 0, 0, 1, 2, 2]);
    assert_eq!(turns(Queue::new(Schedule::RoundRobin), &priorities), [0, 1, 2, 0, 2, 0, 0]);
    assert_eq!(turns(Queue::new(Schedule::Srpt), &priorities), [1, 2, 2, 0, 0, 0, 0]);
}

#[test]
fn what_is_left_is_told_apart_by_powers_of_two_and_the_first_of_equals_is_finished_first() {
    assert_eq!(
        turns(Queue::new(Schedule::Srpt), &[Priority::of(3), Priority::of(2), Priority::of(4)]),
        [0, 0, 0, 1, 1, 2, 2, 2, 2]
    );
}

#[test]
fn incremental_answers_share_and_others_of_the_same_urgency_do_not() {
    let incremental = |remaining| Priority { incremental: true, ..Priority::of(remaining) };
    assert_eq!(turns(Queue::new(Schedule::Fifo), &[incremental(2), incremental(2)]), [0, 1, 0, 1]);
    assert_eq!(turns(Queue::new(Schedule::Fifo), &[incremental(2), Priority::of(2)]), [0, 1, 1, 0]);
}

#[test]
fn urgency_stands_above_every_discipline() {
    let urgent = Priority { urgency: Urgency::HIGHEST, ..Priority::of(3) };
    for schedule in Schedule::ALL {
        assert_eq!(turns(Queue::new(schedule), &[Priority::of(1), urgent]), [1, 1, 1, 0], "{schedule}");
    }
    assert_eq!(Urgency::new(8), None);
}

#[test]
fn a_job_that_more_wait_for_costs_each_of_them_less() {
    let mut queue = Queue::new(Schedule::Srpt);
    queue.push(WaiterId(0), Priority::shared(100, 1));
    queue.push(WaiterId(1), Priority::shared(300, 1));
    queue.update(WaiterId(1), Priority::shared(300, 8));
    assert_eq!(queue.pop(), Some(WaiterId(1)));
    assert_eq!(Priority::shared(u64::MAX, 0).remaining, u64::MAX, "nobody waits: as if one did");
}

/// What is in force after two windows in which `priorities` wait, each as long as it was once it has had its turn.
fn in_force_after(queue: &mut Queue, priorities: &[u64]) -> Schedule {
    (0..).zip(priorities).for_each(|(id, &priority)| queue.push(WaiterId(id), Priority::of(priority)));
    for _ in 0..2 * auto::WINDOW {
        let id = queue.pop().expect("all come back");
        queue.push(id, Priority::of(priorities[id.0 as usize]));
    }
    (0..).zip(priorities).for_each(|(id, _)| queue.remove(WaiterId(id)));
    queue.in_force()
}

#[test]
fn auto_goes_by_the_shortest_while_many_wait_and_differ() {
    let mut queue = Queue::new(Schedule::Auto);
    assert_eq!(queue.in_force(), Schedule::RoundRobin);
    assert_eq!(in_force_after(&mut queue, &[500, 5_000_000]), Schedule::RoundRobin, "few wait");
    assert_eq!(in_force_after(&mut queue, &[50_000; 20]), Schedule::RoundRobin, "all are alike");
    let mixed = [500, 5_000_000, 500, 50_000, 500, 5_000, 50_000, 5_000];
    assert_eq!(in_force_after(&mut queue, &mixed), Schedule::Srpt);
    assert_eq!(queue.schedule(), Schedule::Auto);
    assert_eq!(in_force_after(&mut queue, &[50_000; 20]), Schedule::RoundRobin, "they are alike again");
}

#[test]
fn those_who_wait_when_auto_changes_its_mind_are_ordered_anew() {
    let mut queue = Queue::new(Schedule::Auto);
    let lengths = [500, 5_000_000, 500, 50_000, 500, 5_000, 50_000, 5_000];
    (0..).zip(lengths).for_each(|(id, length)| queue.push(WaiterId(id), Priority::of(length)));
    while queue.in_force() == Schedule::RoundRobin {
        let id = queue.pop().expect("all come back");
        queue.push(id, Priority::of(lengths[id.0 as usize]));
    }
    // Nobody is overdue where so few wait: the short ones go first.
    let first: Vec<u64> = (0..3).map(|_| lengths[queue.pop().expect("eight wait").0 as usize]).collect();
    assert_eq!(first, [500; 3]);
}

#[test]
fn names_of_schedules_are_parsed_back() {
    for schedule in Schedule::ALL {
        assert_eq!(schedule.name().parse(), Ok(schedule));
    }
    assert!("lifo".parse::<Schedule>().unwrap_err().to_string().contains("round-robin"));
}
