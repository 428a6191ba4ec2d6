//! `Cache-Control` (RFC 9111 5.2, RFC 5861) and `Pragma`.
//!
//! Owns: its grammar. Guarantees: a directive that is said twice counts in its stricter form; an invalid time is none
//! at all; a quoted text that never ends forbids everything, because it may hide what does.

use crate::parse::list;

/// The directives of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// Not to be kept.
    pub no_store: bool,
    /// To be validated before each use; with field names as well.
    pub no_cache: bool,
    /// For one client; with field names as well.
    pub private: bool,
    /// For anybody, even if the request was authenticated.
    pub public: bool,
    /// Not to be used when stale.
    pub must_revalidate: bool,
    /// The same for shared caches.
    pub proxy_revalidate: bool,
    /// `no-store` is for caches that do not know the status.
    pub must_understand: bool,
    /// Seconds.
    pub max_age: Option<u32>,
    /// Seconds, for shared caches.
    pub s_maxage: Option<u32>,
    /// Seconds of staleness while it is refreshed.
    pub stale_while_revalidate: Option<u32>,
    /// Seconds of staleness while the application fails.
    pub stale_if_error: Option<u32>,
}

/// The directives of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// A stored answer is to be validated.
    pub no_cache: bool,
    /// The answer is not to be kept.
    pub no_store: bool,
    /// Only a stored answer is wanted.
    pub only_if_cached: bool,
    /// The greatest age, in seconds.
    pub max_age: Option<u32>,
    /// How long it is to be fresh, in seconds.
    pub min_fresh: Option<u32>,
    /// How stale it may be, in seconds.
    pub max_stale: Option<u32>,
}

/// The largest time: RFC 9111 1.2.2 has what is larger be this.
const SECONDS_MAX: u32 = 1 << 31;

impl ResponseDirectives {
    /// The directives in the lines of the field.
    pub fn read<'a>(lines: impl Iterator<Item = &'a [u8]>) -> ResponseDirectives {
        let mut read = ResponseDirectives::default();
        for line in lines {
            read.no_store |= has_open_quote(line);
            list::members(line).for_each(|member| read.add(member));
        }
        read
    }

    fn add(&mut self, member: &[u8]) {
        let (name, value) = parts(member);
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match () {
            () if is("no-store") => self.no_store = true,
            () if is("no-cache") => self.no_cache = true,
            () if is("private") => self.private = true,
            () if is("public") => self.public = true,
            () if is("must-revalidate") => self.must_revalidate = true,
            () if is("proxy-revalidate") => self.proxy_revalidate = true,
            () if is("must-understand") => self.must_understand = true,
            () if is("max-age") => self.max_age = stricter(self.max_age, value),
            () if is("s-maxage") => self.s_maxage = stricter(self.s_maxage, value),
            () if is("stale-while-revalidate") => {
                self.stale_while_revalidate = stricter(self.stale_while_revalidate, value);
            }
            () if is("stale-if-error") => self.stale_if_error = stricter(self.stale_if_error, value),
            () => {}
        }
    }
}

impl RequestDirectives {
    /// Adds what a line of `Cache-Control` says.
    pub fn add_line(&mut self, line: &[u8]) {
        for member in list::members(line) {
            let (name, value) = parts(member);
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            match () {
                () if is("no-cache") => self.no_cache = true,
                () if is("no-store") => self.no_store = true,
                () if is("only-if-cached") => self.only_if_cached = true,
                () if is("max-age") => self.max_age = stricter(self.max_age, value),
                () if is("min-fresh") => self.min_fresh = self.min_fresh.max(seconds(value)),
                // Without a value: of any staleness.
                () if is("max-stale") => {
                    self.max_stale = Some(value.map_or(SECONDS_MAX, |value| seconds(Some(value)).unwrap_or(0)));
                }
                () => {}
            }
        }
    }

