//! Limits of nginx: `limit_req_zone` and `limit_req`, `limit_conn_zone` and `limit_conn`, `limit_rate` and
//! `limit_rate_after`.
//!
//! Owns: which of them mean the same here, and words for the others. Where several levels have limits, nginx takes the
//! innermost, and here all limits count that fit. So a limit is carried over where no other level says something else.

use lamna_config::route::pattern::Pattern;
use lamna_policy::limit::{Period, Rate};
use lamna_policy::volume::Bandwidth;

use super::location::Location;
use super::syntax::Directive;
use super::{Draft, Scope, Site};

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
    /// Reads a directive. None, with a note, if it cannot be expressed here.
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

/// The name of a zone that counts connections by client address. None for other zones.
pub(super) fn connection_zone(directive: &Directive) -> Option<String> {
    let is_by_client = matches!(directive.argument(0), "$binary_remote_addr" | "$remote_addr");
    let zone = directive.arguments.iter().find_map(|word| word.strip_prefix("zone="))?;
    is_by_client.then(|| zone.split(':').next().unwrap_or_default().to_owned())
}

/// Reads `limit_conn`. None, with a note, if it cannot be expressed here.
pub(super) fn connections(directive: &Directive, scope: &Scope, draft: &mut Draft) -> Option<(usize, String, u64)> {
    let is_by_client = scope.connection_zones.iter().any(|zone| zone == directive.argument(0));
    let most = directive.argument(1).parse().ok().filter(|most| is_by_client && *most > 0);
    if most.is_none() {
        let why = "connections are limited by client address";
        draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
    }
    most.map(|most| (directive.line, directive.text(), most))
}

/// Notes the connection limit of a location, which here has no connections of its own.
pub(super) fn lose_connections(directive: &Directive, draft: &mut Draft) {
    draft.lose(directive.line, format!("`{}`: {TOGETHER}", directive.text()));
}

const TOGETHER: &str = "connections are limited for all sites together: `connection_limit` (docs/limits.md)";

/// Writes the limit of connections where all servers have the same one.
pub(super) fn finish_connections(draft: &mut Draft) {
    let said = std::mem::take(&mut draft.connections);
    let most = said.first().and_then(|first| first.as_ref()).map(|(_, _, most)| *most);
    let is_common = said.iter().all(|one| one.as_ref().map(|(_, _, most)| *most) == most);
    draft.connection_limit = most.filter(|_| is_common);
    for (line, text, _) in said.into_iter().flatten() {
        match draft.connection_limit {
            Some(_) => {
                draft.lose(line, format!("that `{text}` leaves idle connections out: here they count, too"));
            }
            None => draft.lose(line, format!("`{text}`: {TOGETHER}")),
        }
    }
}

/// Writes the limits of a server and of its locations.
pub(super) fn push(of_server: &[Limit], locations: &[Location], site: &mut Site, draft: &mut Draft) {
    let has_others = locations.iter().any(|one| !one.limits.is_empty());
    let mut add = |limit: &Limit, path: Option<&str>| match path {
        Some(path) => site.limits.push((path.to_owned(), "requests", limit.rate.clone())),
        None => {
            let why = "a limit is for all paths that begin alike, and another location is among them";
            draft.lose(limit.line, format!("`{}`: {why}", limit.text));
        }
    };
    for limit in of_server {
        add(limit, (!has_others).then_some("/"));
    }
    for one in locations {
        one.limits.iter().for_each(|limit| add(limit, path_of(one, locations)));
    }
}

/// The common beginning of the paths of a location, if no other location is for any of them.
fn path_of<'l>(one: &'l Location, locations: &[Location]) -> Option<&'l str> {
    let is_apart =
        || locations.iter().all(|other| std::ptr::eq(other, one) || other.pattern.is_apart_from(&one.pattern));
    match &one.pattern {
        Pattern::Prefix(path) if is_apart() => Some(&**path),
        _ => None,
    }
}

/// How fast a block is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Speed {
    /// Where it is said, and how.
    said: Option<(usize, String)>,
    bytes_per_s: u64,
    after: u64,
}

impl Speed {
    /// Takes over what a directive says.
    pub(super) fn take(&mut self, directive: &Directive, draft: &mut Draft) {
        let Some(bytes) = bytes(directive.argument(0)) else {
            return draft.lose(directive.line, format!("`{}`: it is no number of bytes", directive.text()));
        };
        if directive.name == "limit_rate_after" {
            return self.after = bytes;
        }
        self.bytes_per_s = bytes;
        self.said = Some((directive.line, directive.text()));
    }

    fn bandwidth(&self) -> Option<Bandwidth> {
        let text = format!("{}/s after {}", self.bytes_per_s, self.after);
        text.parse().ok().filter(|_| self.bytes_per_s > 0)
    }
}

/// `100`, `100k`, `5m`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 1 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Writes how fast a server and its locations are sent. Of several levels nginx takes the innermost, and here the
/// slowest applies.
pub(super) fn push_speeds(of_server: &Speed, locations: &[Location], site: &mut Site, draft: &mut Draft) {
    let has_others = locations.iter().any(|one| one.speed.is_some());
    let mut add = |speed: &Speed, path: Option<&str>| {
        let Some((line, text)) = &speed.said else { return };
        match (path, speed.bandwidth()) {
            (Some(path), Some(bandwidth)) => site.limits.push((path.to_owned(), "bandwidth", bandwidth.to_string())),
            // None at all.
            _ if speed.bytes_per_s == 0 => {}
            (_, None) => draft.lose(*line, format!("`{text}`: the least is 1 KiB in a second")),
            (None, _) => {
                let why = "a limit is for all paths that begin alike, and another location is among them";
                draft.lose(*line, format!("`{text}`: {why}"));
            }
        }
    };
    add(of_server, (!has_others).then_some("/"));
    for one in locations {
        one.speed.iter().for_each(|speed| add(speed, path_of(one, locations)));
    }
}
