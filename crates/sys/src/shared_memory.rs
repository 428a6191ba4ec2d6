//! Values that a process and those it forks have in common: memory mapped MAP_SHARED, which `fork(2)` does not copy.
//!
//! Owns: the mapping. Guarantees: what one process stores, all see; a process that dies at any point leaves every value
//! in a valid state, because only atomics may live here. Allocates whole pages: for few values, made at start-up.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A type whose values may live in common memory.
///
/// # Safety
/// The type consists of atomics of integers only: no pointers, references or descriptors, which mean something else in
/// another process, nothing to drop, and no lock, which a process that is killed would leave locked.
pub unsafe trait ProcessShared: Sync {}

macro_rules! atomics_are_process_shared {
    ($($atomic:ty),*) => {$(
        // SAFETY: one atomic integer.
        unsafe impl ProcessShared for $atomic {}
    )*};
}

atomics_are_process_shared!(AtomicBool, AtomicU32, AtomicU64, AtomicUsize);

// SAFETY: it is made by `counters!`, which makes no other fields than atomic integers and arrays of them.
unsafe impl ProcessShared for lamna_proto::tally::Tally {}

// SAFETY: elements that may be shared one by one may be shared together.
unsafe impl<T: ProcessShared, const COUNT: usize> ProcessShared for [T; COUNT] {}

/// Declares a struct that may live in shared memory. It does not compile unless each of its fields may.
#[macro_export]
macro_rules! process_shared {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type,)*
        }

        // SAFETY: all its fields may be shared, which the constant below has the compiler check, and it has nothing to
        // drop but them.
        unsafe impl $crate::shared_memory::ProcessShared for $name {}

        const _: () = {
            const fn may_be_shared<T: $crate::shared_memory::ProcessShared>() {}
            $(may_be_shared::<$type>();)*
        };
    };
}

/// Declares counters, as [`lamna_proto::counters!`] does, that may live in shared memory.
#[macro_export]
macro_rules! shared_counters {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident $fields:tt) => {
        lamna_proto::counters! { $(#[$attribute])* $visibility struct $name $fields }

        // SAFETY: `counters!` makes no other fields than atomic integers and arrays of them.
        unsafe impl $crate::shared_memory::ProcessShared for $name {}
    };
}

pub use crate::{process_shared, shared_counters};

/// A value in common memory. Clones, and the copies that a fork makes, are the same value.
pub struct SharedMemory<T: ProcessShared> {
    mapping: Arc<Mapping<T>>,
}

struct Mapping<T> {
    value: NonNull<T>,
}

// SAFETY: a mapping gives out shared references only, to a value that is `Sync`; and it is unmapped from whatever
// thread drops it last.
unsafe impl<T: Sync> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T: ProcessShared> SharedMemory<T> {
    /// Moves `value` to common memory.
    ///
    /// # Panics
    /// No memory, as any allocation.
    pub fn new(value: T) -> SharedMemory<T> {
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address = unsafe { mmap_anonymous(null_mut(), size_of::<T>(), access, shared) };
        let address = address.expect("memory for what processes have in common").cast::<T>();
        let value_at = NonNull::new(address).expect("a mapping is not at address zero");
        // SAFETY: the mapping is writable, page-aligned, at least as long as a `T`, and not known elsewhere yet.
        unsafe { value_at.write(value) };
        SharedMemory { mapping: Arc::new(Mapping { value: value_at }) }
    }
}

impl<T: ProcessShared> SharedMemory<T> {
    /// A value all of whose numbers are zero. The kernel gives memory for what of it is touched: for large ones.
    ///
    /// # Errors
    /// No room in the address space.
    pub fn zeroed() -> Result<SharedMemory<T>, Errno> {
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address = unsafe { mmap_anonymous(null_mut(), size_of::<T>(), access, shared) };
        let address = NonNull::new(address?.cast::<T>()).expect("a mapping is not at address zero");
        // A new mapping is all zero, and every `ProcessShared` consists of atomic integers, of which zero is a value.
        Ok(SharedMemory { mapping: Arc::new(Mapping { value: address }) })
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: the last handle in this process goes, so no reference into the mapping is left in it; other processes
        // keep theirs. A failure would leave the memory mapped, which is sound.
        let _ = unsafe { munmap(self.value.as_ptr().cast(), size_of::<T>()) };
    }
}

impl<T: ProcessShared> Deref for SharedMemory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value was written when the mapping was made, stays as long as `self.mapping`, and is changed
        // through its atomics only.
        unsafe { self.mapping.value.as_ref() }
    }
}

impl<T: ProcessShared> Clone for SharedMemory<T> {
    fn clone(&self) -> SharedMemory<T> {
        SharedMemory { mapping: self.mapping.clone() }
    }
}

impl<T: ProcessShared + Default> Default for SharedMemory<T> {
    fn default() -> SharedMemory<T> {
        SharedMemory::new(T::default())
    }
}

impl<T: ProcessShared + fmt::Debug> fmt::Debug for SharedMemory<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    process_shared! {
        /// Two numbers.
        #[derive(Default)]
        struct Counters {
            requests: AtomicU64,
            others: [AtomicU32; 2],
        }
    }

    #[test]
    fn clones_are_the_same_value() {
        let counters = SharedMemory::<Counters>::default();
        let other = counters.clone();
        counters.requests.fetch_add(2, Relaxed);
        drop(counters);
        assert_eq!((other.requests.load(Relaxed), other.others[1].load(Relaxed)), (2, 0));
    }
}
