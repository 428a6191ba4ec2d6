//! A bounded map that forgets what has not been used lately, in constant time and without a list.
//!
//! Two generations: what is inserted or used goes to the young one; when that holds half of the bound, it becomes the
//! old one and what was old is forgotten. So everything used within the last half bound of insertions is kept, and a
//! value lives at least as long. An approximation of LRU that costs a hit nothing, for what is private to a worker; the
//! shared store asks the policies of `lamna-policy`.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hasher};

/// The key of a value: the site and the requested form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// Index of the site.
    pub site: u32,
    /// The normalised path, and the form of a listing where it matters (`worker/context.rs`); for pages that stand for
    /// many targets, a name that is no path (`content/translate.rs`).
    pub path: &'a [u8],
}

/// A map from [`Key`] to `V`, bounded by cost.
#[derive(Debug)]
pub struct Generations<V> {
    young: HashTable<Slot<V>>,
    old: HashTable<Slot<V>>,
    young_cost: u64,
    old_cost: u64,
    cost_max: u64,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Slot<V> {
    hash: u64,
    site: u32,
    cost: u64,
    path: Box<[u8]>,
    value: V,
}

impl<V> Generations<V> {
    /// An empty map that holds values of at most `cost_max` together.
    pub fn new(cost_max: u64) -> Generations<V> {
        let hasher = DefaultHashBuilder::default();
        Generations { young: HashTable::new(), old: HashTable::new(), young_cost: 0, old_cost: 0, cost_max, hasher }
    }

    /// The value of `key`, which counts as a use.
    pub fn lookup(&mut self, key: Key<'_>) -> Option<&mut V> {
        let hash = self.hash(key);
        let is = |slot: &Slot<V>| slot.is(key, hash);
        if let Some(index) = self.young.find_bucket_index(hash, is) {
            return self.young.get_bucket_mut(index).map(|slot| &mut slot.value);
        }
        let slot = self.old.find_entry(hash, is).ok()?.remove().0;
        self.old_cost -= slot.cost;
        self.insert_slot(slot);
        self.young.find_mut(hash, is).map(|slot| &mut slot.value)
    }

    /// The value of `key`. Counts as no use.
    pub fn peek(&self, key: Key<'_>) -> Option<&V> {
        let hash = self.hash(key);
        let is = |slot: &Slot<V>| slot.is(key, hash);
        self.young.find(hash, is).or_else(|| self.old.find(hash, is)).map(|slot| &slot.value)
    }

    /// Keeps `value` under `key`, in place of what was there. `cost` is what it counts against the bound; the slot
    /// itself is added. A value that exceeds half of the bound is not kept, and false is returned.
    pub fn insert(&mut self, key: Key<'_>, value: V, cost: u64) -> bool {
        let hash = self.hash(key);
        let had = self.take(key, hash);
        let cost = cost + (size_of::<Slot<V>>() + key.path.len()) as u64;
        if cost > self.cost_max / 2 {
            return false;
        }
        let path = had.map_or_else(|| key.path.into(), |slot| slot.path);
        self.insert_slot(Slot { hash, site: key.site, cost, path, value });
        true
    }

    /// Changes the bound. What is beyond it goes with later insertions.
    pub fn rebound(&mut self, cost_max: u64) {
        self.cost_max = cost_max;
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: Key<'_>) -> Option<V> {
        self.take(key, self.hash(key)).map(|slot| slot.value)
    }

    /// Cost of all values kept, slots included.
    pub fn cost(&self) -> u64 {
        self.young_cost + self.old_cost
    }

    /// Values kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Removes the value under `key`.
    fn take(&mut self, key: Key<'_>, hash: u64) -> Option<Slot<V>> {
        let is = |slot: &Slot<V>| slot.is(key, hash);
        if let Ok(entry) = self.young.find_entry(hash, is) {
            let slot = entry.remove().0;
            self.young_cost -= slot.cost;
            return Some(slot);
        }
        let slot = self.old.find_entry(hash, is).ok()?.remove().0;
        self.old_cost -= slot.cost;
        Some(slot)
    }

    fn insert_slot(&mut self, slot: Slot<V>) {
        if self.young_cost + slot.cost > self.cost_max / 2 {
            // Its table is used again: it has grown to what it has to hold.
            self.old.clear();
            std::mem::swap(&mut self.young, &mut self.old);
            self.old_cost = std::mem::take(&mut self.young_cost);
        }
        self.young_cost += slot.cost;
        self.young.insert_unique(slot.hash, slot, |slot| slot.hash);
    }

    /// The hash by which `key` is found.
    pub(super) fn hash(&self, key: Key<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(key.site);
        hasher.write(key.path);
        hasher.finish()
    }
}

impl<V> Slot<V> {
    /// The hash is asked first: it is here, and the path is not.
    fn is(&self, key: Key<'_>, hash: u64) -> bool {
        self.hash == hash && self.site == key.site && *self.path == *key.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(path: &[u8]) -> Key<'_> {
        Key { site: 0, path }
    }

    #[test]
    fn what_is_used_survives_and_what_is_not_goes() {
        let mut map = Generations::new(10_000);
        map.insert(key(b"used"), 1, 0);
        map.insert(key(b"unused"), 2, 0);
        for number in 0..1000u32 {
            map.insert(key(&number.to_be_bytes()), number, 0);
            assert_eq!(map.lookup(key(b"used")), Some(&mut 1));
        }
        assert_eq!(map.lookup(key(b"unused")), None);
    }

    #[test]
    fn the_same_path_of_two_sites_is_two_keys() {
        let mut map = Generations::new(10_000);
        map.insert(Key { site: 0, path: b"/" }, 0, 0);
        map.insert(Key { site: 1, path: b"/" }, 1, 0);
        assert_eq!(map.lookup(Key { site: 1, path: b"/" }), Some(&mut 1));
        assert_eq!(map.remove(Key { site: 0, path: b"/" }), Some(0));
        assert_eq!(map.lookup(Key { site: 0, path: b"/" }), None);
    }

    proptest! {
        #[test]
        fn the_bound_holds_and_values_are_those_inserted_last(operations in proptest::collection::vec((0u8..20, 0u64..900, any::<bool>()), 0..300)) {
            let mut map = Generations::new(4000);
            let mut last = std::collections::HashMap::new();
            for (index, (name, cost, insert)) in operations.into_iter().enumerate() {
                if insert {
                    map.insert(key(&[name]), index, cost);
                    last.insert(name, index);
                } else if let Some(value) = map.lookup(key(&[name])) {
                    prop_assert_eq!(Some(&*value), last.get(&name));
                }
                prop_assert!(map.cost() <= 4000);
            }
        }
    }
}
