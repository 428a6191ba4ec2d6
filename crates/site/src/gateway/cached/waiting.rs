//! Whether a request asks for all who want the same, waits for who does, or asks for its client.
//!
//! Owns: how an [`Inner`] comes to its role, and its use of another one's answer. Guarantees: a request that may not
//! ask never leads.

use std::sync::Arc;

use lamna_proto::caching::{Facts, Use, VaryNames, usable};
use lamna_proto::exchange::program::{Next, StepResult};
use lamna_proto::resource::Resource;
use lamna_proto::time::Instant;

use super::{Inner, Role, WAIT_MS, Wanted, lines};
use crate::cache::answer::{StoredResponse, sum_of_fields};
use crate::cache::answer_flights::{Fetched, Joined};
use crate::cache::two_generation_map::Key;

impl Inner {
    /// Finds out whether it asks for all, waits, or asks for its client. What comes of this step, if that is known.
    pub(super) fn settle(&mut self, now: Instant) -> Option<StepResult> {
        if let Role::Joins { may_lead } = self.role {
            let flights = self.wanted.store.answer_flights();
            let key = Key { site: self.wanted.site, path: &self.wanted.key };
            // A request that may not ask never leads: others would be refused for its client's sake. It may wait for a
            // leader.
            let refused = if may_lead { self.gateway.refuse_if_crowded() } else { None };
            if let Some(refused) = refused {
                let Some(wait) = flights.wait(key) else { return Some(refused) };
                self.gateway.begin_again();
                self.role = Role::Waits(wait);
                return self.settle(now);
            }
            self.role = match may_lead {
                true => match flights.join(key) {
                    Joined::Lead(lead) => Role::Leads(lead),
                    Joined::Wait(wait) => Role::Waits(wait),
                    Joined::Alone => Role::Alone,
                },
                false => flights.wait(key).map_or(Role::Alone, Role::Waits),
            };
            self.voids = flights.voids();
            if !matches!(self.role, Role::Waits(_)) && self.is_overtaken(now) {
                return Some(StepResult::Again);
            }
        }
        let Role::Waits(wait) = &self.role else { return None };
        self.gateway.give_share_back();
        let until = self.asked.get_or_insert(now).after_ms(WAIT_MS);
        match wait.fetched() {
            Some(fetched) => {
                if let Some(resource) = self.shares(fetched, now) {
                    return Some(StepResult::Answer(resource));
                }
            }
            None if now < until => {
                return Some(StepResult::Waits(Next { readable: true, until: Some(until), ..Next::default() }));
            }
            // The leader has asked for too long: no request joins it any more.
            None => {
                let Wanted { store, site, key: path, .. } = &self.wanted;
                store.answer_flights().give_up(Key { site: *site, path }, wait);
            }
        }
        self.role = Role::Alone;
        self.asked = None;
        self.voids = self.wanted.store.answer_flights().voids();
        None
    }

    /// Whether the stored answer is another by now than the one found: a request has asked in between.
    pub(super) fn is_overtaken(&self, now: Instant) -> bool {
        let Wanted { store, site, key, stale, .. } = &self.wanted;
        let Some(entry) = store.lookup(Key { site: *site, path: key }, 0) else { return false };
        let is_known = stale.as_ref().is_some_and(|stale| Arc::ptr_eq(stale, &entry));
        let counts = match entry.stored_response() {
            // What is not for this request would be found, and not used, again and again.
            Some(StoredResponse::Answer(answer)) => answer.is_for(lines(&self.wanted.fields)),
            Some(StoredResponse::Varies { .. }) => true,
            Some(StoredResponse::Passes { until_ms }) => *until_ms > now.ms(),
            None => false,
        };
        counts && !is_known && !entry.is_disturbed()
    }

    /// The answer to this request from another one's result.
    pub(super) fn shares(&self, fetched: Fetched, now: Instant) -> Option<Arc<Resource>> {
        match fetched {
            Fetched::Stored(entry, selected) => {
                let Some(StoredResponse::Answer(answer)) = entry.stored_response() else { return None };
                let is_selected = selected.is_none_or(|selected| *self.part_of(&selected.by) == *selected.part);
                // It was asked for while this request waited: what that says of old answers is met.
                let facts = Facts { directives: Default::default(), ..self.wanted.facts };
                let is_usable =
                    matches!(usable(&answer.terms, answer.age_ms(now.ms()), &facts), Use::Fresh | Use::Stale);
                (is_selected && is_usable).then(|| entry.resource.clone())
            }
            Fetched::Failed(_, Some(sent)) if sent != sum_of_fields(lines(&self.wanted.fields)) => None,
            Fetched::Failed(page, _) => Some(self.stale_after_failure(now).unwrap_or(page)),
            Fetched::Stale => self.stale_after_failure(now),
            Fetched::Alone => None,
        }
    }

    /// The secondary key of this request, by which it selects an answer.
    pub(super) fn part_of(&self, names: &VaryNames) -> Vec<u8> {
        let mut part = Vec::new();
        names.write(lines(&self.wanted.fields), &mut part);
        part
    }
}
