//! Cache keys of answers of applications: the target as the application sees it.
//!
//! Owns: the layout ([`AnswerKey`]). Guarantees: no key of a file is that of an answer; different targets have
//! different keys; path and query in a key are the bytes that the application is asked for, so that none that it tells
//! apart share a key; what a request selects by (`Vary`) follows behind.

use lamna_config::answer_cache::is_among;

/// The parts of what an answer is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerKey<'k> {
    /// The path in the spelling in which the application is asked for it (`gateway::write_asked_path`).
    pub path: &'k [u8],
    /// The routing outcome of the request, encoded: the part of the request that its routes matched on.
    pub outcome: &'k [u8],
    /// Whether it was asked for over TLS.
    pub is_secure: bool,
    /// The authority (host) that was asked for.
    pub authority: &'k [u8],
    /// The words of a trusted proxy that the application gets besides (`gateway::write_told_way`).
    pub way: &'k [u8],
    /// The query as the application is asked for it: without what does not matter.
    pub query: Option<&'k [u8]>,
}

/// Stands where the keys of files have the number of a view, of which there are few.
const MARK: u8 = 0xff;

impl<'k> AnswerKey<'k> {
    /// Appends the key. Parameters of the query that `ignored` names are left out, and the query with the last of them.
    /// False if a part is too long for any request.
    pub fn write(&self, ignored: &[String], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.path);
        out.extend([0, MARK, u8::from(self.is_secure)]);
        let mut fits = push_part(self.outcome, out);
        let authority_at = out.len();
        fits &= push_part(self.authority, out);
        out[authority_at..].make_ascii_lowercase();
        fits &= push_part(self.way, out);
        let Some(query) = self.query else {
            out.push(0);
            return fits;
        };
        let start = out.len();
        out.extend([1, 0, 0]);
        let at = start + 1;
        match ignored.is_empty() {
            true => out.extend_from_slice(query),
            false => write_query(query, ignored, out),
        }
        let length = u16::try_from(out.len() - at - 2);
        if length == Ok(0) && !query.is_empty() {
            out.truncate(start);
            out.push(0);
            return fits;
        }
        out[at..at + 2].copy_from_slice(&length.unwrap_or(0).to_le_bytes());
        fits && length.is_ok()
    }

    /// Reads a key. None for those of files.
    pub fn read(key: &'k [u8]) -> Option<AnswerKey<'k>> {
        let end = memchr::memchr(0, key)?;
        let (path, rest) = (&key[..end], &key[end + 1..]);
        let [MARK, is_secure, rest @ ..] = rest else { return None };
        let (outcome, rest) = take_part(rest)?;
        let (authority, rest) = take_part(rest)?;
        let (way, rest) = take_part(rest)?;
        let query = match rest {
            [1, rest @ ..] => Some(take_part(rest)?.0),
            _ => None,
        };
        Some(AnswerKey { path, outcome, is_secure: *is_secure == 1, authority, way, query })
    }
}

/// Appends what a request selects by, which `write` writes, to the key of its target.
pub fn write_variant(number: u64, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(VARIANT);
    out.extend(number.to_le_bytes());
    write(out);
}

/// Whether `key` is that of the target of key `target`, or of one of its variants.
pub fn is_of_target(key: &[u8], target: &[u8]) -> bool {
    // No key of a target begins another: their parts are as long as they say.
    let rest = key.strip_prefix(target);
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(&VARIANT | &WITH_COOKIES)))
}

/// Begins what follows the key of a target.
const VARIANT: u8 = 2;
/// Appended to the key of a target: for requests with cookies.
pub const WITH_COOKIES: u8 = 3;

fn push_part(part: &[u8], out: &mut Vec<u8>) -> bool {
    let length = u16::try_from(part.len());
    out.extend(length.unwrap_or(0).to_le_bytes());
    if length.is_ok() {
        out.extend_from_slice(part);
    }
    length.is_ok()
}

fn take_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}

