//! Requests that go on to an application; see `lamna_fuzz::forwarded`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::forwarded(input));
