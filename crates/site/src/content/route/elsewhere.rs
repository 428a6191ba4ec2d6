//! One request and several paths: those that templates of its routes name, and the rules that apply there.
//!
//! Owns: what of the rules of another path counts for a request. Looks at no request and no file.

use std::sync::Arc;

use lamna_config::route::matcher::RouteId;
use lamna_config::route::template::Template;
use lamna_proto::parse::path;

use super::{Effective, Routes};

impl Routes {
    /// Fills a template of the route `id` for `path` and a request for `asked`, and normalises the path. None if that
    /// is no path.
    pub fn filled(&self, template: &Template, id: usize, path: &[u8], asked: &[u8]) -> Option<Vec<u8>> {
        if template.is_path() {
            return Some(path.to_vec());
        }
        let filled = template.fill(path, &self.captures(id, asked));
        let mut normal = Vec::new();
        path::normalise(path::encode(&filled).as_bytes(), &mut normal).ok()?;
        Some(normal)
    }

    /// The rules for `path` and the request to which `asked` applies for another one. Routes for `path` that depend on
    /// more of the request than is known from that are left out.
    pub fn elsewhere(&self, asked: &Effective, path: &[u8]) -> Arc<Effective> {
        let applies = |id: &RouteId| self.matcher.route(*id).conditions.is_empty() || asked.matched.contains(id);
        let (matched, failed) = self.matcher.by_path(path).into_iter().partition(applies);
        self.of_matched(matched, failed, asked.origin)
    }
}
