//! WebSocket for clients of HTTP/2, who open one otherwise than those of HTTP/1.1 (RFC 8441).
//!
//! Owns: [`Opening`], what stands in the handshake with the application in place of what such clients do not send (RFC
//! 6455 4.1), and what the application has to answer to it.

use lamna_proto::base64;
use lamna_proto::gateway::AnswerHead;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// A handshake that we begin.
#[derive(Debug)]
pub(super) struct Opening {
    accept: String,
}

/// The field with our key.
const KEY: &str = "Sec-WebSocket-Key";
/// RFC 6455 1.3.
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

impl Opening {
    /// Appends the field with a new key. The random number is no secret: it shows that the answer is to this request.
    pub(super) fn begin(head: &mut Vec<u8>) -> Opening {
        let mut number = [0; 16];
        // Without random numbers it is the same one again, which an application does not mind.
        let _ = SystemRandom::new().fill(&mut number);
        let key = base64::encode(&number);
        for part in [KEY, ": ", &key, "\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        Opening { accept: accept_of(key.as_bytes()) }
    }

    /// Whether the application has agreed to this handshake.
    pub(super) fn is_accepted(&self, head: &AnswerHead<'_>) -> bool {
        let mut said = head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"sec-websocket-accept"));
        matches!((said.next(), said.next()), (Some((_, value)), None) if value == self.accept.as_bytes())
    }
}

/// Whether a field is for the handshake with the application only.
pub(super) fn is_of_handshake(name: &[u8]) -> bool {
    [&b"upgrade"[..], b"connection", b"sec-websocket-accept", b"sec-websocket-key"]
        .iter()
        .any(|one| name.eq_ignore_ascii_case(one))
}

fn accept_of(key: &[u8]) -> String {
    base64::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, ACCEPT_SUFFIX].concat()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_6455_1_3_the_answer_is_made_of_the_key() {
        assert_eq!(accept_of(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn each_handshake_has_a_key_of_its_own() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        Opening::begin(&mut first);
        Opening::begin(&mut second);
        assert!(first.starts_with(b"Sec-WebSocket-Key: ") && first.ends_with(b"==\r\n") && first != second);
    }
}
