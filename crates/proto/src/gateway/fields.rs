//! Header fields on their way through a gateway: which of them go on, and which concern one connection only.
//!
//! Owns: [`Fields`], all fields of a message, and the rules of RFC 9110 7.6 on which are passed on. Guarantees: names
//! are tokens, values hold no control bytes, whatever the source of the lines. Borrows; bounded by the length of the
//! lines.

use memchr::memchr;

use crate::message::Request;
use crate::parse::connection_fields::is_of_connection;
use crate::parse::list;

/// All fields of a message in order, as lines of `name: value`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    lines: &'a [u8],
}

/// Why lines are not fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// A line does not end in CR LF, or holds a CR elsewhere.
    LineEnd,
    /// A name is not a token, or is not followed by a colon.
    Name,
    /// A value holds a control byte.
    Value,
}

/// Whether lines may end in LF alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnds {
    /// CR LF only.
    CrLf,
    /// CR LF or LF: in heads of applications (RFC 9112 2.2), and in the output of CGI scripts (RFC 3875 6.2 and 7.2).
    Any,
}

impl<'a> Fields<'a> {
    /// The fields of a request that the head parser accepted.
    pub fn of(request: Request<'a>) -> Fields<'a> {
        let (start, end) = (usize::from(request.head.fields_at), usize::from(request.head.length));
        // The last line of a head is empty.
        Fields { lines: request.bytes[start..end].strip_suffix(b"\r\n").unwrap_or_default() }
    }

    /// Checks lines, without the empty line after them. The work is bounded by their length.
    ///
    /// # Errors
    /// See [`FieldError`].
    pub fn check(lines: &'a [u8], ends: LineEnds) -> Result<Fields<'a>, FieldError> {
        let mut rest = lines;
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).ok_or(FieldError::LineEnd)?;
            let line = match (rest[..end].strip_suffix(b"\r"), ends) {
                (Some(line), _) => line,
                (None, LineEnds::Any) => &rest[..end],
                (None, LineEnds::CrLf) => return Err(FieldError::LineEnd),
            };
            rest = &rest[end + 1..];
            let colon = memchr(b':', line).ok_or(FieldError::Name)?;
            if !is_token(&line[..colon]) {
                return Err(FieldError::Name);
            }
            if !is_value(&line[colon + 1..]) {
                return Err(FieldError::Value);
            }
        }
        Ok(Fields { lines })
    }

    /// Names and values in order, values without white space around them.
    pub fn iter(self) -> Lines<'a> {
        Lines { rest: self.lines }
    }

    /// The values of all lines of the field with this name.
    pub fn values(self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        self.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// Whether a comma-separated field has this member, in any case (RFC 9110 5.6.1).
    pub fn has_member(self, name: &str, member: &str) -> bool {
        let mut members = self.values(name).flat_map(list::members);
        members.any(|one| one.eq_ignore_ascii_case(member.as_bytes()))
    }
}

/// See [`Fields::iter`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr(b'\n', self.rest)?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        // Every line was checked for its colon.
        let colon = memchr(b':', line)?;
        Some((&line[..colon], list::trim(line[colon + 1..].strip_suffix(b"\r").unwrap_or(&line[colon + 1..]))))
    }
}

pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| list::is_token_byte(byte))
}

/// field-vchar, obs-text, SP and HTAB (RFC 9110 5.5).
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |valid, &byte| valid & ((byte >= 0x20) & (byte != 0x7f) | (byte == b'\t')))
}

/// The fields of a message that go on to the next party: all but those of one connection (RFC 9110 7.6.1), and but
/// those whose place is taken by what we write ourselves: `Content-Length`.
#[derive(Clone, Copy, Debug)]
pub struct EndToEnd<'a> {
    fields: Fields<'a>,
    /// The first of these are fields that `Connection` names.
    named: [&'a [u8]; NAMED_MAX],
    named_count: usize,
    skipped: &'static [&'static str],
    /// A 101 says to what, and a 426 to what it should be.
    keeps_upgrade: bool,
}

impl<'a> EndToEnd<'a> {
    /// The end-to-end part of these fields.
    ///
    /// # Errors
    /// [`TooManyNamed`].
    pub fn of(fields: Fields<'a>) -> Result<EndToEnd<'a>, TooManyNamed> {
        let mut named = [&b""[..]; NAMED_MAX];
        let mut named_count = 0;
        for option in fields.values("connection").flat_map(list::members) {
            let is_close = option.eq_ignore_ascii_case(b"close");
            if is_close || is_of_connection(option) || named[..named_count].contains(&option) {
                continue;
            }
            *named.get_mut(named_count).ok_or(TooManyNamed)? = option;
            named_count += 1;
        }
        Ok(EndToEnd { fields, named, named_count, skipped: &[], keeps_upgrade: false })
    }

    /// That of an answer with this status. Its `Upgrade` belongs to a 426 (RFC 9110 15.5.22).
    ///
    /// # Errors
    /// [`TooManyNamed`].
    pub(crate) fn of_answer(fields: Fields<'a>, status: u16) -> Result<EndToEnd<'a>, TooManyNamed> {
        let end_to_end = EndToEnd::of(fields)?;
        Ok(if status == 426 { end_to_end.with_upgrade() } else { end_to_end })
    }

    /// Without these, which are written in lower case.
    pub(crate) fn without(self, skipped: &'static [&'static str]) -> EndToEnd<'a> {
        EndToEnd { skipped, ..self }
    }

