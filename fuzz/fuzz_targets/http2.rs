//! Connections of HTTP/2: frames, header blocks and what becomes of them; see `lamna_fuzz::http2`.
#![no_main]

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|input: &[u8]| -> Corpus {
    match lamna_fuzz::http2(arbitrary::Unstructured::new(input)) {
        Ok(()) => Corpus::Keep,
        // There were not enough bytes for what they began.
        Err(_) => Corpus::Reject,
    }
});
