//! Answers over HTTP/1.1; see `lamna_fuzz::http1_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::http1_answer(input));
