//! The content of sites: files, listings, archives, searches, uploads, services and applications, and the caches in
//! front of them.
//!
//! Owns: the way from a path to a resource, and the caches of both. Does not know a client's socket, an engine or the
//! administrator.

#![forbid(unsafe_code)]

pub mod cache;
pub mod content;
pub mod early_hints;
pub mod gateway;
pub mod hints;
pub mod service;
pub mod upstream;
