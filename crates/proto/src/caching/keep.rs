//! Storable answers, and how long they are fresh (RFC 9111 3 and 4.2).
//!
//! Owns: [`keepable`], [`Terms`]. Guarantees: what is not known is as old as it can be.

use super::directives::{ResponseDirectives, seconds};
use super::serve::Facts;
use super::targeted;
use crate::date;
use crate::gateway::fields::Fields;

/// The settings of a route for storing answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Seconds for which an answer is fresh that does not say so itself. None: as long as its last modification lets
    /// expect (RFC 9111 4.2.2).
    pub fresh_s: Option<u32>,
    /// Seconds of staleness for which an answer is used while the application fails, if it does not say so itself.
    pub stale_if_error_s: u32,
}

/// An answer, and when it was given.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: Fields<'a>,
    /// When its head had been received, in seconds since 1970.
    pub unix_seconds: u64,
    /// How long that took, in seconds.
    pub delay_s: u64,
}

/// On which terms an answer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Its age when it was received, in seconds.
    pub age_s: u64,
    /// For which age it is fresh, in seconds.
    pub lifetime_s: u64,
    /// Beyond that: for so many seconds while it is refreshed.
    pub stale_while_revalidate_s: u64,
    /// And for so many while the application fails.
    pub stale_if_error_s: u64,
    /// It must not be used when it is stale, for any client.
    pub never_stale: bool,
    /// It is validated before each use.
    pub always_validated: bool,
    /// It says itself how long it is fresh.
    pub is_explicit: bool,
    /// It may be used for requests that are authenticated (RFC 9111 3.5).
    pub is_for_authorized: bool,
    /// It has something to be validated by.
    pub has_validator: bool,
    /// When the application made it, in seconds since 1970.
    pub date: u64,
}

/// Why an answer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// It was asked for by another method than GET.
    Method,
    /// The status: partial answers, what comes of conditions, interim answers, and those that do not say that they may
    /// be kept.
    Status,
    /// `no-store`, of the answer or of the request.
    NoStore,
    /// `private`.
    Private,
    /// The request was authenticated, and the answer is not for others.
    Authorization,
    /// `Set-Cookie`: it is meant for one client.
    SetCookie,
    /// `Vary: *`, or too many names.
    Vary,
    /// The request had cookies, and the answer does not say how long it is fresh.
    Cookie,
    /// It is stale at once, and cannot be validated.
    Useless,
    /// It is an endless stream of events.
    Events,
    /// It has more content than is kept.
    TooLarge,
}

/// Statuses whose answers are kept by default (RFC 9110 15.1), of those that are understood here.
const HEURISTIC: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
/// The greatest age that is derived from a last modification.
const HEURISTIC_S_MAX: u64 = 24 * 3600;

/// Whether an answer of this status speaks of the connection that it came over (RFC 9110 15.5.22).
fn is_of_connection(status: u16) -> bool {
    status == 426
}

/// Whether an answer of this status came of the conditions or the range of one request: it is for no other.
pub fn is_of_condition(status: u16) -> bool {
    matches!(status, 206 | 304 | 412 | 416)
}

/// Whether an answer of this status may have come of fields of one request that the application does not like: then it
/// says nothing of what others get, who do not send these. What is not there, or not any more, is not there for
/// anybody.
pub fn is_of_request(status: u16) -> bool {
    status >= 400 && !matches!(status, 404 | 410)
}

