//! Who a request says that it is from; see `lamna_fuzz::authorization`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lamna_fuzz::authorization(input));
