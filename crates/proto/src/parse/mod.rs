//! Reading what a peer sent: bytes in, borrowed and validated values out. Nothing here keeps or copies the input.

pub mod chunked;
pub(crate) mod connection_fields;
pub mod head;
pub mod host;
pub(crate) mod list;
pub mod path;
pub mod percent;
pub mod proxy;
pub mod target;

pub use list::is_token_byte;
