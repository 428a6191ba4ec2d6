//! Which requests may be given to another upstream when the first has failed.
//!
//! Owns: the rule, and the bound on how many. Guarantees: what may have had an effect is not asked again, unless the
//! method is idempotent, and the route lets those be asked again or a connection was kept that ended before the answer
//! began (RFC 9110 9.2.2: a proxy must not retry other methods by itself); nothing
//! is asked again of which the client has been told anything; retries are a bounded part of all requests, so that they
//! cannot multiply the load of what is failing.

/// Which requests a route lets be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Retries {
    /// None.
    Never,
    /// Those that the upstream has certainly not begun to work on.
    NotTaken,
    /// Those, and requests with safe methods: they have no effect that the client asked for (RFC 9110 9.2.1).
    #[default]
    Safe,
    /// Those, and requests with idempotent methods: asking twice has the effect of asking once, if no other request
    /// comes in between.
    Idempotent,
}

/// The possible effect of asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing (RFC 9110 9.2.1).
    Safe,
    /// The same again (RFC 9110 9.2.2).
    Idempotent,
    /// Anything.
    Any,
}

impl Effect {
    /// The effect of a method: those of RFC 9110, and those of the IANA registry that are safe. An unknown one may do
    /// anything.
    pub fn of(method: &[u8]) -> Effect {
        match method {
            b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PROPFIND" | b"REPORT" | b"SEARCH" | b"QUERY" => Effect::Safe,
            b"PUT" | b"DELETE" => Effect::Idempotent,
            _ => Effect::Any,
        }
    }
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No byte of the request was sent: no connection came about, or one that was kept had been closed before.
    NothingSent,
    /// The application says that it has not taken the request (FastCGI: overloaded).
    NotTaken,
    /// A connection that had been kept ended before the answer began: most likely it was closed as idle, before the
    /// request was there.
    KeptClosed,
    /// The connection ended before the answer, or in it.
    Closed,
    /// The time for the answer was over. Another attempt would take as long, and the application may still be at work.
    TimedOut,
    /// The answer was nonsense. Another would hardly be better.
    Malformed,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// The effect of its method.
    pub effect: Effect,
    /// How it failed.
    pub failure: Failure,
    /// Whether the whole content of the request is still there to be sent again; true if it has none.
    pub is_content_at_hand: bool,
    /// Whether the client has been sent anything of an answer, an interim one included.
    pub is_client_told: bool,
    /// Retries of this request so far.
    pub retries: u32,
}

impl Failed {
    /// Whether it may be tried again under the rules; whether there is room for it, [`Budget`] says.
    pub fn may_be_retried(&self, rule: Retries, retries_max: u32) -> bool {
        if self.is_client_told || !self.is_content_at_hand || self.retries >= retries_max {
            return false;
        }
        match (self.failure, rule) {
            (_, Retries::Never) | (Failure::TimedOut | Failure::Malformed, _) => false,
            (Failure::NothingSent | Failure::NotTaken, _) => true,
            (Failure::KeptClosed | Failure::Closed, Retries::NotTaken) => false,
            (Failure::KeptClosed, _) => self.effect != Effect::Any,
            (Failure::Closed, Retries::Safe) => self.effect == Effect::Safe,
            (Failure::Closed, Retries::Idempotent) => self.effect != Effect::Any,
        }
    }
}

/// How many retries there may be: a part of the requests, and a few at once in any case (the budget of Finagle and of
/// Envoy).
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// In hundredths of a retry.
    left: u32,
    percent: u32,
    most: u32,
}

impl Budget {
    /// `percent` retries for 100 requests, and up to `at_once` that were saved up, with which it begins.
    pub fn new(percent: u32, at_once: u32) -> Budget {
        let most = at_once.saturating_mul(100);
        Budget { left: most, percent, most }
    }

    /// There is another request.
    pub fn handle_request(&mut self) {
        self.left = self.left.saturating_add(self.percent).min(self.most);
    }

