//! The fields of a request that decide whether it is learned from, and as what.
//!
//! Owns: [`RequestTraits`], found in one pass over the field lines. Keeps nothing of them.

use lamna_proto::message::Request;

/// Why a request was made, as far as it says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestTraits {
    /// It is a guess of the client's, or of ours: no user has wanted it yet (`Sec-Purpose`, `Purpose`).
    pub(super) is_speculative: bool,
    /// It comes with credentials (`Authorization`): what it asks for may be one client's.
    pub(super) has_credentials: bool,
    /// Whether it navigates to a document (`Sec-Fetch-Dest`, Fetch Metadata); none where the client does not say.
    pub(super) is_document: Option<bool>,
}

impl RequestTraits {
    /// Reads the fields of `request`.
    pub(super) fn of(request: Request<'_>) -> RequestTraits {
        let lines = &request.bytes[usize::from(request.head.fields_at)..usize::from(request.head.length)];
        let mut traits = RequestTraits::default();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', lines) {
            traits.read(&lines[start..end]);
            start = end + 1;
        }
        traits
    }

    fn read(&mut self, line: &[u8]) {
        // The first letters and the place of the colon tell most lines apart.
        match line.first().map(u8::to_ascii_lowercase) {
            Some(b's') => {
                if let Some(purpose) = value(line, b"sec-purpose") {
                    self.is_speculative |= is_guess(purpose);
                } else if let Some(destination) = value(line, b"sec-fetch-dest") {
                    self.is_document = Some(destination.eq_ignore_ascii_case(b"document"));
                }
            }
            Some(b'p') => self.is_speculative |= value(line, b"purpose").is_some_and(is_guess),
            Some(b'a') => self.has_credentials |= value(line, b"authorization").is_some(),
            _ => {}
        }
    }
}

fn is_guess(purpose: &[u8]) -> bool {
    purpose.get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"prefetch"))
}

fn value<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let is_named = line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name);
    is_named.then(|| line[name.len() + 1..].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::limits::Limits;
    use lamna_proto::parse::head::{Parsed, parse};

    fn traits(fields: &str) -> RequestTraits {
        let text = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        let Ok(Parsed::Complete(head)) = parse(text.as_bytes(), &Limits::default()) else { panic!("it is a head") };
        RequestTraits::of(Request { bytes: text.as_bytes(), head: &head })
    }

    #[test]
    fn the_fields_say_why_a_request_was_made() {
        assert_eq!(traits("Host: a\r\nAccept: */*\r\n"), RequestTraits::default());
        assert_eq!(traits("Sec-Fetch-Dest: document\r\n").is_document, Some(true));
        assert_eq!(traits("sec-fetch-dest:style\r\n").is_document, Some(false));
        assert!(traits("Sec-Purpose: prefetch;prerender\r\n").is_speculative);
        assert!(traits("Purpose: prefetch\r\n").is_speculative);
        assert!(traits("Host: a\r\nauthorization: Basic x\r\n").has_credentials);
    }
}
