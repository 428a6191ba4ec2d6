//! How many connections to applications each client network has.
//!
//! Owns: [`Shares`], who counts them, and [`Share`], by which one counts. Decides nothing: `worker/limiter` does.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Counts connections to applications by client network.
pub trait Shares: fmt::Debug + Send + Sync {
    /// One more, for `client`.
    ///
    /// # Errors
    /// Its network has as many as it may.
    fn take(self: Arc<Self>, client: IpAddr) -> Result<Share, Crowded>;
}

/// A network has as many as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowded;

/// The place of a connection in a count. It ends with the value.
pub struct Share(#[expect(dead_code, reason = "it counts until it is dropped")] Box<dyn Send + Sync>);

impl Share {
    /// A share that ends with `counted`.
    pub fn of(counted: impl Send + Sync + 'static) -> Share {
        Share(Box::new(counted))
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Share").finish_non_exhaustive()
    }
}

/// The client for which a connection to an application counts.
#[derive(Clone, Debug)]
pub struct Payer {
    /// The counter.
    pub shares: Arc<dyn Shares>,
    /// The client.
    pub client: IpAddr,
}
