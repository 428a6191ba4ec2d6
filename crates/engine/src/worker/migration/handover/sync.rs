//! What mailboxes are made of. The model has them made of loom's.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};
