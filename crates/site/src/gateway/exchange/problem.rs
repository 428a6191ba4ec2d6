//! Why an attempt to ask an application has failed.
//!
//! Owns: [`Problem`]. Does not decide what follows from it.

use std::fmt;

use lamna_proto::gateway::GatewayError;

/// Why an attempt failed.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) error: GatewayError,
    /// The reason, for the error log.
    pub(super) why: Option<String>,
    /// There is an answer, and another place is asked: nothing has failed.
    pub(super) is_left: bool,
}

impl Problem {
    pub(super) fn of(error: GatewayError) -> Problem {
        Problem { error, why: None, is_left: false }
    }

    /// Another place is asked.
    pub(super) fn left() -> Problem {
        Problem { is_left: true, ..Problem::of(GatewayError::Overloaded) }
    }

    pub(super) fn with(error: GatewayError, why: &dyn fmt::Display) -> Problem {
        Problem { why: Some(why.to_string()), ..Problem::of(error) }
    }
}
