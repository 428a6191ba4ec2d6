//! Every raw system call and every `unsafe` block of the server, each with the reason why it is sound.
//!
//! Owns: what `rustix` has no safe name for, and what every folder needs to know of the system. Everything else calls
//! `rustix` directly, which is safe.

#![allow(unsafe_code, reason = "this crate is where it is allowed, each block with its reason")]

pub mod allocator;
pub mod background;
pub mod cachestat;
pub mod clock;
pub mod contain;
pub mod credentials;
pub mod denied;
pub mod fork;
pub mod inherit;
pub mod mapping;
pub mod memory;
pub mod metrics;
pub mod native_object;
pub mod peer;
#[cfg(debug_assertions)]
mod planted;
pub mod prefetch;
pub mod ring;
pub mod runtime_directory;
pub mod sandbox;
pub mod say;
pub mod shared_memory;
pub mod signals;
pub mod tcp;
pub mod terminal;
pub mod usage;
