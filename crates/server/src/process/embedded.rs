//! The parts that a program brings itself that the server is a part of.

use std::sync::Arc;

use lamna_engine::engine::Engine;
use lamna_site::cache::OwnPolicy;
use lamna_site::content::handler::Handlers;

/// Nothing, unless the server is a part of another program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Embedded {
    /// Handlers of requests, by name.
    pub(crate) handlers: Arc<Handlers>,
    /// The engine in the place of the server's.
    pub(crate) engine: Option<Arc<dyn Engine>>,
    /// The policy that decides which entries of the cache go first.
    pub(crate) cache_policy: Option<OwnPolicy>,
}
