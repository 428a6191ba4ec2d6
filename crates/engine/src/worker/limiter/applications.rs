//! Limit of the connections to applications that each client network has at once: beyond it, a client is told to come
//! again.
//!
//! Owns: [`ApplicationLimit`], which decides for one. Guarantees: no network is refused for connections that have
//! ended; one client cannot take the descriptors and the memory that others' connections need, whatever it does with
//! the answers.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_config::proxies::TrustedProxies;
use lamna_config::route::condition::Network;
use lamna_config::settings::Settings;
use lamna_io::log::errors::{Level, Peer, report_peer};
use lamna_site::upstream::shares::{Crowded, Share, Shares};
use lamna_sys::metrics::counters::Counters;
use lamna_sys::shared_memory::SharedMemory;
use rustix::process::{Resource, getrlimit};

use super::connections::Connected;
use super::crowd::Entry;

/// The share of one network's connections to applications in the descriptors, and in a limit of memory, as a divisor.
const DESCRIPTORS_SHARE: u64 = 4;
const MEMORY_SHARE: u64 = 4;
/// Bytes of memory that one takes: a part of an answer in the server, and the contents of the kernel's buffers.
const CONNECTION_BYTES: u64 = 256 << 10;
/// However little there is.
const LEAST: u64 = 8;

/// Decides whether a network may have another connection to an application.
pub(super) struct ApplicationLimit {
    most: u64,
    exempt: Vec<Network>,
    proxies: TrustedProxies,
    connected: Connected,
    counters: SharedMemory<Counters>,
}

/// By which one counts.
struct Counted(Arc<ApplicationLimit>, u32);

impl ApplicationLimit {
    /// The limit for `settings`, if they set one.
    pub(super) fn new(
        settings: &Settings,
        connected: &Connected,
        counters: &SharedMemory<Counters>,
    ) -> Option<Arc<ApplicationLimit>> {
        if settings.application_limit == 0 {
            return None;
        }
        let descriptors = getrlimit(Resource::Nofile).current;
        let most = most(settings.application_limit, descriptors, lamna_sys::memory::limit_bytes());
        let (exempt, proxies) = (settings.limit_exempt.clone(), settings.proxies.clone());
        let (connected, counters) = (connected.clone(), counters.clone());
        Some(Arc::new(ApplicationLimit { most, exempt, proxies, connected, counters }))
    }

    /// Whether connections count for a client: for none that is exempt, nor for a proxy that does not name its client.
    pub(super) fn counts(&self, client: IpAddr) -> bool {
        !self.exempt.iter().any(|network| network.contains(client)) && !self.proxies.trust(Some(client))
    }
}

/// The lower one of the limit in the settings and the number for which there is room.
fn most(said: u64, descriptors: Option<u64>, memory_bytes: Option<u64>) -> u64 {
    let by_descriptors = descriptors.map_or(u64::MAX, |limit| limit / DESCRIPTORS_SHARE);
    let by_memory = memory_bytes.map_or(u64::MAX, |bytes| bytes / MEMORY_SHARE / CONNECTION_BYTES);
    said.min(by_descriptors.min(by_memory).max(LEAST))
}

impl Shares for ApplicationLimit {
    fn take(self: Arc<Self>, client: IpAddr) -> Result<Share, Crowded> {
        match self.connected.enter_application(client, self.most) {
            Entry::Counted(place) => Ok(Share::of(Counted(self, place))),
            Entry::Uncounted => Ok(Share::of(())),
            Entry::Refused => {
                self.counters.work.requests_limited.fetch_add(1, Relaxed);
                report_peer(Peer::Crowded, "", "", || {
                    let most = self.most;
                    let what = format!(
                        "a request of {client} is answered with 503: applications are asked by its network {most} times at once (`application_limit`)"
                    );
                    (Level::Warning, what)
                });
                Err(Crowded)
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connected.leave_application(self.1);
    }
}

impl fmt::Debug for ApplicationLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ApplicationLimit").field("most", &self.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(limit: &Arc<ApplicationLimit>, client: &str) -> Result<Share, Crowded> {
        limit.clone().take(client.parse().unwrap())
    }

    #[test]
    fn a_network_has_so_many_and_another_one_when_one_has_ended() {
        let settings = Settings { application_limit: 2, ..Settings::default() };
        let limit = ApplicationLimit::new(&settings, &Connected::new().unwrap(), &SharedMemory::default()).unwrap();
        let first = take(&limit, "192.0.2.1").unwrap();
        let second = take(&limit, "192.0.2.1").unwrap();
        assert!(take(&limit, "192.0.2.1").is_err());
        let other = take(&limit, "192.0.2.2");
        assert!(other.is_ok());
        drop(first);
        assert!(take(&limit, "192.0.2.1").is_ok());
        drop((second, other));
        assert!(limit.counts("192.0.2.1".parse().unwrap()) && !limit.counts("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn there_is_no_more_than_there_is_room_for() {
        assert_eq!(most(500, None, None), 500);
        assert_eq!(most(500, Some(1024), None), 256);
        assert_eq!(most(500, Some(1024), Some(64 << 20)), 64);
        assert_eq!(most(100, Some(1 << 20), Some(1 << 30)), 100);
        assert_eq!(most(500, Some(16), Some(1 << 20)), LEAST);
        assert_eq!(most(2, Some(16), None), 2);
    }
}
