//! AMPED: an event loop with helpers for what would wait for the disk (Flash 3.4).
//!
//! Its whole character: every step is first tried in line in a form that cannot wait; only what would have waited goes
//! to a helper, which does it so that it no longer would, and sends a notification. So cached content costs what it
//! costs SPED, and a cold file delays only the clients that asked for it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use lamna_io::{Counters, Wait};
use lamna_proto::exchange::program::{Input, Program, StepResult};
use lamna_proto::time::Instant;
use lamna_site::cache::Entry;
use lamna_site::content::translate::translate;
use rustix::io::Errno;

use crate::worker::coalesced_lookups::{CoalescedLookups, Joined};
use crate::worker::context::{FileRange, TranslationTarget, WorkerContext};
use crate::worker::drive::OnSockets;
use crate::worker::event_loop::Worker;
use crate::worker::executor::{Completed, Executor, PendingId, make_ready_now, run_elsewhere, translate_now};
use crate::worker::helpers::job_queue::JobId;
use crate::worker::helpers::processes::HelperProcesses;
use crate::worker::helpers::runners::Runners;
use crate::worker::helpers::{Finished, HelperThreads, Helpers, Job, JobOutcome};
use crate::worker::shared::Shared;

/// Serves as worker `index`, with at most `helpers_max` helper processes or as many helper threads as
/// [`Control::helpers`] says, until told to drain or stop.
///
/// [`Control::helpers`]: crate::worker::control::Control::helpers
///
/// # Errors
/// The wait for events fails, or there are no descriptors to begin with.
pub fn run(shared: &Arc<Shared>, index: usize, helpers_max: usize) -> Result<(), Errno> {
    let helpers: Box<dyn Helpers> = match &shared.fork_server {
        Some(_) => Box::new(HelperProcesses::new(shared.clone(), index, helpers_max)?),
        None => Box::new(HelperThreads::new(shared.clone(), index)),
    };
    let runners = Runners::new(shared.clone(), index);
    Worker::new(shared, index, Helped { helpers, runners, lookups: CoalescedLookups::default() })?.run()
}

/// Carries out in line what cannot wait, and hands the rest to helpers.
struct Helped {
    helpers: Box<dyn Helpers>,
    /// For what programs do, which helper processes cannot.
    runners: Runners,
    /// Lookups of targets that helpers carry out, each with the identifier of its job.
    lookups: CoalescedLookups<JobId>,
}

impl OnSockets for Helped {}

impl Executor for Helped {
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        pending: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        let entry = translate_now(context, &target);
        if entry.is_none() {
            self.look_up(pending, target);
        }
        entry
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget) {
        if translate_now(context, &target).is_none() {
            self.helpers.submit(Job::Translate { pending: None, target, again: false }, 1);
        }
    }

    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        let completed = make_ready_now(shared, pending, &range);
        if completed.is_none() {
            self.helpers.submit(Job::PageIn { pending, range }, 1);
        }
        completed
    }

    fn run(
        &mut self,
        pending: PendingId,
        program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, StepResult)> {
        run_elsewhere(program, input, |program, input| self.runners.submit(pending, program, input))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.helpers.descriptor()
    }

    fn due(&self) -> Option<Instant> {
        self.helpers.due()
    }

    fn completed(&mut self, context: &mut WorkerContext<'_>) -> Vec<Completed> {
        let mut completed: Vec<Completed> = std::iter::from_fn(|| self.runners.finished()).collect();
        while let Some(finished) = self.helpers.finished() {
            self.take(context, finished, &mut completed);
        }
        completed
    }
}

impl Helped {
    /// Has a target looked up, once for all who wait for it.
    fn look_up(&mut self, pending: PendingId, target: TranslationTarget) {
        match self.lookups.join(&target, pending) {
            Joined::Another(number) => number.into_iter().for_each(|number| self.helpers.want(number)),
            Joined::First => {
                let job = Job::Translate { pending: Some(pending), target: target.clone(), again: false };
                let number = self.helpers.submit(job, 1);
                self.lookups.place(&target, number);
            }
        }
    }

