//! Sites: what is served for a set of host names.
//!
//! ```text
//! [[site]] ── SiteTable ── rows: judge ──> SiteSettings ── rows: render ──> lamna check
//!                             │ problems
//! ```
//!
//! Owns: the settings of a site as values. Each key is a row ([`rows`]), from which come the reader, the judgement,
//! what `lamna check` shows, the schema, the manual, and whether two sites let the same clients in. Guarantees: header
//! names and values that pass can be written into a response as they are (RFC 9110 5.1 and 5.5).

mod access;
mod facts;
mod fields;
mod folders;
mod hosts;
mod judge;
mod limits;
mod logs;
pub mod maintenance;
mod routes;
pub(crate) mod row;
mod rows;
mod tls;

pub use fields::{FieldUse, field_from_text, is_sendable, is_single};
pub(super) use fields::{HEADERS_BYTES_MAX, check_headers, field_name, field_values};
pub use folders::Alias;
pub(super) use folders::index_name;
pub(super) use hosts::host;
pub use judge::{admit_the_same, keys};
pub(super) use judge::{render, sites};
pub(super) use logs::log_target;
use rows::ROWS;
pub use rows::SiteSettings;
pub(super) use rows::{NAMES, SiteTable};
pub use tls::{ClientCa, SiteTls, TlsFiles};
