//! Answers that the core gives by itself, by the rules of routes: refusals, and answers to OPTIONS.
//!
//! Owns: which of them differ from those of the site. Waits for nothing, and opens no file.

use std::sync::Arc;

use lamna_config::route::condition::Asked;
use lamna_proto::error::Refusal;
use lamna_proto::message::Request;
use lamna_proto::parse::path;
use lamna_proto::parse::target::{self, Target};
use lamna_proto::resource::Resource;

use super::cors::{ALLOW_ORIGIN, PREFLIGHT_METHOD, is_preflight, preflight};
use super::{Effective, Routes};
use crate::content::answers;

impl Routes {
    /// The rules for a request that is answered without a translation.
    fn of_request(&self, host: Option<&[u8]>, request: Request<'_>) -> Arc<Effective> {
        let (given, query) = match target::parse(request.target(), false) {
            Ok(Target::Origin { path, query } | Target::Absolute { path, query, .. }) => (path, query),
            _ => return self.plain.clone(),
        };
        let mut path = Vec::new();
        if self.is_empty() || path::normalise_for_rules(given, &mut path).is_err() {
            return self.plain.clone();
        }
        // A preflight asks about a request that is yet to come.
        let method = request.lines_named(PREFLIGHT_METHOD).next();
        self.applying(&path, &Asked { host, query, method, request: Some(request), client: None })
    }

    /// The page for a request that is refused, if it is another one than that of the site.
    pub fn refusal(&self, refusal: Refusal, host: Option<&[u8]>, request: Request<'_>) -> Option<Arc<Resource>> {
        let effective = self.of_request(host, request);
        let status = refusal.status().0;
        let is_alike = *effective.fields(status) == *self.plain.fields(status) && effective.vary.is_none();
        let has_same_page = effective.error_pages.get(status) == self.error_pages.get(status);
        if effective.number == 0 || is_alike && has_same_page && effective.changes == self.changes {
            return None;
        }
        answers::refusal_page(refusal, &effective.extras(status), effective.changes).ok().map(Arc::new)
    }

    /// The answer to OPTIONS, if it is another one than that of the site.
    pub fn options(&self, host: Option<&[u8]>, request: Request<'_>) -> Option<Arc<Resource>> {
        let effective = self.of_request(host, request);
        if effective.number == 0 {
            return None;
        }
        let mut extras = effective.extras(204);
        if let Some(cors) = effective.rules.cors.as_ref().filter(|_| is_preflight(request)) {
            let is_let_in = extras.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(ALLOW_ORIGIN));
            extras.fields.to_mut().extend(is_let_in.then(|| preflight(cors)).into_iter().flatten());
        }
        answers::options(&extras, effective.changes).ok().map(Arc::new)
    }
}
