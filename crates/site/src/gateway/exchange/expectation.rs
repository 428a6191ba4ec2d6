//! The expectation of a client that waits to be told to send its content (`Expect: 100-continue`, RFC 9110 10.1.1).
//!
//! Owns: [`Expectation`], how far it is. Guarantees: a client is not told to send content before the application has
//! said so or has been quiet for [`PATIENCE_MS`]; an application that refuses the request by its head gets none of it.
//! Which applications are asked is remembered in `upstream::expectations`.
//!
//! ```text
//! None          the client has not asked, or the content is kept here first
//! Asked --the head has left--> Waits --100, or the patience is over--> Met: content is taken
//!   |                            |
//!   +---------a final answer-----+--> Refused: none is taken, unless another place is asked, which is Asked again
//! ```

use lamna_proto::time::Instant;

/// How long an application may take to say whether it wants the content. Clients wait about as long (curl: 1 s).
const PATIENCE_MS: u32 = 1_000;
/// How far an expectation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    None,
    /// The head of the request has it.
    Asked,
    /// The head has left, and the application has so long.
    Waits(Instant),
    Met,
    Refused,
}

impl Expectation {
    /// Whether content of the request is taken, or would be.
    pub(super) fn lets_content(self) -> bool {
        matches!(self, Expectation::None | Expectation::Met)
    }

    /// Until when it waits.
    pub(super) fn until(self) -> Option<Instant> {
        if let Expectation::Waits(until) = self { Some(until) } else { None }
    }

    /// The request is sent from its beginning.
    pub(super) fn begin_again(&mut self) {
        if let Expectation::Waits(_) | Expectation::Refused = self {
            *self = Expectation::Asked;
        }
    }

    /// The application wants the content.
    pub(super) fn meet(&mut self) {
        if let Expectation::Asked | Expectation::Waits(_) = self {
            *self = Expectation::Met;
        }
    }

    /// The application has answered without it.
    pub(super) fn refuse(&mut self) {
        if let Expectation::Asked | Expectation::Waits(_) = self {
            *self = Expectation::Refused;
        }
    }

    /// The head has left if it `is_sent`, and the application has been quiet until `now`; its time for an answer is
    /// `timeout_ms`. Whether it has not answered.
    pub(super) fn advance(&mut self, is_sent: bool, now: Instant, timeout_ms: u32) -> bool {
        match *self {
            // Of a time that is short, half is left for the answer.
            Expectation::Asked if is_sent => *self = Expectation::Waits(now.after_ms(PATIENCE_MS.min(timeout_ms / 2))),
            Expectation::Waits(until) if now >= until => {
                *self = Expectation::Met;
                return true;
            }
            _ => {}
        }
        false
    }
}