    /// Adds to `completed` the steps that a helper's notification completes.
    fn take(&mut self, context: &mut WorkerContext<'_>, finished: Finished, completed: &mut Vec<Completed>) {
        match (finished.job, finished.outcome) {
            (_, JobOutcome::Left) => {}
            (Job::PageIn { pending, range }, outcome) => {
                completed.extend(outcome.of_read(context.shared, pending, &range));
            }
            (Job::Translate { pending, target, .. }, JobOutcome::Late) => {
                let overloaded = &target.rules().errors.overloaded;
                let all = self.end(pending, &target);
                completed.extend(all.map(|pending| Completed::Late(pending, overloaded.clone())));
            }
            (Job::Translate { pending, target, again }, outcome) => {
                let Some(entry) = self.found(context, &target, outcome) else {
                    debug_assert!(!again, "a helper that was asked again returns what it found");
                    Counters::count(&context.shared.abilities.counters.untested);
                    return self.look_up_again(pending, target);
                };
                context.keep(&target, &entry);
                let all = self.end(pending, &target);
                completed.extend(all.map(|pending| Completed::Translated(pending, entry.clone())));
            }
        }
    }

    /// The lookup of `target` is over: all that wait for it. A refresh is for nobody, and those who wait for the same
    /// target wait for a lookup of their own.
    fn end(
        &mut self,
        pending: Option<PendingId>,
        target: &TranslationTarget,
    ) -> impl Iterator<Item = PendingId> + use<> {
        let others = pending.map(|_| self.lookups.end(target)).unwrap_or_default();
        pending.into_iter().chain(others)
    }

    /// Has it looked up once more, by a helper that says what it finds.
    fn look_up_again(&mut self, pending: Option<PendingId>, target: TranslationTarget) {
        let (is_for_somebody, wanted) = (pending.is_some(), self.lookups.wanted(&target));
        let number = self.helpers.submit(Job::Translate { pending, target: target.clone(), again: true }, wanted);
        if is_for_somebody {
            self.lookups.place(&target, number);
        }
    }

