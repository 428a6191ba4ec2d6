//! Routes: for which requests of a site something else applies than for the others, and what.
//!
//! ```text
//! [[site.route]] ── judge ──┐
//! _headers, _redirects ─────┴─> RouteSettings ── Matcher ──> those that match, the most specific first ── merge ──> Rules
//!                files                                                                  lamna check <── report ──┘
//! ```
//!
//! Owns: routes as plain values, their order ([`Rank`]) and what several come to ([`merge`]). Guarantees: the order in which
//! routes are written decides nothing. Pure, but for `files`, which reads two files of a site when settings are loaded.

mod access;
mod bounds;
mod cgi;
mod checks;
pub mod condition;
mod conflicts;
mod cors;
mod fields;
mod files;
pub mod filters;
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
mod programs;
mod report;
pub mod sent;
mod services;
pub(super) mod shapes;
#[cfg(test)]
mod table_tests;
pub mod template;
mod ways;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lamna_filter::Step;

use condition::Condition;
use headers::HeaderRule;
use pattern::{Pattern, Specificity};
use template::Template;

use super::access::AccessRules;
use super::answer_cache::AnswerCache;
use super::gateway::GatewaySettings;

pub(super) use access::{access, accounts, schema as access_schema};
pub(super) use cgi::schema as cgi_schema;
pub use cors::Cors;
pub(super) use cors::schema as cors_schema;
pub(super) use files::add_rule_files;
pub use files::{RULE_FILES, Skipped};
pub(super) use filters::{schema as filters_schema, schema_of_route as filters_of_route_schema, structured_schema};
pub use gateways::describe as describe_gateway;
pub(super) use gateways::{fastcgi_schema, proxy_schema};
pub(super) use judge::routes;
pub(super) use kept_answers::schema as answer_cache_schema;
pub use report::{render, report, unused_lines};
pub(super) use services::render_service;
pub use ways::RouteRedirect;

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteSettings {
    /// Where it is written.
    pub source: Source,
    /// Routes with a greater one are looked at first.
    pub priority: i32,
    /// Paths: one of these. Empty: any.
    pub paths: Vec<Pattern>,
    /// What else is asked of the request: all of these.
    pub conditions: Vec<Condition>,
    /// What is done to header fields.
    pub headers: Vec<HeaderRule>,
    /// Whether caches may keep files for a year.
    pub immutable: Option<Immutable>,
    /// Another address.
    pub redirect: Switch<RouteRedirect>,
    /// The path that is looked for instead.
    pub rewrite: Switch<Template>,
    /// Paths that are tried in turn. Empty: the path alone.
    pub try_files: Option<Vec<Template>>,
    /// Names of index files.
    pub index: Option<Vec<String>>,
    /// Pages for errors, by status.
    pub error_pages: BTreeMap<u16, String>,
    /// What other origins may do.
    pub cors: Switch<Cors>,
    /// The application that answers.
    pub gateway: Switch<GatewaySettings>,
    /// How the answers of applications are kept.
    pub answer_cache: Switch<AnswerCache>,
    /// What of the program itself answers, by its name. Not in a file: only programs that embed the server have one.
    pub handler: Option<String>,
    /// What files pass through. Empty: nothing, whatever less specific routes say.
    pub filters: Option<Vec<Step>>,
    /// Whether the pages of folders are searched.
    pub search: Option<bool>,
    /// Whether clients are told what pages need before these are there.
    pub early_hints: Option<bool>,
    /// Whether pages there may be fetched ahead; true: those of applications as well.
    pub link_prefetch: Option<bool>,
    /// What clients may change.
    pub changes: ChangeRules,
    /// Who may do what.
    pub access: AccessRules,
}

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

/// Which files never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Immutable {
    /// None.
    None,
    /// Those with a hash in their name.
    Hashed,
    /// All.
    All,
}

/// What clients may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Store files.
    pub upload: bool,
    /// Delete files and empty directories.
    pub delete: bool,
    /// Make directories.
    pub mkdir: bool,
}

