//! Kept answers of applications as representations: their own date, and an age that goes on.
//!
//! Owns: what of a kept answer's head becomes which part of a representation, and how the age gets into each copy.
//! Guarantees: nothing is added to the fields of the application but `Server` where it has none, `Content-Length`,
//! `Age` and what says where the answer is from. A hit copies the head in three pieces in the place of one, and
//! allocates nothing. Does not decide what is kept: that is `caching`'s.

use std::io::Write;

use super::{Description, HeadTooLong, Modified, Representation};
use crate::date;
use crate::gateway::fields::Fields;
use crate::message::{RequestId, Status};

/// Since when a kept answer ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aged {
    /// When its age was zero, in seconds since 1970.
    pub since: u64,
    /// Its `Date`, in seconds since 1970.
    pub date: u64,
}

/// The head of an application's answer that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The status.
    pub status: Status,
    /// The application's own reason phrase.
    pub reason: Option<&'a str>,
    /// The fields as clients get them, without those of the connection and of framing.
    pub fields: Fields<'a>,
    /// Since when it ages.
    pub aged: Aged,
    /// The member of `Cache-Status` (RFC 9211) that is added.
    pub cache_status: &'a str,
}

/// Bytes of an age: the digits of the largest.
const AGE_BYTES: usize = 10;
/// RFC 9111 1.2.2: what is larger is this.
const AGE_MAX: u64 = 1 << 31;

