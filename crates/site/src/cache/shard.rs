//! One shard: a table of keys and entries, and the eviction of entries when room is needed.
//!
//! Owns: a table from keys to entries, and the books of the replacement policy (`lamna_policy::cache`), which decides
//! while this acts. Guarantees: the policy's costs never exceed the bound; what is let go of is handed to the caller,
//! so that it is freed and its files are closed after the lock is gone. Does not lock.
//!
//! Policies know objects by dense numbers. The number of a key that was let go of is kept for a while, so that a policy
//! that remembers what it threw away (ghosts, frequencies) knows it again when it returns.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use lamna_policy::cache::{Bounded, ObjectId, Offer};
use lamna_policy::hints::{PrecacheBudget, PrecacheCounts, Probability};
use lamna_sys::metrics::memory_accounting::allocated;
use lamna_sys::prefetch::{Ahead, FileRange};

use super::entry::Entry;
use super::index::Index;
use super::replacement::Replacing;
use super::two_generation_map::Key;

mod invariants;

/// One shard.
pub(super) struct Shard {
    /// Numbers of kept entries and of remembered keys.
    index: Index,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Numbers of what was let go of, oldest first, each with the turn in which that was.
    remembered: VecDeque<(u32, u32)>,
    /// Counts what was let go of.
    turns: u32,
    books: Bounded,
    /// The budget for reading ahead of requests, if that is on.
    precache: Option<Box<PrecacheBudget>>,
    hasher: DefaultHashBuilder,
    /// Bytes of sites and paths.
    name_bytes: u64,
    /// Changes since it was checked that all this agrees.
    unchecked: usize,
}

/// The object of a number, in 24 bytes.
#[derive(Debug)]
enum Slot {
    /// The entry that is kept under this key: the site's number in four bytes, and the path.
    Entry(Box<[u8]>, Arc<Entry>),
    /// An evicted entry, or none that the policy remembers: the turn of its eviction and the hash of its key are all
    /// that is known.
    Nothing { turn: u32, hash: u32 },
}

/// How far a lookup goes, in the order in which each step leads to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// The bucket of the index.
    Bucket,
    /// And what the policy knows of it.
    Slot,
    /// Name and entry.
    Entry,
    /// Resource and representation.
    Description,
    /// Head and content.
    Message,
}

/// Lists grow by one part in this many.
const STEP_SHARE: usize = 8;
/// Numbers that are remembered at least.
const REMEMBERED_MIN: usize = 64;

