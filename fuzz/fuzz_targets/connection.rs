//! Whole connections; see `lamna_fuzz::connection`.
#![no_main]

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|input: &[u8]| -> Corpus {
    match lamna_fuzz::connection(arbitrary::Unstructured::new(input)) {
        Ok(()) => Corpus::Keep,
        // There were not enough bytes for what they began.
        Err(_) => Corpus::Reject,
    }
});
