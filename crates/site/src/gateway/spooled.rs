//! How many bytes the files take that keep content of requests for applications: of each client network, and of all.
//!
//! Owns: [`SpoolLimit`], the bounds of a process with what is counted, and [`SpoolShare`], by which the file of one
//! request counts until it is gone. Guarantees: whatever clients send, the files of a process take no more than the
//! bounds say; no network takes more than a part of that. Writes no file.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lamna_config::settings::Settings;
use lamna_io::log::errors::{Level, Peer, report_peer};
use lamna_sys::metrics::counters::Counters;
use lamna_sys::shared_memory::SharedMemory;

use crate::content::at_once::ClientNetwork;

/// The bytes of all networks together, as a multiple of those that one may have.
const NETWORKS: u64 = 4;

/// Bytes in files, as they are counted in a process.
#[derive(Debug, Default)]
pub struct Spooled(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: u64,
    networks: HashMap<ClientNetwork, u64>,
}

/// The bounds on bytes in files.
#[derive(Debug)]
pub struct SpoolLimit {
    most: u64,
    most_of_network: u64,
    spooled: Arc<Spooled>,
    counters: SharedMemory<Counters>,
}

/// The limit for the file of a request, and the network that it counts for; none if it counts for none.
#[derive(Clone, Copy, Debug)]
pub struct SpoolPayer<'a> {
    /// The limit.
    pub limit: &'a Arc<SpoolLimit>,
    /// The network.
    pub network: Option<ClientNetwork>,
}

/// The bytes of one file. They count until it is dropped.
#[derive(Debug)]
pub(super) struct SpoolShare {
    limit: Arc<SpoolLimit>,
    network: Option<ClientNetwork>,
    bytes: u64,
}

/// The files take as much as they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Spooled {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        // What is behind this lock is whole after every statement, but for counts that are too high.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpoolLimit {
    /// The limit for `settings`, with the counts so far. One request always has room for what its route lets it have.
    pub fn new(settings: &Settings, spooled: Arc<Spooled>, counters: SharedMemory<Counters>) -> SpoolLimit {
        let buffers = settings.sites.iter().flat_map(|site| site.gateways()).filter_map(|one| one.buffer.as_ref());
        let of_request = buffers.map(|buffer| buffer.bytes_max).max().unwrap_or(0);
        let most_of_network = match settings.network_buffer_bytes_max {
            0 => u64::MAX,
            most => most.max(of_request),
        };
        SpoolLimit { most: most_of_network.saturating_mul(NETWORKS), most_of_network, spooled, counters }
    }

    fn refuse(&self, network: Option<ClientNetwork>, is_of_network: bool) -> Full {
        self.counters.work.buffers_refused.fetch_add(1, Relaxed);
        report_peer(Peer::Crowded, "", "", || {
            let whose = match network.filter(|_| is_of_network) {
                Some(network) => format!("{network} has {} bytes", self.most_of_network),
                None => format!("all networks have {} bytes", self.most),
            };
            let what = format!(
                "a request is answered with 503: {whose} of content in files for applications (`network_buffer_bytes_max`)"
            );
            (Level::Warning, what)
        });
        Full
    }
}

impl SpoolShare {
    /// That of a file of `payer`, with nothing in it.
    pub(super) fn of(payer: SpoolPayer<'_>) -> SpoolShare {
        SpoolShare { limit: payer.limit.clone(), network: payer.network, bytes: 0 }
    }

    /// So many bytes more are about to be written.
    ///
    /// # Errors
    /// There would be too many. None of them counts.
    pub(super) fn add(&mut self, bytes: u64) -> Result<(), Full> {
        let SpoolLimit { most, most_of_network, spooled, .. } = &*self.limit;
        let mut counts = spooled.lock();
        let of_network = self.network.and_then(|network| counts.networks.get(&network)).copied().unwrap_or(0) + bytes;
        let (is_of_network, all) = (self.network.is_some() && of_network > *most_of_network, counts.all + bytes);
        if is_of_network || all > *most {
            drop(counts);
            return Err(self.limit.refuse(self.network, is_of_network));
        }
        counts.all = all;
        if let Some(network) = self.network {
            counts.networks.insert(network, of_network);
        }
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for SpoolShare {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut counts = self.limit.spooled.lock();
        counts.all = counts.all.saturating_sub(self.bytes);
        let Some(network) = self.network else { return };
        if let Some(of_network) = counts.networks.get_mut(&network) {
            *of_network = of_network.saturating_sub(self.bytes);
            if *of_network == 0 {
                counts.networks.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lamna_config::gateway::{BufferSettings, GatewayProtocol, GatewaySettings};
    use lamna_config::route::{RouteSettings, Switch};
    use lamna_config::settings::SiteSettings;

    use super::*;

    fn limit(most: u64, of_request: u64) -> Arc<SpoolLimit> {
        let buffer = BufferSettings { bytes_max: of_request, ..BufferSettings::of_unsized() };
        let gateway = GatewaySettings { buffer: Some(buffer), ..GatewaySettings::new(GatewayProtocol::Scgi, vec![]) };
        let route = RouteSettings { gateway: Switch::Set(gateway), ..RouteSettings::default() };
        let site = SiteSettings { routes: vec![route], ..SiteSettings::new("/".into()) };
        let settings = Settings { network_buffer_bytes_max: most, sites: vec![site], ..Settings::default() };
        Arc::new(SpoolLimit::new(&settings, Arc::default(), SharedMemory::default()))
    }

    fn share(limit: &Arc<SpoolLimit>, client: &str) -> SpoolShare {
        let network = client.parse().ok().map(ClientNetwork::of);
        SpoolShare::of(SpoolPayer { limit, network })
    }

    #[test]
    fn a_network_has_its_part_and_all_have_no_more_than_all_may() {
        let limit = limit(100, 10);
        let (mut one, mut same) = (share(&limit, "2001:db8::1"), share(&limit, "2001:db8::2"));
        assert_eq!((one.add(60), same.add(40), same.add(1), one.add(1)), (Ok(()), Ok(()), Err(Full), Err(Full)));
        // Who is not known is held by what all may have.
        let (mut other, mut unknown) = (share(&limit, "192.0.2.1"), share(&limit, ""));
        assert_eq!(
            (other.add(100), unknown.add(150), unknown.add(50), unknown.add(1)),
            (Ok(()), Ok(()), Ok(()), Err(Full))
        );
        assert_eq!(share(&limit, "192.0.2.2").add(1), Err(Full));
        drop(one);
        assert_eq!((same.add(60), same.add(1), share(&limit, "192.0.2.2").add(1)), (Ok(()), Err(Full), Err(Full)));
        assert_eq!(limit.counters.work.buffers_refused.load(Relaxed), 6);
        drop((same, other, unknown));
        let counts = limit.spooled.lock();
        assert!(counts.all == 0 && counts.networks.is_empty(), "{counts:?}");
    }

    #[test]
    fn one_request_has_room_for_what_its_route_takes_and_zero_is_any_amount() {
        assert_eq!(share(&limit(100, 1000), "192.0.2.1").add(1000), Ok(()));
        assert_eq!(share(&limit(100, 1000), "192.0.2.1").add(1001), Err(Full));
        assert_eq!(share(&limit(0, 1), "192.0.2.1").add(1 << 50), Ok(()));
    }
}
