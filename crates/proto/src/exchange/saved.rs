//! The head of a request that is kept, for as long as it is needed.
//!
//! Owns: [`Saved`], and what stands in the place of a request whose application names another path of the server (RFC
//! 3875 6.2.2). Guarantees: the received head stays as it was, for the log. Does not count how often that is allowed:
//! the resolution does.

use std::sync::Arc;

use super::Led;
use super::early_hints::LinkField;
use super::given::Finding;
use super::rules::requested_resource_of;
use crate::encoding::{Encoded, Malformed, Portable, Source, checked};
use crate::gateway::fields::Fields;
use crate::limits::Limits;
use crate::message::{Head, Method, Request, RequestId};
use crate::parse::connection_fields::is_of_content;
use crate::parse::head::{self, Parsed};
use crate::parse::path;
use crate::parse::target::{self, Target};

/// A copy of a request head.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: Head,
    /// The finding about it. It does not travel to another process: there it is found out again.
    pub(crate) found: Option<Finding>,
    /// Goes with its answer, if that is a page. It does not travel either: no client misses it.
    pub(crate) link: Option<Arc<LinkField>>,
    redirected: Option<Box<Redirected>>,
    /// How often the driver has been asked what it stands for. This does not travel: another process is asked for the
    /// first time.
    asked: u8,
}

/// The request that is answered in the place of the received one.
#[derive(Debug)]
struct Redirected {
    bytes: Vec<u8>,
    head: Head,
    /// How many there have been, with this one.
    count: u8,
    /// The paths before this one, normalised. They do not travel: another process counts the request anew.
    earlier: Vec<Box<[u8]>>,
    /// How often the driver has been asked since.
    asked: u8,
}

/// How often the driver is asked what a request stands for. Who has to say who he is, and is asked about by a service,
/// and waits for others, makes it three or four times.
const ASKED_MAX: u8 = 64;

/// Fields of content that is not there any more, beside those of [`is_of_content`].
const OF_CONTENT: [&str; 6] =
    ["content-length", "content-type", "content-encoding", "content-language", "trailer", "expect"];

impl Saved {
    pub(crate) fn new(bytes: Vec<u8>, head: Head) -> Saved {
        Saved { bytes, head, found: None, link: None, redirected: None, asked: 0 }
    }

    /// The request that is answered.
    pub(crate) fn request(&self) -> Request<'_> {
        match &self.redirected {
            Some(redirected) => Request { bytes: &redirected.bytes, head: &redirected.head },
            None => self.received(),
        }
    }

    /// The request as it was received.
    pub(crate) fn received(&self) -> Request<'_> {
        Request { bytes: &self.bytes, head: &self.head }
    }

    /// The driver is asked what it stands for: whether it was asked before. The first time counts as a request,
    /// whatever stands in it.
    pub(crate) fn ask(&mut self) -> bool {
        let was_asked = self.asked > 0;
        self.asked = self.asked.saturating_add(1);
        if let Some(redirected) = &mut self.redirected {
            redirected.asked = redirected.asked.saturating_add(1);
        }
        was_asked
    }

    /// Whether its target and the programs that answer it send it to each other: nothing comes of asking once more.
    pub(crate) fn goes_round(&self) -> bool {
        self.asked > ASKED_MAX
    }

    /// How often another target has been put in the place of the request's.
    pub(crate) fn redirects(&self) -> u8 {
        self.redirected.as_ref().map_or(0, |redirected| redirected.count)
    }

    /// The way to the target that has been put in the place of the request's.
    pub(crate) fn led(&self) -> Option<Led<'_>> {
        let Redirected { earlier, asked, .. } = &**self.redirected.as_ref()?;
        (!earlier.is_empty()).then_some(Led { earlier, is_first: *asked <= 1 })
    }

    /// Bytes of memory beside the structure.
    pub(crate) fn memory_bytes(&self) -> usize {
        let earlier = |paths: &[Box<[u8]>]| paths.iter().map(|path| size_of_val(path) + path.len()).sum::<usize>();
        let redirected = |one: &Redirected| size_of::<Redirected>() + one.bytes.capacity() + earlier(&one.earlier);
        self.bytes.capacity() + self.redirected.as_deref().map_or(0, redirected)
    }

    /// From now on it is answered as one that reads `target` of the same host, by the same client. What was found out
    /// does not count for that.
    ///
    /// # Errors
    /// `target` is no path, or the head becomes too long.
    pub(crate) fn redirect(&mut self, target: &[u8]) -> Result<(), Malformed> {
        let is_path = matches!(target::parse(target, false), Ok(Target::Origin { .. }));
        checked((), is_path)?;
        let bytes = head_for(self.request(), target);
        let head = Head { version: self.head.version, ..parsed(&bytes, self.head.id)? };
        let count = self.redirects().saturating_add(1);
        let path = normal_path(self.request());
        let mut earlier = self.redirected.take().map_or(Vec::new(), |redirected| redirected.earlier);
        earlier.push(path);
        self.found = None;
        self.redirected = Some(Box::new(Redirected { bytes, head, count, earlier, asked: 0 }));
        Ok(())
    }
}

/// The path that `request` asks for. What is no path counts where all do.
fn normal_path(request: Request<'_>) -> Box<[u8]> {
    let mut normal = Vec::new();
    match path::normalise_for_rules(requested_resource_of(request).path, &mut normal) {
        Ok(_) => normal.into(),
        Err(_) => b"/"[..].into(),
    }
}

