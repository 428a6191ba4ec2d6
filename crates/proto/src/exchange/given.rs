//! What drivers and programs give to the core, which keeps it and never looks into it: content, and what was found out about a request.
//!
//! Owns: [`ContentBuffer`] and [`Finding`]. Depends on nothing.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What has been found out about a request ([`Translate::found`](crate::exchange::Translate::found)). Whoever has found it knows what it is.
pub type Finding = Arc<dyn Any + Send + Sync>;

/// Bytes of content in memory. They stay where they are as long as anybody holds the buffer.
pub trait ContentBuffer: fmt::Debug + Send + Sync {
    /// The bytes. Always the same.
    fn bytes(&self) -> &[u8];

    /// Bytes of memory that it takes for who holds it, and that nobody else counts: not those of a cache.
    fn own_bytes(&self) -> usize;
}
