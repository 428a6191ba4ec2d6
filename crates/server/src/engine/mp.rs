//! MP: processes that were forked beforehand serve one connection each at a time (Flash 3.1, Apache's prefork).
//!
//! Its whole character: each process waits for its own peer and its own disk, and shares nothing with the others but the
//! listening sockets, so that whatever happens to one (a crash, a leak, a file that is never read to its end) happens to
//! one connection. No step needs to be synchronised with anything. `supervisor` forks the processes, replaces those that
//! die, and keeps a few more than are busy.
//!
//! What it costs: the caches are replicated, so each is small, and a file that is hot is read and translated once in
//! every process; switching processes costs a few microseconds and the translation look-aside buffer for each request. A
//! connection holds its process as long as it is open: an idle keep-alive connection does so by nature, and connections
//! beyond the number of processes wait in the listen queue until one closes or has been idle too long.

use rustix::io::Errno;

use crate::engine::Shared;
use crate::engine::blocking::{Awaited, Driver, Left};
use crate::engine::slots::Slot;

/// Serves as worker `index`, of which there is one in a process, until told to drain or stop.
///
/// # Errors
/// None: what fails is waited for.
pub fn run(shared: &Shared, index: usize) -> Result<(), Errno> {
    let mut driver = Driver::new(shared);
    let seat = shared.seat(index);
    shared.control.report_begun();
    while let Some(slot) = driver.await_connection(index) {
        seat.show(1);
        if shared.board.is_crowded() {
            shared.alarm.wake();
        }
        attend(shared, &mut driver, slot);
        seat.show(0);
    }
    shared.close_arrivals(index);
    Ok(())
}

/// Serves a connection until it is closed, or somebody else's.
fn attend(shared: &Shared, driver: &mut Driver<'_>, mut slot: Slot) {
    loop {
        match driver.serve(&mut slot) {
            Left::Idle if driver.await_request(&mut slot, None) == Awaited::Request => {}
            Left::Idle | Left::Over => return,
            Left::Moving => return shared.hand_over([slot]),
        }
    }
}
