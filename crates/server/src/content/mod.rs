//! What is served: media types, directory listings and the pages that the server writes itself.
//!
//! Owns: the bytes of generated content, as pure functions of their arguments. Opens no file and sends nothing.

pub mod access;
pub mod action;
pub mod answers;
pub mod directory;
pub mod download;
mod escape;
pub mod explain;
pub mod handler;
pub mod listing;
pub mod live_reload;
mod lookout;
pub mod media_type;
mod media_types;
pub mod pages;
pub mod purge;
pub mod route;
pub mod search;
pub mod site;
mod texts;
pub mod translate;
mod tree;
mod turns;
pub mod upload;

pub use media_type::MediaType;
pub use pages::Page;
