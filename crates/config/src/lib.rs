//! Configuration: settings as values, and where they come from.
//!
//! ```text
//! file ── shapes ──> file::File (names, types, positions) ── validate ──> Settings <── overrides (command line)
//!            │ problems                                        │ problems      │
//!            └────────────────> explain: FILE:LINE:COLUMN <────┴───────────────┘      Settings ── render ──> file
//! ```
//!
//! Owns: the types ([`settings`]), one row for each ([`setting`]), the syntax of addresses ([`address`]), loading
//! ([`mod@load`]) and its inverse ([`mod@render`]). Reads one file and looks whether directories, pages, the log and
//! sockets can be used; keeps nothing open.

#![forbid(unsafe_code)]

pub mod access;
pub mod access_log;
pub mod acme;
pub mod address;
pub mod admission;
pub mod answer_cache;
pub mod architecture;
pub mod cache_policy;
pub mod cache_switches;
mod checker;
pub mod compression;
mod depth;
pub mod early_hints;
mod environment;
pub mod error_log;
pub mod error_pages;
mod explain;
mod exposed;
mod file;
mod foreign;
pub mod gateway;
pub mod hints;
pub mod key;
mod limits;
pub mod listen;
mod load;
pub mod own_files;
mod page;
pub mod password;
pub mod profile;
pub mod proxies;
mod redirect;
pub mod reload;
pub mod render;
pub mod route;
mod schema;
pub mod sending;
pub mod service;
#[cfg(test)]
mod service_tests;
pub mod setting;
pub mod settings;
mod shapes;
pub mod site;
pub mod site_limit;
pub mod state;
pub mod suggest;
#[cfg(test)]
mod tests;
pub mod token;
mod tree;
pub mod unit;
pub mod upstream_address;
mod validate;
mod warnings;
mod written;

pub use depth::Probe;
pub use explain::ConfigError;
pub use lamna_sys::memory::{
    connections_max, default_cache_bytes, default_process_cache_bytes, default_processes_max, is_most_of_memory,
    is_small, least_limit, memory_bytes,
};
pub use load::{Overrides, check, has_index, load, parse, parse_services, parse_unseen};
pub use render::{render, render_services};
pub use schema::schema;
pub use site::field_from_text;
pub use warnings::warnings;
