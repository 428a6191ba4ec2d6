//! One request and several paths: those that templates of its routes name, and the rules that apply there.
//!
//! Owns: what of the rules of another path counts for a request. Looks at no request and no file.

use std::sync::Arc;

use lamna_config::access::Allowed;
use lamna_config::route::matcher::RouteId;
use lamna_config::route::template::Template;
use lamna_proto::gateway::path::Spelling;
use lamna_proto::parse::path;

use super::{Effective, Routes, keep_private};

/// Begins the key of rules that are kept from more people than their routes say. No number of a route is that large.
const GUARDED: u16 = 0xfffd;

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

    /// Whether the same routes are for both paths, whatever else they ask of a request.
    pub fn match_alike(&self, one: &[u8], other: &[u8]) -> bool {
        self.matcher.by_path(one) == self.matcher.by_path(other)
    }

    /// The rules for `path` and the request to which `asked` applies for another one. Routes for `path` that depend on
    /// more of the request than is known from that are left out.
    pub fn elsewhere(&self, asked: &Effective, path: &[u8]) -> Arc<Effective> {
        let applies = |id: &RouteId| self.matcher.route(*id).conditions.is_empty() || asked.matched.contains(id);
        let (matched, failed) = self.matcher.by_path(path).into_iter().partition(applies);
        self.of_matched(matched, failed, asked.origin, asked.clearance.clone())
    }

    /// `asked`, and besides kept from all who are not let in where `there` applies: the answers are private, and the
    /// user is known.
    pub fn guarded(&self, asked: &Arc<Effective>, there: &Effective) -> Arc<Effective> {
        let is_only = |one: &Option<Allowed>| matches!(one, Some(Allowed::Only(_)));
        let mut access = asked.access.clone();
        for (own, other) in access.0.iter_mut().zip(&there.access.0) {
            if !is_only(own) && is_only(other) {
                own.clone_from(other);
            }
        }
        if access == asked.access {
            return asked.clone();
        }
        let number = asked.number.to_be_bytes();
        let number = [[number[0], number[1]], [number[2], number[3]]].map(u16::from_be_bytes);
        let key = [&[GUARDED][..], &number, &there.matched, &[u16::MAX], &there.failed].concat();
        self.of_key(key, || {
            let (mut rules, vary) = (asked.rules.clone(), asked.vary.clone());
            keep_private(&mut rules, &access);
            let decided = (asked.matched.clone(), asked.failed.clone(), asked.origin);
            (rules, vary, access, decided, asked.clearance.clone())
        })
    }
}

impl Effective {
    /// The spelling in which an application is asked for a path. A service that decides by the path has rules of its
    /// own about it, of which nothing is known here: unless a route says otherwise, it is told the one spelling, and so
    /// is the application.
    pub fn spelling(&self) -> Spelling {
        let asks_service = || self.access.services().next().is_some();
        self.rules.path_spelling.unwrap_or_else(|| if asks_service() { Spelling::Normal } else { Spelling::AsSent })
    }
}
