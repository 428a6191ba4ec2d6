//! Cached responses of applications, and markers for targets whose responses are not cacheable or vary by request
//! fields.
//!
//! Owns: [`StoredResponse`], the part of an entry whose validity is not that of a file. Guarantees: a worker uses none
//! beyond the time that it is good for without asking the store, which hears of uses once a second as it does of files.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use lamna_proto::caching::{Terms, VaryNames};
use lamna_proto::gateway::fields::Fields;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, Representation, Resource};

use super::entry::Freshness;
use super::freshness::FRESH_MS;

/// Hash of the request fields that an application may base an error on: all that it gets, in any order, without the
/// host and those for caches. It is keyed, so no client can construct a collision.
pub fn sum_of_fields(fields: Fields<'_>) -> u64 {
    static STATE: OnceLock<RandomState> = OnceLock::new();
    const LEFT_OUT: [&str; 4] = ["host", "connection", "cache-control", "pragma"];
    let state = STATE.get_or_init(RandomState::new);
    // What a client names in `Connection` does not reach the application.
    let is_named = |name: &[u8]| {
        let mut members = fields.values("connection").flat_map(|value| value.split(|byte| *byte == b','));
        members.any(|member| member.trim_ascii().eq_ignore_ascii_case(name))
    };
    let counts =
        |name: &[u8]| !LEFT_OUT.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes())) && !is_named(name);
    let sum = |(name, value): (&[u8], &[u8])| {
        let mut hasher = state.build_hasher();
        name.iter().for_each(|byte| hasher.write_u8(byte.to_ascii_lowercase()));
        value.hash(&mut hasher);
        hasher.finish()
    };
    fields.iter().filter(|(name, _)| counts(name)).map(sum).fold(0, u64::wrapping_add)
}

/// The state of an application's answer in the cache.
#[derive(Debug)]
pub enum StoredResponse {
    /// An answer.
    Answer(Answer),
    /// Its answers differ by fields of requests. They are found under keys that end with what these fields have, and
    /// the number, which is another one whenever this is kept anew: what was found by another number is not found any
    /// more.
    Varies {
        /// The fields.
        names: Arc<VaryNames>,
        /// The number.
        number: u64,
    },
    /// Its answers are private to one client, so no request waits for another's.
    Passes {
        /// Until then, in the server's milliseconds.
        until_ms: u64,
    },
}

/// An answer that is kept.
#[derive(Debug)]
pub struct Answer {
    /// On which terms.
    pub terms: Terms,
    /// When it was received, in the server's milliseconds.
    received_ms: u64,
    /// A refresh by one request is under way until then.
    refreshed_until_ms: AtomicU64,
    /// Sum of the fields of the request that it answers ([`sum_of_fields`]); only requests with the same sum get it.
    /// None: for all.
    sent: Option<u64>,
}

impl Answer {
    /// An answer that was received at `received_ms`.
    pub fn new(terms: Terms, received_ms: u64) -> Answer {
        Answer { terms, received_ms, refreshed_until_ms: AtomicU64::new(0), sent: None }
    }

    /// The same, only for requests whose fields have the sum `sent` ([`sum_of_fields`]).
    pub fn for_those_who_send(self, sent: Option<u64>) -> Answer {
        Answer { sent, ..self }
    }

    /// Whether it is for who sends these fields.
    pub fn is_for(&self, fields: Fields<'_>) -> bool {
        self.sent.is_none_or(|sent| sent == sum_of_fields(fields))
    }

    /// Its age.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        self.terms.age_s.saturating_mul(1000).saturating_add(now_ms.saturating_sub(self.received_ms))
    }

    /// Whether the caller is to refresh it, because no other request does: true once in `patience_ms`.
    pub fn wants_refresh(&self, now_ms: u64, patience_ms: u64) -> bool {
        let until_ms = self.refreshed_until_ms.load(Relaxed);
        let next_ms = now_ms.saturating_add(patience_ms);
        until_ms <= now_ms && self.refreshed_until_ms.compare_exchange(until_ms, next_ms, Relaxed, Relaxed).is_ok()
    }

    /// Until when it may be used without asking the application.
    fn usable_until_ms(&self) -> u64 {
        let Terms { age_s, lifetime_s, stale_while_revalidate_s, .. } = self.terms;
        let left_s = lifetime_s.saturating_add(stale_while_revalidate_s).saturating_sub(age_s);
        self.received_ms.saturating_add(left_s.saturating_mul(1000))
    }
}

impl StoredResponse {
    /// How long a worker may use it at `now_ms` without asking the store.
    pub(super) fn freshness(&self, now_ms: u64) -> Option<Freshness> {
        let until_ms = match self {
            StoredResponse::Answer(answer) => answer.usable_until_ms(),
            StoredResponse::Varies { .. } => u64::MAX,
            StoredResponse::Passes { until_ms } => *until_ms,
        };
        let until_ms = until_ms.min(now_ms.saturating_add(FRESH_MS));
        (until_ms > now_ms).then_some(Freshness { until_ms, refresh_at_ms: u64::MAX })
    }

    /// Bytes of memory beside its own.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            StoredResponse::Varies { names, .. } => names.memory_bytes(),
            StoredResponse::Answer(_) | StoredResponse::Passes { .. } => 0,
        }
    }
}

/// The empty resource of entries that are never served.
pub(super) fn nothing() -> Arc<Resource> {
    let described = Representation::new(&Description::of(Status(204)), None);
    let representation = described.expect("a head without fields is short");
    Arc::new(Resource::one(Status(204), representation))
}

