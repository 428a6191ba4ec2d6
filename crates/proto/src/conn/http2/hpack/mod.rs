//! Header compression (RFC 7541), both ways.
//!
//! Owns: nothing but the parts. Guarantees: no block makes us hold more than the tables that we allow, or work more
//! than its bytes and those of its fields are worth. Does not know what fields mean.

mod decode;
mod encode;
mod huffman;
mod integer;
mod table;

pub(crate) use decode::{Decoder, SWELLING_MAX, Scratch, Unread};
pub(crate) use encode::{Encoder, write_field};

/// A block is not in its form. What has gone wrong is of no use to anybody: the connection ends (COMPRESSION_ERROR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HpackError;

#[cfg(test)]
mod tests;
