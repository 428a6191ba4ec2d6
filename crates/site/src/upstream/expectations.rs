//! Whether an application answers clients that wait to be told to send their content (RFC 9110 10.1.1).
//!
//! Owns: [`Expectations`], of one application. Guarantees: one that does not answer is asked again later, so that it
//! costs a client the wait once in [`ASKED_AGAIN_AFTER`] requests. Does not wait.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Requests whose clients are told at once, behind one whose expectation was not answered.
const ASKED_AGAIN_AFTER: u32 = 100;

/// Whether the application answers, as far as that is known.
#[derive(Debug, Default)]
pub struct Expectations {
    /// Requests that are not asked about, because one was not answered.
    unasked: AtomicU32,
}

impl Expectations {
    /// Whether the next request is to ask the application.
    pub fn asks(&self) -> bool {
        self.unasked.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// A request has asked, and was not answered.
    pub fn note_unanswered(&self) {
        self.unasked.store(ASKED_AGAIN_AFTER, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_does_not_answer_is_asked_again_later() {
        let expectations = Expectations::default();
        assert!(expectations.asks() && expectations.asks());
        expectations.note_unanswered();
        assert!((0..ASKED_AGAIN_AFTER).all(|_| !expectations.asks()));
        assert!(expectations.asks() && expectations.asks(), "it has not said that it does not");
    }
}
