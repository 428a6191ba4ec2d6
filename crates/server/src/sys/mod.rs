//! Every raw system call and every `unsafe` block of the server, each with the reason why it is sound.
//!
//! Owns: what `rustix` has no safe name for, and what every folder needs to know of the system. Everything else calls `rustix`
//! directly, which is safe.

pub mod allocator;
pub(crate) mod background;
pub mod cachestat;
pub mod clock;
pub(crate) mod contain;
pub mod credentials;
pub mod denied;
pub mod fork;
pub(crate) mod inherit;
pub mod mapping;
pub(crate) mod memory;
pub(crate) mod native_object;
pub(crate) mod peer;
#[cfg(debug_assertions)]
mod planted;
pub(crate) mod prefetch;
pub mod ring;
pub(crate) mod runtime_directory;
pub mod sandbox;
pub mod say;
pub mod shared_memory;
pub mod signals;
pub(crate) mod tcp;
pub mod terminal;
pub(crate) mod usage;
