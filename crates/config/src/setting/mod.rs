//! One row for each setting of the server: its name, unit, range and text, and where it can be given.
//!
//! A setting has a field in [`Settings`](super::settings::Settings), with its default, and a row in [`SETTINGS`]. From
//! the row come the key of the file and its judgement, the schema, what `lamna check` shows, the flag, `lamna ctl set`,
//! what an upgrade takes along, and the table in docs/configuration.md. The bounds of `[limits]` have rows of their own
//! (`config::limits`).
//!
//! The keys of routes have rows of their own (`config::route`). Those of sites are no rows: they are tables and lists,
//! and what they may be depends on each other (`config::site`).

#[cfg(test)]
pub(super) mod manual;
pub mod row;
pub mod table;
mod values;

pub use row::{Kind, Section, Setting, Unit, Value};
pub use table::SETTINGS;
