//! The kernel's page cache: which ranges of files are in it, and sending from it.
//!
//! Owns: residency by test and by experience, and the mappings that `--send mapped` sends from. Holds no content of its
//! own: that is `cache`.

pub mod mapped_chunks;
pub mod mapped_send;
pub mod residency_cache;
pub mod residency_predictor;
