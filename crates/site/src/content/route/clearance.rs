//! The rules of access that the client of a request fulfils, beyond those of the path that it asks for: by them it is
//! shown what is for it in a folder that is for others as well.
//!
//! Owns: [`Clearance`], and what it opens. Guarantees: rules that a service decides by open nothing, as it was not
//! asked; a clearance is a part of the keys by which listings are kept, so none is shown to other clients. Judges no
//! request.

use std::sync::Arc;

use lamna_config::access::{AccessRule, Allowed};
use lamna_config::route::Changes;
use lamna_config::settings::SiteSettings;

use super::{Effective, Routes, variant_of};
use crate::content::action::Action;
use crate::content::answers::Extras;

/// The rules of access of a site that a client fulfils, by their numbers, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clearance(Vec<u16>);

/// Marks such a number among the outcomes: numbers of routes and of origins have other marks.
pub(super) const CLEARED: u16 = 0xc000;
/// Rules with numbers. Those beyond open nothing.
const RULES_MAX: usize = 0x3f00;

impl Clearance {
    /// Whether the client fulfils none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes it behind `outcome`, as a part of a key.
    pub fn push(&self, outcome: &mut Vec<u8>) {
        self.0.iter().for_each(|number| outcome.extend((CLEARED | number).to_le_bytes()));
    }

    /// The one that was written among `outcomes`.
    pub(super) fn of(outcomes: &[u16]) -> Clearance {
        let marked = outcomes.iter().filter(|one| **one & CLEARED == CLEARED);
        Clearance(marked.map(|one| one & !CLEARED).collect())
    }

    /// Writes it before `key`, by which rules are kept.
    pub(super) fn before(&self, mut key: Vec<u16>) -> Vec<u16> {
        if !self.is_empty() {
            key.splice(0..0, self.0.iter().map(|number| CLEARED | number));
        }
        key
    }
}

/// The rules of `site` by which clients may be let in, each once.
pub(super) fn rules_of(site: &SiteSettings) -> Vec<Arc<AccessRule>> {
    let said = site.routes.iter().map(|route| &route.access).chain([&site.access]);
    let mut rules: Vec<Arc<AccessRule>> = Vec::new();
    for whom in said.flat_map(|access| &access.0) {
        let Some(Allowed::Only(rule)) = whom else { continue };
        if rule.service.is_none() && !rule.is_for_nobody() && !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    rules.truncate(RULES_MAX);
    rules
}

impl Effective {
    /// The additions to an answer of `status` that shows each client what is for it, as a listing does: no shared cache
    /// keeps what a client is shown by its clearance.
    pub fn extras_for_one(&self, status: u16) -> Extras<'_> {
        let extras = self.extras(status);
        if self.clearance.is_empty() { extras } else { extras.with_cache_control("private") }
    }
}

impl Routes {
    /// The rules that a client fulfils of which `fulfils` says so.
    pub fn clearance(&self, fulfils: impl Fn(&AccessRule) -> bool) -> Clearance {
        let rules = self.access_rules.iter().enumerate().filter(|(_, rule)| fulfils(rule));
        Clearance(rules.map(|(number, _)| number as u16).collect()) // At most RULES_MAX.
    }

    /// Whether a client with this clearance fulfils `rule`.
    pub fn clears(&self, clearance: &Clearance, rule: &AccessRule) -> bool {
        clearance.0.iter().filter_map(|number| self.access_rules.get(usize::from(*number))).any(|one| **one == *rule)
    }

    /// Whether a client that was let in where `from` applies may have the file that has the path `to`, though it has
    /// not asked for it by that path. It has to be for anybody, or for the same: who else may be let in there is not
    /// known here, and what is found is kept for all who ask. What is withheld there, or run by an application, is for
    /// nobody.
    pub fn lets_on(&self, from: &Effective, to: &[u8]) -> bool {
        !self.is_run(to) && self.lets_on_by(from, to, &|_| false)
    }

    /// The same, where a rule that `clears` says so of is none.
    fn lets_on_by(&self, from: &Effective, to: &[u8], clears: &dyn Fn(&AccessRule) -> bool) -> bool {
        // A variant of a file is as much as the file.
        let to_path = |path: &[u8]| self.lets_on_to(from, path, clears);
        let is_let = || to_path(to) && variant_of(to).is_none_or(to_path);
        !self.hides(to) && !self.withhold(from, to) && (!self.keeps_out || is_let())
    }

    fn lets_on_to(&self, from: &Effective, to: &[u8], clears: &dyn Fn(&AccessRule) -> bool) -> bool {
        let own = from.whom(Action::Read);
        let is_alike = |whom: Option<&AccessRule>| whom.is_none() || whom == own || whom.is_some_and(clears);
        for id in self.matcher.by_path(to) {
            let route = self.matcher.route(id);
            let Some(whom) = &route.access.0[Action::Read as usize] else { continue };
            let whom = match whom {
                Allowed::Anyone => None,
                Allowed::Only(rule) => Some(&**rule),
            };
            match () {
                () if route.conditions.is_empty() || from.matched.contains(&id) => return is_alike(whom),
                () if from.failed.contains(&id) => {}
                // It may fit, or not: then the next one decides.
                () if is_alike(whom) => {}
                () => return false,
            }
        }
        is_alike(match &self.access.0[Action::Read as usize] {
            Some(Allowed::Only(rule)) => Some(rule),
            Some(Allowed::Anyone) | None => None,
        })
    }

    /// The same as [`Routes::lets_on`] for a client that is shown what is found, and to which `from` applies: what is
    /// for it by its clearance is shown as well.
    pub fn shows(&self, from: &Effective, to: &[u8]) -> bool {
        self.lets_on_by(from, to, &|rule| self.clears(&from.clearance, rule))
    }

    /// The changes that the client may make where `rules` apply. Where a service decides, that is not known.
    pub fn changes_of(&self, rules: &Effective) -> Changes {
        let may = |action| {
            let whom = rules.whom(action);
            whom.is_none_or(|rule| rule.service.is_some() || self.clears(&rules.clearance, rule))
        };
        let Changes { upload, delete, mkdir, webdav } = rules.changes;
        Changes {
            upload: upload && may(Action::Upload),
            delete: delete && may(Action::Delete),
            mkdir: mkdir && may(Action::Mkdir),
            webdav,
        }
    }

    /// Whether the client may be shown more, or do more, where `rules` apply, once it has given a password.
    pub fn offers_sign_in(&self, rules: &Effective) -> bool {
        let is_of_users = |rule: &AccessRule| !rule.users.is_empty();
        let own = rules.clearance.0.iter().filter_map(|number| self.access_rules.get(usize::from(*number)));
        self.access_rules.iter().any(|rule| is_of_users(rule)) && !own.into_iter().any(|rule| is_of_users(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clearance_is_told_from_all_else_that_decides() {
        let clearance = Clearance(vec![0, 7, 300]);
        let mut outcome = vec![3, 0, 1, 0x80];
        clearance.push(&mut outcome);
        let pairs: Vec<u16> = outcome.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        assert_eq!(Clearance::of(&pairs), clearance);
        assert_eq!(Clearance::of(&[3, 0x8001, 9999]), Clearance::default());
    }
}
