//! Refusals of a peer's mistakes: one place maps each cause to a status and to close or keep.
//!
//! Owns: the closed list of refusals. Does not render pages: the driver of the core supplies one resource for each.

use crate::message::Status;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $status:expr, $closes:expr, $cause:expr;)*) => {
        /// Why a request is not served. The order is that of [`Refusal::ALL`], so it can index a table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refusal { $($(#[$doc])* $name),* }

        impl Refusal {
            /// Every refusal, in order of declaration.
            pub const ALL: &[Refusal] = &[$(Refusal::$name),*];

            /// The status that the peer is told (RFC 9110 15).
            pub fn status(self) -> Status {
                Status(match self { $(Refusal::$name => $status),* })
            }

            /// Whether the connection closes after the answer: always when the end of the message is in doubt, so that
            /// no byte of it can be taken for another request (RFC 9112 11.2).
            pub fn closes(self) -> bool {
                match self { $(Refusal::$name => $closes),* }
            }

            /// One sentence for the person who reads the answer.
            pub fn cause(self) -> &'static str {
                match self { $(Refusal::$name => $cause),* }
            }
        }
    };
}

refusals! {
    /// RFC 9112 3: method SP target SP version.
    RequestLine = 400, true, "The request line is not a method, a target and a version separated by single spaces.";
    /// RFC 9112 2.2: lines end with CR LF.
    LineEnd = 400, true, "A line of the request head does not end with CR LF, or holds a CR elsewhere.";
    /// RFC 9112 3.2: the target has none of the four forms.
    TargetForm = 400, true, "The request target has none of the four forms, or the wrong one for its method.";
    /// RFC 3986 2.1 and our rules on paths.
    TargetPath = 400, false, "The path of the request target has a broken escape, NUL, an encoded slash or a raw backslash, or climbs above the root.";
    /// RFC 9112 5: field-name ":" value.
    FieldName = 400, true, "A header field name is empty, holds a byte that is not allowed, or is followed by white space.";
    /// RFC 9112 5.2: obs-fold is refused.
    FieldFolding = 400, true, "A header field line begins with white space: folded lines are not accepted.";
    /// RFC 9110 5.5: control bytes.
    FieldValue = 400, true, "A header field value holds a control byte.";
    /// RFC 9112 3.2: Host is required in HTTP/1.1.
    HostMissing = 400, true, "The request has no Host field.";
    /// RFC 9112 3.2: exactly one Host.
    HostRepeated = 400, true, "The request has more than one Host field.";
    /// RFC 9110 7.2: Host is uri-host and an optional port.
    HostInvalid = 400, true, "The Host field or the authority of the target is not a host and an optional port.";
    /// RFC 9112 6.3: Content-Length.
    ContentLengthInvalid = 400, true, "Content-Length is not one decimal number.";
    /// RFC 9112 6.1: both framings.
    FramingConflict = 400, true, "The request has both Transfer-Encoding and Content-Length.";
    /// RFC 9112 6.1: Transfer-Encoding in HTTP/1.0, or chunked not last, or twice.
    TransferEncodingInvalid = 400, true, "Transfer-Encoding is not allowed here, or does not end with chunked exactly once.";
    /// RFC 9112 7.1: chunked framing.
    ChunkInvalid = 400, true, "The chunked content is malformed.";
    /// The peer closed its side in the middle of a message (RFC 9112 8).
    Incomplete = 400, true, "The connection ended in the middle of the request.";
    /// RFC 9110 15.5.6.
    MethodNotAllowed = 405, false, "This resource can be read only: GET, HEAD and OPTIONS are allowed.";
    /// RFC 9110 15.5.6, answered without waiting for content that the client may or may not send (RFC 9110 10.1.1).
    MethodNotAllowedUnread = 405, true, "This resource can be read only: GET, HEAD and OPTIONS are allowed.";
    /// RFC 9110 15.5.9.
    Timeout = 408, true, "The request did not arrive in time.";
    /// RFC 9110 15.5.12.
    LengthRequired = 411, true, "The application here has to know the length of the content before it comes.";
    /// RFC 9110 15.5.13.
    PreconditionFailed = 412, false, "A precondition of the request does not hold for the resource as it is now.";
    /// RFC 9110 15.5.14.
    ContentTooLarge = 413, true, "The content of the request is larger than this server reads.";
    /// RFC 9110 15.5.15.
    TargetTooLong = 414, true, "The request target is longer than this server reads.";
    /// RFC 9110 15.5.17.
    RangeNotSatisfiable = 416, false, "None of the requested ranges lies within the resource.";
    /// RFC 9110 15.5.18.
    ExpectationFailed = 417, true, "The only expectation that this server meets is 100-continue.";
    /// RFC 9110 15.5.20.
    Misdirected = 421, false, "This connection was made for a site with another certificate: ask for this one on a connection of its own.";
    /// RFC 6585 5.
    FieldsTooLarge = 431, true, "The header fields are more or longer than this server reads.";
    /// Our fault: reading the resource failed before a byte of the answer was sent.
    ReadFailed = 500, false, "Reading the resource failed.";
    /// Our fault: what was to answer the request did not.
    RunFailed = 500, false, "Answering the request failed.";
    /// RFC 9110 15.6.2: a method we do not know.
    MethodUnknown = 501, true, "This server does not know the request method.";
    /// RFC 9112 6.1: a transfer coding we do not know.
    TransferCodingUnknown = 501, true, "The only transfer coding that this server knows is chunked.";
    /// RFC 9110 15.6.6.
    VersionUnsupported = 505, true, "This server speaks HTTP/1.0 and HTTP/1.1 on this connection.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_variants() {
        for (index, refusal) in Refusal::ALL.iter().enumerate() {
            assert_eq!(*refusal as usize, index);
        }
    }

    #[test]
    fn every_refusal_is_an_error_status_with_a_sentence() {
        for refusal in Refusal::ALL {
            assert!(refusal.status().0 >= 400, "{refusal:?}");
            assert!(refusal.cause().ends_with('.'), "{refusal:?}");
        }
    }
}