    /// Adds a line of `Pragma` (RFC 9111 5.4), where there is no `Cache-Control`.
    pub fn add_pragma(&mut self, line: &[u8]) {
        self.no_cache |= list::members(line).any(|member| member.eq_ignore_ascii_case(b"no-cache"));
    }
}

fn parts(member: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'=', member) {
        Some(at) => (list::trim(&member[..at]), Some(list::trim(&member[at + 1..]))),
        None => (member, None),
    }
}

/// RFC 9111 4.2.1: what is invalid is stale.
fn stricter(known: Option<u32>, value: Option<&[u8]>) -> Option<u32> {
    let new = seconds(value).unwrap_or(0);
    Some(known.map_or(new, |known| known.min(new)))
}

/// Seconds as in 1.2.2, quoted or not (5.2: recipients accept both).
pub(super) fn seconds(value: Option<&[u8]>) -> Option<u32> {
    let value = value?;
    let digits = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')).min(SECONDS_MAX);
    Some(digits.iter().fold(0, add))
}

fn has_open_quote(line: &[u8]) -> bool {
    let (mut is_open, mut is_escaped) = (false, false);
    for byte in line {
        is_open ^= *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && is_open && !is_escaped;
    }
    is_open
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn response(lines: &[&str]) -> ResponseDirectives {
        ResponseDirectives::read(lines.iter().map(|line| line.as_bytes()))
    }

    fn request(line: &str) -> RequestDirectives {
        let mut read = RequestDirectives::default();
        read.add_line(line.as_bytes());
        read
    }

    #[test]
    fn directives_are_read_in_any_case_over_several_lines_and_quoted() {
        let read = response(&["Max-Age=5 , PUBLIC", "s-maxage=\"10\",, foo=\"a, no-store\"", "stale-if-error=3"]);
        let expected = ResponseDirectives {
            max_age: Some(5),
            public: true,
            s_maxage: Some(10),
            stale_if_error: Some(3),
            ..ResponseDirectives::default()
        };
        assert_eq!(read, expected);
        assert!(response(&["no-cache=\"x-a, x-b\""]).no_cache && response(&["private=\"x-a\""]).private);
    }

    #[test]
    fn what_is_said_twice_or_wrongly_counts_in_its_stricter_form() {
        for (lines, seconds) in [
            (&["max-age=10, max-age=5"][..], 5),
            (&["max-age=5", "max-age=10"], 5),
            (&["max-age=-1"], 0),
            (&["max-age"], 0),
            (&["max-age=1.5"], 0),
            (&["max-age='5'"], 0),
            (&["max-age=99999999999999999999"], SECONDS_MAX),
        ] {
            assert_eq!(response(lines).max_age, Some(seconds), "{lines:?}");
        }
        assert!(response(&["max-age=5, x=\"never ends, no-store"]).no_store);
        assert!(!response(&["max-age=5, x=\"a \\\" b\""]).no_store);
    }

    #[test]
    fn requests_say_what_they_accept() {
        assert_eq!(request("max-age=0, min-fresh=4").max_age, Some(0));
        assert_eq!((request("max-stale").max_stale, request("max-stale=9").max_stale), (Some(SECONDS_MAX), Some(9)));
        assert_eq!(request("max-stale=x").max_stale, Some(0));
        assert!(request("only-if-cached, no-cache, no-store").only_if_cached);
        let mut old = RequestDirectives::default();
        old.add_pragma(b"foo, No-Cache");
        assert!(old.no_cache);
    }

    proptest! {
        #[test]
        fn any_line_is_read(line: Vec<u8>) {
            response(&[]);
            ResponseDirectives::read([&line[..]].into_iter());
            RequestDirectives::default().add_line(&line);
        }

        #[test]
        fn what_follows_takes_nothing_back(before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
            let lines = [before.as_bytes(), b"no-store, private", after.as_bytes()];
            let read = ResponseDirectives::read(lines.into_iter());
            prop_assert!(read.no_store && read.private);
        }
    }
}
