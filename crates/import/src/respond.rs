//! Fixed answers of other servers as `respond` of a route.
//!
//! Owns: which status and text can be said so. Pure.

use lamna_config::render::quoted;

/// The value of `respond` for an answer of `status` with a text, if it can be answered so.
pub(crate) fn value(status: &str, text: &str) -> Option<String> {
    let number: u16 = status.parse().ok().filter(|_| status.len() == 3)?;
    let is_fixed = matches!(number, 200..=299 | 400..=599) && !matches!(number, 206 | 416);
    // nginx closes the connection where it is told to answer so, and keeps others for itself.
    let is_known = is_fixed && !matches!(number, 444 | 494..=499);
    match text {
        _ if !is_known || text.contains(['$', '{']) => None,
        "" => Some(number.to_string()),
        _ if matches!(number, 204 | 205) => None,
        text => Some(format!("{{ status = {number}, text = {} }}", quoted(text))),
    }
}

/// Whether a page can be for errors of `status`.
pub(crate) fn is_error(status: &str) -> bool {
    let number: Option<u16> = status.parse().ok().filter(|_| status.len() == 3);
    number.is_some_and(|number| matches!(number, 400..=599) && !matches!(number, 444 | 494..=499))
}
