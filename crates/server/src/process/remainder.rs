//! Connections that cannot go on in another process, or not yet, finished in this one.
//!
//! Owns: [`Remainder`], an engine of its own that has them, whichever engine they come from. Guarantees: what has begun
//! on them ends: an answer that is being made or sent, an upload, a tunnel. A connection that can travel when that is
//! over goes to the other process. One that never can is told that it is the last answer, or by GOAWAY; idle, it is
//! closed when no request has come for a moment. There are as many threads as the engine has workers, and helpers as in
//! any engine, however many connections there are. The code that ends this process waits for them, and says how long
//! ([`Remainder::stop`]). Does not decide what can travel (`worker/connection_state.rs`).

use std::sync::Arc;

use lamna_config::settings::{Architecture, HelperKind, Settings};
use lamna_engine::worker::connection_counter::ConnectionCounter;
use lamna_engine::worker::connection_state::ConnectionState;
use lamna_engine::worker::control::Control;
use lamna_engine::worker::migration::handover::{Handover, HandoverTarget, StaysBehind};
use lamna_engine::worker::migration::transfer::Sender;
use lamna_engine::worker::shared::Shared;
use lamna_engine::worker::uplink::Uplink;
use lamna_io::log::errors::{self, Level};
use rustix::io::Errno;

use crate::process::embedded::Embedded;
use crate::process::error::ServeError;
use crate::process::running_engine::RunningEngine;

/// The engine that has them.
#[derive(Debug)]
pub(crate) struct Remainder(RunningEngine);

/// Workers at most. Each serves many connections, as in AMPED.
const WORKERS_MAX: usize = 4;

impl Remainder {
    /// One for what stays of the engine of `shared`, which has served with `settings`. What can travel later goes by
    /// `sender`.
    ///
    /// # Errors
    /// No descriptors, or no threads.
    pub(crate) fn begin(
        shared: &Shared,
        settings: &Settings,
        first_place: usize,
        sender: Arc<Sender>,
    ) -> Result<Arc<Remainder>, ServeError> {
        let settings = Settings {
            architecture: Architecture::Amped,
            workers: settings.workers.clamp(1, WORKERS_MAX),
            helpers: HelperKind::Threads,
            ..settings.clone()
        };
        let shared = shared_by(shared, &settings)?;
        shared.handover.appoint(HandoverTarget::Process(sender, Arc::new(Nobody)));
        let started = RunningEngine::start(&settings, Arc::new(shared), &Embedded::default(), first_place);
        let engine = started.map_err(|failure| {
            let (cause, begun) = *failure;
            begun.shared.control.stop();
            cause
        })?;
        Ok(Arc::new(Remainder(engine)))
    }

    /// Nothing more will be given to it: it ends with the last connection.
    pub(crate) fn end(&self) {
        if !self.0.shared.control.is_draining() {
            self.0.shared.control.drain();
        }
    }

    /// Whether it has been told to.
    pub(crate) fn is_ending(&self) -> bool {
        self.0.shared.control.is_draining()
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// It ends now, and its connections with it.
    pub(crate) fn stop(&self) {
        self.0.shared.control.stop();
    }
}

impl RunningEngine {
    /// Gives all connections to another process, and ends.
    pub(crate) fn leave_to_process(&self, sender: Arc<Sender>) {
        let begun = Remainder::begin(&self.shared, &self.settings, self.first_place, sender.clone());
        let stays_behind: Arc<dyn StaysBehind> = match begun {
            Ok(remainder) => self.remainder.get_or_init(|| remainder).clone(),
            Err(error) => {
                let why = format!("connections that cannot go to the other process end: {error}");
                errors::report(Level::Error, format_args!("{why}"));
                Arc::new(Nobody)
            }
        };
        self.shared.handover.appoint(HandoverTarget::Process(sender, stays_behind));
        self.shared.control.hand_over();
    }

    /// Tells the remainder, which has the connections that stay, that it is given no more. Before, `last` is done.
    pub(crate) fn end_remainder(&self, last: impl FnOnce()) {
        if let Some(remainder) = self.remainder.get().filter(|remainder| !remainder.is_ending()) {
            last();
            remainder.end();
        }
    }

