//! Preview of limits: the requests of a log, counted as the server would count them, and the networks that limits would
//! have met.
//!
//! Owns: [`Preview`]. Counts exactly, in memory that grows with the networks. A log knows less than the server: neither
//! which requests came at the same moment, where its times are whole seconds, nor, in the combined format, which host
//! was asked.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lamna_config::settings::Settings;
use lamna_config::site_limit::{LimitKey, SiteLimit};
use lamna_io::log::calendar::Calendar;
use lamna_io::log::read::Entry;
use lamna_policy::limit::{Decision, Rate, TICKS_PER_MS};
use lamna_site::content::access::network_of;

use super::counted_path;

/// The limits, and the counts of a log so far.
#[derive(Debug)]
pub struct Preview<'a> {
    settings: &'a Settings,
    rate: Option<Rate>,
    /// The limits of each site.
    limits: Vec<Vec<SiteLimit>>,
    /// Limits by site and number, as in answers with 429; 0 for the one of all sites.
    arrivals: HashMap<(Limit, (bool, u64)), u64>,
    met: BTreeMap<Limit, HashMap<(bool, u64), Met>>,
    networks: HashMap<(bool, u64), u64>,
    requests: u64,
    exempt: u64,
    unreadable: u64,
    refused: u64,
    /// Times never run back.
    now_ms: u64,
    first_ms: Option<u64>,
}

/// A site and a number of its limits; none for the limit of all sites.
type Limit = Option<(usize, usize)>;

/// The refusals that a network met.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// Requests that are refused.
    pub refused: u64,
    /// The first and the last of them, in milliseconds since the epoch.
    pub times_ms: (u64, u64),
}

/// One limit, and the networks that it meets.
#[derive(Debug)]
pub struct Found {
    /// Its name in answers with 429.
    pub name: String,
    /// Its text: the path, if it has one, and the rate or volume.
    pub limit: String,
    /// Each network with its refusals and the number of all its requests; the one with most refusals first.
    pub met: Vec<(String, Met, u64)>,
}

/// Totals of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Requests.
    pub requests: u64,
    /// Requests among these that no limit is for.
    pub exempt: u64,
    /// Requests among these that are refused.
    pub refused: u64,
    /// Networks that limits are for.
    pub networks: u64,
    /// Lines that are in no known format.
    pub unreadable: u64,
    /// The first and the last request, in milliseconds since the epoch.
    pub times_ms: Option<(u64, u64)>,
}

