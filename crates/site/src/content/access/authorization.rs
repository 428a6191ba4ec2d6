//! The value of `Authorization` (RFC 9110 11.6.2), in the two schemes that are known here.
//!
//! Owns: its syntax. Guarantees: one spelling for each pair of name and password, because what is remembered of it is
//! found by it; no copy is made before a password is verified. Pure.

use lamna_proto::base64;

/// Credentials, as the client has sent them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shown<'a> {
    /// Name and password in Base64 (RFC 7617).
    Basic(&'a [u8]),
    /// A token (RFC 6750).
    Bearer(&'a [u8]),
}

/// Bytes of either: a longer one matches no user and no token.
const BYTES_MAX: usize = 4096;

/// Reads the value of the field. Nothing if it is of another scheme, or malformed.
pub fn parse(value: &[u8]) -> Option<Shown<'_>> {
    let end = memchr::memchr(b' ', value)?;
    let (scheme, rest) = value.split_at(end);
    let given = rest.trim_ascii();
    let is_token68 = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    if given.is_empty() || given.len() > BYTES_MAX || !given.iter().all(is_token68) {
        return None;
    }
    match () {
        () if scheme.eq_ignore_ascii_case(b"basic") => Some(Shown::Basic(given)),
        () if scheme.eq_ignore_ascii_case(b"bearer") => Some(Shown::Bearer(given)),
        () => None,
    }
}

/// Name and password of what was shown. Nothing if it is not canonical Base64 with a colon in it.
pub fn name_and_password(encoded: &[u8]) -> Option<(String, Vec<u8>)> {
    let bytes = base64::decode(encoded)?;
    let colon = memchr::memchr(b':', &bytes)?;
    let name = String::from_utf8(bytes[..colon].to_vec()).ok()?;
    Some((name, bytes[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::authorization_checks::authorization;
    use super::*;
    use lamna_proto::base64::encode;
    use proptest::prelude::*;

    #[test]
    fn schemes_are_told_whatever_the_case_of_their_letters() {
        assert!(parse(b"Basic YTpi") == Some(Shown::Basic(b"YTpi")));
        assert!(parse(b"bAsIc  YTpi ") == Some(Shown::Basic(b"YTpi")));
        assert!(parse(b"Bearer a.b-c~d_e") == Some(Shown::Bearer(b"a.b-c~d_e")));
        for wrong in ["", "Basic", "Basic ", "Digest YTpi", "Basic a,b", "Basic a b", "YTpi", " Basic YTpi"] {
            assert!(parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(parse(format!("Basic {}", "a".repeat(5000)).as_bytes()).is_none());
    }

    #[test]
    fn a_password_may_have_colons_and_a_name_may_not() {
        assert_eq!(name_and_password(b"YTpiOmM="), Some(("a".to_owned(), b"b:c".to_vec())));
        for wrong in ["YWI=", "YTpiOmN=", "YTpiOmM", "YTpi====", "=", "//8=", "YTp*"] {
            assert_eq!(name_and_password(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn every_value_is_read_in_one_way(
            scheme in "(Basic|basic|BEARER|Bearer|Digest|) {0,2}",
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            text in "[A-Za-d0-2+/=:._~ -]{0,24}",
            name in "[a-z:]{0,6}",
        ) {
            authorization(&bytes);
            authorization(&[scheme.as_bytes(), &bytes].concat());
            authorization(&[scheme.as_bytes(), text.as_bytes()].concat());
            authorization(&[scheme.as_bytes(), encode(&[name.as_bytes(), b":", &bytes].concat()).as_bytes()].concat());
        }
    }
}
