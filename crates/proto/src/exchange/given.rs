//! Values that drivers and programs give to the core, which keeps them and never looks into them: content, and findings
//! about a request.
//!
//! Owns: [`ContentBuffer`] and [`Finding`]. Depends on nothing.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A finding about a request ([`RequestedResource::found`](crate::exchange::RequestedResource::found)). Its finder
/// knows the type.
pub type Finding = Arc<dyn Any + Send + Sync>;

/// Bytes of content in memory. They stay where they are as long as anybody holds the buffer.
pub trait ContentBuffer: fmt::Debug + Send + Sync {
    /// The bytes. Always the same.
    fn bytes(&self) -> &[u8];

    /// Bytes of memory that it takes for its holder, and that are counted nowhere else: not those of a cache.
    fn own_bytes(&self) -> usize;
}
