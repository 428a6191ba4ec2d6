//! Conditional requests: whether the client's validators let the method be carried out (RFC 9110 13).
//!
//! Owns: the comparison of validators, the order of the preconditions (13.2.2), and whether a range may be answered
//! (13.1.5). Does not own the fields' effect: the caller sends 304, 412, or goes on. Applies to requests which would be
//! answered with 200 otherwise (13.2.1), hence to a representation that exists.

use crate::date;
use crate::parse::list;

/// The validators of the selected representation's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag as it is sent, with its quotes and, if it is weak, `W/` (RFC 9110 8.8.3).
    pub etag: Option<&'a [u8]>,
    /// The last modification, in seconds since 1970 (RFC 9110 8.8.2).
    pub modified_unix_seconds: Option<u64>,
}

/// The preconditions of a request. `If-Match` and `If-None-Match` are lists and may take several lines; each iterator
/// yields the values of these lines, and none if the field is absent. A date that occurs twice is not valid and is to
/// be left out.
#[derive(Clone, Debug)]
pub struct Preconditions<'a, Match, NoneMatch> {
    /// The lines of `If-Match`.
    pub if_match: Match,
    /// The lines of `If-None-Match`.
    pub if_none_match: NoneMatch,
    /// The value of `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// The value of `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
}

/// The outcome of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Carry the method out.
    Proceed,
    /// Send 304: the client has the representation already (RFC 9110 15.4.5).
    NotModified,
    /// Send 412 (RFC 9110 15.5.13).
    PreconditionFailed,
}

/// Evaluates the preconditions in the order of RFC 9110 13.2.2. `reads` says that the method is GET or HEAD.
///
/// An entity tag that is malformed matches nothing, nor does anything after it on its line: a broken `If-Match` fails
/// and a broken `If-None-Match` is met, so either way nothing is overwritten or withheld that should not be.
pub fn evaluate<'a, 'b>(
    preconditions: Preconditions<'a, impl Iterator<Item = &'b [u8]>, impl Iterator<Item = &'b [u8]>>,
    reads: bool,
    validators: Validators<'_>,
) -> Outcome {
    let if_match = any_match(preconditions.if_match, validators.etag, matches_strongly);
    let unmodified = || is_unmodified_since(preconditions.if_unmodified_since, validators);
    // 13.1.4: If-Unmodified-Since counts only without If-Match.
    if !if_match.or_else(unmodified).unwrap_or(true) {
        return Outcome::PreconditionFailed;
    }
    let if_none_match = any_match(preconditions.if_none_match, validators.etag, matches_weakly);
    let unmodified = || is_unmodified_since(preconditions.if_modified_since, validators).filter(|_| reads);
    // 13.1.3: If-Modified-Since counts only without If-None-Match, and only for GET and HEAD.
    match if_none_match.or_else(unmodified).unwrap_or(false) {
        false => Outcome::Proceed,
        true if reads => Outcome::NotModified,
        true => Outcome::PreconditionFailed,
    }
}

/// Whether the condition of an `If-Range` field holds; if not, the `Range` field is ignored (RFC 9110 13.1.5).
///
/// A date holds if it is exactly the last modification, and a strong validator: the second that it names must be over
/// at `now_unix_seconds`, else the representation could change once more under the same date (8.8.2.2).
pub fn if_range_holds(field: &[u8], validators: Validators<'_>, now_unix_seconds: u64) -> bool {
    let field = list::trim(field);
    if let Some((tag, rest)) = entity_tag(field) {
        return rest.is_empty() && validators.etag.is_some_and(|etag| matches_strongly(tag, etag));
    }
    let modified = validators.modified_unix_seconds;
    date::parse(field).is_some_and(|date| modified == Some(date) && date < now_unix_seconds)
}

/// Whether any tag of the lines matches, or `None` if there are no lines. A line `*` matches any representation, also
/// one without an entity tag (RFC 9110 13.1.1 and 13.1.2).
fn any_match<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    etag: Option<&[u8]>,
    matches: fn(&[u8], &[u8]) -> bool,
) -> Option<bool> {
    lines
        .map(|line| {
            list::trim(line) == b"*" || etag.is_some_and(|etag| entity_tags(line).any(|tag| matches(tag, etag)))
        })
        .reduce(|before, this| before || this)
}

