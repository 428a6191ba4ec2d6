//! Those that wait, in two orders: by rank in a heap, and by how long they have waited in a list.
//!
//! Owns: both orders, and the rule that chooses between them. Memory: at most 80 bytes for each number up to the
//! largest waiter number, none before the first arrival.

use super::auto::Selector;
use super::ranks::{Entry, Ranks};
use super::{PASSED_OVER_MAX, PATIENCE, Priority, Schedule, Waiter, WaiterId};

const NONE: u32 = u32::MAX;

/// Ranks take the bits below the urgency's three.
const RANK_BITS: u32 = 61;

/// The state of a waiter.
#[derive(Clone, Copy, Debug)]
struct Node {
    waiter: Waiter,
    /// Work that had been chosen when it was queued.
    since: u64,
    /// In the heap, or `NONE` if it does not wait.
    place: u32,
    /// The neighbours in order of waiting: the next one that has waited longer, and the next one that has waited less.
    older: u32,
    newer: u32,
}

/// See the module, and [`super`] for the contract.
#[derive(Debug)]
pub struct Queue {
    schedule: Schedule,
    /// The counts that `auto` goes by.
    selector: Selector,
    ranks: Ranks,
    nodes: Vec<Node>,
    /// The ends of the list by time of waiting.
    oldest: u32,
    newest: u32,
    /// Arrivals and returns. The first is number one.
    queued: u64,
    /// The most of the caller's units that one turn takes.
    turn: u64,
    /// Units of all turns that were chosen.
    work: u64,
    patience: u32,
    /// Units of the turns that were chosen in a row and were not the oldest's, while that was overdue.
    passed_over: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new(schedule: Schedule) -> Queue {
        Queue {
            schedule,
            selector: Selector::new(),
            ranks: Ranks::default(),
            nodes: Vec::new(),
            oldest: NONE,
            newest: NONE,
            queued: 0,
            turn: 1,
            work: 0,
            patience: PATIENCE,
            passed_over: 0,
        }
    }

    /// The same, but a waiter is overdue after so many choices.
    pub fn with_patience(mut self, choices: u32) -> Queue {
        self.patience = choices;
        self
    }

    /// The same, but a turn takes so many units at most, or what remains. So a waiter is overdue after as much work as
    /// `patience` whole turns are, and gets a quarter of the work, where turns differ, and not a quarter of the turns.
    pub fn with_turn(mut self, units: u64) -> Queue {
        self.turn = units.max(1);
        self
    }

    /// `id` wants something new. Nothing changes but its priority if it waits already.
    pub fn push(&mut self, id: WaiterId, priority: Priority) {
        self.enter(id, priority, None);
    }

    /// `id`, which was pushed before and has been chosen since, wants the rest of the same. As [`Queue::push`] if it
    /// never was.
    pub fn resume(&mut self, id: WaiterId, priority: Priority) {
        let arrived = self.nodes.get(id.0 as usize).map(|node| node.waiter.arrived).filter(|&arrived| arrived > 0);
        self.enter(id, priority, arrived);
    }

    /// `id` has another priority from now on. It has waited no less for that. Nothing if it does not wait.
    pub fn update(&mut self, id: WaiterId, priority: Priority) {
        if !self.waits(id) {
            return;
        }
        let in_force = self.in_force();
        let node = &mut self.nodes[id.0 as usize];
        node.waiter.priority = priority;
        let (place, rank) = (node.place, rank(in_force, &node.waiter));
        let nodes = &mut self.nodes;
        self.ranks.change(place, rank, |id, place| nodes[id as usize].place = place);
    }

    /// `id` wants nothing any more. Nothing if it does not wait.
    pub fn remove(&mut self, id: WaiterId) {
        if self.waits(id) {
            self.leave(id.0);
        }
    }

