//! What of files is in the kernel's page cache, and sending from it.
//!
//! Owns: residency by test and by experience, and the mappings that `--send mapped` sends from. Holds no content of its
//! own: that is `cache`.

pub(crate) mod mapped_chunks;
pub mod mapped_send;
pub mod residency_cache;
pub(crate) mod residency_predictor;
