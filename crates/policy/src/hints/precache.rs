//! How much may be read ahead of requests.
//!
//! Owns: an account in reads from the disk, and the outcome of each read. A read ahead of a request is paid for when it
//! begins, and paid back when its object is requested: then a client would have waited for the read. What was brought
//! in vain stays paid for. If something went to make room for it and has to be read again before it was of use, that is
//! paid for as well: that read would not have been needed. (Once it was of use, the request would have pushed out as
//! much.) Every read that was needed earns a share of one.
//!
//! Guarantees: whenever a read ahead is allowed, the reads in vain and those made necessary, this one included, are at
//! most `share` of the reads needed plus [`BURST_READS`]. What has been brought and may yet be asked for counts as in
//! vain until it is. So with a share of 10 % a server reads at most 10 % more than it would have, [`BURST_READS`], and
//! what evictions before the last one that was allowed cost later. Memory: 12 bytes for each identifier up to the
//! largest one read ahead or evicted for that.
//!
//! Does not: know what is hot. Whether something may go for a newcomer is the replacement policy's to say
//! ([`crate::cache::Replacement::deserves_room`]); what it says wrong is charged here.

use super::Probability;
use crate::cache::ObjectId;

/// Reads that may be made on credit.
pub const BURST_READS: u64 = 16;

/// In the account, a read is so many.
const PER_READ: i64 = 1_000;

/// The state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    None,
    /// So many reads brought it ahead of a request, and it has not been asked for since.
    Ahead(u32),
    /// Went to make room for that one.
    WentFor(ObjectId),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PrecacheBudget {
    /// The part of the reads needed that may be added, in thousandths.
    share_per_mille: u16,
    /// The lowest probability of an object that is read ahead.
    probability_least: Probability,
    /// In thousandths of a read; below zero, nothing is read ahead.
    credit: i64,
    marks: Vec<Mark>,
    counts: PrecacheCounts,
}

/// Reads, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrecacheCounts {
    /// Reads that a request waited for, or would have.
    pub needed: u64,
    /// Begun ahead of requests.
    pub begun: u64,
    /// Reads begun ahead whose object was asked for while it was there.
    pub used: u64,
    /// Reads begun ahead whose object went before it was asked for.
    pub wasted: u64,
    /// Objects that went to make room for those.
    pub evicted: u64,
    /// Reads made necessary by that.
    pub evicted_again: u64,
}

impl PrecacheBudget {
    /// So many thousandths of the reads needed may be made in vain, for what is at least so likely.
    pub fn new(share_per_mille: u16, probability_least: Probability) -> PrecacheBudget {
        PrecacheBudget {
            share_per_mille,
            probability_least,
            credit: amount(BURST_READS),
            marks: Vec::new(),
            counts: PrecacheCounts::default(),
        }
    }

    /// Whether `reads` may be made for an object of this probability. `is_idle`: no request waits for the disk.
    pub fn allows(&self, probability: Probability, reads: u32, is_idle: bool) -> bool {
        is_idle && probability >= self.probability_least && self.credit >= amount(reads.into())
    }

    /// So many reads for `object`, which is not held, were begun ahead of requests. If they failed, no request uses
    /// their object, and they stay paid for.
    pub fn handle_begun(&mut self, object: ObjectId, reads: u32) {
        self.counts.begun += u64::from(reads);
        self.credit = self.credit.saturating_sub(amount(reads.into()));
        self.mark(object, Mark::Ahead(reads));
    }

    /// `gone` went to make room for `object`, which was read ahead.
    pub fn handle_evicted(&mut self, gone: ObjectId, object: ObjectId) {
        self.counts.evicted += 1;
        self.mark(gone, Mark::WentFor(object));
    }

    /// `object` is held no longer.
    pub fn handle_gone(&mut self, object: ObjectId) {
        // The mark stays: what went for it was not of use.
        if let Some(Mark::Ahead(reads)) = self.marks.get(object.index()) {
            self.counts.wasted += u64::from(*reads);
        }
    }

    /// Whether `object` was read ahead and has not been asked for since.
    pub fn is_ahead(&self, object: ObjectId) -> bool {
        matches!(self.marks.get(object.index()), Some(Mark::Ahead(_)))
    }

    /// Bytes of memory that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.marks.capacity() * size_of::<Mark>()
    }

    /// `object` was requested; if it was not held, so many reads were needed.
    pub fn handle_request(&mut self, object: ObjectId, held: bool, reads: u32) {
        let mark = match self.marks.get_mut(object.index()) {
            Some(mark) => std::mem::take(mark),
            None => Mark::None,
        };
        match mark {
            Mark::Ahead(reads) if held => {
                self.counts.used += u64::from(reads);
                self.earn(amount(reads.into()));
                self.need(reads);
            }
            Mark::WentFor(other) if !held && matches!(self.marks.get(other.index()), Some(Mark::Ahead(_))) => {
                self.counts.evicted_again += u64::from(reads);
                self.credit = self.credit.saturating_sub(amount(reads.into()));
            }
            _ if !held => self.need(reads),
            _ => {}
        }
    }

    /// The identifier of `object`, which is not held, will stand for another object.
    pub fn forget(&mut self, object: ObjectId) {
        if let Some(mark) = self.marks.get_mut(object.index()) {
            *mark = Mark::None;
        }
    }

    /// The counts of all reads.
    pub fn counts(&self) -> PrecacheCounts {
        self.counts
    }

    fn need(&mut self, reads: u32) {
        self.counts.needed += u64::from(reads);
        self.earn(i64::from(reads) * i64::from(self.share_per_mille));
    }

    /// Adds credit, up to a bound: earnings of times in which nothing was likely are not saved up without end.
    fn earn(&mut self, amount_earned: i64) {
        self.credit = self.credit.saturating_add(amount_earned).min(amount(BURST_READS));
    }

    fn mark(&mut self, object: ObjectId, mark: Mark) {
        if object.index() >= self.marks.len() {
            self.marks.resize(object.index() + 1, Mark::None);
        }
        self.marks[object.index()] = mark;
    }
}