impl Shard {
    /// An empty shard of at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: u64, replacing: &Replacing) -> Shard {
        let books = Bounded::of_policy(replacing.policy(bytes_max), bytes_max);
        let mut shard = Shard {
            index: Index::default(),
            slots: Vec::new(),
            free: Vec::new(),
            remembered: VecDeque::new(),
            turns: 0,
            books,
            precache: None,
            hasher: DefaultHashBuilder::default(),
            name_bytes: 0,
            unchecked: 0,
        };
        shard.books.set_admission(replacing.admission(bytes_max));
        shard
    }

    /// Goes over to another policy with everything that is kept.
    pub(super) fn change_policy(&mut self, replacing: &Replacing) {
        let bound_bytes = self.books.bound_bytes();
        self.books.change_policy(replacing.policy(bound_bytes));
        self.books.set_admission(replacing.admission(bound_bytes));
        self.check_now_and_then();
    }

    /// The entry of `key`, which was used `uses` times since it was last asked for.
    pub(super) fn lookup(&mut self, key: Key<'_>, uses: u32) -> Option<&Arc<Entry>> {
        let hash = self.hash(key);
        if let Some(id) = self.find_kept(key, hash) {
            self.books.handle_uses(ObjectId(id), uses);
            if let (Some(precache), 1..) = (&mut self.precache, uses) {
                precache.handle_request(ObjectId(id), true, 0);
            }
            return self.slots[id as usize].entry();
        }
        let id = self.find_remembered(hash)?;
        self.books.request_times(ObjectId(id), uses);
        None
    }

    /// `key` will be asked for soon with this probability. Whether it is held.
    pub(super) fn expect(&mut self, key: Key<'_>, probability: Probability) -> bool {
        let Some(id) = self.find_kept(key, self.hash(key)) else { return false };
        self.books.expect(ObjectId(id), probability);
        true
    }

    /// Says what a lookup of a key of this hash reads at `depth`; what it reads before that has been fetched.
    pub(super) fn prefetch(&self, hash: u32, depth: Depth, ahead: &mut Ahead) {
        if depth == Depth::Bucket {
            return self.index.prefetch(hash, ahead);
        }
        for id in self.index.candidates(hash) {
            let slot = &self.slots[id as usize];
            match (depth, slot) {
                (Depth::Slot, _) => {
                    ahead.add(FileRange::of_value(slot));
                    ahead.add(FileRange::of(self.books.state_of(ObjectId(id)), 1));
                }
                (Depth::Entry, Slot::Entry(name, entry)) => {
                    ahead.add(FileRange::of(name.as_ptr(), name.len()));
                    ahead.add(FileRange::of_shared(entry));
                }
                (Depth::Description, Slot::Entry(_, entry)) => entry.foresee_description(ahead),
                (_, Slot::Entry(_, entry)) => entry.foresee_message(ahead),
                (_, Slot::Nothing { .. }) => {}
            }
        }
    }

    /// Keeps `entry`, which costs `cost`, in place of what was there, if the policy finds it worth it. What has to go
    /// for it is put to `gone`.
    pub(super) fn insert(&mut self, key: Key<'_>, entry: Arc<Entry>, cost: u64, gone: &mut Vec<Arc<Entry>>) {
        let hash = self.hash(key);
        if let Some(id) = self.find_kept(key, hash) {
            if let Slot::Entry(_, kept) = &mut self.slots[id as usize] {
                gone.push(std::mem::replace(kept, entry));
            }
            return self.resize(id, cost, gone);
        }
        let id = match self.find_remembered(hash) {
            Some(id) => id,
            None => self.allot(hash),
        };
        // A filter weighs how often it was asked for: this time as well.
        self.books.request_times(ObjectId(id), 1);
        if let Some(precache) = &mut self.precache {
            precache.handle_request(ObjectId(id), false, 1);
            // A request asked for it: that is a use, whatever was expected.
            self.books.expect(ObjectId(id), Probability::default());
        }
        let mut evicted = Vec::new();
        let offer = self.books.offer(ObjectId(id), cost, |id| evicted.push(id.0));
        // Before others are let go of: their coming to be remembered may end that of this number.
        match offer {
            Offer::Admitted => {
                let name = [&key.site.to_ne_bytes(), key.path].concat();
                self.name_bytes += allocated(name.len());
                self.slots[id as usize] = Slot::Entry(name.into(), entry);
            }
            Offer::Refused => {
                gone.push(entry);
                self.remember(id, hash);
            }
        }
        self.let_go(evicted, gone);
        self.check_now_and_then();
    }

    /// From now on so much may be read ahead of requests, in thousandths of the reads needed, of what is so likely; or
    /// nothing.
    pub(super) fn set_precache(&mut self, precache: Option<(u16, Probability)>) {
        self.precache = precache.map(|(share, least)| Box::new(PrecacheBudget::new(share, least)));
    }

    /// Whether something may be read ahead for a key of this probability. It is taken to be as large as others.
    pub(super) fn allows_ahead(&mut self, probability: Probability) -> bool {
        let mean = self.books.bytes() / (self.books.len() as u64).max(1);
        let is_allowed = self.precache.as_ref().is_some_and(|precache| precache.allows(probability, 1, true));
        is_allowed && self.books.deserves_room(mean, probability)
    }

    /// Keeps `entry`, which was read ahead of requests, if it deserves room. Whether it is kept.
    pub(super) fn insert_ahead(
        &mut self,
        key: Key<'_>,
        (entry, cost): (Arc<Entry>, u64),
        probability: Probability,
        gone: &mut Vec<Arc<Entry>>,
    ) -> bool {
        let hash = self.hash(key);
        if self.precache.is_none() || self.find_kept(key, hash).is_some() {
            gone.push(entry);
            return false;
        }
        let id = match self.find_remembered(hash) {
            Some(id) => id,
            None => self.allot(hash),
        };
        let object = ObjectId(id);
        let mut evicted = Vec::new();
        self.books.expect(object, probability);
        let is_kept = self.books.deserves_room(cost, probability)
            && self.books.offer(object, cost, |id| evicted.push(id.0)) == Offer::Admitted;
        if let Some(precache) = &mut self.precache {
            precache.handle_begun(object, 1);
            evicted.iter().for_each(|gone| precache.handle_evicted(ObjectId(*gone), object));
        }
        if is_kept {
            let name = [&key.site.to_ne_bytes(), key.path].concat();
            self.name_bytes += allocated(name.len());
            self.slots[id as usize] = Slot::Entry(name.into(), entry);
        } else {
            gone.push(entry);
            self.books.expect(object, Probability::default());
            self.remember(id, hash);
        }
        self.let_go(evicted, gone);
        self.check_now_and_then();
        is_kept
    }

    /// Whether `key` was read ahead and has not been asked for since.
    pub(super) fn is_ahead(&self, key: Key<'_>) -> bool {
        let id = self.find_kept(key, self.hash(key));
        id.zip(self.precache.as_ref()).is_some_and(|(id, precache)| precache.is_ahead(ObjectId(id)))
    }

    /// Counts of entries read ahead: used, wasted, evicted.
    pub(super) fn precache_counts(&self) -> PrecacheCounts {
        self.precache.as_ref().map(|precache| precache.counts()).unwrap_or_default()
    }

    /// Changes the cost of the entry under `key` to `cost`, if it is still `entry`.
    pub(super) fn weigh_again(&mut self, key: Key<'_>, entry: &Arc<Entry>, cost: u64, gone: &mut Vec<Arc<Entry>>) {
        let Some(id) = self.find_kept(key, self.hash(key)) else { return };
        if self.slots[id as usize].entry().is_some_and(|kept| Arc::ptr_eq(kept, entry)) {
            entry.weigh();
            self.resize(id, cost, gone);
        }
    }

    /// Lets go of what is necessary to hold at most `bytes_max`.
    pub(super) fn rebound(&mut self, bytes_max: u64, gone: &mut Vec<Arc<Entry>>) {
        if bytes_max != self.books.bound_bytes() {
            let mut evicted = Vec::new();
            self.books.rebound(bytes_max, |id| evicted.push(id.0));
            self.let_go(evicted, gone);
            self.check_now_and_then();
        }
    }

    /// Removes the entry under `key`.
    pub(super) fn remove(&mut self, key: Key<'_>, gone: &mut Vec<Arc<Entry>>) {
        let hash = self.hash(key);
        if let Some(id) = self.find_kept(key, hash) {
            self.books.withdraw(ObjectId(id));
            self.let_go(vec![id], gone);
            self.check_now_and_then();
        }
    }

    /// Lets go of everything of which `is_meant` holds.
    pub(super) fn remove_where(&mut self, is_meant: &dyn Fn(Key<'_>, &Entry) -> bool, gone: &mut Vec<Arc<Entry>>) {
        let is_gone = |slot: &Slot| match slot {
            Slot::Entry(name, entry) => name
                .split_first_chunk()
                .is_some_and(|(site, path)| is_meant(Key { site: u32::from_ne_bytes(*site), path }, entry)),
            Slot::Nothing { .. } => false,
        };
        // As many as there are numbers, which are four bytes.
        let meant: Vec<u32> = (0..self.slots.len() as u32).filter(|id| is_gone(&self.slots[*id as usize])).collect();
        meant.iter().for_each(|id| self.books.withdraw(ObjectId(*id)));
        self.let_go(meant, gone);
        self.check_now_and_then();
    }

    /// Lets go of everything, tables included. The policy stays.
    pub(super) fn clear(&mut self, replacing: &Replacing, gone: &mut Vec<Arc<Entry>>) {
        gone.extend(self.slots.drain(..).filter_map(|slot| match slot {
            Slot::Entry(_, entry) => Some(entry),
            Slot::Nothing { .. } => None,
        }));
        let precache = self.precache.take();
        *self = Shard { precache, ..Shard::new(self.books.bound_bytes(), replacing) };
    }

    /// Bytes of the shard's own structures: tables, paths, the policy's.
    pub(super) fn structure_bytes(&self) -> u64 {
        let slots = self.slots.capacity() * size_of::<Slot>();
        let numbers = self.free.capacity() * size_of::<u32>() + self.remembered.capacity() * size_of::<(u32, u32)>();
        let precache = self.precache.as_ref().map_or(0, |precache| precache.memory_bytes());
        (self.index.memory_bytes() + slots + numbers + self.books.memory_bytes() + precache) as u64 + self.name_bytes
    }

    /// Entries kept.
    pub(super) fn len(&self) -> usize {
        self.books.len()
    }

    fn resize(&mut self, id: u32, cost: u64, gone: &mut Vec<Arc<Entry>>) {
        let mut evicted = Vec::new();
        self.books.resize(ObjectId(id), cost, |id| evicted.push(id.0));
        self.let_go(evicted, gone);
        self.check_now_and_then();
    }

    fn let_go(&mut self, evicted: Vec<u32>, gone: &mut Vec<Arc<Entry>>) {
        for id in evicted {
            let hash = self.slots[id as usize].hash(&self.hasher);
            if let Some(precache) = &mut self.precache {
                precache.handle_gone(ObjectId(id));
            }
            if let Slot::Entry(name, entry) = std::mem::replace(&mut self.slots[id as usize], Slot::UNKNOWN) {
                self.name_bytes -= allocated(name.len());
                gone.push(entry);
            }
            self.remember(id, hash);
        }
    }

    /// The number stands for nothing from now on, but it did for a key of this hash.
    fn remember(&mut self, id: u32, hash: u32) {
        self.turns = self.turns.wrapping_add(1);
        self.slots[id as usize] = Slot::Nothing { turn: self.turns, hash };
        if self.remembered.len() == self.remembered.capacity() {
            self.remembered.reserve_exact(step(self.remembered.len()));
        }
        self.remembered.push_back((id, self.turns));
        while self.remembered.len() > self.books.len().max(REMEMBERED_MIN) {
            let Some((oldest, turn)) = self.remembered.pop_front() else { return };
            // Unless it has come back meanwhile.
            if let Slot::Nothing { turn: last, hash } = self.slots[oldest as usize]
                && last == turn
            {
                self.forget(oldest, hash);
            }
        }
    }

    fn forget(&mut self, id: u32, hash: u32) {
        self.index.remove(hash, id);
        self.books.forget(ObjectId(id));
        if let Some(precache) = &mut self.precache {
            precache.forget(ObjectId(id));
        }
        self.free.push(id);
    }

    /// A number for a key of this hash.
    fn allot(&mut self, hash: u32) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(step(self.slots.len()));
            }
            self.slots.push(Slot::UNKNOWN);
            u32::try_from(self.slots.len() - 1)
                .expect("entries are bounded by memory, four thousand million are not held")
        });
        self.slots[id as usize] = Slot::Nothing { turn: 0, hash };
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.index.insert(hash, id, |id| slots[id as usize].hash(hasher));
        id
    }

    fn find_kept(&self, key: Key<'_>, hash: u32) -> Option<u32> {
        self.index.find(hash, |id| self.slots[id as usize].is(key))
    }

    /// The number that a key of this hash had. That another key may have the same hash does no harm: the policy takes
    /// one for the other.
    fn find_remembered(&self, hash: u32) -> Option<u32> {
        let is = |id: u32| matches!(self.slots[id as usize], Slot::Nothing { hash: other, .. } if other == hash);
        self.index.find(hash, is)
    }

    /// Whether something was found under `key` not long ago that is not kept.
    pub(super) fn remembers(&self, key: Key<'_>) -> bool {
        self.find_remembered(self.hash(key)).is_some()
    }

    /// The hash of `key`, with this shard's hasher.
    pub(super) fn hash(&self, key: Key<'_>) -> u32 {
        hash(&self.hasher, key.site.to_ne_bytes(), key.path)
    }
}

