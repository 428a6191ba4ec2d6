//! Links that whoever drives a connection adds: `103 Early Hints` (RFC 8297), what a client can begin to fetch before
//! the answer is there, and a link that goes with the answer itself, for what is likely to be wanted after it.
//!
//! Owns: [`LinkField`], a `Link` field (RFC 8288) as both versions of HTTP write it, built once. Guarantees: writing
//! hints allocates nothing once the output has grown; a value that is not one of a field is none. Does not decide what
//! is hinted, and to whom: whoever drives the connection does
//! ([`give_early_hints`](crate::conn::Connection::give_early_hints),
//! [`give_link`](crate::conn::Connection::give_link)).

use crate::conn::http2::hpack::write_field;
use crate::message::Status;
use crate::parse::head::is_field_value;
use crate::resource::status_line;

/// The status of such an answer.
pub(crate) const EARLY_HINTS: Status = Status(103);

/// The longest value of a [`LinkField`], in bytes: with as many as a page has, the answer still fits a frame.
pub const LINK_BYTES_MAX: usize = 512;

/// A `Link` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkField {
    /// As a line, with its CRLF, and behind it as a part of a header block that refers to no table of a connection.
    bytes: Box<[u8]>,
    line_length: u16,
}

impl LinkField {
    /// The field of this value, as in `</style.css>; rel=preload; as=style`. None if it is empty, longer than
    /// [`LINK_BYTES_MAX`] or not the value of a field.
    pub fn new(value: &str) -> Option<LinkField> {
        let is_value = (1..=LINK_BYTES_MAX).contains(&value.len()) && is_field_value(value.as_bytes());
        if !is_value || value.trim_ascii() != value {
            return None;
        }
        let mut bytes = [b"Link: ", value.as_bytes(), b"\r\n"].concat();
        let line_length = bytes.len() as u16;
        write_field(b"link", value.as_bytes(), &mut bytes);
        Some(LinkField { bytes: bytes.into_boxed_slice(), line_length })
    }

    /// The value.
    pub fn value(&self) -> &str {
        let line = self.line();
        std::str::from_utf8(&line["Link: ".len()..line.len() - "\r\n".len()]).unwrap_or_default()
    }

    /// As a line of HTTP/1.x, with its CRLF.
    pub(crate) fn line(&self) -> &[u8] {
        &self.bytes[..usize::from(self.line_length)]
    }

    /// As a part of a header block.
    pub(crate) fn block(&self) -> &[u8] {
        &self.bytes[usize::from(self.line_length)..]
    }
}

/// Writes them as HTTP/1.1 does.
pub(crate) fn write_http1<'l>(links: impl Iterator<Item = &'l LinkField>, output: &mut Vec<u8>) {
    status_line(output, EARLY_HINTS, None);
    links.for_each(|link| output.extend_from_slice(link.line()));
    output.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_none_of_a_field_is_no_link() {
        let value = "</a.css>; rel=preload; as=style";
        assert_eq!(LinkField::new(value).map(|link| link.value().to_owned()).as_deref(), Some(value));
        let long = "x".repeat(LINK_BYTES_MAX + 1);
        for wrong in ["", " </a>", "</a>\r\nX: y", "</a\0>", &long] {
            assert_eq!(LinkField::new(wrong), None, "{wrong}");
        }
        assert!(LinkField::new(&long[1..]).is_some());
    }
}