/// What a route says about what clients may change; what it does not say is left to less specific routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeRules {
    /// See [`Changes::upload`].
    pub upload: Option<bool>,
    /// See [`Changes::delete`].
    pub delete: Option<bool>,
    /// See [`Changes::mkdir`].
    pub mkdir: Option<bool>,
}

impl ChangeRules {
    /// These, and where they say nothing `other`.
    fn or(self, other: ChangeRules) -> ChangeRules {
        ChangeRules {
            upload: self.upload.or(other.upload),
            delete: self.delete.or(other.delete),
            mkdir: self.mkdir.or(other.mkdir),
        }
    }

    /// What clients may change where `site` applies besides.
    pub fn over(self, site: Changes) -> Changes {
        Changes {
            upload: self.upload.unwrap_or(site.upload),
            delete: self.delete.unwrap_or(site.delete),
            mkdir: self.mkdir.unwrap_or(site.mkdir),
        }
    }

    /// Each with its key.
    pub(crate) fn all(self) -> [(&'static str, Option<bool>); 3] {
        [("upload", self.upload), ("delete", self.delete), ("mkdir", self.mkdir)]
    }
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

    /// What it is known by in reports: its paths.
    pub fn title(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(Pattern::text).collect();
        let title = if paths.is_empty() { "any path".to_owned() } else { paths.join(", ") };
        if self.conditions.is_empty() { title } else { format!("{title}, if {}", report::conditions(&self.conditions)) }
    }

    /// What it is known by, and where it is written if that is not the configuration.
    pub fn title_with_place(&self) -> String {
        format!("`{}`{}", self.title(), self.source.in_words())
    }

    /// Whether it says where answers come from.
    fn directs(&self) -> bool {
        self.redirect != Switch::Unset
            || self.rewrite != Switch::Unset
            || self.try_files.is_some()
            || self.gateway != Switch::Unset
    }

    /// Whether it says that files are looked for, and where.
    fn is_looked_for(&self) -> bool {
        let by_application = matches!(self.gateway, Switch::Set(_));
        !by_application && (self.rewrite != Switch::Unset || self.try_files.is_some())
    }
}

/// What several routes that match a request come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// What is done to header fields, the least specific first.
    pub headers: Vec<HeaderRule>,
    /// Which files never change.
    pub immutable: Option<Immutable>,
    /// The media type of files, in place of the one that their name tells.
    pub media_type: Option<String>,
    /// A redirect, and the route that it is from.
    pub redirect: Option<(RouteRedirect, usize)>,
    /// Another path, and the route that it is from.
    pub rewrite: Option<(Template, usize)>,
    /// Paths that are tried, and the route that they are from.
    pub try_files: Option<(Vec<Template>, usize)>,
    /// Names of index files; none for those of the site.
    pub index: Option<Vec<String>>,
    /// Pages for errors that differ from those of the site.
    pub error_pages: BTreeMap<u16, String>,
    /// What other origins may do.
    pub cors: Option<Cors>,
    /// The application that answers.
    pub gateway: Option<GatewaySettings>,
    /// How its answers are kept; none if they are not.
    pub answer_cache: Option<AnswerCache>,
    /// What of the program itself answers.
    pub handler: Option<String>,
    /// What files pass through.
    pub filters: Option<Vec<Step>>,
    /// Whether the pages of folders are searched.
    pub search: Option<bool>,
    /// Whether clients are told what pages need before these are there.
    pub early_hints: Option<bool>,
    /// Whether pages there may be fetched ahead; true: those of applications as well.
    pub link_prefetch: Option<bool>,
    /// What clients may change, where that differs from the site.
    pub changes: ChangeRules,
    /// Who may do what, where that differs from the site.
    pub access: AccessRules,
}

impl Rules {
    /// How they come from a path to a file, in words.
    pub fn describe_ways(&self) -> Vec<String> {
        report::ways(self)
    }

