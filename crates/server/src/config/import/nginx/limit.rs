//! Limits of requests of nginx: `limit_req_zone` and `limit_req`.
//!
//! Owns: which of them mean the same here, and words for the others.
//! Of several levels with limits nginx takes the innermost, and here all limits count that fit. So a limit is carried over where
//! no other level says something else.

use lamna_policy::limit::{Period, Rate};

use super::location::Location;
use super::syntax::Directive;
use super::{Draft, Scope, Site};
use crate::config::route::pattern::Pattern;

/// A `limit_req` that stands for a rate here.
pub(super) struct Limit {
    line: usize,
    text: String,
    rate: String,
}

/// The name and the rate of a zone that counts by client address. None for other zones.
pub(super) fn zone(directive: &Directive) -> Option<(String, u32, Period)> {
    if !matches!(directive.argument(0), "$binary_remote_addr" | "$remote_addr") {
        return None;
    }
    let value = |key: &str| directive.arguments.iter().find_map(|word| word.strip_prefix(key));
    let name = value("zone=")?.split(':').next()?;
    let (count, period) = value("rate=")?.split_once("r/")?;
    let period = match period {
        "s" => Period::Second,
        "m" => Period::Minute,
        _ => return None,
    };
    let count = count.parse().ok()?;
    Rate::new(count, period, 1).ok().map(|_| (name.to_owned(), count, period))
}

impl Limit {
    /// What a directive says. None, with a note, if it cannot be said here.
    pub(super) fn new(directive: &Directive, scope: &Scope, draft: &mut Draft) -> Option<Limit> {
        let value = |key: &str| directive.arguments.iter().find_map(|word| word.strip_prefix(key));
        let zone = scope.zones.iter().find(|(name, ..)| value("zone=") == Some(name));
        // nginx admits one request, and then as many as `burst`.
        let burst =
            value("burst=").map_or(Some(0), |burst| burst.parse::<u32>().ok()).and_then(|one| one.checked_add(1));
        let rate = zone.zip(burst).and_then(|((_, count, period), burst)| Rate::new(*count, *period, burst).ok());
        let Some(rate) = rate else {
            let why = "limits are by client address, with a rate and a burst in numbers";
            draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
            return None;
        };
        if value("burst=").is_some() && !directive.arguments.iter().any(|word| word == "nodelay") {
            let why = "requests are not delayed: the burst is admitted at once";
            draft.lose(directive.line, format!("the delay of `{}`: {why}", directive.text()));
        }
        Some(Limit { line: directive.line, text: directive.text(), rate: rate.to_string() })
    }
}

/// Writes the limits of a server and of its locations.
pub(super) fn push(of_server: &[Limit], locations: &[Location], site: &mut Site, draft: &mut Draft) {
    let has_others = locations.iter().any(|one| !one.limits.is_empty());
    let mut add = |limit: &Limit, path: Option<&str>| match path {
        Some(path) => site.limits.push((path.to_owned(), limit.rate.clone())),
        None => {
            let why = "a limit is for all paths that begin alike, and another location is among them";
            draft.lose(limit.line, format!("`{}`: {why}", limit.text));
        }
    };
    for limit in of_server {
        add(limit, (!has_others).then_some("/"));
    }
    for one in locations {
        let is_apart =
            || locations.iter().all(|other| std::ptr::eq(other, one) || other.pattern.is_apart_from(&one.pattern));
        let path = match &one.pattern {
            Pattern::Prefix(path) if is_apart() => Some(&**path),
            _ => None,
        };
        one.limits.iter().for_each(|limit| add(limit, path));
    }
}
