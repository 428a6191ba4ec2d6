//! The buffer that answers are written to, with what their heads need: date, pages and limits.
//!
//! Owns: [`OutputBuffer`]. Guarantees: it grows to a bound by which requests are begun, so that a peer that reads
//! nothing makes the server hold little. Does not write answers: each version of HTTP does.

use std::sync::Arc;

use super::pages::PagesByHost;
use crate::date;
use crate::exchange::answer::AnswerContext;
use crate::limits::Limits;
use crate::message::{Request, RequestId, TellsIds};

/// The buffer that answers are written to.
#[derive(Debug)]
pub(crate) struct OutputBuffer {
    pub(crate) limits: Arc<Limits>,
    pub(crate) pages: Arc<dyn PagesByHost>,
    /// Bytes ready to be sent, before any segment.
    pub(crate) bytes: Vec<u8>,
    /// How many of them have been sent.
    pub(crate) sent: usize,
    pub(crate) date: [u8; 29],
    pub(crate) unix_seconds: u64,
    /// The largest message that is copied to the output rather than sent from where it is, in bytes.
    pub(crate) copy_bytes_max: usize,
    /// All connections together hold as much as they may: nothing is begun that would be held.
    pub(super) is_over_budget: bool,
    /// Which clients are told what their request is called.
    pub(super) tells_ids: TellsIds,
}

/// Output bytes at which no further request is begun before something has been sent. With `copy_bytes_max` this bounds
/// what a peer that pipelines requests and reads nothing makes the server hold.
pub(crate) const OUTPUT_BYTES_MAX: usize = 32 * 1024;

impl OutputBuffer {
    /// One that nothing has been written to, for all that answers under `limits`, at `unix_seconds`.
    pub(super) fn new(
        limits: Arc<Limits>,
        pages: Arc<dyn PagesByHost>,
        copy_bytes_max: usize,
        unix_seconds: u64,
    ) -> OutputBuffer {
        OutputBuffer {
            bytes: Vec::with_capacity(OUTPUT_BYTES_MAX + copy_bytes_max + 1024),
            sent: 0,
            date: date::format(unix_seconds),
            unix_seconds,
            copy_bytes_max,
            is_over_budget: false,
            tells_ids: TellsIds::Nobody,
            limits,
            pages,
        }
    }

    /// The ID that the answer to `request` tells; none if it tells none.
    pub(crate) fn told_id(&self, request: Request<'_>) -> RequestId {
        self.tells_ids.id_told(request)
    }

    /// The circumstances that answers are decided by.
    pub(crate) fn answer_context(&self) -> AnswerContext<'_> {
        AnswerContext {
            pages: &*self.pages,
            unix_seconds: self.unix_seconds,
            ranges_max: self.limits.ranges_max,
            tells_ids: self.tells_ids,
        }
    }

    /// Bytes that the answers of a connection may hold behind the first in line.
    pub(crate) fn held_bytes_max(&self) -> u64 {
        if self.is_over_budget { 0 } else { self.limits.held_bytes_max }
    }

    /// Output bytes at which no further request is begun.
    pub(crate) fn output_bytes_max(&self) -> usize {
        if self.is_over_budget { 1 } else { OUTPUT_BYTES_MAX }
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// The first `bytes` unsent bytes have been sent.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.bytes.len() {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }
}
