//! The hints of a page, from the process that has learned them.
//!
//! Owns: where that is asked: the server of this process, or the file that the first of several worker processes keeps.
//! Learns nothing.

use lamna_config::settings::Settings;
use lamna_engine::worker::shared::Shared;
use lamna_site::content::explain::Asked;
use lamna_site::content::site::Sites;
use lamna_site::hints::{HintReport, Hints};

use crate::process::shared_metrics::SharedMetrics;

/// The hints of `asked`: by `shared`, if the server has no worker processes.
///
/// # Errors
/// No request has this path, or nothing is learned for its site.
pub(super) fn of(
    settings: &Settings,
    metrics: &SharedMetrics,
    shared: Option<&Shared>,
    asked: &Asked,
) -> Result<HintReport, String> {
    let path = asked.path()?;
    let report = match shared {
        Some(shared) => {
            let site = asked.site(&shared.sites);
            let report = shared.hints.as_ref().and_then(|hints| hints.report(site.index, site.label(), &path));
            let told = shared.early_hints.as_ref().map(|early_hints| early_hints.report(site.index, &path));
            report.map(|report| HintReport { early_hints: told.unwrap_or_default(), ..report })
        }
        None => {
            let opened = Sites::with_services(settings, &metrics.services);
            let sites = opened.map_err(|(root, errno)| format!("cannot serve {}: {errno}", root.display()))?;
            let site = asked.site(&sites);
            Hints::of_file(settings).and_then(|hints| hints.report(site.index, site.label(), &path))
        }
    };
    report.ok_or_else(|| "nothing is learned for this site: `hints = true` turns it on".to_owned())
}
