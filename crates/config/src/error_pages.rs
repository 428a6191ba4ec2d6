//! Pages for errors: which file is sent in place of the server's own page, by status.
//!
//! Owns: [`ErrorPages`], of a site and of a route, their judgement and their schema. Guarantees: the page of a status
//! counts before the page of its class. Opens nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::checker::Checker;
use super::page::quoted;
use super::route::Switch;
use super::route::headers::Statuses;
use super::settings::SiteSettings;
use super::written::Text;

/// The most bytes that a page for an error, or the file of a fixed answer, may have where it is held in memory.
pub const PAGE_BYTES_MAX: u64 = 64 << 10;

/// The statuses for which a page is looked for when the request comes. The pages for others are held in memory.
pub const LOOKED_UP: [u16; 3] = [403, 404, 500];

/// Paths of pages beneath the root, by status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages(BTreeMap<Statuses, String>);

impl ErrorPages {
    /// The path of the page for `status`.
    pub fn get(&self, status: u16) -> Option<&str> {
        let of = |statuses| self.0.get(&statuses);
        of(Statuses::One(status)).or_else(|| of(Statuses::Class(status / 100))).map(String::as_str)
    }

    /// Each of them, those of one status before those of a class.
    pub fn iter(&self) -> impl Iterator<Item = (Statuses, &str)> {
        self.0.iter().map(|(statuses, page)| (*statuses, page.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `page` is the page for `status`.
    pub fn insert(&mut self, status: u16, page: String) {
        self.0.insert(Statuses::One(status), page);
    }

    /// These with `nearer`, which count first: a class of them stands before a status of these.
    pub fn with(mut self, nearer: &ErrorPages) -> ErrorPages {
        for statuses in nearer.0.keys() {
            self.0.retain(|own, _| !statuses.cover(*own));
        }
        self.0.extend(nearer.0.clone());
        self
    }

    /// The pages that are written.
    pub(crate) fn judge(given: &BTreeMap<Text, Text>, checker: &mut Checker<'_>) -> ErrorPages {
        let mut pages = BTreeMap::new();
        for (status, page) in given {
            path(page, checker);
            match Statuses::from_text(status.get_ref()).filter(|statuses| statuses.are_of_errors()) {
                Some(statuses) => _ = pages.insert(statuses, page.get_ref().clone()),
                None => checker.expect(false, status, "is not the status of an error: expected 400 to 599, 4xx or 5xx"),
            }
        }
        ErrorPages(pages)
    }

    /// Keys and values, as they are written.
    pub(crate) fn render(&self) -> impl Iterator<Item = (String, String)> {
        self.iter().map(|(statuses, page)| (quoted(&statuses.text()), quoted(page)))
    }

    /// The schema of `error_pages`.
    pub(crate) fn schema() -> Value {
        json!({
            "type": "object",
            "patternProperties": { "^[45]([0-9][0-9]|xx)$": { "type": "string", "pattern": "^/" } },
            "additionalProperties": false,
        })
    }
}

impl<const COUNT: usize> From<[(u16, String); COUNT]> for ErrorPages {
    fn from(pages: [(u16, String); COUNT]) -> ErrorPages {
        pages.into_iter().collect()
    }
}

impl FromIterator<(u16, String)> for ErrorPages {
    fn from_iter<I: IntoIterator<Item = (u16, String)>>(pages: I) -> ErrorPages {
        ErrorPages(pages.into_iter().map(|(status, page)| (Statuses::One(status), page)).collect())
    }
}

/// Paths of the files of `site` that are held in memory: pages for errors and maintenance, and those of fixed answers.
pub fn held(site: &SiteSettings) -> impl Iterator<Item = &str> {
    let of_routes = site.routes.iter().flat_map(|route| route.error_pages.iter());
    let answers = site.routes.iter().filter_map(|route| match &route.respond {
        Switch::Set(respond) => respond.file(),
        Switch::Off | Switch::Unset => None,
    });
    let maintenance = site.maintenance.iter().filter_map(|maintenance| maintenance.page.as_deref());
    site.error_pages.iter().chain(of_routes).map(|(_, path)| path).chain(answers).chain(maintenance)
}

/// The file that a path of a site stands for. A query would be a part of its name.
pub fn file_of(site: &SiteSettings, path: &str) -> PathBuf {
    // The longest prefix is the first.
    let alias = site.aliases.iter().find_map(|alias| Some((&alias.root, path.strip_prefix(&alias.prefix)?)));
    let (root, rest) = alias.unwrap_or((&site.root, path.trim_start_matches('/')));
    root.join(rest)
}

/// Judges the path of a file that is sent whatever is asked for.
pub(crate) fn path(page: &Text, checker: &mut Checker<'_>) {
    let is_path = page.get_ref().starts_with('/') && !page.get_ref().contains('\0');
    checker.expect(is_path, page, "must start with `/`: it is a path beneath the root");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(list: &[(&str, &str)]) -> ErrorPages {
        let one = |(status, page): &(&str, &str)| (Statuses::from_text(status).unwrap(), (*page).to_owned());
        ErrorPages(list.iter().map(one).collect())
    }

    #[test]
    fn a_status_counts_before_its_class() {
        let pages = pages(&[("5xx", "/5"), ("503", "/503")]);
        assert_eq!([pages.get(502), pages.get(503), pages.get(404)], [Some("/5"), Some("/503"), None]);
    }

    #[test]
    fn a_nearer_class_counts_before_a_farther_status_of_it() {
        let both = pages(&[("503", "/far"), ("404", "/404"), ("4xx", "/4")]).with(&pages(&[("5xx", "/near")]));
        let found = [503, 500, 404, 403].map(|status| both.get(status));
        assert_eq!(found, [Some("/near"), Some("/near"), Some("/404"), Some("/4")]);
        let both = pages(&[("5xx", "/far")]).with(&pages(&[("503", "/near")]));
        assert_eq!([both.get(503), both.get(500)], [Some("/near"), Some("/far")]);
    }
}
