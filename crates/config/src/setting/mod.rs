//! One row for each setting of the server: its name, unit, range and text, and where it can be given.
//!
//! A setting has a field in [`Settings`](super::settings::Settings), with its default, and a row in [`SETTINGS`]. From
//! the row come the key of the file and its judgement, the schema, what `lamna check` shows, the flag, `lamna ctl set`,
//! what an upgrade takes along, and the table in docs/configuration.md. The bounds of `[limits]` have rows of their own
//! (`config::limits`).
//!
//! The keys of sites and of routes have rows of their own (`config::site`, `config::route`). The column `reload` says
//! of each when a new value is in force once the configuration has been read again.

#[cfg(test)]
pub(super) mod manual;
pub mod row;
pub mod table;
mod values;

pub(crate) use values::listen_at;

pub use row::{Kind, Section, Setting, Unit, Value};
pub use table::{SETTINGS, refused_by_reload};
