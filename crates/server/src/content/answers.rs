//! Answers that are not files: error pages and redirects as resources, in every media type that is negotiated.
//!
//! Owns: turning [`mod@pages`] into [`Resource`]s. Opens no file.

use std::sync::Arc;

use lamna_proto::error::Refusal;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, HeadTooLong, Representation, Resource, Variants};
use lamna_proto::workspace::Pages;
use rustix::io::Errno;

use super::pages::{self, Page};
use crate::cache::compress::compress_quickly;
use crate::config::compression::Compression;
use crate::io::Blocked;

/// The methods that are allowed on everything, and beside them those of uploads.
const ALLOW: &str = "GET, HEAD, OPTIONS";
const ALLOW_UPLOAD: &str = "GET, HEAD, OPTIONS, PUT, POST";

/// What the core answers by itself for a site with these further `fields`, which takes uploads or not.
///
/// # Errors
/// The fields are too long for a head.
pub fn pages(fields: &[(String, String)], takes_uploads: bool) -> Result<Pages, HeadTooLong> {
    let allow = ("Allow".to_owned(), if takes_uploads { ALLOW_UPLOAD } else { ALLOW }.to_owned());
    let allowing = [fields, &[allow]].concat();
    let refusals = Refusal::ALL.iter().map(|refusal| {
        let (status, cause) = (refusal.status(), refusal.cause());
        match status {
            Status(405) if takes_uploads => error(405, UPLOAD_CAUSE, &allowing).map(Arc::new),
            Status(405) => error(405, cause, &allowing).map(Arc::new),
            Status(status) => error(status, cause, fields).map(Arc::new),
        }
    });
    let description = Description { fields: &allowing, ..Description::of(Status(204)) };
    let options = Resource::one(Status(204), Representation::with_content(&description, b"")?);
    Ok(Pages { refusals: refusals.collect::<Result<_, _>>()?, options: Arc::new(options) })
}

const UPLOAD_CAUSE: &str =
    "This resource can be read, and stored with PUT; a directory takes forms with files by POST.";

/// An error page with further `fields`.
///
/// # Errors
/// The fields are too long for a head.
pub fn error(status: u16, cause: &str, fields: &[(String, String)]) -> Result<Resource, HeadTooLong> {
    let status = Status(status);
    let page = pages::error(status.0, status.reason_phrase(), cause);
    let retry = [("Retry-After".to_owned(), "1".to_owned())];
    let fields = if status.0 == 503 { [fields, &retry].concat() } else { fields.to_vec() };
    typed(&Description { fields: &fields, ..Description::of(status) }, &page, "application/problem+json")
}

/// A redirect to `location`, which gets the query of the request if `query_follows`.
///
/// # Errors
/// The location and the fields are too long for a head.
pub fn redirect(
    status: u16,
    location: &str,
    query_follows: bool,
    fields: &[(String, String)],
) -> Result<Resource, HeadTooLong> {
    let page = pages::redirect(status, location);
    let description = Description { fields, location: Some(location), ..Description::of(Status(status)) };
    Ok(Resource { query_follows, ..typed(&description, &page, "application/json")? })
}

/// A listing as a resource, in one of its two forms: which one follows from the fields of who asks. It is compressed once, because
/// it is made anew for almost everybody: into the coding that costs least, which every browser takes.
///
/// # Errors
/// The fields are too long for a head.
pub fn listing(
    content: &[u8],
    is_json: bool,
    compression: &Compression,
    fields: &[(String, String)],
) -> Result<Resource, HeadTooLong> {
    let media_type = Some(if is_json { "application/json" } else { HTML });
    let description = Description { media_type, vary: Some("Accept"), fields, ..Description::of(Status(200)) };
    let coding = CHEAPEST_FIRST.into_iter().find(|coding| compression.codings.contains(*coding));
    let coding = coding.filter(|_| content.len() as u64 >= compression.bytes_min);
    let Some((coding, coded)) = coding.and_then(|coding| Some((coding, compress_quickly(coding, content)?))) else {
        return Ok(Resource::one(Status(200), Representation::with_content(&description, content)?));
    };
    let one = |coding, content: &[u8]| {
        let description = Description { coding, vary: Some("Accept, Accept-Encoding"), ..description.clone() };
        Representation::with_content(&description, content).map(Arc::new)
    };
    let both = [one(Coding::Identity, content)?, one(coding, &coded)?];
    Ok(Resource { status: Status(200), variants: Variants::Coded(both.into()), query_follows: false })
}

