//! MP: processes that were forked beforehand serve one connection each at a time (Flash 3.1, Apache's prefork).
//!
//! Its whole character: each process waits for its own peer and its own disk, and shares nothing with the others but
//! the listening sockets, so that whatever happens to one (a crash, a leak, a file that is never read to its end)
//! happens to one connection. No step needs to be synchronised with anything. `supervisor` forks the processes,
//! replaces those that die, and keeps a few more than are busy.
//!
//! Costs: the caches are replicated, so each is small, and a file that is hot is read and translated once in every
//! process. Switching processes costs a few microseconds and the translation look-aside buffer for each request. A
//! connection holds its process as long as it is open: an idle keep-alive connection does so by nature. Connections
//! beyond the number of processes wait in the listen queue. When no process can be added, by configuration or for lack
//! of room, processes whose own connection is idle answer the waiting ones with 503 and Retry-After. The moment at
//! which a process will be free is unknown.

use rustix::io::Errno;

use crate::worker::acceptor;
use crate::worker::blocking::{Awaited, Driver, Left};
use crate::worker::connection_state::ConnectionState;
use crate::worker::shared::Shared;

/// Serves as worker `index`, of which there is one in a process and `processes_max` at most, until told to drain or
/// stop.
///
/// # Errors
/// None: what fails is waited for.
pub fn run(shared: &Shared, index: usize, processes_max: usize) -> Result<(), Errno> {
    let mut driver = Driver::new(shared);
    let mut refuser = Usher { shared, processes_max, driver: None };
    let score = shared.score(index);
    shared.control.report_begun();
    while let Some(connection) = driver.await_connection(index) {
        score.show(1);
        if shared.scoreboard.is_crowded() {
            shared.alarm.wake();
        }
        attend(shared, &mut driver, &mut refuser, connection);
        score.show(0);
    }
    // They have waited for a process to be free. This one is, and there will be no other.
    while let Some(connection) = driver.last_connection(index) {
        attend(shared, &mut driver, &mut refuser, connection);
    }
    shared.close_arrivals(index);
    Ok(())
}

/// Serves a connection until it is closed, or handed over to the successor of this engine.
fn attend<'a>(shared: &Shared, driver: &mut Driver<'a>, refuser: &mut Usher<'a>, mut connection: ConnectionState) {
    loop {
        match driver.serve(&mut connection) {
            Left::Idle => {}
            Left::Over => return connection.close(),
            Left::Moving => return shared.hand_over([connection]),
        }
        loop {
            match driver.await_request(&mut connection, Some(USHER_INTERVAL_MS)) {
                Awaited::Request => break,
                Awaited::Nothing => refuser.turn_away_waiting(),
                Awaited::Over => return,
            }
        }
    }
}

/// How often a process whose connection is idle looks whether others wait in vain.
const USHER_INTERVAL_MS: u32 = 1000;
/// Connections that it turns away before it looks at its own again.
const TURNED_AWAY_MAX: usize = 64;

/// Turns connections away for which there is no process.
struct Usher<'a> {
    shared: &'a Shared,
    processes_max: usize,
    /// Made when it is needed.
    driver: Option<Driver<'a>>,
}

impl Usher<'_> {
    fn turn_away_waiting(&mut self) {
        let (_, processes) = self.shared.scoreboard.load();
        let scoreboard = &self.shared.scoreboard;
        let may_grow = (processes as usize) < self.processes_max && !scoreboard.is_short();
        if may_grow || !scoreboard.is_crowded() {
            return;
        }
        let driver = self.driver.get_or_insert_with(|| Driver::refusing(self.shared));
        for listener in self.shared.listeners.iter() {
            for mut connection in acceptor::waiting(self.shared, listener, TURNED_AWAY_MAX) {
                driver.count_connection();
                driver.reject(&mut connection);
            }
        }
        driver.rest();
    }
}
