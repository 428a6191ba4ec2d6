//! Failures between us and an application, and the status that the client is told.
//!
//! Owns: the closed list. The client is told the status only. The sentence is for the error log, together with the name
//! of the upstream: it says nothing about the request.

use std::fmt;

use crate::message::Status;

macro_rules! gateway_errors {
    ($($(#[$doc:meta])* $name:ident = $status:expr, $cause:expr;)*) => {
        /// Why an application's answer could not be passed on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum GatewayError { $($(#[$doc])* $name),* }

        impl GatewayError {
            /// Every error, in order of declaration.
            pub const ALL: &[GatewayError] = &[$(GatewayError::$name),*];

            /// The status for the client if it has not been told anything yet (RFC 9110 15.6.3 to 15.6.5).
            pub fn status(self) -> Status {
                Status(match self { $(GatewayError::$name => $status),* })
            }

            /// One sentence for the error log.
            pub fn cause(self) -> &'static str {
                match self { $(GatewayError::$name => $cause),* }
            }
        }
    };
}

gateway_errors! {
    /// Every upstream is held to be down.
    NoneAvailable = 503, "No upstream is available.";
    /// The connection was refused or could not be established.
    Unreachable = 502, "The upstream cannot be reached.";
    /// The TLS handshake failed: the certificate is not trusted or names another server, or no TLS is spoken there.
    Handshake = 502, "The TLS handshake with the upstream failed.";
    /// The application says that it has too much to do (FastCGI: FCGI_OVERLOADED).
    Overloaded = 503, "The application is overloaded.";
    /// The connection was not established in time.
    ConnectTimedOut = 504, "The connection to the upstream was not established in time.";
    /// The application did not take the request in time.
    SendTimedOut = 504, "The application did not take the request in time.";
    /// No byte of the answer, or no further one, came in time.
    AnswerTimedOut = 504, "The application did not answer in time.";
    /// The connection ended before the first byte of the answer. On a connection that was kept it may have been closed
    /// before the request reached the application.
    Closed = 502, "The application closed the connection without an answer.";
    /// The connection ended in the middle of the answer.
    BrokenOff = 502, "The application broke off its answer.";
    /// Not a status line of HTTP/1.
    StatusLine = 502, "The answer does not begin with an HTTP/1 status line.";
    /// A line of the head that is not a field.
    Field = 502, "A line of the head of the answer is not a header field.";
    /// The head is too long, or has too many fields.
    HeadTooLong = 502, "The head of the answer is too long.";
    /// More than one length, or one that is not a number.
    Length = 502, "The length of the answer is not one number.";
    /// A transfer coding other than `chunked`, or one in HTTP/1.0.
    Coding = 502, "The answer has a transfer coding that was not asked for.";
    /// Malformed chunks.
    Chunked = 502, "The chunked coding of the answer is malformed.";
    /// More content than was announced.
    TooLong = 502, "The answer is longer than the length that it announced.";
    /// An unrequested 101, or one to another protocol.
    Switch = 502, "The application changed to a protocol that was not asked for.";
    /// No 101 where a tunnel was asked for.
    NoSwitch = 502, "The application did not change to the protocol that was asked for.";
    /// Interim answers without end.
    Interim = 502, "The application sends interim answers and no final one.";
    /// FastCGI: a record of another version, of an unknown type, for another request, or of a wrong length.
    Record = 502, "The application sent a malformed FastCGI record.";
    /// FastCGI: the application does not take the request (another role, or one at a time).
    Rejected = 502, "The FastCGI application does not take requests of this kind.";
    /// CGI: the head has no fields, or `Status`, `Location` or `Content-Type` more than once, or not as RFC 3875 6.3
    /// says.
    Script = 502, "The head of the script's output is not one of a CGI response.";
    /// CGI: one path after the other is named in the place of an answer.
    Redirects = 502, "The application led from one path of the server to another too often.";
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause())
    }
}

impl std::error::Error for GatewayError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_a_status_of_a_gateway_and_a_sentence() {
        for error in GatewayError::ALL {
            assert!(matches!(error.status().0, 502..=504), "{error:?}");
            assert!(error.cause().ends_with('.'), "{error:?}");
        }
    }
}
