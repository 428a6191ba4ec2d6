//! The parts of an engine of the program's own.
//!
//! An [`Engine`] serves in threads of the server, one for each worker. It can do everything itself, by what the header
//! of [`engine`](lamna_engine::engine) says that an engine owes. Most take the event loop ([`Worker`]) and give it an
//! [`Executor`]. Each part of a request that may wait for the disk or take long is a call of it. The thread that
//! carries it out, and the time, are the whole difference between engines.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use lamna_server::embed::Builder;
//! use lamna_server::embed::engine::{
//!     Completed, Engine, Entry, Errno, Executor, FileRange, OnSockets, PendingId, Shared, TranslationTarget, Worker, WorkerContext,
//!     translate_in_line,
//! };
//!
//! /// Every step is carried out where it comes up.
//! #[derive(Debug)]
//! struct Simple;
//!
//! impl Engine for Simple {
//!     fn run(&self, shared: &Arc<Shared>, index: usize) -> Result<(), Errno> {
//!         Worker::new(shared, index, InLine)?.run()
//!     }
//! }
//!
//! struct InLine;
//!
//! impl OnSockets for InLine {}
//!
//! impl Executor for InLine {
//!     fn translate(&mut self, context: &mut WorkerContext<'_>, _: PendingId, target: TranslationTarget) -> Option<Arc<Entry>> {
//!         Some(translate_in_line(context, &target))
//!     }
//!
//!     fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget) {
//!         translate_in_line(context, &target);
//!     }
//!
//!     fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
//!         Some(Completed::of_range(shared, pending, &range))
//!     }
//! }
//!
//! Builder::new("site").engine(Simple).start()?.wait();
//! # Ok::<(), lamna_server::embed::StartError>(())
//! ```
//!
//! Owns nothing: the items are those of the server's own engines.

pub use lamna_proto::exchange::program::{Input, Program, StepResult};
pub use rustix::io::Errno;

pub use lamna_config::settings::Architecture;
pub use lamna_engine::engine::{Control, Engine};
pub use lamna_engine::worker::context::{FileRange, TranslationTarget, WorkerContext};
pub use lamna_engine::worker::drive::OnSockets;
pub use lamna_engine::worker::event_loop::Worker;
pub use lamna_engine::worker::executor::{
    Completed, Executor, PendingId, make_ready_now, run_elsewhere, run_in_line, translate_in_line, translate_now,
};
pub use lamna_engine::worker::shared::Shared;
pub use lamna_site::cache::Entry;
