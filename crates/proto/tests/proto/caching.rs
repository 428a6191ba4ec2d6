//! Seeded runs of what must hold for whatever is said about caches.

use proptest::prelude::*;

use crate::caching_checks::cache_control;

/// Lines that say something about caches more often than by chance.
fn line() -> impl Strategy<Value = String> {
    let names = [
        "Cache-Control",
        "cache-control",
        "Vary",
        "Age",
        "Expires",
        "Date",
        "Cookie",
        "Pragma",
        "Authorization",
        "X-A",
    ];
    let values = prop_oneof![
        "(max-age|s-maxage|stale-if-error|min-fresh|max-stale)=\"?[0-9]{0,12}\"?(, ?(no-cache|public|must-understand|no-store|only-if-cached))?",
        "[ -~]{0,12}",
        "Sun, 06 Nov (1994|2094) 08:49:3[0-9] GMT",
        "[a-z_]{1,3}=[a-z]?(; [a-z_]{1,3})?",
    ];
    (proptest::sample::select(names.to_vec()), values).prop_map(|(name, value)| format!("{name}: {value}\r\n"))
}

proptest! {
    #[test]
    fn what_is_said_about_caches_never_makes_private_answers_public(
        request in proptest::collection::vec(line(), 0..4), answer in proptest::collection::vec(line(), 0..5),
    ) {
        cache_control([request.concat().as_bytes(), &[0], answer.concat().as_bytes()].concat().as_slice());
    }

    #[test]
    fn any_bytes_can_be_said_about_caches(bytes: Vec<u8>) {
        cache_control(&bytes);
    }
}
