//! Headers of the PROXY protocol; see `lamna_fuzz::proxy_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::proxy_header(input));
