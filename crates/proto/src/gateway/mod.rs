//! Gateways: requests that another program answers, over HTTP/1.1, FastCGI, SCGI, uwsgi or CGI.
//!
//! Owns: the codecs, and what they have in common. [`Inbound`] is a request as we understood it; [`AnswerStep`] is what
//! a reader found in what the application sent; [`GatewayError`] is what can go wrong and what the client is told.
//! Guarantees: pure. A codec takes slices of bytes and gives out bytes and ranges. It holds a bounded number of bytes
//! whatever the application sends, and its outcome does not depend on how the input is divided. What goes to an
//! application is written from an [`Inbound`]; bytes of the client's head are never passed through. Does not connect,
//! wait, choose an upstream (that is `lamna_policy::upstream`) or write the answer to the client.
//!
//! # How an engine carries out a gateway
//! By a [`Program`](crate::exchange::program::Program), which the server has for all but CGI (`gateway/` there): it is
//! begun once, goes with its exchange, waits for a socket, and gives its answer in parts.
//!
//! - *Needs.* The look-up of a request whose route is a gateway gives a program that holds the channel to the
//!   application: its socket, one of the readers below, and two buffers. A step sends what content there is, and reads
//!   what has come. It ends with what it waits for: content, room in the answer, or the socket (readable, writable,
//!   until when). An event loop or a ring then waits for that socket as for its own, a thread engine in its thread. The
//!   answer is given out as its head ([`AnswerStep::Head`]), content, and the end.
//! - *Streams.* Request content goes to the application while the answer comes back. Each direction has one buffer of
//!   fixed size. A reader consumes what the other side has room for, and no more: what is not consumed stays in the
//!   buffer, the full buffer stops the reading of the socket, and the kernel's window stops the sender. Where the
//!   application has to know the length first (all but HTTP/1.1), content without a length is kept until it is whole
//!   ([`RequestContent::Buffered`]), or refused (411) unless it turns out that there is none. An answer that comes
//!   before the content has been sent ends the sending: the connection is not kept.
//! - *Readers* are called until they give [`AnswerStep::Incomplete`]. The head of an HTTP/1.1 answer has to fit the
//!   buffer whole: a full buffer of which nothing is consumed is an error ([`http1::AnswerReader::handle_full`]).
//! - *Live switch.* The channel is plain data, and goes to the next engine with the exchange. A step that is under way
//!   is waited for, as for every program.
//! - *Upgrade of the program.* A channel does not travel between processes: the old process serves what has begun to
//!   its end, within the drain time.
//! - *Failures.* Before the head has gone to the client, an error becomes [`GatewayError::status`]. After that nothing
//!   can be said: the connection to the client is broken off so that no cache and no client takes the answer for whole.
//! - *No second try of what has an effect.* Whether another upstream may be asked is decided in one place,
//!   `lamna_policy::upstream::retry`. It needs to know whether a byte of the request was sent. A helper or an engine
//!   that ends in the middle is a failure, not a reason to run the request again.
//! - *End of the client.* When the client leaves, the upstream connection is closed ([`fastcgi::abort`] first, where
//!   that keeps it usable; a CGI process group is killed).

pub mod cgi;
mod error;
pub mod fastcgi;
pub mod fields;
pub mod forwarding;
pub mod http1;
pub mod path;
pub mod proxy;
pub mod scgi;
pub mod uwsgi;

use std::net::IpAddr;
use std::ops::Range;

pub use error::GatewayError;
use fields::{EndToEnd, Fields};

use crate::message::Content;

/// A request as we understood it. What goes to an application is written from this.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    /// The method as received.
    pub method: &'a [u8],
    /// The path in the one spelling that [`path::write`] gives it, so that what rules judged is what the application
    /// sees.
    pub path: &'a [u8],
    /// The query as received, without the question mark.
    pub query: Option<&'a [u8]>,
    /// The authority that was judged: of the target if it has one, or the value of `Host`.
    pub authority: Option<&'a [u8]>,
    /// All fields of the request.
    pub fields: Fields<'a>,
    /// The fields that the server says besides, whose names none of `fields` has in any spelling, unless they stand
    /// beside each other. One is `Host`, if the application is asked for another host than the client has.
    pub own: Fields<'a>,
    /// The content that follows.
    pub content: RequestContent,
    /// How the request was received.
    pub origin: Origin,
}

