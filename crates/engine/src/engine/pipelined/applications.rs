//! Connections whose requests applications answer: out of the stages, in a thread each.
//!
//! No stage waits for a peer, and an application is one more peer of a connection. So such a connection goes to a
//! thread that waits for both ([`Driver`]), as in the engines that have nothing else, and comes back to the stages when
//! it is idle.
//!
//! Owns: the life of these threads. Their number, and the connections that wait for one, are in a
//! [`Queue`](crate::worker::helpers::queue::Queue) of helpers. Guarantees: there are as many as `threads_max` says; a
//! connection that finds no free thread waits for one, in order. The pool lives until the last connection has come
//! back, has gone to the successor or has ended.

use std::sync::Arc;
use std::thread::Builder;

use lamna_sys::contain::contain;

use super::pool::Pool;
use crate::worker::blocking::{CONNECTION_ENDS, Driver, Left};
use crate::worker::connection_state::ConnectionState;
use crate::worker::helpers::{self, RESERVE_TIME};
use crate::worker::spawner::STACK_BYTES;

/// Has a connection served until it is idle.
pub(super) fn serve(pool: &Arc<Pool>, connection: ConnectionState) {
    let threads_max = pool.shared.control.threads_max();
    let ((), hires) = pool.applications.submit(threads_max, |waiting| waiting.add_at_once(connection));
    if hires {
        let (own, builder) = (pool.clone(), Builder::new().name("application".to_owned()).stack_size(STACK_BYTES));
        // Without a thread, those that wait cannot be served.
        helpers::make(&pool.applications, builder, move || live(&own), drop);
    }
}

/// The life of a thread.
fn live(pool: &Pool) {
    let mut driver = None;
    while let Some(connection) = pool.applications.next(RESERVE_TIME, pool.shared.control.threads_max()) {
        let own = driver.take().unwrap_or_else(|| Driver::new(&pool.shared));
        driver = contain(CONNECTION_ENDS, || serve_one(pool, own, connection));
    }
}

fn serve_one<'a>(pool: &'a Pool, mut driver: Driver<'a>, mut connection: ConnectionState) -> Driver<'a> {
    match driver.serve(&mut connection) {
        Left::Idle => {
            // Nobody knows when there is the next.
            driver.rest();
            connection.make_movable();
            pool.shared.adopt(connection);
        }
        Left::Moving => pool.shared.hand_over([connection]),
        Left::Over => connection.close(),
    }
    driver
}
