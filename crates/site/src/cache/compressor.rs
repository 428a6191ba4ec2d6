//! Making the codings that clients ask for, off every thread that serves.
//!
//! Owns: a bounded queue and a bounded number of threads, spawned as requests come in, gone when none have come for a
//! while, in the background. Guarantees: a coding of an entry is made once; who submits never waits; what is made was
//! read in one state of the file, the one that the entry describes. Does not choose: `lamna_proto::codings` notes what
//! is requested.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use lamna_io::file_state;
use lamna_io::{KernelFeatures, Wait};
use lamna_proto::codings::Codings;
use lamna_proto::exchange::negotiate::{Coding, CodingSet};
use lamna_sys::background;
use lamna_sys::contain::{Point, contain, fail_if_asked};
use lamna_sys::shared_memory::SharedMemory;

use super::entry::Entry;
use super::shards::Shards;
use super::two_generation_map::Key;
use crate::cache::compress::{compress, suffix};

use super::counters::Counters;

/// The threads and their queue.
#[derive(Debug)]
pub(super) struct Compressor {
    jobs: Sender<Job>,
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    queue: Receiver<Job>,
    shards: Arc<Shards>,
    counters: SharedMemory<Counters>,
    threads: AtomicUsize,
    /// Half of the processors. Found out once, because threads that are confined can no longer ask for a control
    /// group's share.
    threads_max: usize,
    /// Jobs that have been submitted and not finished.
    pending: AtomicUsize,
}

/// An entry, what it is found by, and the codings that were wished for.
#[derive(Debug)]
struct Job {
    site: u32,
    path: Box<[u8]>,
    entry: Arc<Entry>,
    requested: CodingSet,
}

/// Jobs that may wait. A coding that finds no room is requested again with the next request.
const QUEUE_MAX: usize = 256;
/// How long a thread without work stays.
const RESERVE_TIME: Duration = Duration::from_secs(10);

impl Compressor {
    /// Threads that keep what they make with the entries of `shards`; none yet.
    pub(super) fn new(shards: Arc<Shards>, counters: SharedMemory<Counters>) -> Compressor {
        let (jobs, queue) = bounded(QUEUE_MAX);
        let threads_max = std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2));
        let (threads, pending) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let pool = Pool { queue, shards, counters, threads, threads_max, pending };
        Compressor { jobs, pool: Arc::new(pool) }
    }

    /// Has the codings of `entry` made that were wished for.
    pub(super) fn submit(&self, key: Key<'_>, entry: &Arc<Entry>) {
        let Some(codings) = entry.resource.variants.codings() else { return };
        let requested = codings.take_requested();
        if requested == CodingSet::IDENTITY {
            return;
        }
        self.pool.pending.fetch_add(1, SeqCst);
        let job = Job { site: key.site, path: key.path.into(), entry: entry.clone(), requested };
        match self.jobs.try_send(job) {
            Ok(()) => self.spawn_if_needed(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.pool.pending.fetch_sub(1, SeqCst);
                self.pool.counters.compression_queue_full.fetch_add(1, Relaxed);
                codings.put_back(requested);
            }
        }
    }

    fn spawn_if_needed(&self) {
        let threads = self.pool.threads.load(SeqCst);
        if self.pool.pending.load(SeqCst) <= threads || threads >= self.pool.threads_max {
            return;
        }
        self.pool.threads.fetch_add(1, SeqCst);
        let pool = self.pool.clone();
        // Without a thread the jobs wait in the queue until there is one, and clients get the identity.
        if std::thread::Builder::new().name("compressor".to_owned()).spawn(move || pool.work()).is_err() {
            self.pool.threads.fetch_sub(1, SeqCst);
        }
    }
}

impl Pool {
    /// The life of a thread.
    fn work(&self) {
        background::enter();
        loop {
            match self.queue.recv_timeout(RESERVE_TIME) {
                Ok(job) => {
                    contain("Clients get the file as it is.", || self.carry_out(&job));
                    self.pending.fetch_sub(1, SeqCst);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.threads.fetch_sub(1, SeqCst);
                    // A job may have been counted on this thread just before it left: look once more.
                    if self.queue.is_empty() {
                        return;
                    }
                    self.threads.fetch_add(1, SeqCst);
                }
            }
        }
        self.threads.fetch_sub(1, SeqCst);
    }

    fn carry_out(&self, job: &Job) {
        fail_if_asked(Point::Compress, &job.path);
        let Some(codings) = job.entry.resource.variants.codings() else { return };
        let read;
        let content = match codings.identity().content() {
            Some(content) => content,
            None => match read_described(&job.entry, codings) {
                Some(content) => {
                    read = content;
                    &read[..]
                }
                // It has changed, and another entry will take the place of this one.
                None => return,
            },
        };
        for coding in Coding::BY_PREFERENCE.into_iter().filter(|coding| is_among(*coding, job.requested)) {
            self.make(coding, codings, content);
        }
        self.shards.weigh_again(Key { site: job.site, path: &job.path }, &job.entry);
    }

    fn make(&self, coding: Coding, codings: &Codings, content: &[u8]) {
        let counters = &self.counters;
        let made = compress(coding, content);
        match &made {
            Some(made) => {
                counters.compressed.fetch_add(1, Relaxed);
                counters.compressed_from_bytes.fetch_add(content.len() as u64, Relaxed);
                counters.compressed_to_bytes.fetch_add(made.len() as u64, Relaxed);
            }
            None => drop(counters.compressed_in_vain.fetch_add(1, Relaxed)),
        }
        let represent = |made: Vec<u8>| {
            let one = codings.identity().coded(coding, &suffix(coding), &made).ok()?;
            // It counts as long as an answer holds it, too.
            codings.identity().keeper.get().into_iter().for_each(|keeper| drop(one.keeper.set(keeper.clone())));
            Some(one)
        };
        codings.fill(coding, made.and_then(represent));
    }
}

fn is_among(coding: Coding, set: CodingSet) -> bool {
    coding != Coding::Identity && set.contains(coding)
}

/// The content of the file, if it is in the state that the entry describes.
fn read_described(entry: &Entry, codings: &Codings) -> Option<Vec<u8>> {
    let file = codings.identity().file.as_ref()?;
    let stamp = entry.stamps.files.first()?;
    let unchanged = file_state::inspect(file.as_fd()).ok()?.1 == *stamp;
    let mut content = vec![0; usize::try_from(stamp.size).ok()?];
    let is_whole = file_state::read_whole(file, stamp, &mut content, Wait::Yes, &KernelFeatures::default()).ok()?;
    (unchanged && is_whole).then_some(content)
}
