//! Orders of an operator that stay in force: which sites are in maintenance, and which places of applications are
//! drained.
//!
//! Owns: the judgement of such an order against the settings in force, and its publication to all processes, by
//! `OperatorState` and by a mark on the row of a place. Guarantees: an order that is refused has changed nothing; what
//! is in force is passed to a process that takes the place of this one as it is published. Does not answer requests.

use lamna_config::gateway::GatewaySettings;
use lamna_config::route::condition::Network;
use lamna_config::settings::{Settings, SiteSettings};
use lamna_config::site::maintenance::RETRY_AFTER_S;
use lamna_config::suggest::nearest;
use lamna_config::upstream_address::UpstreamAddress;
use lamna_site::content::maintenance::{MaintenanceOrder, MaintenanceStatus, OperatorOrders, PAGE_BYTES_MAX};
use lamna_site::upstream::status::DrainedPlace;
use lamna_sys::metrics::applications::Places;
use lamna_sys::metrics::operator_state::OperatorState;

use crate::admin::upstreams::{UpstreamOrder, UpstreamVerb};

/// The orders that are in force.
fn in_force(state: &OperatorState) -> OperatorOrders {
    // This thread is the one that publishes, so nothing is being written.
    OperatorOrders::read(state).map_or_else(OperatorOrders::default, |(_, orders)| orders)
}

/// The maintenance of each site of which an order or the configuration says something.
pub(crate) fn maintenance(settings: &Settings, state: &OperatorState) -> Vec<MaintenanceStatus> {
    in_force(state).maintenance_of(&settings.sites)
}

/// Carries an order about maintenance out: what was done, in words.
///
/// # Errors
/// Why nothing has changed.
pub(crate) fn order_maintenance(
    order: &MaintenanceOrder,
    settings: &Settings,
    state: &OperatorState,
) -> Result<String, String> {
    check(order)?;
    let mut orders = in_force(state);
    let site = match site_of(&order.site, &settings.sites) {
        // One whose site has lost this name.
        Err(_) if !order.on && orders.maintenance.iter().any(|other| other.site == order.site) => {
            orders.maintenance.retain(|other| other.site != order.site);
            publish(&orders, state)?;
            return Ok(format!("{}: forgotten, as no site has this name", order.site));
        }
        found => found?,
    };
    let is_meant = |one: &SiteSettings| one.is_named(&site);
    let meant = settings.sites.iter().find(|one| is_meant(one));
    orders.maintenance.retain(|other| !meant.is_some_and(|one| one.is_named(&other.site)));
    orders.maintenance.push(MaintenanceOrder { site: site.clone(), ..order.clone() });
    publish(&orders, state)?;
    let status = orders.maintenance_of(&settings.sites).into_iter().find(|one| one.site == site);
    Ok(status.map_or(site, |status| status.describe()))
}

/// Carries an order about a place of an application out: what was done, in words. A place of one address is one for all
/// routes of its site.
///
/// # Errors
/// Why nothing has changed.
pub(crate) fn order_upstream(
    order: &UpstreamOrder,
    settings: &Settings,
    state: &OperatorState,
    places: &Places,
) -> Result<String, String> {
    let site = order.site.as_ref().map(|site| site_of(site, &settings.sites)).transpose()?;
    let address = address_of(&order.address);
    let sites = settings.sites.iter().zip(1..).map(|(site, number)| (site, site.label(number)));
    let sites = sites.filter(|(_, label)| site.as_ref().is_none_or(|site| site == label));
    let asks = |settings: &SiteSettings| settings.gateways().any(|gateway| has(gateway, &address));
    let meant: Vec<(&SiteSettings, String)> = sites.clone().filter(|(settings, _)| asks(settings)).collect();
    if meant.is_empty() {
        let is_named = |gateway: &&GatewaySettings| gateway.name.as_deref() == Some(&*order.address);
        if let Some(application) = sites.clone().find_map(|(settings, _)| settings.gateways().find(is_named)) {
            let places = addresses(application).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "{} is an application, and an order is about one of its places: {places}",
                order.address
            ));
        }
        let all = sites.flat_map(|(settings, _)| settings.gateways()).flat_map(addresses);
        let mut all: Vec<String> = all.collect();
        all.sort();
        all.dedup();
        let all = if all.is_empty() { "there are no applications".to_owned() } else { all.join(", ") };
        return Err(format!("no application is at {:?}; the addresses are {all}", order.address));
    }
    let mut orders = in_force(state);
    let (before, drains) = (orders.drained.clone(), order.verb == UpstreamVerb::Drain);
    for (site_settings, label) in &meant {
        let is_this = |one: &DrainedPlace| site_settings.is_named(&one.site) && one.address == address;
        orders.drained.retain(|one| !is_this(one));
        if drains {
            orders.drained.push(DrainedPlace { site: label.clone(), address: address.clone() });
            check_rest(site_settings, label, &orders)?;
        }
        if places.row(label, &address).is_none() {
            return Err(format!(
                "{address} of {label} is not among the places that are counted, so it cannot be drained"
            ));
        }
    }
    publish(&orders, state)?;
    mark(&before, false, &settings.sites, places);
    mark(&orders.drained, true, &settings.sites, places);
    let of: Vec<String> = meant.into_iter().map(|(_, label)| label).collect();
    let done = if drains { "drained: it gets no request; those under way go on" } else { "gets requests" };
    Ok(format!("{address} of {} {}{done}", of.join(", "), if drains { "is " } else { "" }))
}

