//! Doubly linked lists over dense identifiers. Several lists can share one set of links, since an object is in at most
//! one of them: moving between queues then costs no allocation.

use super::{ObjectId, address_of, cover};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    toward_front: u32,
    toward_back: u32,
}

/// The neighbours of each object.
#[derive(Default)]
pub(super) struct Links(Vec<Link>);

impl Links {
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Link>()
    }

    /// Where the neighbours of `object` are in memory.
    pub(super) fn state_of(&self, object: ObjectId) -> *const u8 {
        address_of(&self.0, object)
    }

    pub(super) fn cover(&mut self, object: ObjectId) {
        cover(&mut self.0, object, Link { toward_front: NONE, toward_back: NONE });
    }
}

/// One order of objects, front to back. The links it is used with are always the same ones.
pub(super) struct List {
    front: u32,
    back: u32,
    len: usize,
}

impl List {
    pub(super) fn new() -> Self {
        List { front: NONE, back: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn back(&self) -> Option<ObjectId> {
        (self.back != NONE).then_some(ObjectId(self.back))
    }

    /// The neighbour of `object`, which is in this list, one nearer to the front.
    pub(super) fn toward_front(&self, links: &Links, object: ObjectId) -> Option<ObjectId> {
        let next = links.0[object.index()].toward_front;
        (next != NONE).then_some(ObjectId(next))
    }

    /// `object` is in no list, and `links` cover it.
    pub(super) fn push_front(&mut self, links: &mut Links, object: ObjectId) {
        links.0[object.index()] = Link { toward_front: NONE, toward_back: self.front };
        match self.front {
            NONE => self.back = object.0,
            front => links.0[front as usize].toward_front = object.0,
        }
        self.front = object.0;
        self.len += 1;
    }

    /// Asserts that the links lead from front to back and from back to front through as many objects as are counted,
    /// all of which are `held`.
    pub(super) fn check_invariants(&self, links: &Links, held: impl Fn(ObjectId) -> bool) {
        let (mut at, mut before, mut count) = (self.front, NONE, 0);
        while at != NONE {
            let link = links.0[at as usize];
            assert_eq!(link.toward_front, before, "object {at} does not know its neighbour");
            assert!(held(ObjectId(at)), "object {at} is in a list, and not held");
            count += 1;
            assert!(count <= self.len, "a list of {} goes on", self.len);
            (before, at) = (at, link.toward_back);
        }
        assert_eq!((self.back, self.len), (before, count), "a list ends elsewhere than it says");
    }

    /// `object` is in this list.
    pub(super) fn unlink(&mut self, links: &mut Links, object: ObjectId) {
        let Link { toward_front, toward_back } = links.0[object.index()];
        match toward_front {
            NONE => self.front = toward_back,
            neighbour => links.0[neighbour as usize].toward_back = toward_back,
        }
        match toward_back {
            NONE => self.back = toward_front,
            neighbour => links.0[neighbour as usize].toward_front = toward_front,
        }
        self.len -= 1;
    }

    /// `object` is in this list.
    pub(super) fn move_to_front(&mut self, links: &mut Links, object: ObjectId) {
        if self.front == object.0 {
            return;
        }
        self.unlink(links, object);
        self.push_front(links, object);
    }
}