/// Whether the answer to a request of `facts` may be kept, and on which terms.
///
/// # Errors
/// Why not.
pub fn keepable(facts: &Facts, given: &Given<'_>, settings: &Settings) -> Result<Terms, NotKept> {
    let Given { status, fields, .. } = *given;
    // RFC 9213 2.2: it counts in the place of `Cache-Control` and `Expires`.
    let targeted = targeted::read(fields.values("cdn-cache-control"));
    let is_targeted = targeted.is_some();
    let mut directives = targeted.unwrap_or_else(|| ResponseDirectives::read(fields.values("cache-control")));
    let is_understood = HEURISTIC.contains(&status) || matches!(status, 302 | 303 | 307);
    if directives.must_understand {
        match is_understood {
            true => directives.no_store = false,
            false => return Err(NotKept::Status),
        }
    }
    let has = |name: &str| fields.values(name).next().is_some();
    match () {
        () if !facts.is_get => return Err(NotKept::Method),
        () if !(200..600).contains(&status) || is_of_condition(status) || is_of_connection(status) => {
            return Err(NotKept::Status);
        }
        () if directives.no_store || facts.directives.no_store => return Err(NotKept::NoStore),
        () if directives.private => return Err(NotKept::Private),
        () if has("set-cookie") || has("set-cookie2") => return Err(NotKept::SetCookie),
        () if is_of_events(fields) => return Err(NotKept::Events),
        () => {}
    }
    let is_for_authorized = directives.public || directives.s_maxage.is_some() || directives.must_revalidate;
    if facts.has_authorization && !is_for_authorized {
        return Err(NotKept::Authorization);
    }
    let date = fields.values("date").next().and_then(date::parse_any_case).unwrap_or(given.unix_seconds);
    let expires = if is_targeted { Fields::default() } else { fields };
    let explicit = explicit_lifetime(&directives, expires, date);
    let is_default = HEURISTIC.contains(&status);
    if explicit.is_none() && !directives.public && !is_default {
        return Err(NotKept::Status);
    }
    if explicit.is_none() && facts.has_cookie {
        return Err(NotKept::Cookie);
    }
    let lifetime_s = explicit.unwrap_or_else(|| match settings.fresh_s {
        Some(seconds) if is_default => u64::from(seconds),
        _ => heuristic_lifetime(fields, date),
    });
    let never_stale = directives.must_revalidate || directives.proxy_revalidate || directives.no_cache;
    let window = |said: Option<u32>, otherwise: u32| if never_stale { 0 } else { u64::from(said.unwrap_or(otherwise)) };
    let terms = Terms {
        age_s: initial_age(given, date),
        lifetime_s,
        stale_while_revalidate_s: window(directives.stale_while_revalidate, 0),
        // RFC 9111 4.2.4 and 5.2.2.10: `s-maxage` forbids it, unless the answer itself says otherwise.
        stale_if_error_s: window(
            directives.stale_if_error,
            if directives.s_maxage.is_some() { 0 } else { settings.stale_if_error_s },
        ),
        never_stale: never_stale || directives.s_maxage.is_some(),
        always_validated: directives.no_cache,
        is_explicit: explicit.is_some(),
        is_for_authorized,
        has_validator: has("etag") || has("last-modified"),
        date,
    };
    let stale_s = terms.stale_while_revalidate_s.max(terms.stale_if_error_s);
    let is_usable = !terms.always_validated && terms.age_s < terms.lifetime_s.saturating_add(stale_s);
    if is_usable || terms.has_validator { Ok(terms) } else { Err(NotKept::Useless) }
}

/// RFC 9111 4.2.1. What stands twice, and differs, is stale.
fn explicit_lifetime(directives: &ResponseDirectives, fields: Fields<'_>, date: u64) -> Option<u64> {
    if let Some(seconds) = directives.s_maxage.or(directives.max_age) {
        return Some(u64::from(seconds));
    }
    let expiry = |value| date::parse_any_case(value).map_or(0, |at: u64| at.saturating_sub(date));
    fields.values("expires").map(expiry).min()
}

/// RFC 9111 4.2.2: a tenth of the time since the last modification.
fn heuristic_lifetime(fields: Fields<'_>, date: u64) -> u64 {
    let modified = fields.values("last-modified").next().and_then(date::parse_any_case);
    modified.map_or(0, |at| (date.saturating_sub(at) / 10).min(HEURISTIC_S_MAX))
}

/// RFC 9111 4.2.3. Of several ages the first counts (5.1).
fn initial_age(given: &Given<'_>, date: u64) -> u64 {
    let apparent = given.unix_seconds.saturating_sub(date);
    let first = given.fields.values("age").find_map(|line| crate::parse::list::members(line).next());
    let said = first.and_then(|member| seconds(Some(member))).unwrap_or(0);
    apparent.max(u64::from(said).saturating_add(given.delay_s))
}

fn is_of_events(fields: Fields<'_>) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    let mut types = fields.values("content-type");
    types.any(|value| value.get(..EVENTS.len()).is_some_and(|start| start.eq_ignore_ascii_case(EVENTS)))
}