#[cfg(test)]
mod tests {
    use lamna_proto::gateway::fields::LineEnds;

    use super::*;
    use crate::cache::two_generation_map::Key;
    use crate::cache::{Entry, LocalCache, Lookup, Store};

    const KEY: Key<'static> = Key { site: 0, path: b"/a\0\xff" };

    fn terms(lifetime_s: u64) -> Terms {
        Terms {
            age_s: 2,
            lifetime_s,
            stale_while_revalidate_s: 3,
            stale_if_error_s: 0,
            never_stale: false,
            always_validated: false,
            is_explicit: true,
            is_for_authorized: false,
            has_validator: false,
            date: 0,
        }
    }

    fn entry(lifetime_s: u64, received_ms: u64) -> Arc<Entry> {
        let kept = StoredResponse::Answer(Answer::new(terms(lifetime_s), received_ms));
        Arc::new(Entry::of_stored_response(nothing(), kept))
    }

    fn is_fresh(local: &mut LocalCache, store: &Store, now_ms: u64) -> bool {
        matches!(local.lookup(store, KEY, now_ms), Lookup::Fresh(_))
    }

    #[test]
    fn an_answer_is_used_as_long_as_it_is_good_for_and_no_file_is_asked() {
        let store = Store::new(1 << 20, 100);
        let mut local = LocalCache::new(&store);
        store.keep_answer(KEY, entry(10, 5_000));
        // Ten seconds and three, of which two are over.
        for now_ms in [5_000, 6_000, 15_999] {
            assert!(is_fresh(&mut local, &store, now_ms), "{now_ms}");
        }
        assert!(!is_fresh(&mut local, &store, 16_000));
        assert!(matches!(local.lookup(&store, KEY, 16_000), Lookup::Stale(_)), "it may still be validated");
    }

    #[test]
    fn what_was_replaced_or_invalidated_is_used_by_no_worker() {
        let store = Store::new(1 << 20, 100);
        let mut locals = [LocalCache::new(&store), LocalCache::new(&store)];
        let first = entry(100, 5_000);
        store.keep_answer(KEY, first.clone());
        for local in &mut locals {
            (0..3).for_each(|_| assert!(is_fresh(local, &store, 5_001)));
            assert!(Arc::ptr_eq(local.handed_out(KEY).unwrap(), &first));
        }
        let second = entry(100, 5_000);
        store.keep_answer(KEY, second.clone());
        for local in &mut locals {
            assert!(is_fresh(local, &store, 5_002));
            assert!(Arc::ptr_eq(local.handed_out(KEY).unwrap(), &second));
        }
        store.invalidate_answer(KEY);
        for local in &mut locals {
            assert!(matches!(local.lookup(&store, KEY, 5_003), Lookup::Unknown));
        }
        assert_eq!(store.len(), 0);
    }

    #[test]
    fn purging_takes_what_is_meant_and_no_file() {
        let store = Store::new(1 << 20, 100);
        let empty = store.bytes();
        for name in 0..100u32 {
            store.keep_answer(Key { site: name % 2, path: &name.to_be_bytes() }, entry(100, 5_000));
        }
        let file = Arc::new(Entry::new(
            Resource::one(Status(200), Representation::new(&Description::of(Status(200)), None).unwrap()),
            lamna_io::file_state::Stamps::none(),
            5_000,
        ));
        store.insert(Key { site: 0, path: b"/file" }, file);
        assert_eq!(store.purge_answers(&|key| key.site == 1), 50);
        assert_eq!(store.len(), 51);
        assert_eq!(store.purge_answers(&|_| true), 50);
        assert!(store.len() == 1 && store.lookup(Key { site: 0, path: b"/file" }, 1).is_some());
        store.clear();
        assert_eq!(store.bytes(), empty);
    }

    #[test]
    fn who_sends_other_fields_is_somebody_else() {
        let fields = |text: &'static str| Fields::check(text.as_bytes(), LineEnds::CrLf).unwrap();
        let sent = sum_of_fields(fields("Host: a\r\nA: b\r\nX-Number: 7\r\nCookie: c\r\n"));
        let answer = Answer::new(terms(1), 0).for_those_who_send(Some(sent));
        for same in
            ["a: b\r\nCookie: c\r\nX-Number: 7\r\n", "X-number: 7\r\nCookie: c\r\nA: b\r\nHost: b\r\nPragma: x\r\n"]
        {
            assert!(answer.is_for(fields(same)), "{same}");
        }
        for other in [
            "",
            "A: b\r\nCookie: c\r\n",
            "A: B\r\nCookie: c\r\nX-Number: 7\r\n",
            "A: b\r\nCookie: c\r\nX-Number: 8\r\n",
            "A: b\r\nA: b\r\nCookie: c\r\nX-Number: 7\r\n",
            "A: b\r\nCookie: c\r\nX-Number: 7\r\nX-Odd: 1\r\n",
            "A: b\r\nCookie: c\r\nX-Number: 7\r\nConnection: close, x-number\r\n",
        ] {
            assert!(!answer.is_for(fields(other)), "{other}");
        }
        assert!(Answer::new(terms(1), 0).is_for(fields("X-Odd: 1\r\n")));
    }

    #[test]
    fn one_refreshes_at_a_time() {
        let answer = Answer::new(terms(1), 0);
        assert!(answer.wants_refresh(100, 50) && !answer.wants_refresh(149, 50) && answer.wants_refresh(150, 50));
    }
}