impl Representation {
    /// Describes a kept answer, and holds its content.
    ///
    /// # Errors
    /// The head is too long, or a value is not in UTF-8, which would be told wrongly.
    pub fn of_answer(answered: &Answered<'_>, content: &[u8]) -> Result<Representation, HeadTooLong> {
        let mut fields: Vec<(String, String)> = Vec::new();
        let (mut media_type, mut etag, mut modified) = (None, None, None);
        // Last modifications in one of the obsolete forms (RFC 9110 5.6.7).
        let mut obsolete: Vec<u64> = Vec::new();
        for (name, value) in answered.fields.iter() {
            let name = std::str::from_utf8(name).map_err(|_| HeadTooLong)?;
            let value = std::str::from_utf8(value).map_err(|_| HeadTooLong)?;
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            match () {
                () if is("age") || is("date") || is(RequestId::FIELD) => {}
                () if is("content-type") && media_type.is_none() => media_type = Some(value),
                () if is("etag") && etag.is_none() => etag = Some(value),
                () if is("last-modified") && modified.is_none() && written_date(value).is_some() => {
                    modified = written_date(value);
                }
                () => {
                    obsolete.extend(date::parse(value.as_bytes()).filter(|_| is("last-modified")));
                    fields.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        fields.push(("Cache-Status".to_owned(), answered.cache_status.to_owned()));
        let description = Description {
            reason: answered.reason,
            media_type,
            modified,
            etag,
            fields: &fields,
            aged: Some(answered.aged),
            ..Description::of(answered.status)
        };
        let mut representation = Representation::with_content(&description, content)?;
        // As the application has written it, it is what the application is asked by. Clients may write it otherwise.
        if modified.is_none()
            && let [written] = obsolete[..]
        {
            representation.modified = Modified::of(Some(written));
        }
        Ok(representation)
    }

    /// The fields of a kept answer as the application gave them, as lines: without `Date` and `Age`, and without
    /// `cache_status`.
    pub fn write_answer_fields(&self, cache_status: &str, out: &mut Vec<u8>) {
        let lines = self.lines(super::Part::All).filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-length"));
        for (name, value) in lines {
            if name == b"Cache-Status" && value == cache_status.as_bytes() {
                continue;
            }
            [name, b": ", value, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
        }
        [b"Server: ", self.server(), b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
    }

    /// The value of the first field of this name, which is in lower case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let mut lines = self.lines(super::Part::All);
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// The application's own reason phrase of a kept answer.
    pub fn own_reason(&self) -> Option<&str> {
        let line = self.head().split(|&byte| byte == b'\r').next()?;
        self.status.own_reason_phrase(line.get(b"HTTP/1.1 200 ".len()..)?)
    }

    /// Whether it is a kept answer.
    pub(super) fn is_aged(&self) -> bool {
        self.age.start < self.age.end
    }

    /// The date of the head, if it is not that of the moment at which it is sent.
    pub(crate) fn own_date(&self) -> Option<&[u8]> {
        let date = self.date_at()..self.date_at() + date::DATE_BYTES;
        if self.is_aged() { self.bytes.get(date) } else { None }
    }

    /// The digits of the age at `unix_seconds`, of a kept answer.
    pub(crate) fn age_at(&self, unix_seconds: u64) -> Option<Digits> {
        let age = unix_seconds.saturating_sub(u64::from(self.aged_since)).min(AGE_MAX);
        self.is_aged().then(|| Digits::of(age))
    }

    /// Appends `part` of the head, or of the message, which begins at `at`: with the age at `unix_seconds` if that is a
    /// part of it.
    pub(crate) fn push_part(&self, at: usize, part: &[u8], unix_seconds: u64, out: &mut Vec<u8>) {
        let place = |end: u16| usize::from(end).wrapping_sub(at);
        let (start, end) = (place(self.age.start), place(self.age.end));
        match self.age_at(unix_seconds) {
            Some(age) if start < end && end <= part.len() => {
                for piece in [&part[..start], age.text(), &part[end..]] {
                    out.extend_from_slice(piece);
                }
            }
            _ => out.extend_from_slice(part),
        }
    }
}

/// A number in digits, without a place of its own in memory.
pub(crate) struct Digits {
    bytes: [u8; AGE_BYTES],
    length: usize,
}

impl Digits {
    fn of(number: u64) -> Digits {
        let mut bytes = [0; AGE_BYTES];
        let mut rest = &mut bytes[..];
        // The largest age has as many digits as there is room for.
        let _ = write!(rest, "{number}");
        let length = AGE_BYTES - rest.len();
        Digits { bytes, length }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The date that `text` names, if it is written as it would be written here.
fn written_date(text: &str) -> Option<u64> {
    date::parse(text.as_bytes()).filter(|seconds| date::format(*seconds) == *text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::fields::LineEnds;

    const LINES: &[u8] =
        b"Content-Type: text/html\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nAge: 7\r\nETag: \"e\"\r\nX-A: 1\r\n\
        Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: app\r\n";

    #[test]
    fn a_last_modification_in_an_obsolete_form_is_kept_as_it_is_and_validates() {
        for written in ["Sun Nov  6 08:49:37 1994", "Sunday, 06-Nov-94 08:49:37 GMT"] {
            let lines = format!("Last-Modified: {written}\r\n");
            let fields = Fields::check(lines.as_bytes(), LineEnds::CrLf).unwrap();
            let aged = Aged { since: 0, date: 0 };
            let answered = Answered { status: Status(200), reason: None, fields, aged, cache_status: "" };
            let kept = Representation::of_answer(&answered, b"").unwrap();
            assert_eq!(kept.field("last-modified"), Some(written.as_bytes()));
            assert_eq!(kept.validators().modified_unix_seconds, Some(784_111_777));
        }
    }

    fn kept() -> Representation {
        let fields = Fields::check(LINES, LineEnds::CrLf).unwrap();
        let aged = Aged { since: 1_000, date: 784_111_777 };
        let answered = Answered { status: Status(200), reason: None, fields, aged, cache_status: "Lamna; hit" };
        Representation::of_answer(&answered, b"abc").unwrap()
    }

    #[test]
    fn a_kept_answer_has_the_fields_of_the_application_and_an_age_that_goes_on() {
        let kept = kept();
        let mut out = b"before ".to_vec();
        kept.push_part(0, kept.message().unwrap(), 1_234, &mut out);
        let text = String::from_utf8(out).unwrap();
        let expected = "before HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: app\r\nContent-Length: 3\r\n\
            Content-Type: text/html\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"e\"\r\nX-A: 1\r\n\
            Cache-Status: Lamna; hit\r\nAge: 234\r\n\r\nabc";
        assert_eq!(text, expected);
        assert_eq!(kept.own_date(), Some(&b"Sun, 06 Nov 1994 08:49:37 GMT"[..]));
    }

    #[test]
    fn a_part_of_the_head_has_the_age_if_it_is_in_that_part() {
        let kept = kept();
        let at = kept.head().len() - kept.fields_kept().len();
        let mut out = Vec::new();
        kept.push_part(at, kept.fields_kept(), 999, &mut out);
        assert!(
            out.starts_with(b"Last-Modified: ") && out.ends_with(b"\r\nAge: 0\r\n\r\n"),
            "time that goes back is no age"
        );
        out.clear();
        kept.push_part(at, &kept.fields_kept()[..10], 2_000, &mut out);
        assert_eq!(out, &kept.fields_kept()[..10]);
        assert_eq!(kept.age_at(u64::MAX).unwrap().text(), b"2147483648");
    }

    #[test]
    fn the_fields_of_the_application_are_had_back() {
        let mut lines = Vec::new();
        kept().write_answer_fields("Lamna; hit", &mut lines);
        let mut lines: Vec<&str> = std::str::from_utf8(&lines).unwrap().lines().collect();
        lines.sort_unstable();
        let expected = [
            "Content-Type: text/html",
            "ETag: \"e\"",
            "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
            "Server: app",
            "X-A: 1",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_not_utf_8_is_not_kept() {
        let fields = Fields::check(b"X: \xff\r\n", LineEnds::CrLf).unwrap();
        let aged = Aged { since: 0, date: 0 };
        let answered = Answered { status: Status(200), reason: None, fields, aged, cache_status: "" };
        assert!(Representation::of_answer(&answered, b"").is_err());
    }
}
