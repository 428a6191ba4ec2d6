//! The `hosts` of a site.
//!
//! Owns: their judgement, and that no name belongs to two sites.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;

use super::row::SiteKey;
use super::{SiteSettings, SiteTable};
use crate::address::host_name;
use crate::checker::Checker;
use crate::page::{Page, list};
use crate::written::Text;

/// `hosts`.
pub(super) struct Hosts;

impl SiteKey for Hosts {
    type Value = Vec<String>;

    fn judge(given: &SiteTable, _: &Range<usize>, hosts: &mut Vec<String>, checker: &mut Checker<'_>) {
        *hosts = given.hosts.iter().map(|name| host(name, checker)).collect();
    }

    fn render(hosts: &Vec<String>, page: &mut Page) {
        if !hosts.is_empty() {
            page.line("hosts", list(hosts));
        }
    }

    fn between(tables: &[Spanned<SiteTable>], _: &[SiteSettings], checker: &mut Checker<'_>) {
        unique_hosts(tables, checker);
    }
}

pub(crate) fn host(text: &Text, checker: &mut Checker<'_>) -> String {
    host_name(text.get_ref()).unwrap_or_else(|expectation| {
        checker.expect(false, text, &expectation);
        text.get_ref().to_ascii_lowercase()
    })
}

fn unique_hosts(tables: &[Spanned<SiteTable>], checker: &mut Checker<'_>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut any_host: Option<usize> = None;
    for (index, table) in tables.iter().enumerate() {
        let number = index + 1;
        let hosts = &table.get_ref().hosts;
        if hosts.is_empty() {
            if let Some(first) = any_host {
                let message =
                    format!("no request reaches this site: site {first} has no `hosts` either, and takes any");
                checker.problem(table.span(), message);
            }
            any_host = any_host.or(Some(number));
        }
        for host in hosts {
            match seen.insert(host.get_ref().to_ascii_lowercase(), number) {
                Some(first) if first == number => {
                    checker.expect(false, host, "is named twice by this site");
                }
                Some(first) => {
                    checker.expect(false, host, &format!("is already a host of site {first}"));
                }
                None => {}
            }
        }
    }
}
