//! Whether a kept answer may be used for a request (RFC 9111 4 and 5.2.1).
//!
//! Owns: [`usable`], and what of a request it looks at ([`Facts`]). Guarantees: allocates nothing; reads the head once.

use super::directives::RequestDirectives;
use super::keep::Terms;
use crate::gateway::fields::Fields;
use crate::gateway::forwarding::spells;

/// The facts of a request that decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its method is GET.
    pub is_get: bool,
    /// Its own directives.
    pub directives: RequestDirectives,
    /// It is authenticated.
    pub has_authorization: bool,
    /// It has cookies.
    pub has_cookie: bool,
    /// It is for a part, or for what the client does not have yet.
    pub is_conditional: bool,
    /// It says that it is for something else than its method and target are.
    pub is_diverted: bool,
}

/// How a kept answer is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// As it is.
    Fresh,
    /// As it is, though it is stale, because the client takes it so.
    Stale,
    /// As it is, while another request asks for a new one.
    Refresh,
    /// The application is asked whether it still holds.
    Validate,
    /// Not for this request: the application is asked as if nothing were kept.
    Unfit(Unfit),
}

/// Why a kept answer is not for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is authenticated.
    Authorization,
    /// It has cookies, and the answer does not say that it holds for all.
    Cookie,
}

impl Facts {
    /// Those of a request with these fields. `is_ignored` says which cookies do not matter, by name; what the request
    /// says about caches is passed over if it `ignores_directives`.
    pub fn of(is_get: bool, fields: Fields<'_>, ignores_directives: bool, is_ignored: impl Fn(&[u8]) -> bool) -> Facts {
        let mut facts = Facts { is_get, ..Facts::default() };
        let mut has_control = false;
        for (name, value) in fields.iter() {
            // Most names are told apart by their length.
            match name.len() {
                6 if name.eq_ignore_ascii_case(b"cookie") => {
                    facts.has_cookie |= cookies(value).any(|cookie| !is_ignored(cookie));
                }
                6 if name.eq_ignore_ascii_case(b"pragma") && !has_control && !ignores_directives => {
                    facts.directives.add_pragma(value);
                }
                13 if name.eq_ignore_ascii_case(b"cache-control") && !ignores_directives => {
                    if !std::mem::replace(&mut has_control, true) {
                        facts.directives = RequestDirectives::default();
                    }
                    facts.directives.add_line(value);
                }
                13 if name.eq_ignore_ascii_case(b"authorization") => facts.has_authorization = true,
                5 if name.eq_ignore_ascii_case(b"range") => facts.is_conditional = true,
                8 | 13 | 17 | 19 if is_condition(name) => facts.is_conditional = true,
                6 | 13..=15 | 17 | 22 if name[0] | 0x20 == b'x' => facts.is_diverted |= diverts(name),
                _ => {}
            }
        }
        facts
    }
}

/// Fields by which some applications take another method, target or host than those of the request, which are what keys
/// are made of.
fn diverts(name: &[u8]) -> bool {
    const NAMES: [&str; 8] = [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x-original-url",
        "x-original-uri",
        "x-rewrite-url",
        "x-original-host",
        "x-host",
    ];
    NAMES.iter().any(|other| spells(name, other))
}