    /// With `Upgrade`.
    pub(crate) fn with_upgrade(self) -> EndToEnd<'a> {
        EndToEnd { keeps_upgrade: true, ..self }
    }

    /// Names and values, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.fields.iter().filter(move |(name, _)| self.has(name))
    }

    fn has(&self, name: &[u8]) -> bool {
        let is_skipped = self.skipped.iter().any(|skipped| name.eq_ignore_ascii_case(skipped.as_bytes()));
        let is_kept_upgrade = self.keeps_upgrade && name.eq_ignore_ascii_case(b"upgrade");
        let stays = is_of_connection(name) || name.eq_ignore_ascii_case(b"content-length") || self.is_named(name);
        !is_skipped && (!stays || is_kept_upgrade)
    }

    /// How long the lines of these fields are at most, each with its CR LF, without white space around values.
    pub fn lines_bytes(&self) -> usize {
        self.fields.lines.len()
    }

    /// Whether `Connection` names this field.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.named[..self.named_count].iter().any(|named| named.eq_ignore_ascii_case(name))
    }
}

/// Fields that `Connection` may name, those left out that never go on. Each field is compared with each of them, so
/// that many would cost the square of a head's length; no client names more than a few.
pub const NAMED_MAX: usize = 16;

/// `Connection` names more than [`NAMED_MAX`] fields: a request is refused for it (400).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyNamed;

/// Whether a field may be passed on as a trailer: not what frames, routes, authenticates or describes the content (RFC
/// 9110 6.5.1), which a recipient that merges trailers would take for true.
pub fn may_trail(name: &[u8]) -> bool {
    const NOT: [&str; 27] = [
        "content-length",
        "host",
        "trailer",
        "content-encoding",
        "content-type",
        "content-range",
        "cache-control",
        "expect",
        "max-forwards",
        "pragma",
        "range",
        "authorization",
        "www-authenticate",
        "set-cookie",
        "cookie",
        "age",
        "date",
        "expires",
        "location",
        "retry-after",
        "vary",
        "warning",
        "forwarded",
        "via",
        "if-match",
        "if-none-match",
        "strict-transport-security",
    ];
    !is_of_connection(name)
        && !starts_with(name, "x-forwarded")
        && !NOT.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

/// Whether a name begins with this, in any case.
pub(crate) fn starts_with(name: &[u8], prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lines: &str) -> Vec<String> {
        let fields = Fields::check(lines.as_bytes(), LineEnds::CrLf).unwrap();
        EndToEnd::of(fields).unwrap().iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }

    #[test]
    fn rfc_9110_7_6_1_fields_of_one_connection_stay() {
        let lines = "Connection: close\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\
                     Proxy-Connection: close\r\nProxy-Authorization: x\r\nTransfer-Encoding: chunked\r\nA: b\r\n";
        assert_eq!(names(lines), ["A"]);
    }

    #[test]
    fn rfc_9110_7_6_1_fields_that_connection_names_stay() {
        let lines = "X-One: 1\r\nConnection: close, x-ONE ,,\r\nX-Two: 2\r\nconnection: x-two\r\nX-Three: 3\r\n";
        assert_eq!(names(lines), ["X-Three"]);
    }

    #[test]
    fn connection_names_a_few_fields_at_most() {
        let named = |count: usize| {
            let lines: String =
                (0..count).map(|number| format!("Connection: close, TE, x-{number}, x-0\r\n")).collect();
            EndToEnd::of(Fields::check(lines.as_bytes(), LineEnds::CrLf).unwrap()).err()
        };
        assert_eq!((named(NAMED_MAX), named(NAMED_MAX + 1)), (None, Some(TooManyNamed)));
    }

    #[test]
    fn white_space_around_values_is_removed() {
        let fields = Fields::check(b"A: \t b c\t \r\nB:\r\n", LineEnds::CrLf).unwrap();
        assert_eq!(fields.iter().collect::<Vec<_>>(), [(&b"A"[..], &b"b c"[..]), (b"B", b"")]);
    }

    #[test]
    fn what_is_no_field_is_refused_by_kind() {
        let cases = [
            ("A: b\n", FieldError::LineEnd),
            ("A: b", FieldError::LineEnd),
            ("A : b\r\n", FieldError::Name),
            (": b\r\n", FieldError::Name),
            ("A\r\n", FieldError::Name),
            ("A: b\r\n folded: c\r\n", FieldError::Name),
            ("A: b\rc\r\n", FieldError::Value),
            ("A: b\0\r\n", FieldError::Value),
        ];
        for (lines, error) in cases {
            assert_eq!(Fields::check(lines.as_bytes(), LineEnds::CrLf).err(), Some(error), "{lines:?}");
        }
        assert!(Fields::check(b"A: b\nC: d\r\n", LineEnds::Any).is_ok());
        assert_eq!(Fields::check(b"A: b\rc\n", LineEnds::Any).err(), Some(FieldError::Value));
    }

    #[test]
    fn rfc_9110_6_5_1_what_frames_or_describes_the_content_is_no_trailer() {
        for name in ["Content-Length", "transfer-encoding", "Host", "Set-Cookie", "X-Forwarded-For", "Content-Type"] {
            assert!(!may_trail(name.as_bytes()), "{name}");
        }
        for name in ["ETag", "grpc-status", "Server-Timing", "Digest"] {
            assert!(may_trail(name.as_bytes()), "{name}");
        }
    }
}