/// Whether the last modification is not after the date of a field. `None`, that is, without effect, if there is no such
/// field, if it is not a date, or if the last modification is unknown (RFC 9110 13.1.3 and 13.1.4).
fn is_unmodified_since(field: Option<&[u8]>, validators: Validators<'_>) -> Option<bool> {
    let since = date::parse(field?)?;
    Some(validators.modified_unix_seconds? <= since)
}

/// RFC 9110 8.8.3.2: identical and not weak.
fn matches_strongly(a: &[u8], b: &[u8]) -> bool {
    a == b && !a.starts_with(b"W/")
}

/// RFC 9110 8.8.3.2: identical, weak or not.
fn matches_weakly(a: &[u8], b: &[u8]) -> bool {
    opaque_tag(a) == opaque_tag(b)
}

fn opaque_tag(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The entity tags of a line, up to the first place where the grammar is broken.
fn entity_tags(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_between = |byte: &u8| matches!(byte, b',' | b' ' | b'\t');
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !is_between(byte))?;
        let (tag, after) = entity_tag(&rest[start..]).unwrap_or_default();
        let is_separated = matches!(list::trim(after), [] | [b',', ..]);
        rest = if is_separated { after } else { &[] };
        (is_separated && !tag.is_empty()).then_some(tag)
    })
}

