//! Where files of a site are: `root`, `index`, `alias`, `user_directory` and `error_pages`.
//!
//! Owns: their judgement. Looks whether directories are there, where the checker looks at anything.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::SiteTable;
use super::row::SiteKey;
use crate::checker::Checker;
use crate::error_pages::ErrorPages;
use crate::page::{Page, list, path, quoted};
use crate::route::RouteTable;
use crate::schema::values::{list_of, pattern, table, text};
use crate::written::Text;

/// `root`.
pub(super) struct Root;

impl SiteKey for Root {
    type Value = PathBuf;

    fn judge(given: &SiteTable, at: &Range<usize>, root: &mut PathBuf, checker: &mut Checker<'_>) {
        let needs_no_root = |route: &Spanned<RouteTable>| route.get_ref().needs_no_root(&given.application);
        let redirects = !given.redirect.is_empty() || given.route.iter().any(needs_no_root);
        match &given.root {
            Some(text) => *root = checker.directory(text),
            None if redirects || checker.was_taken("root", at) => {}
            None => {
                let hint = "give the directory to serve: root = \"/srv/www\". A site that only redirects, or passes \
                            requests on, needs none";
                checker.problem_with_hint(at.clone(), "this site has no `root`", Some(hint.to_owned()));
            }
        }
    }

    fn render(root: &PathBuf, page: &mut Page) {
        if !root.as_os_str().is_empty() {
            page.line("root", path(root));
        }
    }
}

/// `index`.
pub(super) struct Index;

impl SiteKey for Index {
    type Value = Vec<String>;

    fn judge(given: &SiteTable, _: &Range<usize>, index: &mut Vec<String>, checker: &mut Checker<'_>) {
        if let Some(names) = &given.index {
            *index = names.iter().map(|name| index_name(name, checker)).collect();
        }
    }

    fn render(index: &Vec<String>, page: &mut Page) {
        page.line("index", list(index));
    }
}

pub(crate) fn index_name(text: &Text, checker: &mut Checker<'_>) -> String {
    let name = text.get_ref();
    let ok = is_segment(name) && !name.contains('/');
    checker.expect(ok, text, "is not the name of a file: expected one as in index.html");
    name.clone()
}

/// Whether a text can be one segment of a path.
fn is_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains('\0')
}

/// `error_pages`.
pub(super) struct OwnPages;

impl SiteKey for OwnPages {
    type Value = ErrorPages;

    fn judge(given: &SiteTable, _: &Range<usize>, pages: &mut ErrorPages, checker: &mut Checker<'_>) {
        *pages = ErrorPages::judge(&given.error_pages, checker);
    }

    fn render(pages: &ErrorPages, page: &mut Page) {
        if !pages.is_empty() {
            page.table("[site.error_pages]");
        }
        for (statuses, target) in pages.render() {
            page.line(&statuses, target);
        }
    }
}

/// `[[site.alias]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct AliasTable {
    prefix: Text,
    root: Text,
}

/// A path prefix served from another directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Path prefix, starting and ending with `/`.
    pub prefix: String,
    /// The directory that stands for it.
    pub root: PathBuf,
}

/// `alias`.
pub(super) struct Aliases;

impl SiteKey for Aliases {
    type Value = Vec<Alias>;

    fn judge(given: &SiteTable, _: &Range<usize>, all: &mut Vec<Alias>, checker: &mut Checker<'_>) {
        *all = aliases(&given.alias, checker);
    }

    fn render(all: &Vec<Alias>, page: &mut Page) {
        for alias in all {
            page.table("[[site.alias]]");
            page.line("prefix", quoted(&alias.prefix));
            page.line("root", path(&alias.root));
        }
    }
}

/// The schema of `alias`.
pub(super) fn alias_schema() -> Value {
    let keys = [
        ("prefix", pattern("^/(.*/)?$", "Starts and ends with /")),
        ("root", text("The directory that stands for it")),
    ];
    list_of(table(keys, &["prefix", "root"], "A path that is served from elsewhere"))
}

/// Longest prefix first, so that the first match is the closest.
fn aliases(given: &[AliasTable], checker: &mut Checker<'_>) -> Vec<Alias> {
    let mut seen = BTreeSet::new();
    let mut aliases: Vec<Alias> = given.iter().map(|table| alias(table, &mut seen, checker)).collect();
    aliases.sort_by_key(|alias| Reverse(alias.prefix.len()));
    aliases
}

fn alias<'a>(table: &'a AliasTable, seen: &mut BTreeSet<&'a str>, checker: &mut Checker<'_>) -> Alias {
    let prefix = table.prefix.get_ref();
    let delimited = prefix.starts_with('/') && prefix.ends_with('/');
    checker.expect(delimited, &table.prefix, "must start and end with `/`");
    checker.expect(prefix != "/", &table.prefix, "is every path: set the `root` of the site instead");
    checker.expect(seen.insert(prefix), &table.prefix, "is the prefix of an earlier alias of this site");
    Alias { prefix: prefix.clone(), root: checker.directory(&table.root) }
}

/// `user_directory`.
pub(super) struct UserDirectory;

impl SiteKey for UserDirectory {
    type Value = Option<String>;

    fn judge(given: &SiteTable, _: &Range<usize>, directory: &mut Option<String>, checker: &mut Checker<'_>) {
        *directory = given.user_directory.as_ref().map(|name| user_directory(name, checker));
    }

    fn render(directory: &Option<String>, page: &mut Page) {
        if let Some(directory) = directory {
            page.line("user_directory", quoted(directory));
        }
    }
}

fn user_directory(text: &Text, checker: &mut Checker<'_>) -> String {
    checker.expect(
        text.get_ref().split('/').all(is_segment),
        text,
        "must be a path beneath a home directory, as in public_html",
    );
    text.get_ref().clone()
}
