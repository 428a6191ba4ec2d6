//! Cache replacement: which object should go when room is needed.
//!
//! Owns: the order of the objects it was told about. A policy *hears* what happened (`admit`, `hit`, `remove`) and
//! *names* a victim; it holds no object and frees none. The cache's owner removes the victim and says so with `remove`.
//!
//! Guarantees: a victim is an object that is held; naming it changes nothing that a caller can see, and the same object
//! is named again until a notification arrives. No method allocates except when an identifier larger than any before
//! arrives (state is kept in arrays indexed by identifier, so nothing is hashed).
//!
//! Does not: count bytes against a bound ([`Bounded`] does), decide whether a newcomer deserves a place
//! ([`Admission`] does), or lock.
//!
//! ```
//! use lamna_policy::cache::{Algorithm, Objective, ObjectId, Removal};
//!
//! let mut policy = Algorithm::Lru.build(1_000, Objective::Requests);
//! policy.admit(ObjectId(1), 400);
//! policy.admit(ObjectId(2), 400);
//! policy.hit(ObjectId(1));
//! assert_eq!(policy.victim(), Some(ObjectId(2)));
//! policy.remove(ObjectId(2), Removal::Evicted);
//! assert_eq!(policy.len(), 1);
//! ```

mod admission;
mod bounded;
mod gdsf;
mod heap;
mod hinted;
mod lfu;
mod list;
mod lru;
pub mod residency;
mod s3fifo;
mod sieve;
mod sizes;

use std::fmt;
use std::str::FromStr;

use crate::hints::Probability;

pub use admission::Admission;
pub use bounded::{Bounded, Offer};
pub use gdsf::Gdsf;
pub use hinted::{EXPECTED_USES, Hinted};
pub use lfu::Lfu;
pub use lru::Lru;
pub use s3fifo::S3Fifo;
pub use sieve::Sieve;

/// Uses that are told apart when many are reported together.
pub const USES_AT_ONCE_MAX: u32 = 8;

/// A small, dense number that stands for an object. Memory of a policy grows with the largest identifier, not with the
/// number of objects, so callers hand out identifiers from zero and use freed ones again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

impl ObjectId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why an object leaves. Policies that remember what they threw away learn only from evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was the victim.
    Evicted,
    /// It became stale or was deleted; nothing follows from that about its value.
    Withdrawn,
}

/// A replacement policy. See the module for the contract.
pub trait Replacement: Send {
    /// `object` is now held. It was not held before; `size_bytes` is what it occupies, overhead included.
    fn admit(&mut self, object: ObjectId, size_bytes: u64);

    /// `object`, which is held, was used.
    fn hit(&mut self, object: ObjectId);

    /// `object`, which is held, was used `count` times since it was last said so. Counts above [`USES_AT_ONCE_MAX`] may
    /// be taken as that.
    fn uses(&mut self, object: ObjectId, count: u32) {
        for _ in 0..count.min(USES_AT_ONCE_MAX) {
            self.hit(object);
        }
    }

    /// `object`, which is held, occupies `size_bytes` from now on. Only policies that weigh sizes care.
    fn resize(&mut self, _object: ObjectId, _size_bytes: u64) {}

    /// The identifier of `object`, which is not held, will stand for another object. Only policies that remember what
    /// they threw away care.
    fn forget(&mut self, _object: ObjectId) {}

    /// `object`, held or not, will be asked for soon with this probability, as far as is known. Said before it is
    /// admitted, it says as well that it has not been requested yet. Only policies that keep longer what is expected
    /// care.
    fn expect(&mut self, _object: ObjectId, _probability: Probability) {}

    /// Whether an object of this size that has not been requested yet is worth more than the next victim. Policies that
    /// cannot compare say that it is not.
    fn deserves_room(&mut self, _size_bytes: u64, _probability: Probability) -> bool {
        false
    }

    /// Bytes of memory that the policy itself has allocated.
    fn memory_bytes(&self) -> usize;

    /// The object that should go next, or `None` if nothing is held. Settles the policy's own queues where the
    /// algorithm does that on eviction (S3-FIFO, SIEVE), hence `&mut`.
    fn victim(&mut self) -> Option<ObjectId>;

    /// `object`, which was held, is gone.
    fn remove(&mut self, object: ObjectId, removal: Removal);

    /// Objects held.
    fn len(&self) -> usize;

    /// Whether nothing is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `object` is held.
    fn holds(&self, object: ObjectId) -> bool;

    /// The address of the state that a hit of `object` changes, or null, for the caller to prefetch; it must not be
    /// dereferenced. Only worth it for policies of very large caches.
    fn state_of(&self, _object: ObjectId) -> *const u8 {
        std::ptr::null()
    }

    /// The bound of the cache changed. Only policies that divide it care.
    fn rebound(&mut self, _bound_bytes: u64) {}

    /// Asserts that what the policy has noted of its objects agrees. Called now and then in builds with debug
    /// assertions, and after each step of tests. The work may be linear in the objects.
    fn check_invariants(&self) {}
}