    /// The entry that the helper found, or that can be found now that it is in memory. None if it has been evicted
    /// already, or if this file system cannot tell what is in memory.
    fn found(
        &self,
        context: &WorkerContext<'_>,
        target: &TranslationTarget,
        outcome: JobOutcome,
    ) -> Option<Arc<Entry>> {
        match outcome {
            JobOutcome::Found(entry) => Some(entry),
            _ => translate(&target.translation(context.shared, Wait::No, context.now)).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing;
    use lamna_config::proxies::Peer;
    use lamna_io::file_state::inspect;
    use lamna_io::wait::Token;
    use lamna_proto::exchange::{ExchangeId, RequestedResource};
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation};
    use lamna_site::cache::Store;
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::atomic::Ordering::Relaxed;

    const PENDING: PendingId = PendingId { token: Token { index: 0, generation: 1 }, exchange: ExchangeId(0) };

    /// A site of one file, in memory, and a store that has memory to itself or not.
    fn shared(replaces_page_cache: bool) -> (Arc<Shared>, tempfile::TempDir) {
        let (shared, root) = testing::shared(1, 1);
        let store = Arc::new(Store::new(1 << 20, 100).alone(replaces_page_cache));
        (Arc::new(Shared { store, ..shared }), root)
    }

    fn helped(shared: &Arc<Shared>) -> Helped {
        let (helpers, runners) = (HelperThreads::new(shared.clone(), 0), Runners::new(shared.clone(), 0));
        Helped { helpers: Box::new(helpers), runners, lookups: CoalescedLookups::default() }
    }

    /// The first outcome of what a helper does.
    fn step(helped: &mut Helped, context: &mut WorkerContext<'_>) -> Completed {
        std::iter::repeat_with(|| helped.completed(context)).flatten().next().expect("it goes on until there is one")
    }

    fn target(context: &mut WorkerContext<'_>) -> TranslationTarget {
        let asked = RequestedResource {
            host: None,
            path: b"/a",
            query: None,
            path_and_query: b"/a",
            request: None,
            is_again: false,
            redirects: 0,
            led: None,
            found: None,
        };
        context.take(&asked, Peer::default())
    }

    /// The four bytes from offset 1 on of the site's file.
    fn range(root: &tempfile::TempDir) -> FileRange {
        let file: OwnedFd = std::fs::File::open(root.path().join("a")).unwrap().into();
        let stamp = inspect(file.as_fd()).unwrap().1;
        let mut representation = Representation::new(&Description::of(Status(200)), Some(Arc::new(file))).unwrap();
        representation.state.version = stamp.version();
        FileRange { representation: Arc::new(representation), offset: 1, length: 4 }
    }

    fn jobs(shared: &Shared) -> u64 {
        shared.abilities.counters.helper_jobs.load(Relaxed)
    }

    #[test]
    fn what_is_in_memory_is_found_in_line_unless_the_store_has_memory_to_itself() {
        for replaces_page_cache in [false, true] {
            let (shared, _root) = shared(replaces_page_cache);
            let (mut context, mut helped) = (WorkerContext::new(&shared), helped(&shared));
            let target = target(&mut context);
            // A file system that cannot tell what is in memory leaves it to helpers in both cases.
            let in_line = helped.translate(&mut context, PENDING, target);
            let can_tell = shared.abilities.counters.read_blocked.load(Relaxed) == 0;
            assert_eq!(in_line.is_some(), can_tell && !replaces_page_cache);
            if replaces_page_cache {
                let Completed::Translated(PENDING, entry) = step(&mut helped, &mut context) else {
                    panic!("it is there")
                };
                assert_eq!(entry.resource.variants.first().content(), Some(&b"hello"[..]));
                assert_eq!(jobs(&shared), 1);
            }
        }
    }

    #[test]
    fn a_stretch_comes_from_a_helper_in_memory_of_ours_where_the_store_has_memory_to_itself() {
        let (shared, root) = shared(true);
        let (mut context, mut helped) = (WorkerContext::new(&shared), helped(&shared));
        let range = range(&root);
        assert!(helped.make_ready(&shared, PENDING, range).is_none());
        let Completed::Content(PENDING, content) = step(&mut helped, &mut context) else { panic!("it is not read") };
        assert_eq!((content.bytes().len(), jobs(&shared)), (4, 1));
    }

    /// A worker that gives its connections away may look at its helpers once more before it does: nothing may fail by
    /// that.
    #[test]
    fn what_a_helper_leaves_to_the_successor_neither_fails_nor_is_asked_again() {
        let (shared, root) = shared(true);
        let (mut context, mut helped) = (WorkerContext::new(&shared), helped(&shared));
        shared.control.hand_over();
        let target = target(&mut context);
        assert!(helped.make_ready(&shared, PENDING, range(&root)).is_none());
        assert!(helped.translate(&mut context, PENDING, target.clone()).is_none());
        let again = Job::Translate { pending: Some(PENDING), target, again: true };
        helped.helpers.submit(again, 1);
        let mut completed = Vec::new();
        for _ in 0..3 {
            let finished = std::iter::repeat_with(|| helped.helpers.finished()).flatten().next().unwrap();
            helped.take(&mut context, finished, &mut completed);
        }
        assert!(completed.is_empty(), "{completed:?}");
        assert_eq!(jobs(&shared), 3);
    }

    #[test]
    fn what_was_found_in_memory_a_moment_ago_is_not_tested_again() {
        let (shared, root) = shared(false);
        let range = range(&root);
        let counters = &shared.abilities.counters;
        let tests = || counters.tested_by_cachestat.load(Relaxed) + counters.tested_by_page.load(Relaxed);
        let tested_once = |_| {
            let before = tests();
            // A file system that cannot tell is asked each time.
            let can_tell = range.in_memory(&shared).is_some();
            _ = range.in_memory(&shared);
            !can_tell || tests() <= before + 1
        };
        // The moment may end in between, but not each time.
        assert!((0..10).any(tested_once));
    }
}
