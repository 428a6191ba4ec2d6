//! A table of hints as it was kept in a file; see `lamna_fuzz::hint_table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::hint_table(input));
