//! All rows of a site at once: from its table to settings, back to text, and what else goes through every key.
//!
//! Owns: the order in which that happens. Each key is judged by its row; then what keys of one site, and of two sites,
//! must not say together.

use toml::Spanned;

use super::{ROWS, SiteSettings, SiteTable};
use crate::checker::Checker;
use crate::key::Key;
use crate::page::Page;
use crate::route;

/// The sites of a file, in its order.
pub(crate) fn sites(tables: &[Spanned<SiteTable>], checker: &mut Checker<'_>) -> Vec<SiteSettings> {
    let sites: Vec<SiteSettings> = tables.iter().map(|table| site(table, checker)).collect();
    ROWS.iter().for_each(|row| (row.between)(tables, &sites, checker));
    sites
}

fn site(table: &Spanned<SiteTable>, checker: &mut Checker<'_>) -> SiteSettings {
    let (given, at) = (table.get_ref(), table.span());
    let mut site = SiteSettings::default();
    ROWS.iter().for_each(|row| (row.judge)(given, &at, &mut site, checker));
    if site.rule_files && site.has_root() && !checker.reads_only() {
        site.skipped_lines = route::add_rule_files(&site.root, &mut site.routes);
    }
    ROWS.iter().for_each(|row| (row.conflict)(given, &at, &site, checker));
    site
}

/// A site as `lamna check` shows it.
pub(crate) fn render(site: &SiteSettings, page: &mut Page) {
    page.table("[[site]]");
    ROWS.iter().for_each(|row| (row.render)(site, page));
    page.push(&route::report(&site.routes, &site.headers));
}

/// Every key.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    ROWS.iter().flat_map(|row| row.keys)
}

/// Whether two sites let the same clients in, but for what their routes say.
pub fn admit_the_same(one: &SiteSettings, other: &SiteSettings) -> bool {
    ROWS.iter().filter(|row| row.admits()).all(|row| (row.is_alike)(one, other))
}
