//! The core's integration tests: conversations, properties and seeded runs of the fuzzed checks.
//!
//! Owns: nothing but the list. The checks that `fuzz/` shares are in `checks`, `gateway_checks`, `peer`, `responses`,
//! `script` and `site`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests take the driver's part")]

mod caching;
mod caching_checks;
mod checks;
mod conversation;
mod durations;
mod early_hints;
mod gateway;
mod gateway_checks;
mod http2;
mod http2_client;
mod http2_floods;
mod http2_programs;
mod http2_streams;
mod http2_windows;
mod liveness;
mod peer;
mod programs;
mod properties;
mod refusal;
mod responses;
mod script;
mod selection;
mod site;
mod stalls;
mod streams;
mod waiting;
