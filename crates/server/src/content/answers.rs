//! Answers that are not files: error pages and redirects as resources, in every media type that is negotiated.
//!
//! Owns: turning [`mod@pages`] into [`Resource`]s. Opens no file.

use std::sync::Arc;

use lamna_proto::error::Refusal;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, Representation, Resource, Variants};
use lamna_proto::workspace::Pages;

use super::escape::push_path_segment;
use super::pages::{self, Page};

/// The methods that everything here takes.
const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The pages that do not belong to a site.
pub fn pages() -> Pages {
    let refusals = Refusal::ALL.iter().map(|refusal| Arc::new(refusal_page(*refusal))).collect();
    let description = Description { fields: &[allow()], ..Description::of(Status(204)) };
    let options = Resource::one(Status(204), Representation::with_content(&description, b""));
    Pages { refusals, options: Arc::new(options) }
}

fn refusal_page(refusal: Refusal) -> Resource {
    let fields = if refusal.status() == Status(405) { vec![allow()] } else { Vec::new() };
    error(refusal.status().0, refusal.cause(), &fields)
}

fn allow() -> (String, String) {
    ("Allow".to_owned(), ALLOW.to_owned())
}

/// An error page with further `fields`.
pub fn error(status: u16, cause: &str, fields: &[(String, String)]) -> Resource {
    let status = Status(status);
    let page = pages::error(status.0, status.reason_phrase(), cause);
    let retry = [("Retry-After".to_owned(), "1".to_owned())];
    let fields = if status.0 == 503 { [fields, &retry].concat() } else { fields.to_vec() };
    typed(&Description { fields: &fields, ..Description::of(status) }, &page, "application/problem+json")
}

/// A redirect to `location`, which gets the query of the request if `query_follows`.
pub fn redirect(status: u16, location: &str, query_follows: bool, fields: &[(String, String)]) -> Resource {
    let page = pages::redirect(status, location);
    let description = Description { fields, location: Some(location), ..Description::of(Status(status)) };
    Resource { query_follows, ..typed(&description, &page, "application/json") }
}

/// A listing as a resource.
pub fn listing(html: &[u8], json: &[u8], fields: &[(String, String)]) -> Resource {
    let description = Description { vary: Some("Accept"), fields, ..Description::of(Status(200)) };
    let one = |media_type, content| {
        Arc::new(Representation::with_content(&Description { media_type: Some(media_type), ..description }, content))
    };
    let variants = Variants::Typed([one(HTML, html), one("application/json", json)].into());
    Resource { status: Status(200), variants, query_follows: false }
}

const HTML: &str = "text/html; charset=utf-8";

fn typed(description: &Description<'_>, page: &Page, json_type: &str) -> Resource {
    let one = |media_type, content: &[u8]| {
        let description = Description { media_type: Some(media_type), vary: Some("Accept"), ..description.clone() };
        Arc::new(Representation::with_content(&description, content))
    };
    let all = [one(HTML, &page.html), one(json_type, &page.json), one("text/plain; charset=utf-8", &page.text)];
    Resource { status: description.status, variants: Variants::Typed(all.into()), query_follows: false }
}

/// `path` with everything that may not stand in a Location percent-encoded; slashes stay.
pub fn encode_path(path: &[u8]) -> String {
    let mut encoded = String::with_capacity(path.len());
    for (index, segment) in path.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            encoded.push('/');
        }
        push_path_segment(&mut encoded, segment);
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_every_refusal_and_405_says_what_is_allowed() {
        let pages = pages();
        assert_eq!(pages.refusals.len(), Refusal::ALL.len());
        let page = &pages.refusals[Refusal::MethodNotAllowed as usize];
        let head = String::from_utf8_lossy(page.variants.first().head()).into_owned();
        assert!(head.contains("Allow: GET, HEAD, OPTIONS\r\n"), "{head}");
    }

    #[test]
    fn a_location_is_ascii_and_on_one_line() {
        assert_eq!(encode_path("/ä b/\r\n?#".as_bytes()), "/%C3%A4%20b/%0D%0A%3F%23");
    }
}
