//! Bandwidth that all connections of a client share: each has an equal part, for as long as it has something under way.
//!
//! Owns: [`Sharing`], the counts of connections by the party that shares, and [`Share`], by which one connection is
//! among them. Guarantees: bounded memory; no thread waits and no connection knows another: each reads how many there
//! are when it sends, and has the kernel send so much slower. Where more than eight share a place of the table, those
//! beyond are not counted and have it all.

use std::fmt;

use lamna_sys::shared_memory::SharedMemory;
use rustix::io::Errno;

use super::crowd::{self, Entry};
use super::sync;

/// 1 MiB, of which the kernel gives what is touched.
const BUCKETS: usize = 1 << 14;

/// With less nothing would move for longer than a connection is waited for.
const LEAST_BYTES_PER_S: u64 = 1 << 10;

type Buckets = [[sync::Word; crowd::WAYS]; BUCKETS];

/// How many connections share. Clones, and what a fork copies, are the same.
#[derive(Clone)]
pub(super) struct Sharing {
    buckets: SharedMemory<Buckets>,
    /// Processes that may count at the same time, each in a part of its own.
    parts: usize,
    /// The part of this process.
    own: usize,
}

/// By which a connection is among those that share.
#[derive(Debug)]
pub(super) struct Share {
    sharing: Sharing,
    /// The hash of the party that shares.
    pub(super) hash: u64,
    bytes_per_s: u64,
    /// Where it is counted while it has something under way.
    place: Option<Entry>,
}

impl Sharing {
    /// The address space that it takes.
    pub(super) const MAPPED_BYTES: usize = size_of::<Buckets>();

    pub(super) fn new() -> Result<Sharing, Errno> {
        Ok(Sharing { buckets: SharedMemory::zeroed()?, parts: 1, own: 0 })
    }

    /// The same, with a part for each of `processes`.
    pub(super) fn among(self, processes: usize) -> Sharing {
        Sharing { parts: processes.clamp(1, BUCKETS), ..self }
    }

    /// The same, for the process of number `number`.
    pub(super) fn of(self, number: usize) -> Sharing {
        Sharing { own: number % self.parts, ..self }
    }

    /// Process `number` has ended.
    pub(super) fn clear(&self, number: usize) {
        crowd::clear(&*self.buckets, self.parts, number % self.parts);
    }

    /// A share of `bytes_per_s` with all of the same `hash`, that is not taken yet.
    pub(super) fn share(&self, hash: u64, bytes_per_s: u64) -> Share {
        Share { sharing: self.clone(), hash, bytes_per_s, place: None }
    }
}

impl Share {
    /// The connection has something under way.
    pub(super) fn enter(&mut self) {
        if self.place.is_none() {
            let Sharing { buckets, parts, own } = &self.sharing;
            self.place = Some(crowd::enter(&**buckets, *parts, *own, self.hash, u64::MAX));
        }
    }

    /// It has nothing under way any more.
    pub(super) fn leave(&mut self) {
        if let Some(Entry::Counted(place)) = self.place.take() {
            let Sharing { buckets, parts, own } = &self.sharing;
            crowd::leave(&**buckets, *parts, *own, place);
        }
    }

    /// How many bytes a second are this connection's, if it has something under way.
    pub(super) fn part(&self) -> Option<u64> {
        self.place?;
        let Sharing { buckets, parts, .. } = &self.sharing;
        let connections = crowd::counted(&**buckets, *parts, self.hash).max(1);
        Some((self.bytes_per_s / connections).max(LEAST_BYTES_PER_S))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sharing").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn who_shares_is_counted_once_however_often_it_comes_and_goes(
            steps in prop::collection::vec((0_usize..6, any::<bool>()), 0..60),
        ) {
            let sharing = Sharing::new().unwrap();
            let mut shares: Vec<Share> = (0..6).map(|at| sharing.share((at % 2 + 1) << 40, 1 << 20)).collect();
            for (at, enters) in steps {
                if enters { shares[at].enter() } else { shares[at].leave() }
                for hash in [1 << 40, 2 << 40] {
                    let inside = shares.iter().filter(|share| share.hash == hash && share.place.is_some()).count();
                    prop_assert_eq!(crowd::counted(&*sharing.buckets, 1, hash), inside as u64);
                }
            }
            drop(shares);
            let words = [1 << 40, 2 << 40].map(|hash| crowd::counted(&*sharing.buckets, 1, hash));
            prop_assert_eq!(words, [0, 0]);
        }
    }

    #[test]
    fn who_shares_has_an_equal_part_in_whatever_process_it_is() {
        let sharing = Sharing::new().unwrap().among(4);
        let shares = |hash: u64, process: usize| {
            let mut share = sharing.clone().of(process).share(hash, 8_000_000);
            share.enter();
            share
        };
        let (first, second) = (shares(7 << 40, 0), shares(7 << 40, 3));
        let other = shares(9 << 40, 0);
        assert_eq!((first.part(), other.part()), (Some(4_000_000), Some(8_000_000)));
        let mut third = shares(7 << 40, 0);
        assert_eq!(first.part(), Some(2_666_666));
        third.leave();
        assert_eq!((first.part(), third.part()), (Some(4_000_000), None));
        // What a process that was killed had is not shared any more.
        std::mem::forget(second);
        sharing.clear(3);
        assert_eq!(first.part(), Some(8_000_000));
    }
}
