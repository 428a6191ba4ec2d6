//! Answers that are not files: error pages and redirects as resources, in every media type that is negotiated.
//!
//! Owns: turning [`mod@pages`] into [`Resource`]s. Opens no file.

use std::borrow::Cow;
use std::sync::Arc;

use lamna_config::compression::Compression;
use lamna_config::route::Changes;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, HeadTooLong, Representation, Resource, Variants};
use lamna_proto::workspace::Pages;

use super::page_file::PageFile;
use super::pages::{self, Page};
use crate::cache::compress::compress_quickly;

/// The methods that are allowed on everything.
const ALLOW: &str = "GET, HEAD, OPTIONS";

/// Additions of routes to answers.
#[derive(Clone, Debug, Default)]
pub struct Extras<'a> {
    /// Further fields.
    pub fields: Cow<'a, [(String, String)]>,
    /// Names of request fields that decided about the answer.
    pub vary: Option<&'a str>,
    /// The page that is sent in place of the server's own, if the answer is an error.
    pub page: Option<&'a PageFile>,
}

impl<'a> Extras<'a> {
    /// These fields and nothing else.
    pub fn of(fields: &'a [(String, String)]) -> Extras<'a> {
        Extras { fields: fields.into(), vary: None, page: None }
    }

    /// The same, where caches are told `value` (RFC 9111 5.2), and nothing else.
    pub fn with_cache_control(mut self, value: &str) -> Extras<'a> {
        const TO_CACHES: [&str; 4] = ["Cache-Control", "CDN-Cache-Control", "Surrogate-Control", "Expires"];
        let fields = self.fields.to_mut();
        fields.retain(|(name, _)| !TO_CACHES.iter().any(|other| other.eq_ignore_ascii_case(name)));
        fields.push(("Cache-Control".to_owned(), value.to_owned()));
        self
    }

    /// The value of `Vary` of an answer that depends on the field `own`, too.
    pub fn vary_with(&self, own: Option<&'a str>) -> Option<Cow<'a, str>> {
        match (own, self.vary) {
            (Some(own), Some(more)) => Some(format!("{own}, {more}").into()),
            (one, other) => one.or(other).map(Cow::Borrowed),
        }
    }
}

/// The answers that the core gives by itself for a site: with further fields, which may differ by status, and with the
/// `changes` that clients may make.
///
/// # Errors
/// The fields are too long for a head.
pub fn pages<'f>(extras: impl Fn(u16) -> Extras<'f>, changes: Changes) -> Result<Pages, HeadTooLong> {
    let page = |refusal: &Refusal| refusal_page(*refusal, &extras(refusal.status().0), changes).map(Arc::new);
    let refusals = Refusal::ALL.iter().map(page).collect::<Result<_, _>>()?;
    Ok(Pages { refusals, options: Arc::new(options(&extras(204), changes)?) })
}

