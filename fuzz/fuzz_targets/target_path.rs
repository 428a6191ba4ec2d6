//! Paths of request targets; see `lamna_fuzz::target_path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::target_path(input));
