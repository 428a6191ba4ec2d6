//! Making what a request asks a filter for, which takes long and much memory: a picture in another size, a section of a
//! page that has not been read.
//!
//! ```text
//!   Outside ── first step ──> Waits ── its turn ──> HasLock ── a step that may block ──> answer, kept as any other
//!      └── enough wait: the answer for that (503)   └── too long: the same
//! ```
//!
//! Owns: [`Making`], the program that enters the queue ([`FairLock`]) and makes it. Guarantees: a request that waits
//! holds no thread, no file and no content. One is made after the other in each process, in the background, so that one
//! processor at least has something else to do. The making itself is `content::translate`'s.

use std::sync::Arc;
use std::time::Duration;

use lamna_io::{KernelFeatures, Wait};
use lamna_proto::exchange::program::{Holds, Input, Next, Program, StepResult};
use lamna_proto::resource::Resource;
use lamna_proto::time::Instant;
use lamna_site::cache::Store;
use lamna_site::content::at_once::ClientNetwork;
use lamna_site::content::fair_lock::{FairLock, FairLockGuard, Ticket};
use lamna_site::content::site::Sites;
use lamna_site::content::translate::{Translation, translate};

use crate::worker::context::{Sources, Traced, TranslationTarget};
use crate::worker::shared::Shared;

/// How long one may wait for its turn, and how long making may take then.
const WAIT_MS_MAX: u32 = 30_000;
const MAKING_MAX: Duration = Duration::from_secs(30);
/// How often one that waits asks whether it is its turn.
const ASK_MS: u32 = 10;

/// See the module.
#[derive(Debug)]
pub struct Making {
    target: TranslationTarget,
    sites: Arc<Sites>,
    store: Arc<Store>,
    abilities: Arc<KernelFeatures>,
    reads_elsewhere: bool,
    making_lock: Arc<FairLock>,
    /// Whose it is, if that is known.
    of: Option<ClientNetwork>,
    progress: Progress,
    /// The answer if it is not made.
    busy: Arc<Resource>,
    /// The request, if an operator traces it.
    traced: Option<Traced>,
}

/// How far it is.
#[derive(Debug)]
enum Progress {
    Outside,
    /// It has a place in the line, until then.
    Waits(Ticket, Instant),
    HasLock(#[expect(dead_code, reason = "it is given back when it is dropped")] FairLockGuard),
}

impl Making {
    /// The making of `target`, for a client of a network. `busy` is the answer if others take too long.
    pub fn new(shared: &Shared, target: TranslationTarget, of: Option<ClientNetwork>, busy: Arc<Resource>) -> Making {
        let Shared { sites, store, abilities, making_lock, .. } = shared;
        Making {
            target,
            sites: sites.clone(),
            store: store.clone(),
            abilities: abilities.clone(),
            reads_elsewhere: shared.reads_elsewhere(),
            making_lock: making_lock.clone(),
            of,
            progress: Progress::Outside,
            busy,
            traced: None,
        }
    }

    /// The same, whose end is told to a trace.
    pub fn traced_as(self, traced: Option<Traced>) -> Making {
        Making { traced, ..self }
    }

    /// The answer to the request.
    fn answer(&self, resource: Arc<Resource>) -> StepResult {
        self.traced.iter().for_each(|traced| traced.made(&resource));
        StepResult::Answer(resource)
    }

    /// Makes it, or takes the result that another request has made meanwhile. None if it is nothing that is made any
    /// more.
    fn make(&mut self, now: Instant) -> Option<Arc<Resource>> {
        let Making { target, sites, store, abilities, reads_elsewhere, .. } = self;
        target.previous = store.lookup(target.key(), 1);
        let sources = Sources { sites, store, abilities, reads_elsewhere: *reads_elsewhere };
        let makes_until = Some(std::time::Instant::now() + MAKING_MAX);
        let translation = Translation { makes_until, ..target.translation_of(sources, Wait::Yes, now) };
        let entry = translate(&translation).ok()?;
        if entry.is_unmade() || entry.asks_an_application() {
            return None;
        }
        let is_known = target.previous.as_ref().is_some_and(|previous| Arc::ptr_eq(previous, &entry));
        match entry.stamps.settled && store.caches().entries {
            _ if is_known => {}
            true => store.insert(target.key(), entry.clone()),
            false => store.count(&entry),
        }
        Some(entry.resource.clone())
    }
}

impl Program for Making {
    fn content_bytes_max(&self) -> u64 {
        0
    }

    fn begins_with(&self) -> Next {
        Next::ROOM
    }

    fn may_block(&self) -> bool {
        matches!(self.progress, Progress::HasLock(_))
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        let now = input.now;
        let waits = |until| StepResult::Waits(Next { until: Some(until), ..Next::default() });
        if let Progress::Outside = self.progress {
            match self.making_lock.enqueue(self.of, now.ms()) {
                Ok(place) => self.progress = Progress::Waits(place, now.after_ms(WAIT_MS_MAX)),
                Err(_) => return self.answer(self.busy.clone()),
            }
        }
        match &self.progress {
            Progress::Waits(_, until) if now >= *until => self.answer(self.busy.clone()),
            Progress::Waits(place, _) => match place.take(now.ms()) {
                Some(turn) => {
                    self.progress = Progress::HasLock(turn);
                    waits(now)
                }
                None => waits(now.after_ms(ASK_MS)),
            },
            Progress::HasLock(_) => match self.make(now) {
                Some(resource) => self.answer(resource),
                None => {
                    self.traced.iter().for_each(Traced::not_made);
                    StepResult::Again
                }
            },
            Progress::Outside => StepResult::Failed,
        }
    }
}
