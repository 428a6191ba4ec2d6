//! The core's integration tests: conversations, properties and seeded runs of the fuzzed checks.
//!
//! Owns: nothing but the list. The checks that `fuzz/` shares are in `checks`, `peer`, `responses` and `site`.

mod checks;
mod conversation;
mod peer;
mod programs;
mod properties;
mod refusal;
mod responses;
mod selection;
mod site;
mod waiting;