impl<'a> Preview<'a> {
    /// A preview of the limits of `settings`.
    pub fn new(settings: &'a Settings) -> Preview<'a> {
        Preview {
            settings,
            rate: settings.request_limit,
            limits: settings.sites.iter().map(|site| site.limits.clone()).collect(),
            arrivals: HashMap::new(),
            met: BTreeMap::new(),
            networks: HashMap::new(),
            requests: 0,
            exempt: 0,
            unreadable: 0,
            refused: 0,
            now_ms: 0,
            first_ms: None,
        }
    }

    /// A preview of this limit in place of those of `settings`. With `path` it is for the paths that begin so, on every
    /// site.
    pub fn of(settings: &'a Settings, rate: Rate, path: Option<&str>) -> Preview<'a> {
        let preview = Preview::new(settings);
        let limit = |path: &str| SiteLimit { rate: Some(rate), ..SiteLimit::new(path) };
        let limits = settings.sites.iter().map(|_| path.map(limit).into_iter().collect()).collect();
        Preview { rate: path.is_none().then_some(rate), limits, ..preview }
    }

    /// A line that could not be read.
    pub fn skip(&mut self) {
        self.unreadable += 1;
    }

    /// A request.
    pub fn count(&mut self, entry: &Entry) {
        self.requests += 1;
        // Lines are written when answers have left, so a little out of order.
        self.now_ms = self.now_ms.max(entry.unix_ms);
        self.first_ms.get_or_insert(entry.unix_ms);
        let Settings { limit_exempt, proxies, .. } = self.settings;
        let is_limited = |client: &IpAddr| {
            !limit_exempt.iter().any(|network| network.contains(*client)) && !proxies.trust(Some(*client))
        };
        let Some(client) = entry.client.filter(is_limited) else {
            self.exempt += 1;
            return;
        };
        let network = network_of(client);
        *self.networks.entry(network).or_default() += 1;
        if let Some(limit) = self.exceeded(entry, network) {
            self.refused += 1;
            let now_ms = self.now_ms;
            let met = self.met.entry(limit).or_default().entry(network);
            let met = met.or_insert(Met { refused: 0, times_ms: (now_ms, now_ms) });
            met.refused += 1;
            met.times_ms.1 = now_ms;
        }
    }

    /// The first limit that a request is over.
    fn exceeded(&mut self, entry: &Entry, network: (bool, u64)) -> Option<Limit> {
        let now = self.now_ms * TICKS_PER_MS;
        if let Some(rate) = self.rate
            && !take(self.arrivals.entry((None, network)).or_default(), rate, now)
        {
            return Some(None);
        }
        let site = self.settings.site_of(entry.host.as_deref());
        let limits = self.limits.get(site)?;
        let mut made = Vec::new();
        let path = if limits.is_empty() { b"/" } else { counted_path(entry.path.as_bytes(), &mut made) };
        let fits = |limit: &SiteLimit| is_by_network(limit) && path.starts_with(limit.path.as_bytes());
        let fitting = limits.iter().enumerate().filter(|(_, limit)| fits(limit));
        let mut charged = Vec::new();
        for (at, limit) in fitting {
            let key = Some((site, at + 1));
            if let Some(rate) = limit.rate
                && !take(self.arrivals.entry((key, network)).or_default(), rate, now)
            {
                return Some(key);
            }
            if let Some(volume) = limit.volume {
                // Beside that of requests, which may be of the same limit.
                let key = (Some((site, at + 1 + limits.len())), network);
                let arrival = *self.arrivals.entry(key).or_default();
                if volume.wait(arrival, now).is_some() {
                    return Some(Some((site, at + 1 + limits.len())));
                }
                charged.push((key, volume));
            }
        }
        // A request that is refused gets nothing.
        for (key, volume) in charged {
            let arrival = self.arrivals.entry(key).or_default();
            *arrival = volume.charge(*arrival, now, volume.ticks(entry.bytes));
        }
        None
    }

    /// All limits, and the networks that each meets, at most `most`.
    pub fn found(&self, most: usize) -> Vec<Found> {
        let of_all = self.rate.map(|rate| (None, "server".to_owned(), rate.to_string()));
        let of_sites = self.limits.iter().enumerate().flat_map(|(site, limits)| {
            limits.iter().enumerate().filter(|(_, limit)| is_by_network(limit)).flat_map(move |(at, limit)| {
                let (place, path) = (self.place(site), &limit.path);
                let requests = limit
                    .rate
                    .map(|rate| (Some((site, at + 1)), format!("{place}site-{}", at + 1), format!("{path}: {rate}")));
                let bytes = limit.volume.map(|volume| {
                    let key = Some((site, at + 1 + limits.len()));
                    (key, format!("{place}site-{}-bytes", at + 1), format!("{path}: {volume}"))
                });
                requests.into_iter().chain(bytes)
            })
        });
        let found = |(key, name, limit)| Found { name, limit, met: self.networks_of(key, most) };
        of_all.into_iter().chain(of_sites).map(found).collect()
    }

    /// Which site it is, where there are several.
    fn place(&self, site: usize) -> String {
        let sites = &self.settings.sites;
        let name = sites[site].hosts.first().cloned().unwrap_or_else(|| format!("site {}", site + 1));
        if sites.len() > 1 { format!("{name}, ") } else { String::new() }
    }

    fn networks_of(&self, limit: Limit, most: usize) -> Vec<(String, Met, u64)> {
        let mut met: Vec<_> =
            self.met.get(&limit).into_iter().flatten().map(|(network, met)| (*network, *met)).collect();
        met.sort_unstable_by_key(|(network, met)| (std::cmp::Reverse(met.refused), *network));
        let all = |network| self.networks.get(&network).copied().unwrap_or(0);
        met.into_iter().take(most).map(|(network, met)| (text_of(network), met, all(network))).collect()
    }

    /// How many networks a limit meets.
    pub fn met(&self, found: &Found) -> (u64, u64) {
        let of = self.found_key(found);
        let met = of.and_then(|key| self.met.get(&key));
        met.map_or((0, 0), |met| (met.len() as u64, met.values().map(|one| one.refused).sum()))
    }

    fn found_key(&self, found: &Found) -> Option<Limit> {
        let keys = [None].into_iter().chain(self.met.keys().copied());
        keys.into_iter().find(|key| self.name_of(*key) == found.name)
    }

    fn name_of(&self, limit: Limit) -> String {
        let Some((site, number)) = limit else { return "server".to_owned() };
        let count = self.limits[site].len();
        let suffix = if number > count { "-bytes" } else { "" };
        format!("{}site-{}{suffix}", self.place(site), (number - 1) % count + 1)
    }

    /// The totals of the log so far.
    pub fn totals(&self) -> Totals {
        Totals {
            requests: self.requests,
            exempt: self.exempt,
            refused: self.refused,
            networks: self.networks.len() as u64,
            unreadable: self.unreadable,
            times_ms: self.first_ms.map(|first| (first, self.now_ms)),
        }
    }
}

/// A moment as text, in UTC.
pub fn moment(unix_ms: u64) -> String {
    String::from_utf8_lossy(&Calendar::from_unix_seconds(unix_ms / 1000).rfc3339()).into_owned()
}

fn take(arrival: &mut u64, rate: Rate, now: u64) -> bool {
    match rate.decide(*arrival, now) {
        Decision::Admitted(next) => {
            *arrival = next;
            true
        }
        Decision::Refused(_) => false,
    }
}

/// A network as people write it.
fn text_of((is_v6, bits): (bool, u64)) -> String {
    match is_v6 {
        true => format!("{}/64", Ipv6Addr::from_bits(u128::from(bits) << 64)),
        false => Ipv4Addr::from_bits(bits as u32).to_string(),
    }
}

/// A log does not say what fields requests had, or of which users they were.
fn is_by_network(limit: &SiteLimit) -> bool {
    limit.key == LimitKey::Network
}

#[cfg(test)]
mod tests {
    use lamna_config::settings::SiteSettings;

    use super::*;

    fn settings(limits: &[(&str, Option<&str>, Option<&str>)]) -> Settings {
        let limit = |(path, rate, volume): &(&str, Option<&str>, Option<&str>)| SiteLimit {
            rate: rate.map(|rate| rate.parse().unwrap()),
            volume: volume.map(|volume| volume.parse().unwrap()),
            ..SiteLimit::new(path)
        };
        let first = SiteSettings { hosts: vec!["a.example".to_owned()], ..SiteSettings::new("/srv".into()) };
        let limits = limits.iter().map(limit).collect();
        let second = SiteSettings { hosts: vec!["*.b.example".to_owned()], limits, ..SiteSettings::new("/srv".into()) };
        Settings { sites: vec![first, second], request_limit: "1/s burst 3".parse().ok(), ..Settings::default() }
    }

    fn entry(client: &str, host: &str, path: &str, second: u64, bytes: u64) -> Entry {
        let (host, path) = (Some(host.to_owned()), path.to_owned());
        Entry { unix_ms: second * 1000, client: client.parse().ok(), host, path, bytes }
    }

    #[test]
    fn each_limit_says_whom_it_meets_and_when() {
        let settings = settings(&[("/login", Some("1/h burst 1"), None), ("/big", None, Some("1MiB/h"))]);
        let mut preview = Preview::new(&settings);
        for second in [100, 100, 100, 100, 101, 101] {
            preview.count(&entry("192.0.2.1", "a.example", "/login", second, 10));
        }
        preview.count(&entry("127.0.0.1", "a.example", "/", 101, 10));
        for client in ["2001:db8::1", "2001:db8::2"] {
            preview.count(&entry(client, "x.b.example", "//login", 110, 10));
        }
        for _ in 0..3 {
            preview.count(&entry("192.0.2.9", "x.b.example", "/big", 120, 2 << 20));
        }
        preview.skip();
        let found = preview.found(10);
        let told: Vec<_> = found.iter().map(|one| (one.name.as_str(), preview.met(one))).collect();
        assert_eq!(told, [("server", (1, 2)), ("*.b.example, site-1", (1, 1)), ("*.b.example, site-2-bytes", (1, 2))]);
        let (network, met, all) = &found[0].met[0];
        assert_eq!((network.as_str(), met.refused, met.times_ms, *all), ("192.0.2.1", 2, (100_000, 101_000), 6));
        assert_eq!(found[1].met[0].0, "2001:db8::/64");
        let totals = Totals {
            requests: 12,
            exempt: 1,
            refused: 5,
            networks: 3,
            unreadable: 1,
            times_ms: Some((100_000, 120_000)),
        };
        assert_eq!(preview.totals(), totals);
    }

    #[test]
    fn a_limit_that_is_given_takes_the_place_of_all_others() {
        let settings = settings(&[("/", Some("1/h burst 1"), None)]);
        let mut preview = Preview::of(&settings, "1/h burst 2".parse().unwrap(), Some("/a"));
        for _ in 0..4 {
            preview.count(&entry("192.0.2.1", "a.example", "/a", 1, 10));
            preview.count(&entry("192.0.2.1", "a.example", "/b", 1, 10));
        }
        assert_eq!(preview.totals().refused, 2);
    }
}