/// Whether each application of a site that has lost a place still has one.
fn check_rest(site: &SiteSettings, label: &str, orders: &OperatorOrders) -> Result<(), String> {
    let is_drained =
        |address: &String| orders.drained.iter().any(|one| site.is_named(&one.site) && one.address == *address);
    match site.gateways().find(|gateway| addresses(gateway).all(|address| is_drained(&address))) {
        None => Ok(()),
        Some(gateway) => Err(format!(
            "{} of {label} would have no place left ({}): `lamna ctl maintenance on {label}` answers its requests",
            gateway.name.as_deref().unwrap_or(gateway.key()),
            addresses(gateway).collect::<Vec<_>>().join(", ")
        )),
    }
}

fn addresses(gateway: &GatewaySettings) -> impl Iterator<Item = String> {
    gateway.upstreams.iter().map(|upstream| upstream.address.to_string())
}

fn has(gateway: &GatewaySettings, address: &str) -> bool {
    addresses(gateway).any(|other| other == address)
}

/// An address as reports tell it, however it is written.
fn address_of(text: &str) -> String {
    text.parse::<UpstreamAddress>().map_or_else(|_| text.to_owned(), |address| address.to_string())
}

/// Marks the rows of `drained`, which all processes look at. A row has the name that its site has now.
fn mark(drained: &[DrainedPlace], is_drained: bool, sites: &[SiteSettings], places: &Places) {
    for DrainedPlace { site, address } in drained {
        let named = sites.iter().zip(1..).filter(|(settings, _)| settings.is_named(site));
        let rows = named.filter_map(|(settings, number)| places.row(&settings.label(number), address));
        rows.for_each(|row| row.set_drained(is_drained));
    }
}

/// Publishes `bytes`, which another process has passed.
pub(crate) fn take(bytes: &[u8], settings: &Settings, state: &OperatorState, places: &Places) {
    // They are no longer than what there is room for: the other process has published them as well.
    let _ = state.publish(bytes);
    settle(settings, state, places);
}

/// The orders hold for sites and places as `settings` name them. To be called whenever these change.
pub(crate) fn settle(settings: &Settings, state: &OperatorState, places: &Places) {
    mark(&in_force(state).drained, true, &settings.sites, places);
}

fn publish(orders: &OperatorOrders, state: &OperatorState) -> Result<(), String> {
    let bytes = serde_json::to_vec(orders).map_err(|error| error.to_string())?;
    match state.publish(&bytes) {
        true => Ok(()),
        false => Err("there is no room for another page: use a shorter one, or `error_pages` of the site".to_owned()),
    }
}

fn check(order: &MaintenanceOrder) -> Result<(), String> {
    let MaintenanceOrder { on, page, retry_after_s, except, .. } = order;
    if !on && (page.is_some() || retry_after_s.is_some() || except.is_some()) {
        return Err("a site whose maintenance ends has no page, no Retry-After and no exceptions".to_owned());
    }
    if page.as_ref().is_some_and(|page| page.len() > PAGE_BYTES_MAX) {
        return Err(format!("the page has more than {} KiB", PAGE_BYTES_MAX >> 10));
    }
    if retry_after_s.is_some_and(|seconds| !RETRY_AFTER_S.contains(&seconds)) {
        return Err(format!("retry_after_s is {} to {}", RETRY_AFTER_S.start(), RETRY_AFTER_S.end()));
    }
    let wrong = except.iter().flatten().find_map(|text| Some((text, text.parse::<Network>().err()?)));
    wrong.map_or(Ok(()), |(text, why)| Err(format!("`{}` {why}", text.escape_debug())))
}

