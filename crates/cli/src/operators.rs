//! `lamna ctl maintenance` and `lamna ctl upstream`: orders of an operator that stay in force.
//!
//! Owns: from arguments to an order, and the layout for people. Reads the file of a page, so that the server opens none
//! for an order. Does not know how a server carries an order out.

use std::fmt::Write as _;
use std::fs;

use lamna_server::admin::upstreams::{UpstreamOrder, UpstreamVerb, tell_places};
use lamna_server::content::maintenance::{MaintenanceOrder, MaintenanceStatus, PAGE_BYTES_MAX};
use lamna_server::upstream::status::PlaceStatus;

use crate::args::{MaintenanceCommand, UpstreamCommand};
use crate::exit::{Exit, Failed};

/// The order, in JSON; none for a list.
///
/// # Errors
/// The page cannot be read, or cannot be a page.
pub(crate) fn maintenance(command: Option<&MaintenanceCommand>) -> Result<Option<String>, Failed> {
    let order = match command {
        None | Some(MaintenanceCommand::List) => return Ok(None),
        Some(MaintenanceCommand::Off { site }) => {
            MaintenanceOrder { site: site.clone(), ..MaintenanceOrder::default() }
        }
        Some(MaintenanceCommand::On { site, page, retry_after_s, except }) => {
            let usage = |report| Failed { exit: Exit::Usage, report };
            let read = |file: &std::path::PathBuf| {
                let shown = file.display();
                let too_long = || format!("lamna: {shown} has more than {} KiB", PAGE_BYTES_MAX >> 10);
                let bytes = fs::metadata(file).map_err(|error| format!("lamna: cannot read {shown}: {error}"))?.len();
                if bytes > PAGE_BYTES_MAX as u64 {
                    return Err(too_long());
                }
                fs::read_to_string(file).map_err(|error| format!("lamna: cannot read {shown}: {error}"))
            };
            let page = page.as_ref().map(read).transpose().map_err(usage)?;
            let except = (!except.is_empty()).then(|| except.clone());
            MaintenanceOrder { site: site.clone(), on: true, page, retry_after_s: *retry_after_s, except }
        }
    };
    Ok(Some(serde_json::to_string(&order).expect("plain data can be written as JSON")))
}

/// The order about a place, in JSON; none for a list.
pub(crate) fn upstream(command: Option<&UpstreamCommand>) -> Option<String> {
    let (verb, address, site) = match command {
        None | Some(UpstreamCommand::List { .. }) => return None,
        Some(UpstreamCommand::Drain { address, site }) => (UpstreamVerb::Drain, address, site),
        Some(UpstreamCommand::Undrain { address, site }) => (UpstreamVerb::Undrain, address, site),
    };
    let order = UpstreamOrder { verb, address: address.clone(), site: site.clone() };
    Some(serde_json::to_string(&order).expect("plain data can be written as JSON"))
}

/// The places of one site, by its first host or its place in the configuration.
///
/// # Errors
/// It has none.
pub(crate) fn tell_upstreams_of(json: &str, site: &str, ago: impl Fn(u64) -> String) -> Result<String, Failed> {
    let places: Vec<PlaceStatus> = serde_json::from_str(json).unwrap_or_default();
    let of_site: Vec<PlaceStatus> = places.iter().filter(|place| place.site == site).cloned().collect();
    if !of_site.is_empty() {
        return Ok(tell_places(&of_site, ago));
    }
    let mut sites: Vec<&str> = places.iter().map(|place| place.site.as_str()).collect();
    sites.dedup();
    let sites = if sites.is_empty() { "none".to_owned() } else { sites.join(", ") };
    Err(Failed {
        exit: Exit::Failure,
        report: format!("lamna: no site {site:?} has applications; those that do: {sites}"),
    })
}

/// The sites of which something is said, one a line.
pub(crate) fn tell_maintenance(json: &str) -> Option<String> {
    let sites: Vec<MaintenanceStatus> = serde_json::from_str(json).ok()?;
    if sites.is_empty() {
        return Some("no site is in maintenance\n".to_owned());
    }
    let mut text = String::new();
    sites.iter().for_each(|site| _ = writeln!(text, "{}", site.describe()));
    Some(text)
}