/// An entity tag at the beginning, and what follows it. Inside the quotes stand visible bytes and those above ASCII; a
/// backslash is one of them and escapes nothing (RFC 9110 8.8.3).
fn entity_tag(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let opaque = opaque_tag(bytes).strip_prefix(b"\"")?;
    let length = opaque.iter().position(|&byte| !matches!(byte, b'!' | b'#'..=b'~' | 0x80..))?;
    let end = bytes.len() - opaque.len() + length + 1;
    (opaque[length] == b'"').then(|| bytes.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODIFIED: u64 = 784_111_777;
    const AT: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";
    const STRONG: Validators = Validators { etag: Some(b"\"a\""), modified_unix_seconds: Some(MODIFIED) };
    const WEAK: Validators = Validators { etag: Some(b"W/\"a\""), modified_unix_seconds: Some(MODIFIED) };
    const NOTHING: Validators = Validators { etag: None, modified_unix_seconds: None };

    use Outcome::{NotModified, PreconditionFailed, Proceed};

    /// The fields of a request, written as they come.
    #[derive(Clone, Copy, Default)]
    struct Fields<'a> {
        match_: &'a [&'a str],
        none_match: &'a [&'a str],
        modified: Option<&'a [u8]>,
        unmodified: Option<&'a [u8]>,
    }

    impl Fields<'_> {
        fn evaluate(self, reads: bool, validators: Validators) -> Outcome {
            let preconditions = Preconditions {
                if_match: self.match_.iter().map(|line| line.as_bytes()),
                if_none_match: self.none_match.iter().map(|line| line.as_bytes()),
                if_modified_since: self.modified,
                if_unmodified_since: self.unmodified,
            };
            evaluate(preconditions, reads, validators)
        }

        fn read(self, validators: Validators) -> Outcome {
            self.evaluate(true, validators)
        }

        fn write(self, validators: Validators) -> Outcome {
            self.evaluate(false, validators)
        }
    }

    fn if_match<'a>(lines: &'a [&'a str]) -> Fields<'a> {
        Fields { match_: lines, ..Fields::default() }
    }

    fn if_none_match<'a>(lines: &'a [&'a str]) -> Fields<'a> {
        Fields { none_match: lines, ..Fields::default() }
    }

    #[test]
    fn a_request_without_preconditions_proceeds() {
        assert_eq!(Fields::default().read(STRONG), Proceed);
        assert_eq!(Fields::default().write(NOTHING), Proceed);
    }

    // RFC 9110 13.1.1.
    #[test]
    fn if_match_compares_strongly() {
        assert_eq!(if_match(&["\"a\""]).write(STRONG), Proceed);
        assert_eq!(if_match(&["\"b\", \"a\""]).read(STRONG), Proceed);
        assert_eq!(if_match(&["\"b\"", ",, \"a\" ,"]).read(STRONG), Proceed);
        assert_eq!(if_match(&["\"b\""]).read(STRONG), PreconditionFailed);
        assert_eq!(if_match(&["W/\"a\""]).read(STRONG), PreconditionFailed);
        assert_eq!(if_match(&["\"a\""]).read(WEAK), PreconditionFailed);
        assert_eq!(if_match(&["W/\"a\""]).read(WEAK), PreconditionFailed);
        assert_eq!(if_match(&["\"a\""]).read(NOTHING), PreconditionFailed);
        assert_eq!(if_match(&[" * "]).read(NOTHING), Proceed);
    }

    // RFC 9110 13.1.2.
    #[test]
    fn if_none_match_compares_weakly() {
        for line in ["\"a\"", "W/\"a\"", "\"b\", W/\"a\"", "\"b\",\"a\"", "*", "W/\"b\"\t,\t\"a\""] {
            assert_eq!(if_none_match(&[line]).read(STRONG), NotModified, "{line}");
            assert_eq!(if_none_match(&[line]).read(WEAK), NotModified, "{line}");
            assert_eq!(if_none_match(&[line]).write(WEAK), PreconditionFailed, "{line}");
        }
        assert_eq!(if_none_match(&["\"b\"", "\"a\""]).read(STRONG), NotModified);
        assert_eq!(if_none_match(&["\"b\""]).read(STRONG), Proceed);
        assert_eq!(if_none_match(&["\"A\""]).read(STRONG), Proceed);
        assert_eq!(if_none_match(&["\"a\""]).read(NOTHING), Proceed);
        assert_eq!(if_none_match(&["*"]).read(NOTHING), NotModified);
    }

    // RFC 9110 8.8.3.
    #[test]
    fn entity_tags_may_hold_commas_backslashes_and_bytes_above_ascii() {
        let tags = |line: &'static [u8]| entity_tags(line).collect::<Vec<_>>();
        assert_eq!(tags(b"\"a,b\",\"\\\", \"\xff\", \"\""), [&b"\"a,b\""[..], b"\"\\\"", b"\"\xff\"", b"\"\""]);
    }

    #[test]
    fn malformed_tags_match_nothing_and_end_their_line() {
        for line in [
            "a",
            "\"a",
            "w/\"a\"",
            "W\"a\"",
            "\"a\"x",
            "x, \"a\"",
            "\"\u{7f}\", \"a\"",
            "\"b\" \"a\"",
            "",
            "**",
            "*, \"b\"",
        ] {
            assert_eq!(if_match(&[line]).read(STRONG), PreconditionFailed, "{line}");
            assert_eq!(if_none_match(&[line]).read(STRONG), Proceed, "{line}");
        }
        assert_eq!(if_none_match(&["\"a\", x"]).read(STRONG), NotModified);
        assert_eq!(if_none_match(&["x", "\"a\""]).read(STRONG), NotModified);
    }

    // RFC 9110 13.1.3.
    #[test]
    fn if_modified_since_applies_to_reads_only() {
        let since = |date| Fields { modified: Some(date), ..Fields::default() };
        assert_eq!(since(AT).read(STRONG), NotModified);
        assert_eq!(since(AFTER).read(STRONG), NotModified);
        assert_eq!(since(BEFORE).read(STRONG), Proceed);
        assert_eq!(since(AFTER).write(STRONG), Proceed);
        assert_eq!(since(AFTER).read(NOTHING), Proceed);
        assert_eq!(since(b"tomorrow").read(STRONG), Proceed);
    }

    // RFC 9110 13.1.4.
    #[test]
    fn if_unmodified_since_fails_after_a_modification() {
        let since = |date| Fields { unmodified: Some(date), ..Fields::default() };
        assert_eq!(since(AT).write(STRONG), Proceed);
        assert_eq!(since(AFTER).read(STRONG), Proceed);
        assert_eq!(since(BEFORE).read(STRONG), PreconditionFailed);
        assert_eq!(since(BEFORE).write(STRONG), PreconditionFailed);
        assert_eq!(since(BEFORE).write(NOTHING), Proceed);
        assert_eq!(since(b"yesterday").write(STRONG), Proceed);
    }

    // RFC 9110 13.2.2.
    #[test]
    fn tags_take_precedence_over_dates_and_if_match_over_if_none_match() {
        let stale = Fields { unmodified: Some(BEFORE), modified: Some(AFTER), ..Fields::default() };
        assert_eq!(Fields { match_: &["\"a\""], modified: None, ..stale }.read(STRONG), Proceed);
        assert_eq!(Fields { none_match: &["\"b\""], unmodified: None, ..stale }.read(STRONG), Proceed);
        assert_eq!(Fields { none_match: &["\"a\""], ..stale }.read(STRONG), PreconditionFailed);
        let both = Fields { match_: &["\"a\""], none_match: &["\"a\""], ..Fields::default() };
        assert_eq!(both.read(STRONG), NotModified);
        assert_eq!(Fields { match_: &["\"b\""], ..both }.read(STRONG), PreconditionFailed);
        assert_eq!(Fields { match_: &["\"a\""], modified: Some(AT), ..Fields::default() }.read(STRONG), NotModified);
    }

    // RFC 9110 13.1.5.
    #[test]
    fn if_range_compares_tags_strongly() {
        assert!(if_range_holds(b"\"a\"", STRONG, MODIFIED));
        for field in [&b"\"b\""[..], b"W/\"a\"", b"\"a\", \"b\"", b"\"a\"\"", b"*", b"a", b""] {
            assert!(!if_range_holds(field, STRONG, MODIFIED), "{}", field.escape_ascii());
        }
        assert!(!if_range_holds(b"W/\"a\"", WEAK, MODIFIED));
        assert!(!if_range_holds(b"\"a\"", WEAK, MODIFIED));
        assert!(!if_range_holds(b"\"a\"", NOTHING, MODIFIED));
    }

    // RFC 9110 13.1.5 and 8.8.2.2.
    #[test]
    fn if_range_takes_only_the_exact_date_and_only_when_its_second_is_over() {
        assert!(if_range_holds(AT, STRONG, MODIFIED + 1));
        assert!(!if_range_holds(AT, STRONG, MODIFIED));
        assert!(!if_range_holds(AT, STRONG, MODIFIED - 1));
        assert!(!if_range_holds(AFTER, STRONG, MODIFIED + 60));
        assert!(!if_range_holds(BEFORE, STRONG, MODIFIED + 60));
        assert!(!if_range_holds(AT, NOTHING, MODIFIED + 60));
    }

    proptest! {
        #[test]
        fn any_fields_can_be_evaluated(a: Vec<u8>, b: Vec<u8>, c: Vec<u8>, reads: bool) {
            let preconditions = Preconditions {
                if_match: [&a[..], &b].into_iter(),
                if_none_match: [&b[..], &c].into_iter(),
                if_modified_since: Some(&a),
                if_unmodified_since: Some(&c),
            };
            let outcome = evaluate(preconditions, reads, STRONG);
            prop_assert!(reads || outcome != NotModified);
            if_range_holds(&a, STRONG, 0);
        }

        #[test]
        fn a_tag_is_found_among_others(tags in prop::collection::vec("(W/)?\"[!#-~]{0,6}\"", 1..6), index: prop::sample::Index) {
            let tag = index.get(&tags);
            let validators = Validators { etag: Some(tag.as_bytes()), modified_unix_seconds: None };
            let line = tags.join(", ");
            prop_assert_eq!(entity_tags(line.as_bytes()).count(), tags.len());
            prop_assert_eq!(if_none_match(&[&line]).read(validators), NotModified);
            let expected = if tag.starts_with("W/") { PreconditionFailed } else { Proceed };
            prop_assert_eq!(if_match(&[&line]).read(validators), expected);
        }
    }
}