    /// What files pass through, in words.
    pub fn describe_filters(&self) -> Option<String> {
        self.filters.as_ref().filter(|steps| !steps.is_empty()).map(|steps| filters::describe(steps))
    }
}

/// Merges routes, each with its number, the most specific first.
///
/// Of each setting the most specific route that has one decides. Header fields are merged by name and pages by status. A route
/// that rewrites or tries paths is not redirected by a less specific one, as it says that there is something: but for a redirect where
/// there is nothing.
pub fn merge<'r>(routes: impl IntoIterator<Item = (usize, &'r RouteSettings)>) -> Rules {
    let mut rules = Rules::default();
    let (mut redirect, mut rewrite, mut cors) = (Switch::Unset, Switch::Unset, Switch::Unset);
    let (mut gateway, mut answer_cache) = (Switch::Unset, Switch::Unset);
    let (mut sets_caching, mut is_looked_for) = (false, false);
    for (number, route) in routes {
        let of = |set: &HeaderRule| set.names().any(|name| name.eq_ignore_ascii_case("Cache-Control"));
        sets_caching |= route.immutable.is_none() && rules.immutable.is_none() && route.headers.iter().any(of);
        if !sets_caching {
            rules.immutable = rules.immutable.or(route.immutable);
        }
        for rule in route.headers.iter().rev() {
            rules.headers.push(rule.clone());
        }
        if redirect == Switch::Unset {
            redirect = match &route.redirect {
                Switch::Set(to) if !is_looked_for || to.if_missing => Switch::Set((to.clone(), number)),
                Switch::Unset if route.is_looked_for() => Switch::Unset,
                Switch::Unset if !route.directs() => Switch::Unset,
                _ => Switch::Off,
            };
            is_looked_for |= route.is_looked_for();
        }
        if rewrite == Switch::Unset {
            rewrite = match &route.rewrite {
                Switch::Set(to) => Switch::Set((to.clone(), number)),
                Switch::Off => Switch::Off,
                Switch::Unset => Switch::Unset,
            };
        }
        if let (None, Some(tried)) = (&rules.try_files, &route.try_files) {
            rules.try_files = Some((tried.clone(), number));
        }
        if cors == Switch::Unset {
            cors = route.cors.clone();
        }
        if gateway == Switch::Unset {
            gateway = match &route.gateway {
                // What is there is looked for.
                Switch::Unset if route.directs() => Switch::Off,
                gateway => gateway.clone(),
            };
        }
        if answer_cache == Switch::Unset {
            answer_cache = match &route.answer_cache {
                // What an application answers is kept only if that is said here or more specifically.
                Switch::Unset if matches!(route.gateway, Switch::Set(_)) => Switch::Off,
                cache => cache.clone(),
            };
        }
        rules.index = rules.index.or_else(|| route.index.clone());
        rules.handler = rules.handler.or_else(|| route.handler.clone());
        rules.filters = rules.filters.or_else(|| route.filters.clone());
        rules.search = rules.search.or(route.search);
        rules.early_hints = rules.early_hints.or(route.early_hints);
        rules.link_prefetch = rules.link_prefetch.or(route.link_prefetch);
        rules.changes = rules.changes.or(route.changes);
        rules.access = std::mem::take(&mut rules.access).or(&route.access);
        for (status, page) in &route.error_pages {
            rules.error_pages.entry(*status).or_insert_with(|| page.clone());
        }
    }
    rules.headers.reverse();
    headers::settle(&mut rules.headers);
    rules.media_type = take_media_type(&mut rules.headers);
    rules.redirect = redirect.into_set();
    rules.rewrite = rewrite.into_set();
    rules.cors = cors.into_set();
    rules.gateway = gateway.into_set();
    rules.answer_cache = answer_cache.into_set().filter(|_| rules.gateway.is_some());
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
    fn into_set(self) -> Option<T> {
        match self {
            Switch::Set(value) => Some(value),
            Switch::Unset | Switch::Off => None,
        }
    }
}
