//! The algorithms written for reading, not for speed: plain vectors, searched from end to end.

use lamna_policy::cache::{Algorithm, ObjectId, Objective, Removal};

#[derive(Clone)]
struct Object {
    id: u32,
    size: u64,
    uses: u64,
    key: u64,
    visited: bool,
    main: bool,
}

/// A vector in order of the algorithm, oldest first.
pub(crate) struct Reference {
    algorithm: Algorithm,
    objective: Objective,
    bound: u64,
    objects: Vec<Object>,
    ghosts: Vec<u32>,
    age: u64,
    hand: Option<u32>,
}

impl Reference {
    pub(crate) fn new(algorithm: Algorithm, objective: Objective, bound: u64) -> Self {
        Reference { algorithm, objective, bound, objects: Vec::new(), ghosts: Vec::new(), age: 0, hand: None }
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        let mut ids: Vec<_> = self.objects.iter().map(|object| object.id).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn admit(&mut self, id: ObjectId, size: u64) {
        let mut object = Object { id: id.0, size, uses: 1, key: 0, visited: false, main: false };
        object.key = self.key(&object);
        if self.algorithm == Algorithm::S3Fifo {
            object.uses = 0;
            object.main = self.ghosts.contains(&id.0);
            self.ghosts.retain(|&ghost| ghost != id.0);
        }
        self.objects.push(object);
    }

    pub(crate) fn hit(&mut self, id: ObjectId) {
        let at = self.at(id.0);
        match self.algorithm {
            Algorithm::Sieve => self.objects[at].visited = true,
            Algorithm::S3Fifo => self.objects[at].uses = (self.objects[at].uses + 1).min(3),
            _ => {
                let mut object = self.objects.remove(at);
                object.uses += 1;
                object.key = self.key(&object);
                self.objects.push(object);
            }
        }
    }

    /// The victim of the algorithm; none of one that is not written here.
    pub(crate) fn victim(&mut self) -> Option<Option<ObjectId>> {
        Some(match self.algorithm {
            Algorithm::Lru => self.objects.first().map(|object| ObjectId(object.id)),
            // `min_by_key` takes the first of equals, and the vector is in order of last use.
            Algorithm::Lfu | Algorithm::Gdsf => self.objects.iter().min_by_key(|o| o.key).map(|o| ObjectId(o.id)),
            Algorithm::S3Fifo => self.s3fifo_victim(),
            Algorithm::Sieve => self.sieve_victim(),
            _ => return None,
        })
    }

    pub(crate) fn remove(&mut self, id: ObjectId, removal: Removal) {
        let evicted = removal == Removal::Evicted;
        if evicted && matches!(self.algorithm, Algorithm::Lfu | Algorithm::Gdsf) && self.victim() == Some(Some(id)) {
            self.age = self.objects[self.at(id.0)].key;
        }
        let at = self.at(id.0);
        if self.hand == Some(id.0) {
            self.hand = self.objects.get(at + 1).map(|object| object.id);
        }
        let object = self.objects.remove(at);
        if evicted && self.algorithm == Algorithm::S3Fifo && !object.main {
            self.ghosts.push(id.0);
        }
    }

    fn at(&self, id: u32) -> usize {
        self.objects.iter().position(|object| object.id == id).expect("operations name held objects")
    }

    fn key(&self, object: &Object) -> u64 {
        match (self.algorithm, self.objective) {
            (Algorithm::Gdsf, Objective::Requests) => self.age + object.uses * (1 << 24) / object.size.max(1),
            _ => self.age + object.uses,
        }
    }

    fn s3fifo_victim(&mut self) -> Option<ObjectId> {
        loop {
            let small_bytes: u64 = self.objects.iter().filter(|o| !o.main).map(|o| o.size).sum();
            let small = self.objects.iter().position(|o| !o.main);
            let main = self.objects.iter().position(|o| o.main);
            let at = match (small, main) {
                (Some(small), None) => small,
                (Some(small), _) if small_bytes >= (self.bound / 10).max(1) => small,
                (_, main) => main?,
            };
            let mut object = self.objects[at].clone();
            if object.main && object.uses > 0 {
                object.uses -= 1;
            } else if !object.main && object.uses > 1 {
                object.uses = 0;
                object.main = true;
            } else {
                return Some(ObjectId(object.id));
            }
            self.objects.remove(at);
            self.objects.push(object);
        }
    }

    fn sieve_victim(&mut self) -> Option<ObjectId> {
        let mut at = match self.hand {
            Some(hand) => self.at(hand),
            None => 0,
        };
        while self.objects.get(at)?.visited {
            self.objects[at].visited = false;
            at = (at + 1) % self.objects.len();
        }
        self.hand = Some(self.objects[at].id);
        self.hand.map(ObjectId)
    }
}
