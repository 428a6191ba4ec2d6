//! Sites in maintenance: what an operator has ordered, what the configuration begins with, and the answer.
//!
//! Owns: [`OperatorOrders`], the orders as they are passed between processes; [`Maintenance`], what comes of them for
//! each site in one worker; and the answer with 503. Guarantees: an order counts before the key of its site, whichever
//! way it goes; asking costs a request one load while nothing is ordered or configured. Takes no orders itself.

use std::net::IpAddr;
use std::sync::Arc;

use lamna_config::error_pages;
use lamna_config::route::condition::Network;
use lamna_config::settings::SiteSettings;
use lamna_config::site::maintenance::MaintenanceSettings;
use lamna_proto::resource::{HeadTooLong, Resource};
use lamna_sys::metrics::operator_state::OperatorState;
use serde::{Deserialize, Serialize};

use super::answers::{self, Extras};
use super::page_file::PageFile;
use super::route::Effective;
use super::site::{Site, Sites};
use crate::upstream::status::DrainedPlace;

/// The most bytes that the page of an order may have.
pub const PAGE_BYTES_MAX: usize = error_pages::PAGE_BYTES_MAX as usize;

/// The orders of an operator that stay until the opposite is ordered, or the server ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorOrders {
    /// At most one for each site, by its name.
    pub maintenance: Vec<MaintenanceOrder>,
    /// Places of applications that get no request.
    pub drained: Vec<DrainedPlace>,
}

/// An order about the maintenance of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceOrder {
    /// The site, by one of its hosts, or by its place in the configuration if it has none.
    pub site: String,
    /// Whether it is in maintenance.
    pub on: bool,
    /// The page, as HTML; none for that of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// The value of `Retry-After`; none for that of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// Networks whose clients are served as ever; none for those of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub except: Option<Vec<String>>,
}

/// The maintenance of one site, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceStatus {
    /// The site, by its first host or its place in the configuration.
    pub site: String,
    /// Whether it is in maintenance.
    pub on: bool,
    /// Whether an operator has ordered so; otherwise the configuration says it.
    pub is_ordered: bool,
    /// The value of `Retry-After`; 0 if there is no such site.
    pub retry_after_s: u64,
    /// Networks whose clients are served as ever.
    pub except: Vec<String>,
    /// Where the page is from.
    pub page: String,
}

impl MaintenanceStatus {
    /// In one line, for people.
    pub fn describe(&self) -> String {
        let by = if self.is_ordered { "by order" } else { "by the configuration" };
        if !self.on {
            return format!("{}: off, {by}", self.site);
        }
        if self.retry_after_s == 0 {
            return format!("{}: on, {by}; {}", self.site, self.page);
        }
        let except = match self.except.as_slice() {
            [] => String::new(),
            some => format!(", but for clients of {}", some.join(", ")),
        };
        format!("{}: on, {by}; {}, Retry-After {} s{except}", self.site, self.page, self.retry_after_s)
    }
}

