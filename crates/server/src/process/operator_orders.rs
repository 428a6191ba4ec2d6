//! Orders of an operator that stay in force: which sites are in maintenance.
//!
//! Owns: the judgement of such an order against the settings in force, and its publication to all processes
//! (`OperatorState`). Guarantees: an order that is refused has changed nothing; what is in force is passed to a process
//! that takes the place of this one as it is published. Does not answer requests.

use lamna_config::route::condition::Network;
use lamna_config::settings::{Settings, SiteSettings};
use lamna_config::site::maintenance::RETRY_AFTER_S;
use lamna_config::suggest::nearest;
use lamna_site::content::maintenance::{MaintenanceOrder, MaintenanceStatus, OperatorOrders, PAGE_BYTES_MAX};
use lamna_sys::metrics::operator_state::OperatorState;

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
    let site = site_of(&order.site, &settings.sites)?;
    let mut orders = in_force(state);
    orders.maintenance.retain(|other| other.site != site);
    orders.maintenance.push(MaintenanceOrder { site: site.clone(), ..order.clone() });
    publish(&orders, state)?;
    let status = orders.maintenance_of(&settings.sites).into_iter().find(|one| one.site == site);
    Ok(status.map_or(site, |status| status.describe()))
}

/// Publishes `bytes`, which another process has passed.
pub(crate) fn take(bytes: &[u8], state: &OperatorState) {
    // They are no longer than what there is room for: the other process has published them as well.
    let _ = state.publish(bytes);
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
    let is_meant =
        |(site, label): &(&SiteSettings, String)| label == name || site.hosts.iter().any(|host| host == name);
    let found = sites.iter().zip(labels()).find(is_meant).map(|(_, label)| label);
    found.ok_or_else(|| {
        let names: Vec<String> = labels().collect();
        let near = nearest(name, names.iter().map(String::as_str));
        let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        format!("there is no site {:?}; {near}The sites are {}", name, names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lamna_sys::shared_memory::SharedMemory;

    use super::*;

    fn settings() -> Settings {
        let text = "[[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nroot = \"/\"\n\
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
        let told = order_maintenance(&order("www.a.test", true), &settings, &state).unwrap();
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
            (order("c.test", true), "The sites are a.test, b.test"),
            (order("a.tset", true), "did you mean a.test?"),
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
    fn a_successor_has_the_orders_of_its_predecessor() {
        let [one, other] = [(); 2].map(|()| SharedMemory::<OperatorState>::zeroed().unwrap());
        let settings = settings();
        order_maintenance(&order("a.test", true), &settings, &one).unwrap();
        take(&one.read().unwrap().1, &other);
        assert_eq!(maintenance(&settings, &other), maintenance(&settings, &one));
    }
}
