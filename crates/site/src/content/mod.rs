//! Content: sites and their rules, access, and generated content (listings, archives, searches, error pages).
//!
//! Owns: what a request leads to, and the bytes of what is generated. Does not: serve files, which is
//! [`crate::cache`]'s and [`lamna_io`]'s, or send. What has to read from the disk (folders, archives, searches,
//! uploads) is a program whose steps an engine carries out where it may wait. A responder is a file, and a row of
//! [`RESPONDERS`].

pub mod access;
pub mod action;
pub mod admission;
pub mod answers;
pub mod at_once;
mod change_poller;
mod charset;
pub mod directory;
mod download;
mod escape;
pub mod explain;
pub mod fair_lock;
mod file_state_cache;
pub mod handler;
pub mod listing;
mod live_reload;
pub mod maintenance;
pub mod media_type;
mod media_types;
pub mod page_file;
mod page_files;
pub mod pages;
mod permitted;
pub mod purge;
pub mod responder;
pub mod route;
mod search;
pub mod site;
mod texts;
pub mod translate;
mod tree;
pub mod upload;
mod walk;
mod workroom;

pub use media_type::MediaType;
pub use pages::Page;
use responder::Responder;

/// The responders of content, in the order in which they are asked. The first program is the answer.
pub const RESPONDERS: &[Responder] = &[
    Responder { name: "live reload", begin: live_reload::begin },
    Responder { name: "archive", begin: download::begin },
    Responder { name: "search", begin: search::begin },
];