    /// Takes a retry, if one is left.
    pub fn take(&mut self) -> bool {
        match self.left.checked_sub(100) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

impl Default for Budget {
    /// One in five, and ten at once.
    fn default() -> Budget {
        Budget::new(20, 10)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failed(method: &str, failure: Failure) -> Failed {
        Failed {
            effect: Effect::of(method.as_bytes()),
            failure,
            is_content_at_hand: true,
            is_client_told: false,
            retries: 0,
        }
    }

    #[test]
    fn rfc_9110_9_2_methods_are_told_apart_by_what_they_may_do() {
        assert_eq!(["GET", "HEAD", "OPTIONS"].map(|method| Effect::of(method.as_bytes())), [Effect::Safe; 3]);
        assert_eq!(["PUT", "DELETE"].map(|method| Effect::of(method.as_bytes())), [Effect::Idempotent; 2]);
        assert_eq!(["POST", "PATCH", "get", "BREW"].map(|method| Effect::of(method.as_bytes())), [Effect::Any; 4]);
    }

    #[test]
    fn what_was_not_taken_may_be_retried_whatever_it_does() {
        for rule in [Retries::NotTaken, Retries::Safe, Retries::Idempotent] {
            assert!(failed("POST", Failure::NothingSent).may_be_retried(rule, 1));
            assert!(failed("POST", Failure::NotTaken).may_be_retried(rule, 1));
        }
        assert!(!failed("GET", Failure::NothingSent).may_be_retried(Retries::Never, 1));
    }

    #[test]
    fn what_may_have_been_taken_is_retried_as_the_route_says() {
        let may = |method, rule| failed(method, Failure::Closed).may_be_retried(rule, 1);
        assert_eq!(["GET", "PUT", "POST"].map(|method| may(method, Retries::NotTaken)), [false, false, false]);
        assert_eq!(["GET", "PUT", "POST"].map(|method| may(method, Retries::Safe)), [true, false, false]);
        assert_eq!(["GET", "PUT", "POST"].map(|method| may(method, Retries::Idempotent)), [true, true, false]);
    }

    #[test]
    fn what_was_sent_over_a_kept_connection_is_retried_if_it_is_idempotent() {
        let may = |method, rule| failed(method, Failure::KeptClosed).may_be_retried(rule, 1);
        for rule in [Retries::Safe, Retries::Idempotent] {
            assert_eq!(["GET", "DELETE", "POST"].map(|method| may(method, rule)), [true, true, false]);
        }
        assert!(!may("DELETE", Retries::NotTaken) && !may("DELETE", Retries::Never));
    }

    #[test]
    fn nothing_is_retried_that_would_not_help_or_cannot_be() {
        let request = failed("GET", Failure::NothingSent);
        assert!(!failed("GET", Failure::TimedOut).may_be_retried(Retries::Idempotent, 1));
        assert!(!failed("GET", Failure::Malformed).may_be_retried(Retries::Idempotent, 1));
        assert!(!Failed { is_client_told: true, ..request }.may_be_retried(Retries::Idempotent, 1));
        assert!(!Failed { is_content_at_hand: false, ..request }.may_be_retried(Retries::Idempotent, 1));
        assert!(!Failed { retries: 1, ..request }.may_be_retried(Retries::Idempotent, 1));
        assert!(!request.may_be_retried(Retries::Idempotent, 0));
    }

    proptest! {
        #[test]
        fn retries_are_a_bounded_part_of_requests(percent in 0..100_u32, at_once in 0..20_u32, takes in prop::collection::vec(any::<bool>(), 0..500)) {
            let mut budget = Budget::new(percent, at_once);
            let (mut requests, mut retries) = (0, 0);
            for takes in takes {
                if takes {
                    retries += u32::from(budget.take());
                } else {
                    budget.handle_request();
                    requests += 1;
                }
                prop_assert!(retries * 100 <= requests * percent + at_once * 100);
            }
            (0..2_000).for_each(|_| budget.handle_request());
            let in_a_row = (0..100).take_while(|_| budget.take()).count() as u32;
            prop_assert!(in_a_row <= at_once && (percent == 0 || in_a_row == at_once));
        }
    }
}
