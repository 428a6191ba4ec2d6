//! Answers that the core gives without a resolution, and which of them go to whom.
//!
//! Owns: [`Pages`], and [`PagesByHost`], by which whoever drives connections says what its sites answer. Does not know
//! sites.

use std::fmt;
use std::sync::Arc;

use crate::error::Refusal;
use crate::message::Request;
use crate::resource::Resource;

/// Which pages answer for a host. The core does not know sites: whoever drives it does.
pub trait PagesByHost: fmt::Debug + Send + Sync {
    /// The pages of the site that `host` (in any case of letters, without port) names. Without a host, because the
    /// request has none or cannot be read so far, those of the site that answers for unknown hosts.
    fn pages_of(&self, host: Option<&[u8]>) -> &Pages;

    /// The page for `request`, which is refused; there is none if its head could not be read. What is answered may
    /// depend on more than the host.
    fn refusal_of(&self, host: Option<&[u8]>, request: Option<Request<'_>>, refusal: Refusal) -> Arc<Resource> {
        let _ = request;
        self.pages_of(host).refusal(refusal).clone()
    }

    /// Whether requests of every method are asked for ([`Need::Resolve`](crate::exchange::Need::Resolve)), because
    /// of the site that `host` names: OPTIONS and methods that are not known as well, which are answered from the pages
    /// otherwise.
    fn asks_for_every_method(&self, host: Option<&[u8]>) -> bool {
        let _ = host;
        false
    }

    /// The answer to the OPTIONS of `request`.
    fn options_of(&self, host: Option<&[u8]>, request: Request<'_>) -> Arc<Resource> {
        let _ = request;
        self.pages_of(host).options.clone()
    }
}

/// The same for all hosts.
impl PagesByHost for Pages {
    fn pages_of(&self, _host: Option<&[u8]>) -> &Pages {
        self
    }
}

/// Answers that the core gives without a resolution: one page for each refusal, and the answer to OPTIONS.
#[derive(Debug)]
pub struct Pages {
    /// In the order of [`Refusal::ALL`].
    pub refusals: Vec<Arc<Resource>>,
    /// The answer to OPTIONS (RFC 9110 9.3.7).
    pub options: Arc<Resource>,
}

impl Pages {
    pub(crate) fn refusal(&self, refusal: Refusal) -> &Arc<Resource> {
        &self.refusals[refusal as usize]
    }
}
