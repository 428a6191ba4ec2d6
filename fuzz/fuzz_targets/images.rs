//! Pictures and what is asked for of them; see `lamna_fuzz::images`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::images(input));
