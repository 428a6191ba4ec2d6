//! A server to test engines with: one site in a temporary directory, no listeners.

use std::sync::Arc;

use lamna_config::proxies::TrustedProxies;
use lamna_config::sending::Plan;
use lamna_io::waker::Waker;
use lamna_policy::schedule::Schedule;
use lamna_proto::limits::Limits;
use lamna_site::cache::Store;
use lamna_site::content::site::Sites;
use lamna_sys::clock::Clock;
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::Tickets;

use crate::worker::confinement::Confinement;
use crate::worker::connection_counter::ConnectionCounter;
use crate::worker::control::Control;
use crate::worker::limiter::{Counted, Limiter};
use crate::worker::migration::handover::Handover;
use crate::worker::shared::Shared;

use lamna_config::settings::{Settings, SiteSettings};

/// Shared state of workers, with one file `a` of the content `hello`, and the directory it is in.
pub fn shared(threads: usize, threads_max: usize) -> (Shared, tempfile::TempDir) {
    with_control(1, Control::new(1, threads, threads_max).unwrap())
}

/// The same for so many workers.
pub fn shared_by(workers: usize) -> (Shared, tempfile::TempDir) {
    with_control(workers, Control::new(workers, 1, 1).unwrap())
}

fn with_control(workers: usize, control: Control) -> (Shared, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), "hello").unwrap();
    let site = SiteSettings::new(root.path().to_owned());
    let settings = Settings { sites: vec![site], ..Default::default() };
    let shared = Shared {
        hints: None,
        hint_counters: SharedMemory::default(),
        sites: Arc::new(Sites::open(&settings).unwrap()),
        handlers: Arc::default(),
        services: Arc::default(),
        store: Arc::new(Store::new(1 << 20, 100)),
        abilities: Arc::default(),
        sending: Plan::default(),
        h2c: true,
        early_hints: None,
        early_hint_counters: SharedMemory::default(),
        limiter: Limiter::new(&settings, Counted::new().unwrap(), SharedMemory::default()),
        turns: Arc::default(),
        proxies: TrustedProxies::default(),
        schedule: Schedule::default(),
        uplink: None,
        uplink_clock: SharedMemory::default(),
        limits: Arc::new(Limits::default()),
        listeners: Arc::default(),
        tls: None,
        tickets: Arc::new(Tickets::new().unwrap()),
        log: None,
        clock: Clock::start(),
        control,
        handover: Handover::new(workers),
        receiver: None,
        counters: SharedMemory::default(),
        log_counters: SharedMemory::default(),
        cache_counters: SharedMemory::default(),
        trace: SharedMemory::zeroed().unwrap(),
        scoreboard: SharedMemory::default(),
        connection_counters: (0..workers).map(|_| ConnectionCounter::default()).collect(),
        first_score: 0,
        alarm: Arc::new(Waker::new().unwrap()),
        fork_server: None,
        request_id: false,
        confinement: Arc::new(Confinement::none()),
    };
    (shared, root)
}
