//! What requests and answers say about caches; see `lamna_fuzz::cache_control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::cache_control(input));
