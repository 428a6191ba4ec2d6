//! Answers over FastCGI; see `lamna_fuzz::fastcgi_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::fastcgi_answer(input));
