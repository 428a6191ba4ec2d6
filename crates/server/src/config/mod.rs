//! Configuration: settings as values, and where they come from.

pub mod settings;
