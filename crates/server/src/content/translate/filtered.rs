//! Files that pass through the filters of their route (`filters`, `lamna_filter`).
//!
//! Owns: what a chain makes of a file as a resource, made once for each state of the file and kept as any file in memory is, with a strong
//! validator of its own. Guarantees: with [`Wait::No`] no filter runs, so that it does where the engine has what
//! may take long done. A file that cannot be filtered is answered with 500, never as it is. Does not filter what applications answer.

use std::os::fd::AsFd;
use std::sync::Arc;

use lamna_filter::{Fault, Run};
use lamna_proto::codings::Codings;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::message::Status;
use lamna_proto::resource::{Resource, Variants};
use rustix::io::Errno;

use super::{Content, Kindred, Open, Previous, Question, READ_TRIES, State};
use crate::cache::{Entry, Store};
use crate::content::media_type;
use crate::io::file_state::{self, Stamp, Stamps};
use crate::io::{Blocked, Wait};
use crate::log::errors::{Level, Peer};

/// The most bytes of a file that is filtered, and of what becomes of it: both are held in memory.
pub(super) const BYTES_MAX: u64 = 16 << 20;

impl Question<'_> {
    /// What `run` makes of a file.
    pub(super) fn filtered(
        &self,
        open: Open,
        status: Status,
        is_immutable: bool,
        run: Run<'_>,
    ) -> Result<Arc<Entry>, Blocked> {
        let stamps = Stamps::new(vec![open.stamp]);
        if let Some(Previous { entry, events }) = self.previous.filter(|previous| self.holds(previous, &stamps)) {
            entry.confirm(self.now_ms, events);
            return Ok(entry.clone());
        }
        if self.wait == Wait::No {
            return Err(Blocked::Disk);
        }
        if self.store.is_some_and(Store::is_pressed) {
            return Err(Blocked::Failed(Errno::NOMEM));
        }
        let (content, stamp) = match self.read(&open)? {
            Some(read) => read,
            None => return self.fault(&Fault::TooLarge(BYTES_MAX), status, stamps),
        };
        let is_steady = stamps.settled && stamp == open.stamp;
        let media_type = run.media_type().to_owned();
        let made = match apply(run, &content) {
            Ok(made) => made,
            Err(fault) => return self.fault(&fault, status, stamps),
        };
        let media = media_type::by_name(&open.name);
        let makes_codings =
            media.compressible && is_steady && status.0 == 200 && self.site.compression.applies_to(made.len() as u64);
        let vary = makes_codings.then_some("Accept-Encoding");
        let kind = Kindred { media_type: &media_type, vary, status, is_immutable };
        let stamp = stamp.of_derived(self.rules.filters.number(), made.len() as u64);
        let state = State { coding: Coding::Identity, stamp, is_steady };
        let representation = Arc::new(self.describe(&state, &kind, Content::Held(&made))?);
        let variants = match makes_codings {
            true => Variants::Made(Box::new(Codings::new(representation, self.site.compression.codings))),
            false => Variants::One(representation),
        };
        let stamps = Stamps { settled: is_steady, ..stamps };
        Ok(self.entry(Resource { status, variants, query_follows: false }, stamps))
    }

    /// Whether what was made the last time is what would be made now.
    fn holds(&self, previous: &Previous<'_>, stamps: &Stamps) -> bool {
        let is_kept = self.caches.entries || self.caches.translations;
        is_kept && stamps.settled && previous.entry.stamps == *stamps && self.is_described_as_now(previous.entry)
    }

    /// The content of a file, and the state in which it was read. None if it is too large. A file that changes faster than it can be
    /// read is taken as it comes: the stamp is not the one it was opened with then.
    fn read(&self, open: &Open) -> Result<Option<(Vec<u8>, Stamp)>, Blocked> {
        let mut stamp = open.stamp;
        for last in (0..READ_TRIES).rev() {
            if stamp.size > BYTES_MAX {
                return Ok(None);
            }
            // It is no more than the bound.
            let mut content = vec![0; stamp.size as usize];
            if file_state::read_whole(&open.file, &stamp, &mut content, self.wait, self.abilities)? {
                return Ok(Some((content, stamp)));
            }
            if last == 0 {
                break;
            }
            stamp = file_state::inspect(open.file.as_fd())?.1;
        }
        Err(Blocked::Failed(Errno::BUSY))
    }

    /// What is answered in place of a file that cannot be filtered, for as long as it stays as it is.
    fn fault(&self, fault: &Fault, status: Status, stamps: Stamps) -> Result<Arc<Entry>, Blocked> {
        self.report(Peer::Failed, || (Level::Error, format!("it cannot be filtered: {fault}")));
        match status.0 {
            200 => self.error_page(500, &self.rules.errors.failed, stamps),
            // It was to be the page of another error.
            _ => Ok(self.ready(&self.rules.errors.failed, stamps)),
        }
    }
}

fn apply(mut run: Run<'_>, content: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut made = Vec::new();
    run.take(content, &mut made)?;
    run.finish(&mut made)?;
    Ok(made)
}
