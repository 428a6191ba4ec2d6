//! The policies against naive reference models, over random sequences of operations.

mod cache;
mod hint_table_checks;
mod hinted;
mod hints;
mod limit;
mod reference;
mod schedule;
mod stats;