/// The name of the site that has this host, or this place in the configuration.
fn site_of(name: &str, sites: &[SiteSettings]) -> Result<String, String> {
    let labels = || sites.iter().zip(1..).map(|(site, number)| site.label(number));
    let is_meant = |(site, label): &(&SiteSettings, String)| {
        label == name || site.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    };
    let found = sites.iter().zip(labels()).find(is_meant).map(|(_, label)| label);
    found.ok_or_else(|| {
        let names: Vec<String> = labels().collect();
        let near = nearest(name, names.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("there is no site {name:?}{near} (the sites are {})", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lamna_sys::shared_memory::SharedMemory;

    use super::*;

    fn settings() -> Settings {
        let text = "[[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nroot = \"/\"\n\
                    [[site.route]]\nmatch = \"/x/*\"\nproxy = { to = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"] }\n\
                    [[site]]\nhosts = [\"b.test\"]\nroot = \"/\"\nmaintenance = true\n";
        lamna_config::parse(text, Path::new("/lamna.toml")).unwrap()
    }

    fn order(site: &str, on: bool) -> MaintenanceOrder {
        MaintenanceOrder { site: site.into(), on, ..MaintenanceOrder::default() }
    }

    #[test]
    fn an_order_is_for_the_site_of_a_host_and_the_last_one_counts() {
        let state = SharedMemory::<OperatorState>::zeroed().unwrap();
        let settings = settings();
        let on = || -> Vec<(String, bool)> {
            maintenance(&settings, &state).into_iter().map(|one| (one.site, one.on)).collect()
        };
        assert_eq!(on(), [("b.test".to_owned(), true)]);
        let told = order_maintenance(&order("WWW.a.test", true), &settings, &state).unwrap();
        assert_eq!(told, "a.test: on, by order; the page for 503, Retry-After 300 s");
        order_maintenance(&order("b.test", false), &settings, &state).unwrap();
        assert_eq!(on(), [("a.test".to_owned(), true), ("b.test".to_owned(), false)]);
        order_maintenance(&order("a.test", false), &settings, &state).unwrap();
        assert_eq!(on(), [("a.test".to_owned(), false), ("b.test".to_owned(), false)]);
    }

    #[test]
    fn an_order_that_makes_no_sense_is_refused_and_changes_nothing() {
        let state = SharedMemory::<OperatorState>::zeroed().unwrap();
        let settings = settings();
        let on = || order("a.test", true);
        for (order, said) in [
            (order("other", true), "there is no site \"other\" (the sites are a.test, b.test)"),
            (order("a.tset", true), "there is no site \"a.tset\"; did you mean a.test? (the sites are a.test, b.test)"),
            (MaintenanceOrder { retry_after_s: Some(0), ..on() }, "retry_after_s is 1 to"),
            (MaintenanceOrder { except: Some(vec!["x".into()]), ..on() }, "is not a network"),
            (MaintenanceOrder { page: Some("x".repeat(PAGE_BYTES_MAX + 1)), ..on() }, "more than 64 KiB"),
            (MaintenanceOrder { on: false, retry_after_s: Some(1), ..on() }, "has no page"),
        ] {
            let error = order_maintenance(&order, &settings, &state).unwrap_err();
            assert!(error.contains(said), "{error}");
            assert_eq!(state.version(), 0);
        }
    }

    #[test]
    fn a_place_is_drained_and_undrained_however_its_address_is_written_but_not_the_last_one() {
        let (state, places) = (SharedMemory::<OperatorState>::zeroed().unwrap(), Places::default());
        let settings = settings();
        let of = |verb, address: &str, site: Option<&str>| {
            let order = UpstreamOrder { verb, address: address.into(), site: site.map(str::to_owned) };
            order_upstream(&order, &settings, &state, &places)
        };
        let is_drained = |address: &str| places.row("a.test", address).unwrap().is_drained();
        let (drain, undrain) = (UpstreamVerb::Drain, UpstreamVerb::Undrain);
        of(drain, "http://127.0.0.1:1/", Some("www.a.test")).unwrap();
        assert!(is_drained("127.0.0.1:1") && !is_drained("127.0.0.1:2"));
        let last = of(drain, "127.0.0.1:2", None).unwrap_err();
        assert!(last.contains("would have no place left") && !is_drained("127.0.0.1:2"), "{last}");
        for (address, site) in [("127.0.0.1:3", None), ("127.0.0.1:1", Some("b.test")), ("127.0.0.1:1", Some("c"))] {
            assert!(of(drain, address, site).is_err());
        }
        // Each address is named once, however many routes ask there.
        let mut twice = settings.clone();
        let again = twice.sites[0].routes.clone();
        twice.sites[0].routes.extend(again);
        let order = UpstreamOrder { verb: drain, address: "127.0.0.1:3".into(), site: None };
        let unknown = order_upstream(&order, &twice, &state, &places).unwrap_err();
        assert!(unknown.ends_with("the addresses are 127.0.0.1:1, 127.0.0.1:2"), "{unknown}");
        of(undrain, "127.0.0.1:1", None).unwrap();
        assert!(!is_drained("127.0.0.1:1"));
        of(drain, "127.0.0.1:2", None).unwrap();
        assert!(is_drained("127.0.0.1:2"));
    }

    #[test]
    fn an_order_holds_for_its_site_whatever_place_and_first_host_that_has() {
        let state = SharedMemory::<OperatorState>::zeroed().unwrap();
        let settings = |text: &str| lamna_config::parse(text, Path::new("/lamna.toml")).unwrap();
        let site = |hosts: &str| {
            let proxy = "proxy = { to = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"] }";
            format!("[[site]]\n{hosts}root = \"/\"\n[[site.route]]\nmatch = \"/x/*\"\n{proxy}\n")
        };
        let (named, nameless) = (site("hosts = [\"a.test\"]\n"), site(""));
        let before = settings(&[&*named, &*nameless].concat());
        for name in ["a.test", "2"] {
            order_maintenance(&order(name, true), &before, &state).unwrap();
            let order = UpstreamOrder {
                verb: UpstreamVerb::Drain,
                address: "http://127.0.0.1:1".into(),
                site: Some(name.into()),
            };
            order_upstream(&order, &before, &state, &Places::default()).unwrap();
        }
        let other = site("hosts = [\"b.test\"]\n");
        let renamed = site("hosts = [\"www.a.test\", \"a.test\"]\n");
        let after = settings(&[&*other, &*other.replace("b.test", "c.test"), &*nameless, &*renamed].concat());
        let told: Vec<String> = maintenance(&after, &state).into_iter().map(|one| one.site).collect();
        assert_eq!(told, ["3", "www.a.test"]);
        let places = Places::default();
        settle(&after, &state, &places);
        let drained = |site: &str| places.row(site, "127.0.0.1:1").unwrap().is_drained();
        assert_eq!(["b.test", "c.test", "3", "www.a.test"].map(drained), [false, false, true, true]);
        // A site that has lost its name is told, and its order can be taken back.
        let gone = settings(&other);
        let told: Vec<String> = maintenance(&gone, &state).iter().map(MaintenanceStatus::describe).collect();
        assert_eq!(told, ["a.test: on, by order; no site has this name", "2: on, by order; no site has this name"]);
        order_maintenance(&order("a.test", false), &gone, &state).unwrap();
        assert!(order_maintenance(&order("a.test", false), &gone, &state).is_err());
        assert_eq!(maintenance(&gone, &state).len(), 1);
    }

    #[test]
    fn a_successor_has_the_orders_of_its_predecessor() {
        let [one, other] = [(); 2].map(|()| SharedMemory::<OperatorState>::zeroed().unwrap());
        let settings = settings();
        order_maintenance(&order("a.test", true), &settings, &one).unwrap();
        let places = Places::default();
        let order = UpstreamOrder { verb: UpstreamVerb::Drain, address: "http://127.0.0.1:1".into(), site: None };
        order_upstream(&order, &settings, &one, &Places::default()).unwrap();
        take(&one.read().unwrap().1, &settings, &other, &places);
        assert!(places.row("a.test", "127.0.0.1:1").unwrap().is_drained());
        assert_eq!(maintenance(&settings, &other), maintenance(&settings, &one));
    }
}