/// The answer to OPTIONS.
///
/// # Errors
/// The fields are too long for a head.
pub fn options(extras: &Extras<'_>, changes: Changes) -> Result<Resource, HeadTooLong> {
    let mut allowing = [&*extras.fields, &[allow(changes)]].concat();
    // Clients that mount folders ask this first, and some of them take no other success.
    let status = if changes.webdav { Status(200) } else { Status(204) };
    if changes.webdav {
        let said = [("DAV", "1, 2"), ("MS-Author-Via", "DAV")];
        allowing.extend(said.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let description = Description { fields: &allowing, vary: extras.vary, ..Description::of(status) };
    Ok(Resource::one(status, Representation::with_content(&description, b"")?))
}

/// The page that explains `refusal`.
///
/// # Errors
/// The fields are too long for a head.
pub fn refusal_page(refusal: Refusal, extras: &Extras<'_>, changes: Changes) -> Result<Resource, HeadTooLong> {
    let status = refusal.status();
    if status != Status(405) {
        return error(status.0, refusal.cause(), extras);
    }
    let fields = [&*extras.fields, &[allow(changes)]].concat();
    let cause = if changes == Changes::default() { refusal.cause() } else { CHANGE_CAUSE };
    error(405, cause, &Extras { fields: fields.into(), ..extras.clone() })
}

/// Forms come by POST, whatever they do.
pub(super) fn allow(changes: Changes) -> (String, String) {
    let Changes { upload, delete, mkdir, webdav } = changes;
    let methods = [
        (upload, "PUT"),
        (delete, "DELETE"),
        (mkdir, "MKCOL"),
        (upload || delete || mkdir, "POST"),
        (webdav, "PROPFIND, COPY"),
        (webdav && delete, "MOVE"),
        (webdav && upload, "PROPPATCH, LOCK, UNLOCK"),
    ];
    let mut allowed = ALLOW.to_owned();
    for (_, method) in methods.into_iter().filter(|(is_allowed, _)| *is_allowed) {
        allowed.push_str(", ");
        allowed.push_str(method);
    }
    ("Allow".to_owned(), allowed)
}

const CHANGE_CAUSE: &str =
    "This resource can be read, and changed in the ways that Allow names; POST is for the forms of listings.";

/// The text of a 503 while a service, or the application of a route, cannot be used.
pub const NOT_AVAILABLE: &str = "A part of this server is not available at the moment.";

/// An error page: that of the site or the route, or the server's own.
///
/// # Errors
/// The fields are too long for a head.
pub fn error(status: u16, cause: &str, extras: &Extras<'_>) -> Result<Resource, HeadTooLong> {
    let status = Status(status);
    let mut fields = extras.fields.to_vec();
    if status.0 == 503 && !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("Retry-After")) {
        fields.push(("Retry-After".to_owned(), "1".to_owned()));
    }
    if let Some(PageFile { media_type, content }) = extras.page {
        let (media_type, fields, vary) = (Some(*media_type), &*fields, extras.vary);
        let description = Description { media_type, fields, vary, ..Description::of(status) };
        return Ok(Resource::one(status, Representation::with_content(&description, content)?));
    }
    let page = pages::error(status.0, status.reason_phrase(), cause);
    let extras = Extras { fields: fields.into(), ..extras.clone() };
    typed(&Description::of(status), &extras, &page, "application/problem+json")
}

/// Ready answers for errors that translation finds.
#[derive(Debug)]
pub struct Errors {
    /// 403: not readable, or neither a file nor a directory.
    pub forbidden: Arc<Resource>,
    /// 403: a directory without an index file, which is not listed.
    pub unlisted: Arc<Resource>,
    /// 404.
    pub not_found: Arc<Resource>,
    /// 400: the path is malformed.
    pub malformed: Arc<Resource>,
    /// 500: the file system failed.
    pub failed: Arc<Resource>,
    /// 503: out of descriptors or memory.
    pub overloaded: Arc<Resource>,
}

impl Errors {
    /// The statuses of all of them.
    pub const STATUSES: [u16; 5] = [403, 404, 400, 500, 503];

    /// With further fields, which may differ from one status to another.
    ///
    /// # Errors
    /// The fields are too long for a head.
    pub fn new<'f>(extras: impl Fn(u16) -> Extras<'f>) -> Result<Errors, HeadTooLong> {
        let page = |status, cause| error(status, cause, &extras(status)).map(Arc::new);
        Ok(Errors {
            forbidden: page(403, "The server may not read this.")?,
            unlisted: page(
                403,
                "This is a directory without an index file, and it is not listed. Whoever runs the server can have it listed with \
                 --browse.",
            )?,
            not_found: page(404, "There is nothing at this address.")?,
            malformed: page(400, Refusal::TargetPath.cause())?,
            failed: page(500, "The file system reported an error.")?,
            overloaded: page(
                503,
                "The server is out of descriptors or memory for a moment, or has too much to look up.",
            )?,
        })
    }
}

/// A redirect to `location`, which gets the query of the request if `query_follows`.
///
/// # Errors
/// The location and the fields are too long for a head.
pub fn redirect(
    status: u16,
    location: &str,
    query_follows: bool,
    extras: &Extras<'_>,
) -> Result<Resource, HeadTooLong> {
    let page = pages::redirect(status, location);
    let description = Description { location: Some(location), ..Description::of(Status(status)) };
    Ok(Resource { query_follows, ..typed(&description, extras, &page, "application/json")? })
}

/// The answer to a challenge of a certificate authority (RFC 8555 8.3).
///
/// # Errors
/// Never: the head is short.
pub fn challenge(content: &str) -> Result<Resource, HeadTooLong> {
    let description = Description { media_type: Some("application/octet-stream"), ..Description::of(Status(200)) };
    Ok(Resource::one(Status(200), Representation::with_content(&description, content.as_bytes())?))
}