/// Codings by the work of a quick compression.
const CHEAPEST_FIRST: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Brotli];

const HTML: &str = "text/html; charset=utf-8";

fn typed(description: &Description<'_>, page: &Page, json_type: &str) -> Result<Resource, HeadTooLong> {
    let one = |media_type, content: &[u8]| {
        let description = Description { media_type: Some(media_type), vary: Some("Accept"), ..description.clone() };
        Representation::with_content(&description, content).map(Arc::new)
    };
    let all = [one(HTML, &page.html)?, one(json_type, &page.json)?, one("text/plain; charset=utf-8", &page.text)?];
    Ok(Resource { status: description.status, variants: Variants::Typed(all.into()), query_follows: false })
}

/// The fields of the site and what the name adds to them are too long for a head.
impl From<HeadTooLong> for Blocked {
    fn from(HeadTooLong: HeadTooLong) -> Blocked {
        Blocked::Failed(Errno::OVERFLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compression::CodingSet;

    #[test]
    fn there_is_a_page_for_every_refusal_and_405_says_what_is_allowed() {
        let pages = pages(&[], false).unwrap();
        assert_eq!(pages.refusals.len(), Refusal::ALL.len());
        let head = head(&pages.refusals[Refusal::MethodNotAllowed as usize]);
        assert!(head.contains("Allow: GET, HEAD, OPTIONS\r\n"), "{head}");
    }

    #[test]
    fn a_site_that_takes_uploads_says_so() {
        let pages = self::pages(&[], true).unwrap();
        for page in [&pages.refusals[Refusal::MethodNotAllowed as usize], &pages.options] {
            assert!(head(page).contains("Allow: GET, HEAD, OPTIONS, PUT, POST\r\n"), "{}", head(page));
        }
    }

    fn head(resource: &Resource) -> String {
        String::from_utf8_lossy(resource.variants.first().head()).into_owned()
    }

    #[test]
    fn the_fields_of_a_site_are_on_all_its_pages() {
        let pages = pages(&[("X-A".to_owned(), "1".to_owned())], false).unwrap();
        for page in pages.refusals.iter().chain([&pages.options]) {
            assert!(head(page).contains("\r\nX-A: 1\r\n"), "{}", head(page));
        }
        assert!(head(&pages.options).contains("Allow: GET, HEAD, OPTIONS\r\n"));
    }

    #[test]
    fn a_long_listing_is_compressed_into_one_permitted_coding_and_a_short_one_is_not() {
        let long = "<tr><td>file</td></tr>".repeat(1000);
        let codings = |content: &str, compression: &Compression| {
            let resource = listing(content.as_bytes(), false, compression, &[]).unwrap();
            resource.variants.all().map(|one| (one.coding, one.size)).collect::<Vec<_>>()
        };
        let only = |coding| Compression { codings: CodingSet::IDENTITY.with(coding), ..Compression::default() };
        for (compression, coding) in [
            (Compression::default(), Coding::Gzip),
            (only(Coding::Brotli), Coding::Brotli),
            (only(Coding::Zstd), Coding::Zstd),
        ] {
            let made = codings(&long, &compression);
            assert_eq!((made.len(), made[0].0, made[1].0), (2, Coding::Identity, coding));
            assert!(made[1].1 * 20 < made[0].1, "{made:?}");
        }
        assert_eq!(codings(&long, &Compression::OFF), [(Coding::Identity, long.len() as u64)]);
        assert_eq!(codings("short", &Compression::default()), [(Coding::Identity, 5)]);
    }

    #[test]
    fn a_location_that_is_too_long_is_an_error() {
        assert_eq!(redirect(302, &"/".repeat(70_000), false, &[]).err(), Some(HeadTooLong));
    }

    #[test]
    fn a_location_is_ascii_and_on_one_line() {
        assert_eq!(lamna_proto::parse::path::encode("/ä b/\r\n?#".as_bytes()), "/%C3%A4%20b/%0D%0A%3F%23");
    }
}
