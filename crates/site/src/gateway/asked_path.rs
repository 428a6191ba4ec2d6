//! The path that an application is asked for.
//!
//! Owns: [`write_asked_path`], through which every path of a client goes to an application, to a service that is asked
//! about a request, and into the keys of kept answers. Guarantees: in whatever way an application reads the path, the
//! routes and the limits of the site are those by which the request was judged.

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
    path::write_asked(path, rules.spelling(), 0, &mut are_all_alike, out).map_err(|_| Refusal::TargetPath)
}

/// Whether the same limits count requests for both paths.
fn is_limited_alike(site: &Site, one: &[u8], other: &[u8]) -> bool {
    let counts = |path: &[u8], limit: &str| path.starts_with(limit.as_bytes());
    site.settings.limits.iter().all(|limit| counts(one, &limit.path) == counts(other, &limit.path))
}