/// The head of a request that reads `target` in the place of `asked`.
fn head_for(asked: Request<'_>, target: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(usize::from(asked.head.length) + target.len());
    let mut write = |parts: &[&[u8]]| parts.iter().for_each(|part| bytes.extend_from_slice(part));
    let method = if asked.head.method == Method::Head { "HEAD " } else { "GET " };
    write(&[method.as_bytes(), target, b" HTTP/1.1\r\n"]);
    // A host in the target overrides the field (RFC 9112 3.2.2).
    let authority = match target::parse(asked.target(), false) {
        Ok(Target::Absolute { authority, .. }) => Some(authority),
        _ => None,
    };
    if let Some(authority) = authority {
        write(&[b"Host: ", authority, b"\r\n"]);
    }
    for (name, value) in Fields::of(asked).iter() {
        let is_replaced = authority.is_some() && name.eq_ignore_ascii_case(b"host");
        let is_left_out = is_of_content(name) || OF_CONTENT.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
        if !is_replaced && !is_left_out {
            write(&[name, b": ", value, b"\r\n"]);
        }
    }
    write(&[b"\r\n"]);
    bytes
}

/// The parts of a head that was accepted under other limits, perhaps.
fn parsed(bytes: &[u8], id: RequestId) -> Result<Head, Malformed> {
    let bytes_max = usize::from(u16::MAX);
    let limits =
        Limits { head_bytes_max: bytes_max, target_bytes_max: bytes_max, fields_max: bytes_max, ..Limits::default() };
    match head::parse(bytes, &limits) {
        Ok(Parsed::Complete(head)) if usize::from(head.length) == bytes.len() => Ok(Head { id, ..head }),
        _ => Err(Malformed),
    }
}

impl Portable for Saved {
    fn write(&self, to: &mut Encoded) {
        self.bytes.write(to);
        self.head.id.0.write(to);
        match &self.redirected {
            Some(redirected) => {
                redirected.count.write(to);
                redirected.bytes.write(to);
            }
            None => 0_u8.write(to),
        }
    }

    fn read(from: &mut Source<'_>) -> Result<Saved, Malformed> {
        let (bytes, id) = (Vec::read(from)?, RequestId(u64::read(from)?));
        let mut saved = Saved::new(Vec::new(), parsed(&bytes, id)?);
        saved.bytes = bytes;
        let count = u8::read(from)?;
        if count > 0 {
            let bytes = Vec::read(from)?;
            let head = parsed(&bytes, id)?;
            saved.redirected = Some(Box::new(Redirected { bytes, head, count, earlier: Vec::new(), asked: 0 }));
        }
        Ok(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Version;

    fn saved(text: &str) -> Saved {
        Saved::new(text.into(), parsed(text.as_bytes(), RequestId(7)).unwrap())
    }

    fn text(request: Request<'_>) -> &str {
        std::str::from_utf8(request.bytes).unwrap()
    }

    #[test]
    fn what_is_answered_is_another_request_and_what_was_received_stays() {
        let received = "POST /cgi-bin/a?b HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\nAccept: text/html\r\nCookie: c=d\r\n\r\n";
        let mut saved = saved(received);
        saved.redirect(b"/hello.txt?x=y").unwrap();
        let expected = "GET /hello.txt?x=y HTTP/1.1\r\nHost: a.example\r\nAccept: text/html\r\nCookie: c=d\r\n\r\n";
        assert_eq!((text(saved.request()), text(saved.received())), (expected, received));
        assert_eq!((saved.request().head.id, saved.redirects()), (RequestId(7), 1));
        saved.redirect(b"/again").unwrap();
        assert_eq!((saved.request().target(), saved.redirects()), (&b"/again"[..], 2));
    }

    #[test]
    fn what_was_asked_about_before_is_known_until_the_driver_was_asked_about_the_path_that_is_named() {
        let mut saved = saved("GET /a/%62/../c?d HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert!(!saved.ask() && saved.led().is_none());
        for (number, earlier) in [&[&b"/a/c"[..]][..], &[b"/a/c", b"/next"]].into_iter().enumerate() {
            saved.redirect(if number == 0 { b"/next?e" } else { b"/last" }).unwrap();
            assert!(saved.ask(), "it is the same request");
            let led = saved.led().unwrap();
            assert!(led.is_first && led.earlier.iter().map(|path| &**path).eq(earlier.iter().copied()), "{led:?}");
            assert!(saved.ask() && !saved.led().unwrap().is_first);
        }
    }

    #[test]
    fn head_stays_head_and_the_host_that_was_asked_for_stays() {
        let mut saved = saved("HEAD http://b.example:81/x HTTP/1.0\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        saved.redirect(b"/y").unwrap();
        let expected = "HEAD /y HTTP/1.1\r\nHost: b.example:81\r\nConnection: close\r\n\r\n";
        assert_eq!((text(saved.request()), saved.request().head.version), (expected, Version::Http10));
    }

    #[test]
    fn what_is_no_path_is_refused_and_nothing_changes() {
        let received = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut saved = saved(received);
        let too_long = format!("/{}", "a".repeat(70_000));
        for target in ["", "x", "/a b", "/a#b", "/a\r\nX: y", &too_long] {
            assert_eq!(saved.redirect(target.as_bytes()), Err(Malformed), "{:?}", &target[..target.len().min(9)]);
        }
        assert_eq!((text(saved.request()), saved.redirects()), (received, 0));
    }
}