/// A listing as a resource, in one of its two forms: the client's fields select which. It is compressed once, into the
/// cheapest coding that every browser takes, because it is made anew for almost every client.
///
/// # Errors
/// The fields are too long for a head.
pub fn listing(
    content: &[u8],
    is_json: bool,
    compression: &Compression,
    extras: &Extras<'_>,
) -> Result<Resource, HeadTooLong> {
    let media_type = Some(if is_json { "application/json" } else { HTML });
    let (vary, vary_coded) = (extras.vary_with(Some("Accept")), extras.vary_with(Some("Accept, Accept-Encoding")));
    let fields = &*extras.fields;
    let description = Description { media_type, vary: vary.as_deref(), fields, ..Description::of(Status(200)) };
    let coding = CHEAPEST_FIRST.into_iter().find(|coding| compression.codings.contains(*coding));
    let coding = coding.filter(|_| content.len() as u64 >= compression.bytes_min);
    let Some((coding, coded)) = coding.and_then(|coding| Some((coding, compress_quickly(coding, content)?))) else {
        return Ok(Resource::one(Status(200), Representation::with_content(&description, content)?));
    };
    let one = |coding, content: &[u8]| {
        let description = Description { coding, vary: vary_coded.as_deref(), ..description.clone() };
        Representation::with_content(&description, content).map(Arc::new)
    };
    let both = [one(Coding::Identity, content)?, one(coding, &coded)?];
    Ok(Resource { status: Status(200), variants: Variants::Coded(both.into()), query_follows: false })
}

/// Codings by the work of a quick compression.
const CHEAPEST_FIRST: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Brotli];

const HTML: &str = "text/html; charset=utf-8";

fn typed(
    description: &Description<'_>,
    extras: &Extras<'_>,
    page: &Page,
    json_type: &str,
) -> Result<Resource, HeadTooLong> {
    let vary = extras.vary_with(Some("Accept"));
    let one = |media_type, content: &[u8]| {
        let (media_type, fields, vary) = (Some(media_type), &*extras.fields, vary.as_deref());
        let description = Description { media_type, fields, vary, ..description.clone() };
        Representation::with_content(&description, content).map(Arc::new)
    };
    let all = [one(HTML, &page.html)?, one(json_type, &page.json)?, one("text/plain; charset=utf-8", &page.text)?];
    Ok(Resource { status: description.status, variants: Variants::Typed(all.into()), query_follows: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::compression::CodingSet;

    #[test]
    fn there_is_a_page_for_every_refusal_and_405_says_what_is_allowed() {
        let pages = pages(|_| Extras::default(), Changes::default()).unwrap();
        assert_eq!(pages.refusals.len(), Refusal::ALL.len());
        let head = head(&pages.refusals[Refusal::MethodNotAllowed as usize]);
        assert!(head.contains("Allow: GET, HEAD, OPTIONS\r\n"), "{head}");
    }

    #[test]
    fn a_site_that_can_be_changed_says_so() {
        for (changes, allowed) in [
            (Changes { upload: true, ..Changes::default() }, "PUT, POST"),
            (Changes { delete: true, mkdir: true, ..Changes::default() }, "DELETE, MKCOL, POST"),
            (
                Changes { upload: true, webdav: true, ..Changes::default() },
                "PUT, POST, PROPFIND, COPY, PROPPATCH, LOCK, UNLOCK",
            ),
        ] {
            let pages = self::pages(|_| Extras::default(), changes).unwrap();
            for page in [&pages.refusals[Refusal::MethodNotAllowed as usize], &pages.options] {
                let line = format!("Allow: GET, HEAD, OPTIONS, {allowed}\r\n");
                assert!(head(page).contains(&line), "{}", head(page));
            }
        }
    }

    fn head(resource: &Resource) -> String {
        String::from_utf8_lossy(resource.variants.first().head()).into_owned()
    }

    #[test]
    fn the_fields_of_a_site_are_on_all_its_pages() {
        let fields = [("X-A".to_owned(), "1".to_owned())];
        let pages = pages(|_| Extras::of(&fields), Changes::default()).unwrap();
        for page in pages.refusals.iter().chain([&pages.options]) {
            assert!(head(page).contains("\r\nX-A: 1\r\n"), "{}", head(page));
        }
        assert!(head(&pages.options).contains("Allow: GET, HEAD, OPTIONS\r\n"));
    }

    #[test]
    fn a_long_listing_is_compressed_into_one_permitted_coding_and_a_short_one_is_not() {
        let long = "<tr><td>file</td></tr>".repeat(1000);
        let codings = |content: &str, compression: &Compression| {
            let resource = listing(content.as_bytes(), false, compression, &Extras::default()).unwrap();
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
        assert_eq!(redirect(302, &"/".repeat(70_000), false, &Extras::default()).err(), Some(HeadTooLong));
    }

    #[test]
    fn a_location_is_ascii_and_on_one_line() {
        assert_eq!(lamna_proto::parse::path::encode("/ä b/\r\n?#".as_bytes()), "/%C3%A4%20b/%0D%0A%3F%23");
    }
}