fn amount(reads: u64) -> i64 {
    i64::try_from(reads).unwrap_or(i64::MAX).saturating_mul(PER_READ)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Ahead(u32, u32),
        Evicted(u32, u32),
        Request(u32, bool, u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let object = 0..6_u32;
        let step = prop_oneof![
            3 => (object.clone(), 1..4_u32).prop_map(|(object, reads)| Step::Ahead(object, reads)),
            2 => (object.clone(), object.clone()).prop_map(|(gone, object)| Step::Evicted(gone, object)),
            4 => (object, any::<bool>(), 1..4_u32).prop_map(|(object, held, reads)| Step::Request(object, held, reads)),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn when_a_read_is_allowed_those_in_vain_are_within_the_share_whatever_happened(share in 0..400_u16, steps in steps()) {
            let mut budget = PrecacheBudget::new(share, Probability::default());
            for step in steps {
                match step {
                    Step::Ahead(object, reads) => {
                        if budget.allows(Probability::CERTAIN, reads, true) {
                            budget.handle_begun(ObjectId(object), reads);
                            let PrecacheCounts { needed, begun, used, evicted_again, .. } = budget.counts();
                            let vain = begun - used + evicted_again;
                            let bound = needed * u64::from(share) + BURST_READS * 1_000;
                            prop_assert!(vain * 1_000 <= bound, "{:?}", budget.counts());
                        }
                    }
                    Step::Evicted(gone, object) => budget.handle_evicted(ObjectId(gone), ObjectId(object)),
                    Step::Request(object, held, reads) => budget.handle_request(ObjectId(object), held, reads),
                }
                prop_assert!(budget.counts().used <= budget.counts().begun);
            }
        }
    }

    const LIKELY: Probability = Probability(200);

    #[test]
    fn what_is_used_pays_for_the_next_and_what_is_not_does_not() {
        let mut budget = PrecacheBudget::new(0, LIKELY);
        for _ in 0..1_000 {
            assert!(budget.allows(LIKELY, 1, true));
            budget.handle_begun(ObjectId(0), 1);
            budget.handle_request(ObjectId(0), true, 0);
        }
        budget.handle_begun(ObjectId(0), BURST_READS as u32);
        assert!(!budget.allows(LIKELY, 1, true), "all of it is outstanding");
        budget.handle_request(ObjectId(0), false, 1);
        assert!(!budget.allows(LIKELY, 1, true), "it had gone");
        assert_eq!(budget.counts().used, 1_000);
    }

    #[test]
    fn an_eviction_is_charged_only_for_what_was_not_of_use() {
        for of_use in [false, true] {
            let mut budget = PrecacheBudget::new(0, LIKELY);
            budget.handle_begun(ObjectId(0), 1);
            budget.handle_evicted(ObjectId(7), ObjectId(0));
            if of_use {
                budget.handle_request(ObjectId(0), true, 0);
            }
            budget.handle_request(ObjectId(7), false, 1);
            assert_eq!(budget.counts().evicted_again, u64::from(!of_use));
            budget.handle_request(ObjectId(7), false, 1);
            assert_eq!(budget.counts().evicted_again, u64::from(!of_use), "once");
        }
    }

    #[test]
    fn what_goes_before_anybody_asked_for_it_was_wasted() {
        let mut budget = PrecacheBudget::new(0, LIKELY);
        for object in [0, 1] {
            budget.handle_begun(ObjectId(object), 1);
        }
        budget.handle_request(ObjectId(0), true, 0);
        assert!(!budget.is_ahead(ObjectId(0)) && budget.is_ahead(ObjectId(1)));
        [0, 1, 2].into_iter().for_each(|object| budget.handle_gone(ObjectId(object)));
        assert_eq!((budget.counts().used, budget.counts().wasted), (1, 1));
    }

    #[test]
    fn nothing_is_read_ahead_that_is_unlikely_or_while_somebody_waits() {
        let budget = PrecacheBudget::new(100, LIKELY);
        assert!(!budget.allows(Probability::per_mille(199), 1, true));
        assert!(!budget.allows(Probability::CERTAIN, 1, false));
        assert!(!budget.allows(Probability::CERTAIN, BURST_READS as u32 + 1, true));
    }
}