fn write_query(query: &[u8], ignored: &[String], out: &mut Vec<u8>) {
    let at = out.len();
    for pair in query.split(|byte| *byte == b'&') {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        if is_among(ignored, name) {
            continue;
        }
        if out.len() > at {
            out.push(b'&');
        }
        out.extend_from_slice(pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(key: &AnswerKey<'_>, ignored: &[String]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(key.write(ignored, &mut out));
        out
    }

    fn key<'k>(path: &'k str, authority: &'k str, query: Option<&'k str>) -> AnswerKey<'k> {
        AnswerKey {
            path: path.as_bytes(),
            outcome: b"",
            is_secure: false,
            authority: authority.as_bytes(),
            way: b"",
            query: query.map(str::as_bytes),
        }
    }

    #[test]
    fn a_variant_is_of_its_target_and_of_no_other() {
        let targets = [("/a", None), ("/a", Some("x=1")), ("/a", Some("x=12")), ("/ab", None)];
        let keys = targets.map(|(path, query)| written(&key(path, "a", query), &[]));
        for (at, target) in keys.iter().enumerate() {
            let mut variant = target.clone();
            write_variant(7, |out| out.push(9), &mut variant);
            let with_cookies = [&target[..], &[WITH_COOKIES]].concat();
            for (other, of) in keys.iter().enumerate() {
                for one in [target, &variant, &with_cookies] {
                    assert_eq!(is_of_target(one, of), at == other, "{at} {other}");
                }
            }
        }
    }

    #[test]
    fn a_key_is_read_as_it_was_written_but_for_case_of_the_authority() {
        let given = AnswerKey {
            outcome: &[0, 1, 0xff, 0xff],
            is_secure: true,
            way: b"x-forwarded-port: 81\r\n",
            ..key("/a", "A.example:80", Some("x=1"))
        };
        let mut bytes = written(&given, &[]);
        write_variant(7, |out| out.push(9), &mut bytes);
        assert_eq!(AnswerKey::read(&bytes), Some(AnswerKey { authority: b"a.example:80", ..given }));
        for of_file in [&b"/a"[..], b"/a\0\x05", b"/a\0\0\x01\0"] {
            assert_eq!(AnswerKey::read(of_file), None);
        }
    }

    #[test]
    fn parameters_that_do_not_matter_are_left_out() {
        let ignored = ["utm_*".to_owned(), "fbclid".to_owned()];
        let query = |text| {
            let bytes = written(&key("/", "a", Some(text)), &ignored);
            AnswerKey::read(&bytes).unwrap().query.map(|query| String::from_utf8(query.to_vec()).unwrap())
        };
        assert_eq!(query("a=1&utm_x=2&b=3&fbclid=z").as_deref(), Some("a=1&b=3"));
        assert_eq!(query("utm_x=2&b").as_deref(), Some("b"));
        // What the application does not get cannot change its answer, however it takes queries apart.
        assert_eq!(query("q=1&utm_a=1;q=evil").as_deref(), Some("q=1"));
        assert_eq!(query("q=1;utm_a=1").as_deref(), Some("q=1;utm_a=1"));
        assert_eq!(query("utm_x"), None);
        assert_eq!(query("").as_deref(), Some(""));
        assert_eq!(query("A=1").as_deref(), Some("A=1"));
    }

    #[test]
    fn what_is_too_long_has_no_key() {
        let long = "a".repeat(70_000);
        assert!(!key("/", "a", Some(&long)).write(&[], &mut Vec::new()));
        assert!(!key("/", &long, None).write(&[], &mut Vec::new()));
    }

    proptest! {
        #[test]
        fn different_targets_have_different_keys(
            one in ("/[a-b]{0,2}", "[a-b]{0,2}", proptest::option::of("[a-b&=]{0,3}"), proptest::collection::vec(0u8..3, 0..4)),
            other in ("/[a-b]{0,2}", "[a-b]{0,2}", proptest::option::of("[a-b&=]{0,3}"), proptest::collection::vec(0u8..3, 0..4)),
        ) {
            let bytes = |parts: &(String, String, Option<String>, Vec<u8>)| {
                written(&AnswerKey { outcome: &parts.3, ..key(&parts.0, &parts.1, parts.2.as_deref()) }, &[])
            };
            prop_assert_eq!(one == other, bytes(&one) == bytes(&other));
        }

        #[test]
        fn any_key_can_be_read(bytes: Vec<u8>) {
            let _ = AnswerKey::read(&bytes);
        }
    }
}
