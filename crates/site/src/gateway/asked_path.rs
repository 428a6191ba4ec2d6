//! The path that an application is asked for.
//!
//! Owns: [`write_asked_path`], through which every path of a client goes to an application, to a service that is asked
//! about a request, and into the keys of kept answers. Guarantees: in whatever way an application reads the path, the
//! routes and the limits of the site are those by which the request was judged.

use std::borrow::Cow;

use lamna_proto::error::Refusal;
use lamna_proto::gateway::path;

use crate::cache::Script;
use crate::content::route::Effective;
use crate::content::site::Site;

/// Appends the path that an application of `site` is asked for where a client has asked for `path`, to which `rules`
/// apply. `script` is the file that it runs, if it runs files: it may read what follows that as a path of the site.
///
/// # Errors
/// It is none, or one that applications may read in several ways of which the rules are not the same.
pub fn write_asked_path(
    site: &Site,
    rules: &Effective,
    script: Option<&Script>,
    path: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let path_info = script.map(|script| &*script.path_info).filter(|path_info| !path_info.is_empty());
    let are_alike =
        |one: &[u8], other: &[u8]| site.routes.match_alike(one, other) && is_limited_alike(site, one, other);
    let mut are_all_alike = |judged: &[u8], reading: &[u8]| {
        let is_within_alike = |path_info: &[u8]| {
            let before = judged.strip_suffix(path_info).unwrap_or(judged);
            reading.strip_prefix(before).is_none_or(|within| are_alike(path_info, within))
        };
        are_alike(judged, reading) && path_info.is_none_or(is_within_alike)
    };
    let prefix_bytes = rules.rules.strip_prefix.as_deref().map_or(0, str::len);
    path::write_asked(path, rules.spelling(), prefix_bytes, &mut are_all_alike, out).map_err(|_| Refusal::TargetPath)
}

/// The path that the application of `rules` knows for `asked`, which [`write_asked_path`] has written: without the
/// prefix that is taken away, and beneath the path of the application itself.
///
/// # Errors
/// It is not beneath that prefix.
pub(super) fn path_at_application<'p>(rules: &Effective, asked: &'p [u8]) -> Result<Cow<'p, [u8]>, Refusal> {
    let prefix = rules.rules.strip_prefix.as_deref().unwrap_or_default();
    let base = rules.rules.gateway.as_ref().map_or("", |gateway| &gateway.base_path);
    let rest = asked.strip_prefix(prefix.as_bytes()).filter(|rest| matches!(rest, [] | [b'/', ..]));
    Ok(match rest.ok_or(Refusal::TargetPath)? {
        rest @ [_, ..] if base.is_empty() => Cow::Borrowed(rest),
        rest => Cow::Owned([base.as_bytes(), if rest.is_empty() { b"/" } else { rest }].concat()),
    })
}

/// Whether the same limits count requests for both paths.
fn is_limited_alike(site: &Site, one: &[u8], other: &[u8]) -> bool {
    let counts = |path: &[u8], limit: &str| path.starts_with(limit.as_bytes());
    site.settings.limits.iter().all(|limit| counts(one, &limit.path) == counts(other, &limit.path))
}
