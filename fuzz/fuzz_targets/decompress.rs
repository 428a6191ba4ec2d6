//! Answers under a content coding; see `lamna_fuzz::decompress`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::decompress(input));
