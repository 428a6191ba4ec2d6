//! What a program brings itself that the server is a part of.

use std::sync::Arc;

use lamna_engine::engine::Engine;
use lamna_site::cache::OwnPolicy;
use lamna_site::content::handler::Handlers;

/// Nothing, unless the server is a part of another program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Embedded {
    /// What answers requests, by name.
    pub(crate) handlers: Arc<Handlers>,
    /// What serves in the place of the engines of the server.
    pub(crate) engine: Option<Arc<dyn Engine>>,
    /// What decides which entries of the cache go first.
    pub(crate) cache_policy: Option<OwnPolicy>,
}
