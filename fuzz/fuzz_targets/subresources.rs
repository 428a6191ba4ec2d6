//! What pages of HTML need; see `lamna_fuzz::subresources`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::subresources(input));
