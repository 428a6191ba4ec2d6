//! Routes: for which requests of a site something else applies than for the others, and what.
//!
//! ```text
//! [[site.route]] ── judge ──┐
//! _headers, _redirects ─────┴─> RouteSettings ── Matcher ──> those that match, the most specific first ── merge ──> Rules
//!                files                                                                  lamna check <── report ──┘
//! ```
//!
//! Owns: routes as plain values, their order ([`Rank`]) and what several come to ([`merge`]). What a key is, how it is
//! judged, shown, merged and told, its row says (`row`, `rows`). Guarantees: the order in which routes are written
//! decides nothing. Pure, but for `files`, which reads two files of a site when settings are loaded.

mod access;
mod admission;
#[cfg(test)]
mod application_tests;
pub(super) mod applications;
mod bounds;
mod cgi;
mod checks;
pub mod condition;
mod conflicts;
mod cors;
#[cfg(test)]
mod empty_tests;
mod fields;
mod files;
pub mod filters;
#[cfg(test)]
mod gateway_tests;
mod gateways;
pub mod headers;
mod judge;
mod kept_answers;
#[cfg(test)]
mod key_tests;
pub mod matcher;
#[cfg(test)]
mod merge_tests;
pub mod pattern;
mod prefixes;
mod programs;
mod report;
pub mod request_fields;
mod respond;
mod retries;
mod row;
mod rows;
pub mod sent;
mod services;
pub(super) mod shapes;
mod spelling;
mod sticky;
#[cfg(test)]
mod table_tests;
pub mod template;
mod ways;

use std::cmp::Reverse;

use headers::HeaderRule;
use pattern::{Pattern, Specificity};
use rows::ROWS;

pub(super) use access::{access, accounts, schema as access_schema};
pub use admission::{admit_the_same, directing};
pub use cors::Cors;
pub(super) use files::add_rule_files;
pub use files::{RULE_FILES, Skipped};
pub(super) use filters::schema as filters_schema;
pub use gateways::describe as describe_gateway;
pub(super) use judge::routes;
pub use prefixes::is_plain_path;
pub use report::{render, report, unused_lines};
pub use respond::{Respond, RespondContent};
#[cfg(test)]
pub(super) use rows::PRIORITY;
pub use rows::{Immutable, RouteSettings, Rules, keys};
pub(super) use rows::{NAMES, RouteTable, schema};
pub(super) use services::render_service;
pub use ways::RouteRedirect;

/// Where a route is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// This line of `_redirects`, the first of which that matches counts.
    RedirectsLine(Reverse<usize>),
    /// This line of `_headers`.
    HeadersLine(usize),
    /// In the configuration: before anything that the site brings with it.
    #[default]
    Configuration,
}

/// Something that may be left to less specific routes, turned off or set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Switch<T> {
    /// Less specific routes decide.
    #[default]
    Unset,
    /// None, whatever they say.
    Off,
    /// This.
    Set(T),
}

/// The changes that clients may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Store files.
    pub upload: bool,
    /// Delete files and empty directories.
    pub delete: bool,
    /// Make directories.
    pub mkdir: bool,
    /// Do so, and read, by WebDAV: folders as a whole, copies, moves, locks.
    pub webdav: bool,
}

/// In which order routes are looked at: the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    source: Source,
    priority: i32,
    specificity: Specificity,
    conditions: usize,
}

impl RouteSettings {
    /// Its place among others. Of several patterns the least specific counts.
    pub fn rank(&self) -> Rank {
        let specificity = match self.source {
            // The order of the file is that of its lines.
            Source::RedirectsLine(_) => Specificity::default(),
            _ => self.paths.iter().map(Pattern::specificity).min().unwrap_or_default(),
        };
        Rank { source: self.source, priority: self.priority, specificity, conditions: self.conditions.len() }
    }

    /// The name of the route in reports: its paths, and its conditions if it has any.
    pub fn title(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(Pattern::text).collect();
        let title = if paths.is_empty() { "any path".to_owned() } else { paths.join(", ") };
        if self.conditions.is_empty() { title } else { format!("{title}, if {}", report::conditions(&self.conditions)) }
    }

    /// The name of the route in reports, and the file that it is from if that is not the configuration.
    pub fn title_with_place(&self) -> String {
        format!("`{}`{}", self.title(), self.source.in_words())
    }

    /// Whether it says where answers come from.
    fn directs(&self) -> bool {
        ROWS.iter().any(|row| row.directs && (row.is_said)(self))
    }

    /// Whether it says that files are looked for, and where.
    fn is_looked_for(&self) -> bool {
        let by_application = matches!(self.gateway, Switch::Set(_));
        !by_application && (self.rewrite != Switch::Unset || self.try_files.is_some())
    }
}

impl Rules {
    /// Whether something else is answered with than the file or folder that is there, wherever that is.
    pub fn replace_files(&self) -> bool {
        ROWS.iter().any(|row| (row.replaces_files)(self))
    }

    /// Whether an application answers where none of the paths that are tried leads to a file.
    pub fn try_files_first(&self) -> bool {
        let answers = self.gateway.as_ref().is_some_and(|gateway| gateway.scripts.is_none());
        answers && self.try_files.as_ref().is_some_and(|(tried, _)| !tried.is_empty())
    }

    /// The changes that clients may make where `site` applies besides.
    pub fn changes_over(&self, site: Changes) -> Changes {
        Changes {
            upload: self.upload.unwrap_or(site.upload),
            delete: self.delete.unwrap_or(site.delete),
            mkdir: self.mkdir.unwrap_or(site.mkdir),
            webdav: self.webdav.unwrap_or(site.webdav),
        }
    }

    /// How they come from a path to a file, in words.
    pub fn describe_ways(&self) -> Vec<String> {
        report::ways(self)
    }

    /// The filters that files pass through, in words.
    pub fn describe_filters(&self) -> Option<String> {
        self.filters.as_ref().filter(|steps| !steps.is_empty()).map(|steps| filters::describe(steps))
    }
}

/// Merges routes, each with its number, the most specific first.
///
/// The most specific route that has a key decides about it, but where its row says something else: header fields are
/// merged by name, and pages by status.
pub fn merge<'r>(routes: impl IntoIterator<Item = (usize, &'r RouteSettings)>) -> Rules {
    let routes: Vec<_> = routes.into_iter().collect();
    let mut rules = Rules::of(&routes);
    rules.media_type = take_media_type(&mut rules.headers);
    rules
}

/// The last `Content-Type` that is set: a line of the head that the server writes itself.
fn take_media_type(rules: &mut Vec<HeaderRule>) -> Option<String> {
    let mut found = None;
    for rule in rules.iter_mut() {
        let at = rule.set.iter().position(|(name, _)| name.eq_ignore_ascii_case("Content-Type"));
        if let Some(at) = at {
            found = rule.set.remove(at).1.into_iter().next();
        }
    }
    rules.retain(|rule| !rule.is_empty());
    found
}

impl<T> Switch<T> {
    /// The value that is set.
    fn into_set(self) -> Option<T> {
        match self {
            Switch::Set(value) => Some(value),
            Switch::Unset | Switch::Off => None,
        }
    }

    /// As it is written, if it is said.
    fn render(&self, value: impl FnOnce(&T) -> String) -> Option<String> {
        match self {
            Switch::Unset => None,
            Switch::Off => Some("false".to_owned()),
            Switch::Set(set) => Some(value(set)),
        }
    }
}
