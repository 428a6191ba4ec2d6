//! Pages of HTML, Markdown and plain text, and their sections; see `lamna_fuzz::structured`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::structured(input));
