//! Connections that cannot go on in another process, finished in this one.
//!
//! Owns: [`RemainderThreads`], a thread for each of them that is busy. Guarantees: what was asked is answered once, with the word that it was the
//! last answer of the connection; an idle connection is closed. Who waits for this process to end waits for them, as long as it
//! likes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use crate::sys::contain::contain;
use crate::worker::blocking::{CONNECTION_ENDS, Driver};
use crate::worker::connection_table::ConnectionState;
use crate::worker::migration::handover::Remainder;
use crate::worker::shared::Shared;

/// The connections of one engine that stay behind.
#[derive(Debug)]
pub(crate) struct RemainderThreads {
    shared: Weak<Shared>,
    count: Arc<AtomicUsize>,
}

impl RemainderThreads {
    /// None yet, of the engine that has `shared`.
    pub(crate) fn new(shared: &Arc<Shared>) -> Arc<RemainderThreads> {
        Arc::new(RemainderThreads { shared: Arc::downgrade(shared), count: Arc::default() })
    }

    /// Whether none is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}

impl Remainder for RemainderThreads {
    fn finish(&self, connection: ConnectionState) {
        // What a peer has just asked, or begun a handshake with, has begun as well: closing now would reset it.
        let has_begun = !connection.is_idle() || connection.has_unread();
        let Some(shared) = self.shared.upgrade().filter(|_| has_begun) else {
            return connection.close();
        };
        self.count.fetch_add(1, Ordering::AcqRel);
        let counted = Counted(self.count.clone());
        let finish = move || {
            let _counted = counted;
            contain(CONNECTION_ENDS, || serve(&shared, connection));
        };
        // Without memory for a thread the connection ends: what was to serve it is dropped, and counts no more.
        let _ = thread::Builder::new().name("remainder".to_owned()).spawn(finish);
    }
}

/// One of the connections.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn serve(shared: &Shared, mut connection: ConnectionState) {
    let mut driver = Driver::finishing(shared);
    driver.serve(&mut connection);
    driver.rest();
    connection.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_has_begun_is_finished_and_what_is_idle_is_closed() {
        let (shared, _root) = testing::shared(1, 1);
        let shared = Arc::new(shared);
        shared.control.hand_over();
        let remainder = RemainderThreads::new(&shared);
        let pair = || {
            let (peer, ours) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            (peer, ConnectionState::new(ours.into(), None, shared.clock.now()))
        };
        let ((mut idle, first), (mut busy, mut second)) = (pair(), pair());
        remainder.finish(first);
        assert_eq!((idle.read(&mut [0]).unwrap(), remainder.is_empty()), (0, true));
        second.connection.return_received(b"GET /a HT", shared.clock.now());
        remainder.finish(second);
        assert!(!remainder.is_empty());
        busy.write_all(b"TP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        busy.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
        // It has asked, and nobody has looked.
        let (mut asking, third) = pair();
        asking.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        remainder.finish(third);
        let mut answer = String::new();
        asking.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
        while !remainder.is_empty() {
            thread::yield_now();
        }
    }
}
