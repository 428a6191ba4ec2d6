//! `maintenance` of a site: its requests are answered with 503 while something is done to it.
//!
//! Owns: the judgement of the key, and how it is written. Orders of an operator (`lamna ctl maintenance`) have the same
//! values; which of both counts is said where requests are answered.

use std::ops::Range;

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::row::SiteKey;
use super::{SiteSettings, SiteTable};
use crate::checker::Checker;
use crate::error_pages;
use crate::page::{Page, quoted};
use crate::route::condition::Network;
use crate::route::shapes::SwitchOr;
use crate::schema::values::{number, pattern, several, switch, table};
use crate::unit::Unit;
use crate::written::{Amount, Text, Texts};

/// The bounds of `Retry-After`.
pub const RETRY_AFTER_S: std::ops::RangeInclusive<u64> = 1..=31_536_000;

/// The answer of a site in maintenance, and the clients that it does not concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceSettings {
    /// The path of its page beneath the root; none for the page of the site for 503.
    pub page: Option<String>,
    /// The value of `Retry-After`, in seconds.
    pub retry_after_s: u64,
    /// Clients of these networks are served as ever.
    pub except: Vec<Network>,
}

impl Default for MaintenanceSettings {
    fn default() -> MaintenanceSettings {
        MaintenanceSettings { page: None, retry_after_s: 300, except: Vec::new() }
    }
}

/// `maintenance = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct MaintenanceTable {
    page: Option<Text>,
    retry_after_s: Option<Spanned<Amount>>,
    except: Option<Spanned<Texts>>,
}

/// `maintenance`.
pub(super) struct Maintenance;

impl SiteKey for Maintenance {
    type Value = Option<MaintenanceSettings>;

    fn judge(given: &SiteTable, _: &Range<usize>, value: &mut Self::Value, checker: &mut Checker<'_>) {
        let Some(given) = &given.maintenance else { return };
        *value = match given.get_ref() {
            SwitchOr::Is(false) => None,
            SwitchOr::Is(true) => Some(MaintenanceSettings::default()),
            SwitchOr::Table(table) => Some(of_table(table, checker)),
            SwitchOr::Text(_) => {
                let hint = Some("write maintenance = true, or { retry_after_s = 600 }".to_owned());
                checker.problem_with_hint(given.span(), "`maintenance` is true, false or a table", hint);
                None
            }
        };
    }

    fn render(value: &Self::Value, page: &mut Page) {
        let Some(MaintenanceSettings { page: path, retry_after_s, except }) = value else { return };
        let mut keys: Vec<String> = path.iter().map(|path| format!("page = {}", quoted(path))).collect();
        keys.push(format!("retry_after_s = {retry_after_s}"));
        if !except.is_empty() {
            let networks: Vec<String> = except.iter().map(|network| quoted(&network.to_string())).collect();
            keys.push(format!("except = [{}]", networks.join(", ")));
        }
        page.line("maintenance", format!("{{ {} }}", keys.join(", ")));
    }

    fn conflict(given: &SiteTable, _: &Range<usize>, site: &SiteSettings, checker: &mut Checker<'_>) {
        let has_page = site.maintenance.as_ref().is_some_and(|maintenance| maintenance.page.is_some());
        if let (Some(given), true) = (&given.maintenance, has_page && !site.has_root()) {
            checker.problem(given.span(), "the site has no `root` that the page could be beneath");
        }
    }
}

fn of_table(given: &MaintenanceTable, checker: &mut Checker<'_>) -> MaintenanceSettings {
    let MaintenanceSettings { retry_after_s, .. } = MaintenanceSettings::default();
    if let Some(page) = &given.page {
        error_pages::path(page, checker);
    }
    let seconds = given.retry_after_s.as_ref();
    let seconds = seconds.and_then(|given| checker.amount("retry_after_s", given, Unit::Seconds, &RETRY_AFTER_S));
    let mut except = Vec::new();
    if let Some(given) = &given.except {
        for network in &given.get_ref().0 {
            match network.parse() {
                Ok(network) => except.push(network),
                Err(why) => checker.problem(given.span(), format!("`{}` {why}", network.escape_debug())),
            }
        }
    }
    MaintenanceSettings {
        page: given.page.as_ref().map(|page| page.get_ref().clone()),
        retry_after_s: seconds.unwrap_or(retry_after_s),
        except,
    }
}

/// The schema of `maintenance`.
pub(super) fn schema() -> Value {
    let keys = [
        ("page", pattern("^/", "The path of the page, beneath the root; the page for 503 unless it is given")),
        ("retry_after_s", number(&RETRY_AFTER_S, "What Retry-After says, in seconds")),
        ("except", several("Networks whose clients are served as ever, as in 192.0.2.0/24")),
    ];
    json!({ "anyOf": [switch(""), table(keys, &[], "The answer, and the clients that it does not concern")] })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn judged(text: &str) -> Result<Option<MaintenanceSettings>, String> {
        let text = format!("[[site]]\nroot = \"/\"\nmaintenance = {text}\n");
        let settings = crate::parse(&text, Path::new("/lamna.toml")).map_err(|error| error.to_string())?;
        Ok(settings.sites[0].maintenance.clone())
    }

    #[test]
    fn a_site_begins_in_maintenance_if_its_key_says_so() {
        assert_eq!(judged("false"), Ok(None));
        assert_eq!(judged("true"), Ok(Some(MaintenanceSettings::default())));
        let written = r#"{ page = "/busy.html", retry_after_s = 60, except = ["192.0.2.0/24"] }"#;
        let expected = MaintenanceSettings {
            page: Some("/busy.html".into()),
            retry_after_s: 60,
            except: vec!["192.0.2.0/24".parse().unwrap()],
        };
        assert_eq!(judged(written), Ok(Some(expected)));
    }

    #[test]
    fn what_it_cannot_say_is_refused() {
        for (written, said) in [
            ("\"yes\"", "is true, false or a table"),
            ("{ page = \"busy.html\" }", "must start with `/`"),
            ("{ retry_after_s = 0 }", "retry_after_s"),
            ("{ except = [\"x\"] }", "is not a network"),
            ("{ until = 1 }", "until"),
        ] {
            let error = judged(written).unwrap_err();
            assert!(error.contains(said), "{written}: {error}");
        }
    }
}
