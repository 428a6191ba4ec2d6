//! The properties of a request that hints go by.
//!
//! Owns: which requests are navigations that get hints ([`Navigation`]), which fetch ahead ([`fetches_ahead`]), and
//! which are parts of a page ([`part_of`]): by Fetch Metadata (`Sec-Fetch-*`), and by `Accept` where a client has none.
//! Keeps nothing of them.

use lamna_filter::subresources::{CrossOrigin, Destination};
use lamna_proto::message::{Field, FieldSet, Method, Request, Version};

/// A request for a page that a person wants to see now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Navigation {
    /// The client has said that it navigates, and to a document.
    pub is_said: bool,
    /// Over HTTP/1.1, where not every client can read an interim answer.
    pub is_http1: bool,
}

/// A resource of a page, by its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The use for which the page fetches it.
    pub destination: Destination,
    pub(crate) cross_origin: CrossOrigin,
}

/// With these the answer may not be the page: a part of it, or that the client has it already.
const CONDITIONS: FieldSet =
    FieldSet::of(&[Field::Range, Field::IfMatch, Field::IfNoneMatch, Field::IfModifiedSince, Field::IfUnmodifiedSince]);

impl Navigation {
    /// Whether `request` is one. Looks at no line of most requests that are none.
    pub fn of(request: Request<'_>) -> Option<Navigation> {
        let head = request.head;
        let is_plain =
            head.method == Method::Get && head.version != Version::Http10 && !head.present.intersects(CONDITIONS);
        // What browsers send with navigations begins with this.
        let wants_page = request.field(Field::Accept).is_some_and(|accept| accept.starts_with(b"text/html"));
        if !is_plain || !wants_page {
            return None;
        }
        let mut navigation = Navigation { is_said: false, is_http1: head.version == Version::Http11 };
        let (mut mode, mut destination) = (None, None);
        for (name, value) in request.lines() {
            match name.first().map(u8::to_ascii_lowercase) {
                Some(b's') if is(name, b"sec-fetch-mode") => mode = Some(value),
                Some(b's') if is(name, b"sec-fetch-dest") => destination = Some(value),
                // A guess of the client's: it may never be seen.
                Some(b's') if is(name, b"sec-purpose") => return None,
                Some(b's') if is(name, b"save-data") && value.eq_ignore_ascii_case(b"on") => return None,
                Some(b'p') if is(name, b"purpose") => return None,
                _ => {}
            }
        }
        match (mode, destination) {
            (Some(b"navigate"), Some(b"document")) => navigation.is_said = true,
            (None, None) => {}
            _ => return None,
        }
        Some(navigation)
    }
}

/// Whether `request` fetches something ahead (`Sec-Purpose: prefetch`): none if it does not, and else whether all of
/// it, because the client has not got it already.
pub fn fetches_ahead(request: Request<'_>) -> Option<bool> {
    let head = request.head;
    let mut purposes = request.lines_named(b"sec-purpose").chain(request.lines_named(b"purpose"));
    let is_ahead = head.method == Method::Get && purposes.any(|purpose| purpose.starts_with(b"prefetch"));
    is_ahead.then(|| !head.present.intersects(CONDITIONS))
}

/// The part of a page that `request` asks for, if its fields say so and the kind is worth a hint.
pub fn part_of(request: Request<'_>) -> Option<Part> {
    if request.head.method != Method::Get || request.head.present.intersects(CONDITIONS) {
        return None;
    }
    let (mut mode, mut destination) = (&b""[..], &b""[..]);
    for (name, value) in request.lines() {
        match name.first().map(u8::to_ascii_lowercase) {
            Some(b's') if is(name, b"sec-fetch-mode") => mode = value,
            Some(b's') if is(name, b"sec-fetch-dest") => destination = value,
            Some(b's') if is(name, b"sec-purpose") => return None,
            // What is one client's is not for others.
            Some(b'a') if is(name, b"authorization") => return None,
            _ => {}
        }
    }
    let destination = match (destination, mode) {
        (b"style", _) => Destination::Style,
        (b"script", b"cors") => Destination::Module,
        (b"script", _) => Destination::Script,
        (b"font", _) => Destination::Font,
        (b"empty", b"cors") => Destination::Fetch,
        _ => return None,
    };
    let is_cors = mode == b"cors";
    let cross_origin = if is_cors { CrossOrigin::Anonymous } else { CrossOrigin::None };
    Some(Part { destination, cross_origin })
}

fn is(name: &[u8], other: &[u8]) -> bool {
    name.eq_ignore_ascii_case(other)
}
