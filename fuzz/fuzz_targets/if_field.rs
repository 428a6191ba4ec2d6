//! The conditions of a request of WebDAV; see `lamna_fuzz::if_field`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::if_field(input));
