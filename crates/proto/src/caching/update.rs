//! Validation (RFC 9111 4.3): what is asked, and what a 304 changes.
//!
//! Owns: the conditions of a request that validates ([`write_conditions`]), and the fields of the kept answer after a
//! 304 ([`update`]).

use super::serve::is_condition;
use crate::exchange::conditional::Validators;
use crate::gateway::fields::Fields;

/// Appends the fields of a request that asks whether an answer with these validators still holds: those of the client
/// without its own conditions and ranges, which are judged when it is known.
pub fn write_conditions(fields: Fields<'_>, etag: Option<&[u8]>, modified: Option<&[u8]>, out: &mut Vec<u8>) {
    let stays = |name: &[u8]| !is_condition(name) && !name.eq_ignore_ascii_case(b"range");
    let conditions = [(&b"If-None-Match"[..], etag), (b"If-Modified-Since", modified)];
    let own = conditions.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in fields.iter().filter(|(name, _)| stays(name)).chain(own) {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
    }
}

/// Whether a 304 with these fields is about the kept answer with these validators (RFC 9111 4.3.4).
pub fn is_validated_by(kept: Validators<'_>, fields: Fields<'_>) -> bool {
    let opaque = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    match (fields.values("etag").next(), kept.etag) {
        (Some(given), Some(kept)) => opaque(given) == opaque(kept),
        _ => true,
    }
}

/// Appends the fields of a kept answer after a 304 (RFC 9111 3.2): those of the 304 in the place of what had the same
/// names, but for those that describe the content that is kept.
pub fn update(kept: Fields<'_>, given: Fields<'_>, out: &mut Vec<u8>) {
    let is_new =
        |name: &[u8]| !describes_content(name) && given.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    // What answers differ by does not become less.
    let stays = |name: &[u8]| name.eq_ignore_ascii_case(b"vary") || !is_new(name);
    let old = kept.iter().filter(|(name, _)| stays(name) && !is_of_moment(name));
    let new = given.iter().filter(|(name, _)| !describes_content(name));
    for (name, value) in old.chain(new) {
        [name, b": ", value, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
    }
}

/// Fields that say how old an answer was when it came.
fn is_of_moment(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"age") || name.eq_ignore_ascii_case(b"date")
}

fn describes_content(name: &[u8]) -> bool {
    const NAMES: [&str; 4] = ["content-length", "content-encoding", "content-type", "content-range"];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fields::LineEnds;

    fn fields(text: &[u8]) -> Fields<'_> {
        Fields::check(text, LineEnds::CrLf).unwrap()
    }

    #[test]
    fn a_304_replaces_what_it_has_but_not_what_describes_the_content() {
        let kept = b"Content-Type: text/a\r\nX-A: old\r\nX-B: old\r\nDate: then\r\nAge: 5\r\nX-A: older\r\nContent-Encoding: gzip\r\n";
        let given = b"x-a: new\r\nContent-Type: text/b\r\nContent-Length: 0\r\nDate: now\r\nX-C: new\r\n";
        let mut out = Vec::new();
        update(fields(kept), fields(given), &mut out);
        let expected =
            "Content-Type: text/a\r\nX-B: old\r\nContent-Encoding: gzip\r\nx-a: new\r\nDate: now\r\nX-C: new\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn what_a_kept_answer_differs_by_does_not_become_less() {
        let mut out = Vec::new();
        update(fields(b"Vary: a\r\n"), fields(b"Vary: b\r\n"), &mut out);
        assert_eq!(out, b"Vary: a\r\nVary: b\r\n");
    }

    #[test]
    fn whoever_validates_asks_by_what_is_kept_and_not_by_what_the_client_has() {
        let client = b"Accept: x\r\nIf-None-Match: \"mine\"\r\nRange: bytes=0-1\r\nif-range: \"mine\"\r\nIf-Modified-Since: y\r\n";
        let mut out = Vec::new();
        write_conditions(fields(client), Some(b"\"kept\""), None, &mut out);
        assert_eq!(out, b"Accept: x\r\nIf-None-Match: \"kept\"\r\n");
        out.clear();
        write_conditions(fields(b""), None, Some(b"date"), &mut out);
        assert_eq!(out, b"If-Modified-Since: date\r\n");
    }

    #[test]
    fn a_304_of_another_tag_is_about_something_else() {
        let kept = Validators { etag: Some(b"\"a\""), modified_unix_seconds: None };
        for (given, expected) in
            [(&b"ETag: \"a\"\r\n"[..], true), (b"ETag: W/\"a\"\r\n", true), (b"ETag: \"b\"\r\n", false), (b"", true)]
        {
            assert_eq!(is_validated_by(kept, fields(given)), expected);
        }
    }
}
