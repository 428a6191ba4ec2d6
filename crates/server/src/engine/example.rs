//! An engine of one's own, from docs/extending.md: complete, and compiled for tests only.
//!
//! The engine is the event loop with an executor that carries every step out in line, as `sped` does, and counts the steps.
//! Copy the file to begin with. Owns: nothing but the count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_proto::exchange::program::{Input, Program, Ran};
use rustix::io::Errno;

use crate::cache::Entry;
use crate::content::translate::translate;
use crate::io::Wait;
use crate::worker::context::{FileRange, Target, WorkerContext};
use crate::worker::drive::OnSockets;
use crate::worker::event_loop::Worker;
use crate::worker::executor::{Completed, Executor, PendingId};
use crate::worker::helpers::runners;
use crate::worker::shared::Shared;

/// Serves as worker `index` until told to drain or stop, and counts the steps that might have waited for the disk.
///
/// # Errors
/// What makes waiting impossible, or no descriptors to begin with.
pub(super) fn run(shared: &Shared, index: usize, steps: &AtomicU64) -> Result<(), Errno> {
    Worker::new(shared, index, Counting { steps })?.run()
}

/// Carries everything out in line.
struct Counting<'a> {
    steps: &'a AtomicU64,
}

/// Bytes move through sockets in the usual way.
impl OnSockets for Counting<'_> {}

impl Executor for Counting<'_> {
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        _pending: PendingId,
        target: Target,
    ) -> Option<Arc<Entry>> {
        self.steps.fetch_add(1, Relaxed);
        let entry = translate(&target.question(context.shared, Wait::Yes, context.now)).ok()?;
        context.keep(&target, &entry);
        Some(entry)
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: Target) {
        self.steps.fetch_add(1, Relaxed);
        if let Ok(entry) = translate(&target.question(context.shared, Wait::Yes, context.now)) {
            context.keep(&target, &entry);
        }
    }

    fn make_ready(&mut self, _shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        self.steps.fetch_add(1, Relaxed);
        Some(Completed::of_range(pending, &range))
    }

    fn run(
        &mut self,
        _pending: PendingId,
        mut program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, Ran)> {
        self.steps.fetch_add(1, Relaxed);
        let ran = runners::run(&mut program, input);
        Some((program, ran))
    }

    /// Nothing was deferred, so nothing comes later.
    fn completed(&mut self, _context: &mut WorkerContext<'_>) -> Vec<Completed> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::worker::connection_table::ConnectionState;
    use crate::worker::testing;

    const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

    #[test]
    fn the_engine_answers_counts_its_steps_and_ends_when_it_drains() {
        let (shared, _root) = testing::shared(1, 1);
        let (mut client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let steps = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| run(&shared, 0, &steps));
            shared.adopt(ConnectionState::new(server.into(), None, shared.clock.now()));
            for _ in 0..2 {
                client.write_all(REQUEST).unwrap();
                let mut answer = Vec::new();
                while !answer.ends_with(b"\r\n\r\nhello") {
                    let mut byte = [0];
                    client.read_exact(&mut byte).unwrap();
                    answer.push(byte[0]);
                }
                assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
            }
            shared.control.drain();
            assert_eq!(client.read(&mut [0]).unwrap(), 0, "it is idle, so it is closed");
            worker.join().unwrap().unwrap();
        });
        // The second answer comes from the cache, or from comparing once more if more than a second has passed.
        assert!((1..=2).contains(&steps.into_inner()));
    }

    #[test]
    fn the_code_in_the_document_is_that_of_the_examples() {
        let document = include_str!("../../../../docs/extending.md");
        let examples = [
            include_str!("example.rs"),
            include_str!("../../../policy/examples/own_policy.rs"),
            include_str!("../config/settings.rs"),
            include_str!("../config/setting/table.rs"),
            include_str!("../process/running_engine.rs"),
            include_str!("../../examples/embedded/main.rs"),
        ];
        let blocks: Vec<&str> =
            document.split("```rust\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
        assert!(blocks.len() >= examples.len());
        for block in blocks {
            assert!(examples.iter().any(|example| example.contains(block)), "no example has this:\n{block}");
        }
    }
}
