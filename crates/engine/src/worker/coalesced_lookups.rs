//! Lookups under way for a worker: each target once, for all exchanges that wait for it.
//!
//! Owns: the exchanges that wait for a target beside the one for which it is looked up. Guarantees: an exchange that
//! joins is there when the lookup ends. Neither looks up nor decides what is looked up first; it keeps the place at
//! which a lookup waits for that.

use std::collections::{HashMap, hash_map};

use crate::worker::context::TranslationTarget;
use crate::worker::executor::PendingId;

/// Targets, and the exchanges that wait for each. `P` is where a lookup waits to be taken up.
#[derive(Debug)]
pub(crate) struct CoalescedLookups<P> {
    waiting: HashMap<TranslationTarget, Waiting<P>>,
}

#[derive(Debug)]
struct Waiting<P> {
    others: Vec<PendingId>,
    place: Option<P>,
}

/// The result of joining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined<P> {
    /// No other exchange waits for it: it has to be looked up.
    First,
    /// It is being looked up, or waits for that at this place.
    Another(Option<P>),
}

impl<P> Default for CoalescedLookups<P> {
    fn default() -> CoalescedLookups<P> {
        CoalescedLookups { waiting: HashMap::new() }
    }
}

impl<P: Copy> CoalescedLookups<P> {
    /// `pending` waits for `target` from now on. The first one stays with its lookup, not here.
    pub(crate) fn join(&mut self, target: &TranslationTarget, pending: PendingId) -> Joined<P> {
        match self.waiting.entry(target.clone()) {
            hash_map::Entry::Occupied(mut waiting) => {
                waiting.get_mut().others.push(pending);
                Joined::Another(waiting.get().place)
            }
            hash_map::Entry::Vacant(first) => {
                first.insert(Waiting { others: Vec::new(), place: None });
                Joined::First
            }
        }
    }

    /// How many wait for `target`, at least one.
    pub(crate) fn wanted(&self, target: &TranslationTarget) -> usize {
        1 + self.waiting.get(target).map_or(0, |waiting| waiting.others.len())
    }

    /// The lookup of `target` waits at `place`.
    pub(crate) fn place(&mut self, target: &TranslationTarget, place: Option<P>) {
        if let Some(waiting) = self.waiting.get_mut(target) {
            waiting.place = place;
        }
    }

    /// The lookup of `target` has ended. Returns the exchanges that wait for it beside the first.
    pub(crate) fn end(&mut self, target: &TranslationTarget) -> Vec<PendingId> {
        self.waiting.remove(target).map(|waiting| waiting.others).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::context::WorkerContext;
    use crate::worker::testing;
    use lamna_io::wait::Token;
    use lamna_proto::exchange::{ExchangeId, RequestedResource};

    #[test]
    fn whoever_joins_is_there_when_the_lookup_ends() {
        let (shared, _root) = testing::shared(1, 1);
        let mut context = WorkerContext::new(&shared);
        let target = context.take(
            &RequestedResource {
                host: None,
                path: b"/a",
                query: None,
                path_and_query: b"/a",
                request: None,
                is_again: false,
                redirects: 0,
                led: None,
                found: None,
            },
            lamna_config::proxies::Peer::default(),
        );
        let pending = |index| PendingId { token: Token { index, generation: 1 }, exchange: ExchangeId(0) };
        let mut lookups = CoalescedLookups::default();
        assert_eq!(lookups.join(&target, pending(1)), Joined::First);
        lookups.place(&target, Some(7));
        assert_eq!(lookups.join(&target, pending(2)), Joined::Another(Some(7)));
        lookups.place(&target, None);
        assert_eq!(lookups.join(&target, pending(3)), Joined::Another(None));
        assert_eq!(lookups.wanted(&target), 3);
        let others: Vec<u32> = lookups.end(&target).into_iter().map(|pending| pending.token.index).collect();
        assert_eq!(others, [2, 3]);
        assert_eq!(lookups.join(&target, pending(4)), Joined::First, "it has ended");
    }
}
