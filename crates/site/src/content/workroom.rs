//! Memory that making content takes for a while, beyond what caches and connections count: the pixels of a picture, a
//! file that filters read as a whole.
//!
//! Owns: [`Workroom`], which gives it out. Guarantees: no more is given out than there is room for, in a control group
//! a quarter of its limit; who gets none is told whether waiting would help. Nothing is taken before it was asked for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_filter::NoRoom;
use lamna_sys::memory;

/// See the module.
#[derive(Debug)]
pub(super) struct Workroom {
    most: u64,
    taken: AtomicU64,
}

/// Some of it. It is given back with the value.
#[derive(Debug)]
pub(super) struct Taken(&'static Workroom, u64);

impl Workroom {
    const fn of(most: u64) -> Workroom {
        Workroom { most, taken: AtomicU64::new(0) }
    }

    /// That of this process.
    pub(super) fn get() -> &'static Workroom {
        static ROOM: OnceLock<Workroom> = OnceLock::new();
        ROOM.get_or_init(|| Workroom::of(memory::work_bytes_max()))
    }

    /// So many bytes of it.
    ///
    /// # Errors
    /// There are not so many, now or ever.
    pub(super) fn take(&'static self, bytes: u64) -> Result<Taken, NoRoom> {
        if bytes > self.most {
            return Err(NoRoom::Ever);
        }
        let more = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(Relaxed, Relaxed, more).map_err(|_| NoRoom::Now)?;
        Ok(Taken(self, bytes))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(self.1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_out_than_there_is_and_what_comes_back_is_given_out_again() {
        static ROOM: Workroom = Workroom::of(100);
        let (first, second) = (ROOM.take(60).unwrap(), ROOM.take(40).unwrap());
        assert_eq!((ROOM.take(1).unwrap_err(), ROOM.take(101).unwrap_err()), (NoRoom::Now, NoRoom::Ever));
        drop(first);
        assert!(ROOM.take(60).is_ok() && ROOM.take(61).is_err());
        drop(second);
        assert!(ROOM.take(100).is_ok());
    }
}