/// How a request was received, and from whom.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The peer of the connection and its port, 0 if that is not known; none on a Unix socket.
    pub client: Option<(IpAddr, u16)>,
    /// Which fields about the way of the request are kept and added to. The others are removed.
    pub believed: Believed,
    /// The client, by what is believed.
    pub behind: Option<IpAddr>,
    /// Whether the request came over TLS.
    pub is_secure: bool,
    /// The version in which it was received.
    pub protocol: Protocol,
}

/// Which fields about the way of a request a trusted proxy has written. A proxy that writes one of them passes the
/// others on as the client sent them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Believed {
    /// None: the peer is no trusted proxy.
    #[default]
    Nothing,
    /// `X-Forwarded-*`.
    XForwarded,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The version of HTTP in which a request was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Protocol {
    /// As in `SERVER_PROTOCOL` (RFC 3875 4.1.16).
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2.0",
            Protocol::Http3 => "HTTP/3.0",
        }
    }

    /// As in `Via` (RFC 9110 7.6.3).
    pub fn version(self) -> &'static str {
        &self.name()["HTTP/".len()..]
    }
}

/// The content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestContent {
    /// None, and none was announced.
    None,
    /// This many bytes; may be zero.
    Sized(u64),
    /// Some; how many is known when they have arrived.
    Streamed,
    /// Some, which is kept until all of it has arrived. The head says nothing of its length at first:
    /// [`http1::add_length`] and the like of the other codecs put the length into a head that has been written.
    Buffered,
}

impl From<Content> for RequestContent {
    fn from(content: Content) -> RequestContent {
        match content {
            Content::None => RequestContent::None,
            Content::Sized(bytes) => RequestContent::Sized(bytes),
            Content::Unsized => RequestContent::Streamed,
        }
    }
}

/// Whether a request with this method is told to have no content where it has none (RFC 9110 8.6): what receives it
/// expects some.
fn usually_has_content(method: &[u8]) -> bool {
    matches!(method, b"POST" | b"PUT" | b"PATCH")
}

/// Fields of one answer, beside the bound on the bytes of its head: what is done with each may depend on all.
pub const FIELDS_MAX: usize = 256;

/// The head of an application's answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerHead<'a> {
    /// 100 to 999.
    pub status: u16,
    /// The application's reason phrase; may be empty.
    pub reason: &'a [u8],
    /// The length that was announced. An answer to HEAD and a 304 have one without having content.
    pub content_bytes: Option<u64>,
    /// The fields that may be passed on. The framing and what concerns one connection only are not in it.
    pub fields: EndToEnd<'a>,
}

/// The result of one call of a reader. `consumed` bytes of the input are done with. The rest is given again, with more
/// behind it.
#[derive(Clone, Debug)]
#[must_use]
pub enum AnswerStep<'a> {
    /// More input is needed. Nothing of what is left was consumed.
    Incomplete {
        /// Bytes that are done with.
        consumed: usize,
    },
    /// A 1xx response. Another head follows. HTTP/1.0 clients do not get it (RFC 9110 15.2).
    Interim {
        /// Bytes that are done with.
        consumed: usize,
        /// The head.
        head: AnswerHead<'a>,
    },
    /// The head of the answer.
    Head {
        /// Bytes that are done with.
        consumed: usize,
        /// The head.
        head: AnswerHead<'a>,
    },
    /// The application changed to the protocol that was asked for (101). What follows on the connection, in both
    /// directions, is not HTTP: a tunnel.
    Switched {
        /// Bytes that are done with.
        consumed: usize,
        /// The head, with `Upgrade`, which the client has to see.
        head: AnswerHead<'a>,
    },
    /// CGI: the answer is what the server itself gives for this path and query (RFC 3875 6.2.2), asked for with GET.
    LocalRedirect {
        /// Bytes that are done with.
        consumed: usize,
        /// Begins with one slash.
        target: &'a [u8],
    },
    /// Content.
    Content {
        /// Bytes that are done with.
        consumed: usize,
        /// Where the content is in the input; may be empty.
        content: Range<usize>,
    },
    /// FastCGI: text for the error log.
    Diagnostic {
        /// Bytes that are done with.
        consumed: usize,
        /// Where the text is in the input. A line may come in pieces.
        text: Range<usize>,
    },
    /// The answer is whole.
    Ended {
        /// Bytes that are done with.
        consumed: usize,
    },
}
