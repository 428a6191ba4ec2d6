//! Properties of every value of `Authorization`: for the property test here, and for a fuzz target.
//!
//! Owns: the check. It panics if something does not hold.

use lamna_proto::base64::encode;

use super::authorization::{Shown, name_and_password, parse};

/// A value is read in one way, whatever its bytes: what was shown stands in it, however it is spaced and its scheme is
/// spelled, and a name and a password have one spelling only.
pub(super) fn authorization(value: &[u8]) {
    if let Some(shown) = parse(value) {
        let (scheme, given) = match shown {
            Shown::Basic(given) => (&b"basic"[..], given),
            Shown::Bearer(given) => (&b"bearer"[..], given),
        };
        assert!(value[..scheme.len()].eq_ignore_ascii_case(scheme) && value[scheme.len()] == b' ');
        assert!(value.windows(given.len()).any(|part| part == given), "it is a part of what was sent");
        assert!(given.iter().all(u8::is_ascii_graphic) && !given.is_empty());
        for same in [[scheme, b" ", given].concat(), [&scheme.to_ascii_uppercase(), &b"  "[..], given, b" "].concat()] {
            assert!(parse(&same) == Some(shown), "spaces and case change nothing");
        }
        let other = [scheme, b" ", given, b",", given].concat();
        assert!(parse(&other).is_none(), "two are none");
        password(given);
    }
    password(value);
    // The other way round: whatever is shown arrives as it is.
    let colon = value.iter().position(|byte| *byte == b':');
    let expected = colon.and_then(|at| Some((String::from_utf8(value[..at].to_vec()).ok()?, value[at + 1..].to_vec())));
    assert_eq!(name_and_password(encode(value).as_bytes()), expected);
}

/// Checks that a parsed name and password re-encode to the same bytes.
fn password(encoded: &[u8]) {
    let Some((name, password)) = name_and_password(encoded) else { return };
    assert!(!name.contains(':'));
    assert_eq!(encode(&[name.as_bytes(), b":", &password].concat()).as_bytes(), encoded);
}