impl OperatorOrders {
    /// Those that are published; none while they are being written.
    pub fn read(state: &OperatorState) -> Option<(u64, OperatorOrders)> {
        let (version, bytes) = state.read()?;
        // What another version of the program has written in another way is no order.
        Some((version, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    /// The order about a site with these settings, wherever that stands in the configuration by now.
    fn of(&self, settings: &SiteSettings) -> Option<&MaintenanceOrder> {
        self.maintenance.iter().find(|order| settings.is_named(&order.site))
    }

    /// The maintenance of each site of which an order or the configuration says something, and orders that no site has
    /// the name of any more.
    pub fn maintenance_of(&self, sites: &[SiteSettings]) -> Vec<MaintenanceStatus> {
        let status = |(settings, number): (&SiteSettings, usize)| {
            let order = self.of(settings);
            if order.is_none() && settings.maintenance.is_none() {
                return None;
            }
            let found = InMaintenance::new(settings, order);
            let (is_ordered, on) = (order.is_some(), found.is_some());
            let found = found.unwrap_or_default();
            let page = match (&found.page, &found.settings.page) {
                (Some(_), _) => "the page of the order".to_owned(),
                (None, Some(path)) => format!("the page `{}`", path.escape_debug()),
                (None, None) => "the page for 503".to_owned(),
            };
            let MaintenanceSettings { retry_after_s, except, .. } = found.settings;
            let except = except.iter().map(Network::to_string).collect();
            Some(MaintenanceStatus { site: settings.label(number), on, is_ordered, retry_after_s, except, page })
        };
        let is_lost = |order: &&MaintenanceOrder| !sites.iter().any(|site| site.is_named(&order.site));
        let lost = |order: &MaintenanceOrder| MaintenanceStatus {
            site: order.site.clone(),
            on: order.on,
            is_ordered: true,
            page: "no site has this name".to_owned(),
            ..MaintenanceStatus::default()
        };
        let lost = self.maintenance.iter().filter(is_lost).map(lost);
        sites.iter().zip(1..).filter_map(status).chain(lost).collect()
    }
}

/// One site in maintenance.
#[derive(Clone, Debug, Default)]
pub struct InMaintenance {
    settings: MaintenanceSettings,
    /// The page of the order.
    page: Option<Arc<PageFile>>,
}

impl InMaintenance {
    /// That of a site with these settings and this order; none if it is not in maintenance.
    fn new(settings: &SiteSettings, order: Option<&MaintenanceOrder>) -> Option<InMaintenance> {
        let configured = settings.maintenance.clone();
        let Some(order) = order else { return configured.map(|settings| InMaintenance { settings, page: None }) };
        let configured = configured.unwrap_or_default();
        let networks = |texts: &Vec<String>| texts.iter().filter_map(|text| text.parse().ok()).collect();
        let page = order
            .page
            .as_ref()
            .map(|page| PageFile { media_type: "text/html; charset=utf-8", content: page.as_bytes().into() });
        order.on.then(|| InMaintenance {
            settings: MaintenanceSettings {
                page: configured.page,
                retry_after_s: order.retry_after_s.unwrap_or(configured.retry_after_s),
                except: order.except.as_ref().map_or(configured.except, networks),
            },
            page: page.map(Arc::new),
        })
    }

    /// Whether it concerns this client.
    pub fn concerns(&self, client: Option<IpAddr>) -> bool {
        let is_excepted = |client| self.settings.except.iter().any(|network| network.contains(client));
        !client.is_some_and(is_excepted)
    }

    /// The answer where `rules` apply.
    pub fn answer(&self, rules: &Effective) -> Arc<Resource> {
        let extras = rules.extras(503);
        let of_settings = || self.settings.page.as_deref().and_then(|path| rules.page_at(path));
        let page = self.page.as_deref().or_else(of_settings).or(extras.page);
        let own = [
            ("Retry-After".to_owned(), self.settings.retry_after_s.to_string()),
            ("Cache-Control".to_owned(), "no-store".to_owned()),
        ];
        let mut fields = extras.fields.to_vec();
        fields.retain(|(field, _)| !own.iter().any(|(own, _)| own.eq_ignore_ascii_case(field)));
        fields.extend_from_slice(&own);
        // Whatever the fields of the site are, there is an answer: nobody is served for want of one.
        let with = |fields: &[(String, String)]| -> Result<Arc<Resource>, HeadTooLong> {
            answers::error(503, CAUSE, &Extras { fields: fields.into(), page, ..extras.clone() }).map(Arc::new)
        };
        with(&fields).or_else(|_| with(&own)).unwrap_or_else(|_| rules.errors.overloaded.clone())
    }
}

const CAUSE: &str = "This site is in maintenance. Please come again later.";

/// The sites in maintenance, as one worker knows them.
#[derive(Debug, Default)]
pub struct Maintenance {
    version: u64,
    /// By the index of the site; empty if no site is in maintenance.
    sites: Vec<Option<InMaintenance>>,
}

impl Maintenance {
    /// That of `sites` as it is now.
    pub fn new(sites: &Sites, state: &OperatorState) -> Maintenance {
        let mut maintenance = Maintenance::default();
        // What cannot be read yet is read with the first request.
        let (version, orders) = OperatorOrders::read(state).unwrap_or((u64::MAX, OperatorOrders::default()));
        maintenance.take(version, &orders, sites);
        maintenance
    }

    /// Whether no site is in maintenance, and nothing has changed since that was found.
    #[inline]
    pub fn is_none(&self, state: &OperatorState) -> bool {
        self.sites.is_empty() && state.version() == self.version
    }

    /// That of a site, by its index. Looks at orders again if there are others.
    pub fn of(&mut self, index: u32, sites: &Sites, state: &OperatorState) -> Option<&InMaintenance> {
        if state.version() != self.version
            && let Some((version, orders)) = OperatorOrders::read(state)
        {
            self.take(version, &orders, sites);
        }
        self.sites.get(index as usize)?.as_ref()
    }

    /// The version of the orders that are in force.
    pub fn version(&self) -> u64 {
        self.version
    }

    fn take(&mut self, version: u64, orders: &OperatorOrders, sites: &Sites) {
        self.version = version;
        let of = |site: &Site| {
            let order = orders.of(&site.settings);
            InMaintenance::new(&site.settings, order)
        };
        self.sites = sites.all().map(of).collect();
        if self.sites.iter().all(Option::is_none) {
            self.sites = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use lamna_config::settings::Settings;
    use lamna_sys::shared_memory::SharedMemory;

    use super::*;

    fn settings(keys: &str) -> (tempfile::TempDir, Settings) {
        let root = tempfile::tempdir().unwrap();
        let text = format!("[[site]]\nhosts = [\"a.test\"]\nroot = {:?}\n{keys}", root.path());
        let settings = lamna_config::parse(&text, &root.path().join("lamna.toml")).unwrap();
        (root, settings)
    }

    fn publish(state: &OperatorState, orders: &[MaintenanceOrder]) {
        let orders = OperatorOrders { maintenance: orders.to_vec(), ..OperatorOrders::default() };
        assert!(state.publish(&serde_json::to_vec(&orders).unwrap()));
    }

    #[test]
    fn an_order_counts_before_the_key_and_a_worker_sees_it_with_its_next_request() {
        let state = SharedMemory::<OperatorState>::zeroed().unwrap();
        let order = |on| MaintenanceOrder { site: "a.test".into(), on, ..MaintenanceOrder::default() };
        for (keys, begins) in [("", false), ("maintenance = true\n", true)] {
            publish(&state, &[]);
            let (_root, settings) = settings(keys);
            let sites = Sites::open(&settings).unwrap();
            let mut maintenance = Maintenance::new(&sites, &state);
            assert_eq!(maintenance.of(0, &sites, &state).is_some(), begins);
            assert_eq!(maintenance.is_none(&state), !begins);
            for on in [true, false, true] {
                publish(&state, &[order(on)]);
                assert!(!maintenance.is_none(&state), "it has to look again");
                assert_eq!(maintenance.of(0, &sites, &state).is_some(), on);
            }
            publish(&state, &[MaintenanceOrder { site: "b.test".into(), ..order(!begins) }]);
            assert_eq!(maintenance.of(0, &sites, &state).is_some(), begins, "it is for another site");
        }
    }

    #[test]
    fn an_order_has_what_it_does_not_say_from_the_key_of_its_site() {
        let (_root, settings) = settings("maintenance = { retry_after_s = 7, except = [\"192.0.2.0/24\"] }\n");
        let of = |order| InMaintenance::new(&settings.sites[0], Some(&order)).unwrap();
        let order = MaintenanceOrder { site: "a.test".into(), on: true, ..MaintenanceOrder::default() };
        let found = of(order.clone());
        assert_eq!(found.settings.retry_after_s, 7);
        let client = |text: &str| Some(text.parse().unwrap());
        assert!(!found.concerns(client("192.0.2.1")) && found.concerns(client("192.0.3.1")) && found.concerns(None));
        let found = of(MaintenanceOrder { retry_after_s: Some(9), except: Some(Vec::new()), ..order });
        assert_eq!(found.settings.retry_after_s, 9);
        assert!(found.concerns(client("192.0.2.1")));
    }
}
