//! The services in effective rules, which may change at run time.
//!
//! Owns: how it is told what was made with which services. Makes no chain: `Routes::effective` does, and again when
//! services have changed.

use std::sync::{MutexGuard, PoisonError};

use lamna_filter::{Chain, Step};

use super::{Effective, Made, Routes};
use crate::content::change_poller;
use crate::service::Unavailable;

/// The filters of a route, and what tells pages to load themselves again if they are to.
pub(super) fn steps(filters: Option<&[Step]>, live_reload: bool) -> Vec<Step> {
    let mut steps = filters.unwrap_or_default().to_vec();
    steps.extend(live_reload.then(change_poller::step));
    steps
}

impl Effective {
    /// Distinguishes content produced by services from other content: zero if no service was involved. It has 32 bits,
    /// because each entry of the cache has one.
    pub fn services_mark(&self) -> u32 {
        match (self.has_services, &self.unavailable) {
            (false, _) => 0,
            (true, None) => {
                let number = self.filters.number(None);
                ((number ^ number >> 32) as u32).clamp(1, u32::MAX - 1)
            }
            (true, Some(_)) => u32::MAX,
        }
    }
}

impl Routes {
    /// Whether services have not changed since `effective` was made, as far as it has any.
    pub fn is_current(&self, effective: &Effective) -> bool {
        !effective.has_services || effective.epoch == self.registry.epoch()
    }

    /// The cached effective rules, without those whose services have changed since.
    pub(super) fn made_since(&self, epoch: u64) -> MutexGuard<'_, Made> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.epoch < epoch {
            made.by_routes.retain(|_, one| !one.has_services);
            made.epoch = epoch;
        }
        made
    }

    /// The chain of `steps`, or why there is none; and whether some of them are services.
    pub(super) fn filters_of(&self, steps: &[Step]) -> (Chain, Option<Unavailable>, bool) {
        let has_services = steps.iter().any(|step| !lamna_filter::is_in_table(&step.name));
        match self.registry.chain(steps) {
            Ok(chain) => (chain, None, has_services),
            Err(unavailable) => (Chain::default(), Some(unavailable), has_services),
        }
    }
}
