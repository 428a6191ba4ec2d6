//! S3-FIFO: three static queues (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction", SOSP
//! 2023, algorithm 1).
//!
//! New objects enter a small queue, which has a tenth of the bytes. An object that is used more than once there moves
//! on to the main queue. The others leave, and are remembered as ghosts. A ghost that returns enters the main queue at
//! once. The main queue gives each object one further round for each use, at most three. A scan passes through the
//! small queue and leaves the main queue alone.
//!
//! Departure: as in the paper the ghost queue is as long as the main queue has objects, but never shorter than
//! [`GHOSTS_MIN`]. So a cache that has just started remembers something.

use std::collections::VecDeque;

use super::list::{Links, List};
use super::{ObjectId, Removal, Replacement, address_of, bounded, cover};

/// Uses are counted up to this.
const USES_MAX: u8 = 3;
/// The small queue's share of the bound is one in this many.
const SMALL_SHARE: u64 = 10;
/// Ghosts remembered at least.
const GHOSTS_MIN: usize = 64;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Queue {
    #[default]
    None,
    Small,
    Main,
}

#[derive(Clone, Copy, Default)]
struct Object {
    queue: Queue,
    uses: u8,
    /// At most so many.
    size_bytes: u32,
    /// The newest place in the ghost queue, or zero.
    ghost: u32,
}

/// The queues. Both lists share their links.
pub struct S3Fifo {
    links: Links,
    small: List,
    main: List,
    small_bytes: u64,
    bound_bytes: u64,
    objects: Vec<Object>,
    ghosts: VecDeque<(ObjectId, u32)>,
    /// Begins again at one when it has run out, when those of the same number are long gone.
    ghosts_made: u32,
}

impl S3Fifo {
    /// Holds nothing; the small queue is meant to take a tenth of `bound_bytes`.
    pub fn new(bound_bytes: u64) -> Self {
        S3Fifo {
            links: Links::default(),
            small: List::new(),
            main: List::new(),
            small_bytes: 0,
            bound_bytes,
            objects: Vec::new(),
            ghosts: VecDeque::new(),
            ghosts_made: 0,
        }
    }

    fn enter(&mut self, object: ObjectId, queue: Queue) {
        self.objects[object.index()].queue = queue;
        match queue {
            Queue::Small => {
                self.small_bytes += u64::from(self.objects[object.index()].size_bytes);
                self.small.push_front(&mut self.links, object);
            }
            Queue::Main => self.main.push_front(&mut self.links, object),
            Queue::None => {}
        }
    }

    fn leave(&mut self, object: ObjectId) {
        match self.objects[object.index()].queue {
            Queue::Small => {
                self.small_bytes -= u64::from(self.objects[object.index()].size_bytes);
                self.small.unlink(&mut self.links, object);
            }
            Queue::Main => self.main.unlink(&mut self.links, object),
            Queue::None => {}
        }
        self.objects[object.index()].queue = Queue::None;
    }

    fn remember_ghost(&mut self, object: ObjectId) {
        self.ghosts_made = self.ghosts_made.checked_add(1).unwrap_or(1);
        self.objects[object.index()].ghost = self.ghosts_made;
        self.ghosts.push_back((object, self.ghosts_made));
        while self.ghosts.len() > self.main.len().max(GHOSTS_MIN) {
            let Some((oldest, place)) = self.ghosts.pop_front() else {
                return;
            };
            let ghost = &mut self.objects[oldest.index()].ghost;
            if *ghost == place {
                *ghost = 0;
            }
        }
    }

    fn small_is_full(&self) -> bool {
        self.small_bytes >= (self.bound_bytes / SMALL_SHARE).max(1)
    }
}

impl Replacement for S3Fifo {
    fn admit(&mut self, object: ObjectId, size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        self.links.cover(object);
        cover(&mut self.objects, object, Object::default());
        let known = std::mem::replace(
            &mut self.objects[object.index()],
            Object { queue: Queue::None, uses: 0, size_bytes: bounded(size_bytes), ghost: 0 },
        );
        self.enter(object, if known.ghost == 0 { Queue::Small } else { Queue::Main });
    }

    fn hit(&mut self, object: ObjectId) {
        debug_assert!(self.holds(object), "hit what is not held");
        let uses = &mut self.objects[object.index()].uses;
        *uses = (*uses + 1).min(USES_MAX);
    }

    fn victim(&mut self) -> Option<ObjectId> {
        // Ends: each turn shrinks the small queue or takes one of the finitely many counted uses away.
        loop {
            let small = self.small.back().filter(|_| self.small_is_full() || self.main.len() == 0);
            let (object, queue) = match small {
                Some(object) => (object, Queue::Small),
                None => (self.main.back()?, Queue::Main),
            };
            let uses = self.objects[object.index()].uses;
            match queue {
                Queue::Small if uses > 1 => self.objects[object.index()].uses = 0,
                Queue::Main if uses > 0 => self.objects[object.index()].uses = uses - 1,
                _ => return Some(object),
            }
            self.leave(object);
            self.enter(object, Queue::Main);
        }
    }

    fn remove(&mut self, object: ObjectId, removal: Removal) {
        debug_assert!(self.holds(object), "removed what is not held");
        let queue = self.objects[object.index()].queue;
        self.leave(object);
        if removal == Removal::Evicted && queue == Queue::Small {
            self.remember_ghost(object);
        }
    }

    fn resize(&mut self, object: ObjectId, size_bytes: u64) {
        let held = &mut self.objects[object.index()];
        if held.queue == Queue::Small {
            self.small_bytes = self.small_bytes - u64::from(held.size_bytes) + u64::from(bounded(size_bytes));
        }
        held.size_bytes = bounded(size_bytes);
    }

    fn forget(&mut self, object: ObjectId) {
        if let Some(object) = self.objects.get_mut(object.index()) {
            object.ghost = 0;
        }
    }

    fn state_of(&self, object: ObjectId) -> *const u8 {
        address_of(&self.objects, object)
    }

    fn memory_bytes(&self) -> usize {
        let ghosts = self.ghosts.capacity() * size_of::<(ObjectId, u32)>();
        self.links.memory_bytes() + self.objects.capacity() * size_of::<Object>() + ghosts
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn check_invariants(&self) {
        for (list, queue) in [(&self.small, Queue::Small), (&self.main, Queue::Main)] {
            list.check_invariants(&self.links, |object| self.objects[object.index()].queue == queue);
            let count = self.objects.iter().filter(|object| object.queue == queue).count();
            assert_eq!(count, list.len(), "an object that is held is in no list");
        }
        let small = self.objects.iter().filter(|object| object.queue == Queue::Small);
        let bytes: u64 = small.map(|object| u64::from(object.size_bytes)).sum();
        assert_eq!(self.small_bytes, bytes, "the count of bytes is not that of the small queue");
    }

    fn holds(&self, object: ObjectId) -> bool {
        self.objects.get(object.index()).is_some_and(|object| object.queue != Queue::None)
    }

    fn rebound(&mut self, bound_bytes: u64) {
        self.bound_bytes = bound_bytes;
    }
}
