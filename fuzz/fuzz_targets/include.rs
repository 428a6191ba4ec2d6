//! Pages that are put together from others; see `lamna_fuzz::include`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::include(input));
