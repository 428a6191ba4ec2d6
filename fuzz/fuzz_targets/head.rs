//! Request heads; see `lamna_fuzz::head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::head(input));
