//! Thread per session: a thread for each connection as long as it is open (JAWS).
//!
//! Its whole character: the simplest program that serves many at once. Each thread waits for its own peer and its own
//! disk, and the scheduler does what an event loop would do. Switching threads costs a few microseconds for each
//! request.
//!
//! An idle keep-alive connection costs a thread: its stack and buffers (about 30 KB of memory that is really used), and
//! one of the bounded number of threads, so that as many idle clients as that lock everybody else out until their idle
//! time is over. Connections beyond the bound are answered with 503 and Retry-After.

use std::thread;

use lamna_sys::contain::contain;
use rustix::io::Errno;

use crate::worker::blocking::{Awaited, CONNECTION_ENDS, Driver, Left};
use crate::worker::connection_state::ConnectionState;
use crate::worker::shared::Shared;
use crate::worker::spawner::Spawner;

/// Serves as worker `index` until told to drain or stop.
///
/// # Errors
/// None: what fails is waited for.
pub fn run(shared: &Shared, index: usize) -> Result<(), Errno> {
    let spawner = Spawner::new(shared, |driver: &mut Driver<'_>, connection| session(shared, driver, connection));
    thread::scope(|scope| {
        let mut acceptor = Driver::new(shared);
        let mut refuser = Driver::refusing(shared);
        shared.control.report_begun();
        loop {
            // After the order to drain come those that had been waiting before it.
            let mut accept = || match acceptor.await_connection(index).or_else(|| acceptor.last_connection(index)) {
                None => Turn::End,
                Some(connection) => {
                    if let Err(mut connection) = spawner.spawn(scope, connection) {
                        refuser.reject(&mut connection);
                    }
                    Turn::Next
                }
            };
            match contain(CONNECTION_ENDS, &mut accept) {
                Some(Turn::Next) => {}
                Some(Turn::End) => break,
                None => (acceptor, refuser) = (Driver::new(shared), Driver::refusing(shared)),
            }
        }
    });
    shared.close_arrivals(index);
    Ok(())
}

/// The next step after an attempt to take a connection.
enum Turn {
    Next,
    End,
}

/// The life of a connection.
fn session(shared: &Shared, driver: &mut Driver<'_>, mut connection: ConnectionState) {
    loop {
        match driver.serve(&mut connection) {
            Left::Idle if driver.await_request(&mut connection, None) == Awaited::Request => {}
            Left::Idle | Left::Over => return connection.close(),
            Left::Moving => return shared.hand_over([connection]),
        }
    }
}