/// Whether an answer of this status to a request with this method makes what was kept for its target unusable (RFC 9111
/// 4.4).
pub fn invalidates(method: &[u8], status: u16) -> bool {
    // A tunnel (RFC 8441) is opened, and changes nothing by that.
    let is_safe = matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"CONNECT" | b"PROPFIND" | b"SEARCH");
    !is_safe && (200..400).contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caching::serve::tests::facts;
    use crate::gateway::fields::LineEnds;

    const NOW: u64 = 784_111_777 + 100;
    const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT";

    fn judged(request: &str, status: u16, lines: &str, settings: &Settings) -> Result<Terms, NotKept> {
        let text: String =
            lines.split(" | ").filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect();
        let fields = Fields::check(text.as_bytes(), LineEnds::CrLf).unwrap();
        keepable(&facts(request), &Given { status, fields, unix_seconds: NOW, delay_s: 0 }, settings)
    }

    /// The lifetime, or why it is not kept.
    #[track_caller]
    fn assert_kept(request: &str, status: u16, lines: &str, expected: Result<u64, NotKept>) {
        let terms = judged(request, status, lines, &Settings::default());
        assert_eq!(terms.map(|terms| terms.lifetime_s), expected, "{request} {status} {lines}");
    }

    #[test]
    fn what_may_be_kept_and_for_how_long() {
        use NotKept::{Authorization, Cookie, Events, Method, NoStore, Private, SetCookie, Useless};
        for (request, status, lines, expected) in [
            ("GET", 200, "Cache-Control: max-age=60", Ok(60)),
            ("GET", 200, "Cache-Control: max-age=60, s-maxage=5", Ok(5)),
            ("GET", 200, "Cache-Control: s-maxage=60, max-age=5", Ok(60)),
            ("GET", 200, "Cache-Control: max-age=60 | Expires: Sun, 06 Nov 1994 08:49:39 GMT", Ok(60)),
            ("GET", 200, "Expires: Sun, 06 Nov 1994 08:52:37 GMT | Date: Sun, 06 Nov 1994 08:49:37 GMT", Ok(180)),
            ("GET", 200, "Expires: 0", Err(Useless)),
            ("GET", 200, "Expires: 0 | ETag: \"a\"", Ok(0)),
            ("GET", 200, "Expires: -1 | Expires: Sun, 06 Nov 2094 08:52:37 GMT", Err(Useless)),
            ("GET", 200, "", Err(Useless)),
            ("GET", 200, "Cache-Control: public", Err(Useless)),
            ("GET", 200, "Cache-Control: max-age=0", Err(Useless)),
            ("GET", 200, "Cache-Control: max-age=0, stale-while-revalidate=10", Err(Useless)),
            ("GET", 200, "Cache-Control: max-age=0, stale-while-revalidate=200", Ok(0)),
            ("GET", 200, "Last-Modified: Sun, 06 Nov 1994 08:33:17 GMT", Ok(108)),
            ("GET", 200, "Last-Modified: Sun, 06 Nov 1904 08:33:17 GMT", Ok(0)),
            ("GET", 200, "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT", Ok(24 * 3600)),
            ("GET", 200, "Cache-Control: no-store, max-age=60", Err(NoStore)),
            ("GET", 200, "Cache-Control: no-store, must-understand, max-age=60", Ok(60)),
            ("GET", 599, "Cache-Control: no-store, must-understand, max-age=60", Err(NotKept::Status)),
            ("GET", 200, "Cache-Control: private, max-age=60", Err(Private)),
            ("GET", 200, "Cache-Control: private=\"x\", max-age=60", Err(Private)),
            ("GET", 200, "Cache-Control: no-cache, max-age=60", Err(Useless)),
            ("GET", 200, "Cache-Control: no-cache, max-age=60 | ETag: \"a\"", Ok(60)),
            ("GET", 200, "Cache-Control: max-age=60 | Set-Cookie: a=b", Err(SetCookie)),
            ("GET", 200, "Cache-Control: max-age=60 | Content-Type: text/event-stream; x", Err(Events)),
            ("GET", 200, "Cache-Control: max-age=60 | Age: 59", Err(Useless)),
            ("GET | Authorization: Basic x", 200, "Cache-Control: max-age=60", Err(Authorization)),
            ("GET | Authorization: Basic x", 200, "Cache-Control: max-age=160, public", Ok(160)),
            ("GET | Authorization: Basic x", 200, "Cache-Control: max-age=160, must-revalidate", Ok(160)),
            ("GET | Authorization: Basic x", 200, "Cache-Control: s-maxage=160", Ok(160)),
            ("GET | Cookie: a=b", 200, "Cache-Control: max-age=160", Ok(160)),
            ("GET | Cookie: a=b", 200, "Last-Modified: Sun, 06 Nov 1994 08:33:17 GMT", Err(Cookie)),
            ("GET | Cache-Control: no-store", 200, "Cache-Control: max-age=160", Err(NoStore)),
            ("HEAD", 200, "Cache-Control: max-age=160", Err(Method)),
            ("POST", 200, "Cache-Control: max-age=160", Err(Method)),
            ("GET", 206, "Cache-Control: max-age=160", Err(NotKept::Status)),
            ("GET", 304, "Cache-Control: max-age=160", Err(NotKept::Status)),
            ("GET", 404, "Cache-Control: max-age=160", Ok(160)),
            ("GET", 302, "Cache-Control: max-age=160", Ok(160)),
            ("GET", 500, "Cache-Control: max-age=160", Ok(160)),
            ("GET", 302, "Last-Modified: Sun, 06 Nov 1994 08:33:17 GMT", Err(NotKept::Status)),
            ("GET", 599, "Cache-Control: max-age=160", Ok(160)),
            // RFC 9213 2.2.
            ("GET", 200, "CDN-Cache-Control: max-age=160 | Cache-Control: no-store", Ok(160)),
            ("GET", 200, "Cache-Control: max-age=5 | CDN-Cache-Control: private", Err(Private)),
            ("GET", 200, "CDN-Cache-Control: no-store | Cache-Control: max-age=160", Err(NoStore)),
            ("GET", 200, "CDN-Cache-Control: NO-STORE | Cache-Control: max-age=160", Ok(160)),
            // RFC 9110 5.6.7.
            ("GET", 200, "Date: Sun Nov  6 08:49:37 1994 | Expires: Sunday, 06-Nov-94 08:52:17 GMT", Ok(160)),
            // RFC 9111 4.2.
            ("GET", 200, "Date: SUN, 06 Nov 1994 08:49:37 GMT | Expires: Sun, 06 nov 1994 08:52:17 gmt", Ok(160)),
        ] {
            // Without a date it has just been made.
            let is_old = lines.contains("Age: 59") || lines.contains("stale-while");
            let lines = if is_old { format!("{lines} | {DATE}") } else { lines.to_owned() };
            assert_kept(request, status, &lines, expected);
        }
    }

    #[test]
    fn an_answer_is_as_old_as_its_date_its_age_or_its_way() {
        let age =
            |lines: &str| judged("GET", 200, &format!("Cache-Control: max-age=999 | {lines}"), &Settings::default());
        assert_eq!(age(DATE).unwrap().age_s, 100);
        assert_eq!(age(&format!("{DATE} | Age: 30")).unwrap().age_s, 100);
        assert_eq!(age(&format!("{DATE} | Age: 130")).unwrap().age_s, 130);
        assert_eq!(age("Age: 30").unwrap().age_s, 30);
        assert_eq!(age("Age: 30, 40 | Age: 7").unwrap().age_s, 30);
        assert_eq!(age("Age: 7 | Age: 30").unwrap().age_s, 7);
        assert_eq!(age("Age: old | Age: 30").unwrap().age_s, 0);
        assert_eq!(age("Age: old").unwrap().age_s, 0);
        assert_eq!(age("Date: Sun, 06 Nov 2094 08:49:37 GMT").unwrap().age_s, 0, "a clock that is ahead");
        let text = b"Cache-Control: max-age=60\r\nAge: 3\r\n";
        let fields = Fields::check(text, LineEnds::CrLf).unwrap();
        let given = Given { status: 200, fields, unix_seconds: NOW, delay_s: 4 };
        assert_eq!(keepable(&facts("GET"), &given, &Settings::default()).unwrap().age_s, 7);
    }

    #[test]
    fn what_the_route_says_is_for_what_the_answer_does_not_say() {
        let settings = Settings { fresh_s: Some(10), stale_if_error_s: 99 };
        let terms = |request, status, lines| judged(request, status, lines, &settings);
        let plain = terms("GET", 200, "").unwrap();
        assert_eq!((plain.lifetime_s, plain.stale_if_error_s, plain.is_explicit), (10, 99, false));
        assert_eq!(terms("GET", 200, "Last-Modified: Sun, 06 Nov 1994 08:33:17 GMT").unwrap().lifetime_s, 10);
        assert_eq!(terms("GET", 200, "Cache-Control: max-age=3").unwrap().lifetime_s, 3);
        assert_eq!(terms("GET", 200, "Cache-Control: max-age=3, stale-if-error=5").unwrap().stale_if_error_s, 5);
        assert_eq!(terms("GET", 200, "Cache-Control: max-age=3, must-revalidate").unwrap().stale_if_error_s, 0);
        assert_eq!(terms("GET", 200, "Cache-Control: s-maxage=3").unwrap().stale_if_error_s, 0);
        assert_eq!(terms("GET", 200, "Cache-Control: s-maxage=3, stale-if-error=5").unwrap().stale_if_error_s, 5);
        assert_eq!(terms("GET", 500, ""), Err(NotKept::Status));
        assert_eq!(terms("GET", 302, ""), Err(NotKept::Status));
        assert_eq!(terms("GET | Cookie: a=b", 200, ""), Err(NotKept::Cookie));
    }

    #[test]
    fn requests_that_change_something_and_succeed_invalidate() {
        for (method, status, expected) in [
            ("POST", 200, true),
            ("PUT", 204, true),
            ("DELETE", 303, true),
            ("UNKNOWN", 200, true),
            ("POST", 404, false),
            ("POST", 500, false),
            ("GET", 200, false),
            ("HEAD", 200, false),
            ("OPTIONS", 200, false),
            ("CONNECT", 200, false),
        ] {
            assert_eq!(invalidates(method.as_bytes(), status), expected, "{method} {status}");
        }
    }
}
