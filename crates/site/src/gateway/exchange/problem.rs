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
}

impl Problem {
    pub(super) fn of(error: GatewayError) -> Problem {
        Problem { error, why: None }
    }

    pub(super) fn with(error: GatewayError, why: &dyn fmt::Display) -> Problem {
        Problem { error, why: Some(why.to_string()) }
    }
}
