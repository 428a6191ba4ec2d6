//! The permissions of pages of other origins (CORS, the Fetch standard 3.2).
//!
//! Owns: the fields that say so. Which rule applies, routes decide.

use lamna_config::route::Cors;
use lamna_config::route::headers::HeaderRule;
use lamna_proto::message::Request;

pub(super) const PREFLIGHT_METHOD: &[u8] = b"access-control-request-method";
pub(super) const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";

/// Whether `request` asks whether another one may be made (Fetch, CORS-preflight request).
pub fn is_preflight(request: Request<'_>) -> bool {
    request.lines_named(b"origin").next().is_some() && request.lines_named(PREFLIGHT_METHOD).next().is_some()
}

/// The fields of every answer by which a browser knows that the page of `origin` may read it.
pub(super) fn shared_with(cors: &Cors, origin: Option<&str>) -> Option<HeaderRule> {
    let origin = if cors.is_for_any() { Some("*") } else { origin };
    let mut fields = vec![(ALLOW_ORIGIN.to_owned(), origin?.to_owned())];
    if cors.credentials {
        fields.push(("Access-Control-Allow-Credentials".into(), "true".into()));
    }
    if !cors.expose.is_empty() {
        fields.push(("Access-Control-Expose-Headers".into(), cors.expose.join(", ")));
    }
    Some(HeaderRule::of_fields(&fields))
}

/// The further fields of the answer to a preflight.
pub(super) fn preflight(cors: &Cors) -> Vec<(String, String)> {
    let methods = if cors.methods.is_empty() { "GET, HEAD".to_owned() } else { cors.methods.join(", ") };
    let mut fields = vec![("Access-Control-Allow-Methods".to_owned(), methods)];
    if !cors.headers.is_empty() {
        fields.push(("Access-Control-Allow-Headers".into(), cors.headers.join(", ")));
    }
    fields.extend(cors.max_age_s.map(|seconds| ("Access-Control-Max-Age".to_owned(), seconds.to_string())));
    fields
}
