//! State shared by the connections of one thread of the load generator.

use std::os::fd::OwnedFd;

use super::plan::Plan;
use super::recorder::{Recorder, Shared};
use super::timers::Timers;

/// State shared by the connections of a thread.
pub(super) struct ThreadState<'a> {
    pub(super) plan: &'a Plan,
    pub(super) shared: &'a Shared,
    pub(super) epoll: OwnedFd,
    pub(super) timers: Timers,
    pub(super) recorder: Recorder,
    pub(super) buffer: Vec<u8>,
    /// Requests under way on all connections.
    pub(super) in_flight: usize,
    /// Connections being established.
    pub(super) connecting: usize,
    /// For taking source addresses in turn.
    pub(super) opened: usize,
    pub(super) first_wrong: Option<String>,
    /// The time stamp in force: when the turn began, or when the last bytes arrived.
    pub(super) now_ns: u64,
}