impl Slot {
    const UNKNOWN: Slot = Slot::Nothing { turn: 0, hash: 0 };

    fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Slot::Entry(_, entry) => Some(entry),
            Slot::Nothing { .. } => None,
        }
    }

    /// Whether the entry of `key` is here. The index has compared sixteen bits of its hash, so it nearly always is: the
    /// entry is fetched while the name is.
    fn is(&self, key: Key<'_>) -> bool {
        let Slot::Entry(name, entry) = self else { return false };
        FileRange::of_shared(entry).fetch();
        name.split_first_chunk() == Some((&key.site.to_ne_bytes(), key.path))
    }

    /// The hash of the key.
    fn hash(&self, hasher: &DefaultHashBuilder) -> u32 {
        match self {
            Slot::Entry(name, _) => {
                let (site, path) = name.split_first_chunk().expect("a name begins with the site");
                hash(hasher, *site, path)
            }
            Slot::Nothing { hash, .. } => *hash,
        }
    }
}

fn hash(hasher: &DefaultHashBuilder, site: [u8; 4], path: &[u8]) -> u32 {
    let mut hasher = hasher.build_hasher();
    hasher.write(&site);
    hasher.write(path);
    (hasher.finish() >> 32) as u32
}

/// How much a list of so many grows at once: in smaller steps than doubling, because what is not used counts as well.
fn step(length: usize) -> usize {
    length / STEP_SHARE + REMEMBERED_MIN
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shard").field("entries", &self.books.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::cache_policy::Policy;
    use lamna_io::file_state::Stamps;
    use lamna_policy::cache::{Algorithm, Objective};
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};
    use proptest::prelude::*;

    fn entry() -> Arc<Entry> {
        let representation = Representation::with_content(&Description::of(Status(200)), b"x").unwrap();
        Arc::new(Entry::new(Resource::one(Status(200), representation), Stamps::none(), 5000))
    }

    fn policies() -> impl Strategy<Value = Replacing> {
        let algorithms = prop::sample::select(Algorithm::ALL.to_vec());
        let objectives = prop::sample::select(Objective::ALL.to_vec());
        (algorithms, objectives, any::<bool>())
            .prop_map(|(algorithm, objective, is_filtered)| Policy { algorithm, objective, is_filtered }.into())
    }

    #[test]
    fn what_a_lookup_reads_is_foreseen_step_by_step() {
        let mut shard = Shard::new(4000, &Policy::default().into());
        let key = Key { site: 0, path: b"/a" };
        shard.insert(key, entry(), 1, &mut Vec::new());
        let steps = [Depth::Bucket, Depth::Slot, Depth::Entry, Depth::Description, Depth::Message];
        let ranges = steps.map(|depth| {
            let mut ahead = Ahead::default();
            shard.prefetch(shard.hash(key), depth, &mut ahead);
            ahead.len()
        });
        // The slot with what the policy notes, name and entry, resource and representation.
        assert_eq!(ranges, [1, 2, 2, 2, 1]);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_put_last_and_everything_else_was_handed_out(
            (before, after) in (policies(), policies()),
            operations in prop::collection::vec((0u8..40, 1u64..900, 0u8..8), 0..300),
        ) {
            let mut shard = Shard::new(4000, &before);
            let mut alive: std::collections::HashMap<u8, (Arc<Entry>, u64)> = Default::default();
            for (name, cost, choice) in operations {
                let key = Key { site: 0, path: &[name] };
                let mut gone = Vec::new();
                match choice {
                    0 => shard.change_policy(&after),
                    1 => shard.rebound(2000 + cost, &mut gone),
                    2 => if let Some((entry, held)) = alive.get_mut(&name) {
                        shard.weigh_again(key, &entry.clone(), cost, &mut gone);
                        *held = cost;
                    },
                    3..=5 => if shard.lookup(key, 3).is_none() {
                        let entry = entry();
                        shard.insert(key, entry.clone(), cost, &mut gone);
                        alive.insert(name, (entry, cost));
                    },
                    _ => if let (Some(kept), Some((last, _))) = (shard.lookup(key, 1), alive.get(&name)) {
                        prop_assert!(Arc::ptr_eq(kept, last));
                    }
                }
                alive.retain(|_, (entry, _)| !gone.iter().any(|gone| Arc::ptr_eq(gone, entry)));
                shard.check_invariants();
                prop_assert_eq!(shard.len(), alive.len());
                prop_assert_eq!(shard.books.bytes(), alive.values().map(|(_, cost)| cost).sum::<u64>());
                prop_assert!(shard.books.bytes() <= shard.books.bound_bytes());
                for (name, (entry, _)) in &alive {
                    let key = Key { site: 0, path: &[*name] };
                    let hash = shard.hash(key);
                    let id = shard.find_kept(key, hash).expect("what was not handed out is kept");
                    prop_assert!(shard.slots[id as usize].entry().is_some_and(|kept| Arc::ptr_eq(kept, entry)));
                }
                prop_assert!(shard.slots.len() <= alive.len() + shard.free.len() + shard.remembered.len());
            }
        }
    }

    #[test]
    fn numbers_are_used_again_when_they_are_no_longer_remembered() {
        let mut shard = Shard::new(1000, &Policy::default().into());
        for number in 0..10_000u32 {
            shard.insert(Key { site: 0, path: &number.to_be_bytes() }, entry(), 100, &mut Vec::new());
        }
        assert!(shard.slots.len() <= 10 + REMEMBERED_MIN + 2, "{}", shard.slots.len());
    }
}
