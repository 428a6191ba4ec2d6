//! Queries, and pages that are searched; see `lamna_fuzz::search`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::search(input));
