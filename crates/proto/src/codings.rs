//! One representation and the content codings of it that are made while it is being served (RFC 9110 8.4).
//!
//! Owns: [`Codings`]: which codings there may be, which there are, and which were asked for in vain. Guarantees: a
//! coding is filled in at most once and never changes; asking never waits: a request in vain gets an existing one. Does
//! not compress: the server does, somewhere else, when it finds requests for it.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::exchange::negotiate::{Coding, CodingSet, select_coding};
use crate::resource::Representation;

/// A representation and its codings.
///
/// ```text
/// not asked for --choose()--> requested --take_requested()--> being made --fill()--> there, or not worth it
///                                ^--------put_back()---------'
/// ```
#[derive(Debug)]
pub struct Codings {
    identity: Arc<Representation>,
    /// Codings that may be made.
    permitted: CodingSet,
    /// Bits of the [`CodingSet`] that clients preferred and that are not there.
    requested: AtomicU8,
    /// Bits of those that were taken: they need not be noted again.
    taken: AtomicU8,
    /// By `slot`; none inside for what is not worth having.
    made: [OnceLock<Option<Arc<Representation>>>; 3],
}

impl Codings {
    /// Nothing but `identity` yet, of which the `permitted` codings may be made.
    pub fn new(identity: Arc<Representation>, permitted: CodingSet) -> Codings {
        Codings { identity, permitted, requested: AtomicU8::new(0), taken: AtomicU8::new(0), made: Default::default() }
    }

    /// The representation without coding.
    pub fn identity(&self) -> &Arc<Representation> {
        &self.identity
    }

    /// Codings that may be made.
    pub fn permitted(&self) -> CodingSet {
        self.permitted
    }

    /// Everything there is, the identity first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Representation>> {
        let made = self.made.iter().filter_map(|made| made.get()?.as_ref());
        std::iter::once(&self.identity).chain(made)
    }

    /// The existing coding that suits a client with these lines of `Accept-Encoding` best. A better one that may be
    /// made is noted as a request.
    pub fn choose<'l>(&self, accept_encoding: impl Iterator<Item = &'l [u8]> + Clone) -> &Arc<Representation> {
        let wanted = select_coding(accept_encoding.clone(), self.obtainable());
        if let Some(one) = self.get(wanted) {
            return one;
        }
        let bit = CodingSet::IDENTITY.with(wanted).bits();
        if (self.requested.load(Relaxed) | self.taken.load(Relaxed)) & bit == 0 {
            self.requested.fetch_or(bit, Relaxed);
        }
        self.get(select_coding(accept_encoding, self.available())).unwrap_or(&self.identity)
    }

    /// Whether codings are requested. One load, for every request.
    pub fn has_requested_codings(&self) -> bool {
        self.requested.load(Relaxed) != 0
    }

    /// Takes the requested codings, for the caller to act on: each is given out once.
    pub fn take_requested(&self) -> CodingSet {
        let requested = self.requested.swap(0, Relaxed);
        CodingSet::from_bits(requested & !self.taken.fetch_or(requested, Relaxed))
    }

    /// They could not be made now.
    pub fn put_back(&self, requested: CodingSet) {
        self.taken.fetch_and(!requested.bits(), Relaxed);
        self.requested.fetch_or(requested.bits(), Relaxed);
    }

    /// `coding` is there, or turned out not to be worth having. False if that was known already.
    ///
    /// # Panics
    /// If `one` has another coding.
    pub fn fill(&self, coding: Coding, one: Option<Representation>) -> bool {
        assert!(one.as_ref().is_none_or(|one| one.coding == coding), "a representation stands under its own coding");
        self.slot(coding).is_some_and(|slot| slot.set(one.map(Arc::new)).is_ok())
    }

    fn get(&self, coding: Coding) -> Option<&Arc<Representation>> {
        match self.slot(coding) {
            Some(slot) => slot.get()?.as_ref(),
            None => Some(&self.identity),
        }
    }

    /// The codings that exist or may still be made.
    fn obtainable(&self) -> CodingSet {
        self.those(|made| !matches!(made.get(), Some(None)))
    }

    fn available(&self) -> CodingSet {
        self.those(|made| matches!(made.get(), Some(Some(_))))
    }

    fn those(&self, is: impl Fn(&OnceLock<Option<Arc<Representation>>>) -> bool) -> CodingSet {
        let permitted = Coding::BY_PREFERENCE.into_iter().filter(|coding| self.permitted.contains(*coding));
        permitted.filter(|coding| self.slot(*coding).is_some_and(&is)).fold(CodingSet::IDENTITY, CodingSet::with)
    }

    fn slot(&self, coding: Coding) -> Option<&OnceLock<Option<Arc<Representation>>>> {
        match coding {
            Coding::Identity => None,
            Coding::Gzip => Some(&self.made[0]),
            Coding::Brotli => Some(&self.made[1]),
            Coding::Zstd => Some(&self.made[2]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Status;
    use crate::resource::Description;

    fn identity() -> Arc<Representation> {
        let description = Description { etag: Some("\"e\""), ..Description::of(Status(200)) };
        Arc::new(Representation::with_content(&description, b"content").unwrap())
    }

    fn chosen(codings: &Codings, line: &str) -> Coding {
        codings.choose(std::iter::once(line.as_bytes())).coding
    }

    #[test]
    fn a_wish_is_granted_for_the_next_who_has_it() {
        let codings = Codings::new(identity(), CodingSet::ALL);
        assert_eq!(chosen(&codings, "gzip"), Coding::Identity);
        assert!(codings.has_requested_codings());
        assert_eq!(codings.take_requested(), CodingSet::IDENTITY.with(Coding::Gzip));
        assert!(!codings.has_requested_codings());
        assert!(codings.fill(Coding::Gzip, Some(codings.identity().coded(Coding::Gzip, "gzip", b"gz").unwrap())));
        assert_eq!(chosen(&codings, "gzip"), Coding::Gzip);
        assert!(!codings.has_requested_codings());
        assert_eq!(chosen(&codings, "gzip, br"), Coding::Gzip, "what there is, until brotli is there");
        assert_eq!(codings.take_requested(), CodingSet::IDENTITY.with(Coding::Brotli));
    }

    #[test]
    fn what_is_not_worth_having_or_not_permitted_is_wished_for_no_more() {
        let codings = Codings::new(identity(), CodingSet::IDENTITY.with(Coding::Gzip));
        assert_eq!(chosen(&codings, "br"), Coding::Identity);
        assert!(!codings.has_requested_codings());
        assert_eq!(chosen(&codings, "gzip"), Coding::Identity);
        assert_eq!(codings.take_requested(), CodingSet::IDENTITY.with(Coding::Gzip));
        assert_eq!(chosen(&codings, "gzip"), Coding::Identity);
        assert_eq!(codings.take_requested(), CodingSet::IDENTITY, "somebody is at it");
        codings.fill(Coding::Gzip, None);
        assert_eq!(chosen(&codings, "gzip"), Coding::Identity);
        assert!(!codings.has_requested_codings());
    }

    #[test]
    fn who_prefers_the_identity_gets_it() {
        let codings = Codings::new(identity(), CodingSet::ALL);
        for line in ["", "identity", "br;q=0, gzip;q=0, zstd;q=0", "gzip;q=0.5, identity", "*;q=0"] {
            assert_eq!(chosen(&codings, line), Coding::Identity, "{line}");
        }
        assert!(!codings.has_requested_codings());
    }
}
