//! Output of scripts; see `lamna_fuzz::cgi_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::cgi_answer(input));
