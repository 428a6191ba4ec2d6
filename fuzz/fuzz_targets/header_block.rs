//! Header blocks (RFC 7541): one after the other on one connection, as its only content; see
//! `lamna_fuzz::header_blocks`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::header_blocks(input));
