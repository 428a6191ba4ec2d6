//! The synchronisation primitives of mailboxes. The model substitutes loom's.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};