/// The fields by which an answer depends on what the client has.
pub(super) fn is_condition(name: &[u8]) -> bool {
    const NAMES: [&str; 5] = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// The names of cookies (RFC 6265 4.2).
fn cookies(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let names =
        value.split(|byte| *byte == b';').map(|pair| pair.split(|byte| *byte == b'=').next().unwrap_or_default());
    names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
}

/// How an answer that is kept on `terms` is used for a request of `facts`, `age_ms` after it was made.
pub fn usable(terms: &Terms, age_ms: u64, facts: &Facts) -> Use {
    if facts.has_authorization && !terms.is_for_authorized {
        return Use::Unfit(Unfit::Authorization);
    }
    if facts.has_cookie && !terms.is_explicit {
        return Use::Unfit(Unfit::Cookie);
    }
    let RequestDirectives { no_cache, max_age, min_fresh, max_stale, .. } = facts.directives;
    let ms = |seconds: u64| seconds.saturating_mul(1000);
    let is_too_old = max_age.is_some_and(|seconds| age_ms > ms(u64::from(seconds)));
    if no_cache || terms.always_validated || is_too_old {
        return Use::Validate;
    }
    let lifetime_ms = ms(terms.lifetime_s);
    let needed_ms = age_ms.saturating_add(ms(u64::from(min_fresh.unwrap_or(0))));
    if needed_ms < lifetime_ms {
        return Use::Fresh;
    }
    if min_fresh.is_some() {
        return Use::Validate;
    }
    let stale_ms = age_ms - lifetime_ms;
    match () {
        () if max_stale.is_some_and(|seconds| stale_ms <= ms(u64::from(seconds))) && !terms.never_stale => Use::Stale,
        () if stale_ms < ms(terms.stale_while_revalidate_s) => Use::Refresh,
        () => Use::Validate,
    }
}

/// Whether a kept answer, of an age of `age_ms`, may be used for a request of `facts` because the application fails
/// (RFC 5861 4).
pub fn usable_after_failure(terms: &Terms, age_ms: u64, facts: &Facts) -> bool {
    let is_for_it = !matches!(usable(terms, 0, facts), Use::Unfit(_));
    let until_ms = terms.lifetime_s.saturating_add(terms.stale_if_error_s).saturating_mul(1000);
    is_for_it
        && !terms.always_validated
        && !facts.directives.no_cache
        && terms.stale_if_error_s > 0
        && age_ms < until_ms
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::gateway::fields::LineEnds;
    use proptest::prelude::*;

    /// The facts of a request as in `GET | Cookie: a=b`.
    pub(crate) fn facts(request: &str) -> Facts {
        let mut lines = request.split(" | ");
        let is_get = lines.next() == Some("GET");
        let text: String = lines.map(|line| format!("{line}\r\n")).collect();
        let fields = Fields::check(text.as_bytes(), LineEnds::CrLf).unwrap();
        Facts::of(is_get, fields, false, |name| name.starts_with(b"_"))
    }

    fn terms() -> Terms {
        Terms {
            age_s: 0,
            lifetime_s: 10,
            stale_while_revalidate_s: 5,
            stale_if_error_s: 20,
            never_stale: false,
            always_validated: false,
            is_explicit: true,
            is_for_authorized: false,
            has_validator: true,
            date: 0,
        }
    }

    #[test]
    fn for_which_request_a_kept_answer_is_used() {
        use Use::{Fresh, Refresh, Stale, Validate};
        for (age_ms, request, expected) in [
            (0, "GET", Fresh),
            (9_999, "GET", Fresh),
            (10_000, "GET", Refresh),
            (14_999, "GET", Refresh),
            (15_000, "GET", Validate),
            (0, "GET | Cache-Control: no-cache", Validate),
            (0, "GET | Pragma: no-cache", Validate),
            (0, "GET | Pragma: no-cache | Cache-Control: max-stale", Fresh),
            (1, "GET | Cache-Control: max-age=0", Validate),
            (4_000, "GET | Cache-Control: max-age=4", Fresh),
            (4_001, "GET | Cache-Control: max-age=4", Validate),
            (4_000, "GET | Cache-Control: min-fresh=5", Fresh),
            (5_000, "GET | Cache-Control: min-fresh=5", Validate),
            (60_000, "GET | Cache-Control: max-stale", Stale),
            (13_000, "GET | Cache-Control: max-stale=3", Stale),
            (13_001, "GET | Cache-Control: max-stale=3", Refresh),
            (17_000, "GET | Cache-Control: max-stale=3", Validate),
            (0, "GET | Authorization: Basic x", Use::Unfit(Unfit::Authorization)),
            (0, "GET | Cookie: a=b", Fresh),
            (0, "HEAD", Fresh),
        ] {
            assert_eq!(usable(&terms(), age_ms, &facts(request)), expected, "{age_ms} {request}");
        }
        let of = |terms: Terms, request: &str| usable(&terms, 20_000, &facts(request));
        assert_eq!(of(Terms { never_stale: true, ..terms() }, "GET | Cache-Control: max-stale"), Validate);
        let default = Terms { is_explicit: false, lifetime_s: 99, ..terms() };
        assert_eq!(of(default, "GET | Cookie: a=b"), Use::Unfit(Unfit::Cookie));
        assert_eq!(of(default, "GET | Cookie: _a=b; _c=d"), Fresh, "cookies that do not matter");
        let shared = Terms { is_for_authorized: true, lifetime_s: 99, ..terms() };
        assert_eq!(of(shared, "GET | Authorization: Basic x"), Fresh);
        assert_eq!(of(Terms { always_validated: true, lifetime_s: 99, ..terms() }, "GET"), Validate);
    }

    #[test]
    fn what_is_stale_is_used_while_the_application_fails_as_long_as_it_says() {
        assert!(usable_after_failure(&terms(), 29_999, &facts("GET")));
        assert!(!usable_after_failure(&terms(), 30_000, &facts("GET")));
        assert!(!usable_after_failure(&terms(), 11_000, &facts("GET | Cache-Control: no-cache")));
        assert!(!usable_after_failure(&Terms { stale_if_error_s: 0, ..terms() }, 0, &facts("GET")));
        assert!(!usable_after_failure(&terms(), 0, &facts("GET | Authorization: x")));
    }

    #[test]
    fn conditions_are_seen_whatever_their_case() {
        for line in ["If-None-Match: \"a\"", "IF-MODIFIED-SINCE: x", "range: bytes=0-1", "If-Range: x", "if-match: *"] {
            assert!(facts(&format!("GET | {line}")).is_conditional, "{line}");
        }
        assert!(!facts("GET | Accept: x | X-If-Match: y").is_conditional);
    }

    proptest! {
        #[test]
        fn what_was_usable_when_it_was_older_is_usable_when_it_is_younger(
            age_ms in 0u64..40_000, younger_ms in 0u64..40_000, never_stale: bool, max_stale in proptest::option::of(0u32..30),
        ) {
            let terms = Terms { never_stale, ..terms() };
            let mut facts = facts("GET");
            facts.directives.max_stale = max_stale;
            let rank = |age_ms| match usable(&terms, age_ms, &facts) {
                Use::Fresh => 0,
                Use::Stale | Use::Refresh => 1,
                Use::Validate | Use::Unfit(_) => 2,
            };
            prop_assert!(rank(age_ms.min(younger_ms)) <= rank(age_ms));
        }
    }
}
