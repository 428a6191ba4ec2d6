//! The policies against naive reference models, over random sequences of operations.

mod cache;
mod reference;
mod schedule;
mod stats;
