//! Sizes of objects by identifier, in four bytes each: the few that need more are kept aside.

use std::collections::HashMap;

use super::{ObjectId, cover};

const ABSENT: u32 = u32::MAX;
/// It is among the large ones.
const ASIDE: u32 = u32::MAX - 1;

/// Sizes in bytes of the objects that are held.
#[derive(Default)]
pub(super) struct Sizes {
    usual: Vec<u32>,
    large: HashMap<u32, u64>,
}

impl Sizes {
    /// The size of `object`, if it has one.
    pub(super) fn of(&self, object: ObjectId) -> Option<u64> {
        match self.usual.get(object.index()).copied().unwrap_or(ABSENT) {
            ABSENT => None,
            ASIDE => self.large.get(&object.0).copied(),
            usual => Some(usual.into()),
        }
    }

    /// `object` has this size from now on.
    pub(super) fn set(&mut self, object: ObjectId, size_bytes: u64) {
        self.unset(object);
        cover(&mut self.usual, object, ABSENT);
        self.usual[object.index()] = match u32::try_from(size_bytes) {
            Ok(usual) if usual < ASIDE => usual,
            _ => {
                self.large.insert(object.0, size_bytes);
                ASIDE
            }
        };
    }

    /// `object` has none from now on. Returns that which it had.
    pub(super) fn unset(&mut self, object: ObjectId) -> Option<u64> {
        let had = self.of(object)?;
        self.usual[object.index()] = ABSENT;
        self.large.remove(&object.0);
        Some(had)
    }

    /// How many objects have a size, and the sum of the sizes. The work is linear in the identifiers.
    pub(super) fn sum(&self) -> (usize, u64) {
        let sizes = (0..self.usual.len() as u32).filter_map(|number| self.of(ObjectId(number)));
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    }

    /// Bytes of memory allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.usual.capacity() * size_of::<u32>() + self.large.capacity() * size_of::<(u32, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sizes_are_those_given_last_however_large(
            operations in prop::collection::vec((0u32..9, prop_oneof![0u64..9, u64::from(ASIDE) - 3..u64::from(ASIDE) + 3], any::<bool>()), 0..99),
        ) {
            let (mut sizes, mut plain) = (Sizes::default(), HashMap::new());
            for (object, size, sets) in operations {
                if sets {
                    sizes.set(ObjectId(object), size);
                    plain.insert(object, size);
                } else {
                    prop_assert_eq!(sizes.unset(ObjectId(object)), plain.remove(&object));
                }
                for object in 0..9 {
                    prop_assert_eq!(sizes.of(ObjectId(object)), plain.get(&object).copied());
                }
            }
        }
    }
}