/// The objective of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Requests answered from memory: right when processors or disk seeks are scarce.
    #[default]
    Requests,
    /// Bytes answered from memory: right when the disk's or the network's transfer rate is scarce.
    Bytes,
}

impl Objective {
    /// Both, in the order of the documentation.
    pub const ALL: [Objective; 2] = [Objective::Requests, Objective::Bytes];

    /// The name used in settings and results.
    pub fn name(self) -> &'static str {
        match self {
            Objective::Requests => "requests",
            Objective::Bytes => "bytes",
        }
    }

    /// The objective of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Objective::ALL.into_iter().find(|objective| objective.name() == name)
    }
}

/// The policies of rows: what each is called, and how one is made that holds nothing yet.
macro_rules! algorithms {
    (
        by requests { $($(#[$about:meta])* $algorithm:ident = $name:literal, $build:expr;)+ }
        by predictions {
            $($(#[$foretold_about:meta])* $foretold:ident = $foretold_name:literal, $foretold_build:expr;)+
        }
    ) => {
        /// The policies by name.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Algorithm {
            $($(#[$about])* $algorithm,)+
            $($(#[$foretold_about])* $foretold,)+
        }

        impl Algorithm {
            /// Those that go by requests alone, in the order of the documentation.
            pub const ALL: [Algorithm; [$($name),+].len()] = [$(Algorithm::$algorithm),+];

            /// Those that a server can have: of predictions, which it makes, as well.
            pub const OF_SERVERS: [Algorithm; [$($name,)+ $($foretold_name),+].len()] =
                [$(Algorithm::$algorithm,)+ $(Algorithm::$foretold),+];

            /// The name used in settings and results.
            pub fn name(self) -> &'static str {
                match self {
                    $(Algorithm::$algorithm => $name,)+
                    $(Algorithm::$foretold => $foretold_name,)+
                }
            }

            /// A policy that holds nothing yet, for a cache of `bound_bytes`.
            pub fn build(self, bound_bytes: u64, objective: Objective) -> Box<dyn Replacement> {
                fn boxed<P: Replacement + 'static>(
                    (bound_bytes, objective): (u64, Objective),
                    build: fn(u64, Objective) -> P,
                ) -> Box<dyn Replacement> {
                    Box::new(build(bound_bytes, objective))
                }
                let of = (bound_bytes, objective);
                match self {
                    $(Algorithm::$algorithm => boxed(of, $build),)+
                    $(Algorithm::$foretold => boxed(of, $foretold_build),)+
                }
            }
        }
    };
}

algorithms! {
    by requests {
        /// Least recently used.
        #[default]
        Lru = "lru", |_, _| Lru::new();
        /// Least frequently used, with dynamic ageing.
        Lfu = "lfu", |_, _| Lfu::new();
        /// GreedyDual-Size with frequency.
        Gdsf = "gdsf", |_, objective| Gdsf::new(objective);
        /// Three static queues.
        S3Fifo = "s3-fifo", |bound_bytes, _| S3Fifo::new(bound_bytes);
        /// A queue, a bit and a hand.
        Sieve = "sieve", |_, _| Sieve::new();
    }
    by predictions {
        /// [`Algorithm::Gdsf`], and what is expected to be asked for counts as used.
        Hinted = "hinted", |_, objective| Hinted::new(objective);
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Algorithm::OF_SERVERS
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| UnknownAlgorithm(name.into()))
    }
}

/// A name that is none of [`Algorithm::OF_SERVERS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(pub String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Algorithm::OF_SERVERS.iter().map(|algorithm| algorithm.name()).collect();
        write!(f, "no replacement policy is called `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownAlgorithm {}

/// Hands everything `from` holds over to `to`, least valuable first, so that a recency order survives. `size_bytes`
/// tells an object's size. Afterwards `from` holds nothing.
pub fn hand_over(from: &mut dyn Replacement, to: &mut dyn Replacement, size_bytes: impl Fn(ObjectId) -> u64) {
    while let Some(object) = from.victim() {
        from.remove(object, Removal::Withdrawn);
        to.admit(object, size_bytes(object));
    }
}

/// A size as policies remember it: 4 GiB stand for all that is larger.
fn bounded(size_bytes: u64) -> u32 {
    size_bytes.try_into().unwrap_or(u32::MAX)
}

/// Where the value of `object` is.
fn address_of<T>(values: &[T], object: ObjectId) -> *const u8 {
    values.get(object.index()).map_or(std::ptr::null(), |value| std::ptr::from_ref(value).cast())
}

/// Makes `values` have a place for one more. Grows in smaller steps than doubling, because what is not used counts as
/// well where memory is bounded.
fn grow<T>(values: &mut Vec<T>) {
    if values.len() == values.capacity() {
        values.reserve_exact(values.len() / 8 + 64);
    }
}

/// Makes `values` have a place for `object`, in the same steps.
fn cover<T: Clone>(values: &mut Vec<T>, object: ObjectId, absent: T) {
    if object.index() >= values.capacity() {
        values.reserve_exact(object.index() - values.len() + values.len() / 8 + 64);
    }
    if object.index() >= values.len() {
        values.resize(object.index() + 1, absent);
    }
}