    /// Takes the waiter that has the next turn. It waits no longer.
    pub fn pop(&mut self) -> Option<WaiterId> {
        if self.schedule == Schedule::Auto {
            self.observe();
        }
        let best = self.ranks.top()?;
        let oldest = &self.nodes[self.oldest as usize];
        let overdue = self.work - oldest.since >= u64::from(self.patience).saturating_mul(self.turn);
        let share = u64::from(PASSED_OVER_MAX).saturating_mul(self.units(self.oldest));
        let chosen = if overdue && self.passed_over >= share { self.oldest } else { best };
        let units = self.units(chosen);
        self.passed_over = if overdue && chosen != self.oldest { self.passed_over + units } else { 0 };
        self.work += units;
        self.leave(chosen);
        Some(WaiterId(chosen))
    }

    /// Whether `id` waits.
    pub fn waits(&self, id: WaiterId) -> bool {
        self.nodes.get(id.0 as usize).is_some_and(|node| node.place != NONE)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The discipline.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// Goes over to another discipline with all that wait. Each keeps the time that it has waited.
    pub fn change_schedule(&mut self, schedule: Schedule) {
        (self.schedule, self.selector) = (schedule, Selector::new());
        self.rank_anew();
    }

    /// The discipline by which those that wait are ordered now: what `auto` has chosen, or what it is told.
    pub fn in_force(&self) -> Schedule {
        if self.schedule == Schedule::Auto { self.selector.in_force() } else { self.schedule }
    }

    fn observe(&mut self) {
        let remaining = |id: u32| self.nodes.get(id as usize).map_or(0, |node| node.waiter.priority.remaining);
        let (oldest, newest) = (remaining(self.oldest), remaining(self.newest));
        if self.selector.observe(self.len(), oldest, newest).is_some() {
            self.rank_anew();
        }
    }

    fn rank_anew(&mut self) {
        let (in_force, nodes) = (self.in_force(), &mut self.nodes);
        self.ranks.rank_anew(|id| rank(in_force, &nodes[id as usize].waiter));
        self.ranks.places().for_each(|(id, place)| nodes[id as usize].place = place);
    }

    /// Bytes of memory that the queue itself has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.ranks.memory_bytes() + self.nodes.capacity() * size_of::<Node>()
    }

    /// The work of a turn of `id`.
    fn units(&self, id: u32) -> u64 {
        self.nodes[id as usize].waiter.priority.remaining.clamp(1, self.turn)
    }

    fn enter(&mut self, id: WaiterId, priority: Priority, arrived: Option<u64>) {
        if self.waits(id) {
            return self.update(id, priority);
        }
        self.queued += 1;
        let waiter = Waiter { priority, arrived: arrived.unwrap_or(self.queued), queued: self.queued };
        let node = Node { waiter, since: self.work, place: NONE, older: self.newest, newer: NONE };
        let index = id.0 as usize;
        if index >= self.nodes.len() {
            let never = Waiter { arrived: 0, ..waiter };
            self.nodes.resize(index + 1, Node { waiter: never, ..node });
        }
        self.nodes[index] = node;
        match self.newest {
            NONE => self.oldest = id.0,
            newest => self.nodes[newest as usize].newer = id.0,
        }
        self.newest = id.0;
        let entry = Entry { rank: rank(self.in_force(), &waiter), queued: self.queued, id: id.0 };
        let nodes = &mut self.nodes;
        self.ranks.push(entry, |id, place| nodes[id as usize].place = place);
    }

    /// Takes `id`, which waits, out of both orders.
    fn leave(&mut self, id: u32) {
        let Node { place, older, newer, .. } = self.nodes[id as usize];
        let nodes = &mut self.nodes;
        self.ranks.remove(place, |id, place| nodes[id as usize].place = place);
        nodes[id as usize].place = NONE;
        match older {
            NONE => self.oldest = newer,
            older => nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => nodes[newer as usize].older = older,
        }
    }
}

/// Urgency above the rank of the discipline.
fn rank(schedule: Schedule, waiter: &Waiter) -> u64 {
    let below = schedule.rank(waiter).min((1 << RANK_BITS) - 1);
    u64::from(waiter.priority.urgency.number()) << RANK_BITS | below
}