    /// Ends at once, with all connections that there still are.
    pub(crate) fn stop(&self) {
        self.shared.control.stop();
        self.remainder.get().into_iter().for_each(|remainder| remainder.stop());
    }
}

impl StaysBehind for Remainder {
    fn finish(&self, connection: ConnectionState) {
        self.0.shared.adopt(connection);
    }
}

/// Has nothing: what stays ends.
#[derive(Debug)]
struct Nobody;

impl StaysBehind for Nobody {
    fn finish(&self, connection: ConnectionState) {
        connection.close();
    }
}

/// The state that its workers share: that of the other engine, except what concerns that engine itself.
/// It takes no connections.
fn shared_by(old: &Shared, settings: &Settings) -> Result<Shared, Errno> {
    let control = Control::new(settings.workers, settings.threads, settings.threads_max)?;
    control.set_helpers(settings.helpers_max);
    control.finish();
    if old.control.is_superseded() {
        control.supersede();
    }
    Ok(Shared {
        sites: old.sites.clone(),
        store: old.store.clone(),
        handlers: old.handlers.clone(),
        services: old.services.clone(),
        hints: None,
        abilities: old.abilities.clone(),
        sending: old.sending,
        h2c: old.h2c,
        proxies: old.proxies.clone(),
        limiter: old.limiter.with(settings),
        early_hints: old.early_hints.clone(),
        schedule: old.schedule,
        making_lock: old.making_lock.clone(),
        uplink: Uplink::new(settings.uplink_bytes_per_s, &old.uplink_clock, old.clock),
        uplink_clock: old.uplink_clock.clone(),
        limits: old.limits.clone(),
        listeners: Arc::default(),
        tls: old.tls.clone(),
        tickets: old.tickets.clone(),
        log: old.log.clone(),
        clock: old.clock,
        control,
        handover: Handover::new(settings.workers),
        receiver: None,
        counters: old.counters.clone(),
        request_id: old.request_id,
        log_counters: old.log_counters.clone(),
        early_hint_counters: old.early_hint_counters.clone(),
        cache_counters: old.cache_counters.clone(),
        hint_counters: old.hint_counters.clone(),
        trace: old.trace.clone(),
        operator_state: old.operator_state.clone(),
        scoreboard: old.scoreboard.clone(),
        connection_counters: (0..settings.workers).map(|_| ConnectionCounter::default()).collect(),
        first_score: old.first_score,
        alarm: old.alarm.clone(),
        fork_server: None,
        confinement: old.confinement.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_engine::worker::migration::transfer::{Arrival, Receiver};
    use lamna_engine::worker::testing;
    use lamna_io::scm_rights;
    use lamna_proto::conn::Connection;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::{Duration, Instant};

    fn pair(shared: &Shared) -> (UnixStream, ConnectionState) {
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (peer, ConnectionState::new(ours.into(), None, shared.clock.now()))
    }

    fn begin(workers: usize) -> (Arc<Remainder>, Shared, Receiver, tempfile::TempDir) {
        let (shared, root) = testing::shared(workers, 1);
        let (one, other) = scm_rights::pair().unwrap();
        let settings = Settings { workers, ..Settings::default() };
        let remainder = Remainder::begin(&shared, &settings, 0, Arc::new(Sender::new(one))).unwrap();
        (remainder, shared, Receiver::new(other), root)
    }

    fn wait_for_end(remainder: &Remainder) {
        let until = Instant::now() + Duration::from_secs(20);
        while !remainder.is_over() {
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task").unwrap().count()
    }

    const ALONE: &str = "LAMNA_TEST_ALONE";
    /// More than it has.
    const WORKERS_OF_ANOTHER: usize = 30;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    #[test]
    fn what_can_travel_goes_on_and_what_cannot_is_told_and_ends() {
        let (remainder, shared, receiver, _root) = begin(1);
        let (mut traveller, connection) = pair(&shared);
        traveller.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        remainder.finish(connection);
        let (mut stays, mut connection) = pair(&shared);
        connection.http = Connection::new(shared.clock.now());
        stays.write_all(PREFACE).unwrap();
        remainder.finish(connection);
        remainder.end();
        let until = Instant::now() + Duration::from_secs(20);
        let arrived = loop {
            assert!(Instant::now() < until);
            match receiver.take(&*shared.sites, shared.clock.now()) {
                Arrival::Connection(connection) if connection.transport.is_transferable() => break connection,
                _ => thread::sleep(Duration::from_millis(5)),
            }
        };
        assert!(arrived.is_transferable());
        let mut told = Vec::new();
        stays.shutdown(std::net::Shutdown::Write).unwrap();
        stays.read_to_end(&mut told).unwrap();
        assert!(told.windows(2).any(|bytes| bytes == [7, 0]), "GOAWAY: {told:?}");
        wait_for_end(&remainder);
    }

    /// Threads are those of the whole process, so the test has one of its own.
    #[test]
    fn its_threads_are_few_however_many_connections_and_workers_there_were() {
        const NAME: &str =
            "process::remainder::tests::its_threads_are_few_however_many_connections_and_workers_there_were";
        if std::env::var_os(ALONE).is_none() {
            let own = std::env::current_exe().unwrap();
            let mut alone = std::process::Command::new(own);
            let ended = alone.args(["--exact", NAME, "--test-threads", "1"]).env(ALONE, "1").output().unwrap();
            return assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        }
        let at_first = threads();
        let (remainder, shared, _receiver, _root) = begin(WORKERS_OF_ANOTHER);
        let before = threads();
        // Each worker may have begun with a helper, and one thread sees to all.
        assert!(before - at_first <= 2 * WORKERS_MAX + 1, "{at_first} and then {before}");
        let peers: Vec<_> = (0..200)
            .map(|_| {
                let (mut peer, connection) = pair(&shared);
                peer.write_all(PREFACE).unwrap();
                remainder.finish(connection);
                peer
            })
            .collect();
        for mut peer in &peers {
            peer.read_exact(&mut [0; 9]).unwrap();
        }
        let with_all = threads();
        assert!(with_all <= before, "{before} and then {with_all}");
        remainder.end();
        drop(peers);
        wait_for_end(&remainder);
    }
}
