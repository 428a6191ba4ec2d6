//! Additions of routes to answers: fields, pages for errors, and fixed answers.
//!
//! Owns: the additions of [`Effective`] to an answer of some status, and [`fixed`], which makes the answer of `respond`
//! once for all requests.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use lamna_config::route::headers::{self, IMMUTABLE};
use lamna_config::route::{Respond, RespondContent};
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, HeadTooLong, Representation, Resource};

use super::Effective;
use crate::content::answers::{self, Extras};
use crate::content::page_file::PageFile;

impl Effective {
    /// The configured fields of an answer with `status`.
    pub fn fields(&self, status: u16) -> Cow<'_, [(String, String)]> {
        match status {
            200 => Cow::Borrowed(&self.fields),
            _ => Cow::Owned(headers::fields(&self.rules.headers, status)),
        }
    }

    /// The additions to an answer of `status`.
    pub fn extras(&self, status: u16) -> Extras<'_> {
        Extras { fields: self.fields(status), vary: self.vary.as_deref(), page: self.page(status).map(|page| &**page) }
    }

    /// The page for an error of `status`, if there is one in memory.
    pub fn page(&self, status: u16) -> Option<&Arc<PageFile>> {
        if status < 400 {
            return None;
        }
        self.files.get(self.error_pages.get(status)?)
    }

    /// The page at `path` beneath the root, if it is one of those that are held in memory.
    pub fn page_at(&self, path: &str) -> Option<&PageFile> {
        self.files.get(path).map(|page| &**page)
    }

    /// The page that replaces the content of an application's answer of `status`.
    pub fn intercepted(&self, status: u16) -> Option<&Arc<PageFile>> {
        self.page(status).filter(|_| self.rules.intercept_errors == Some(true))
    }

    /// Whether it says anything about the fields of answers.
    pub fn changes_answers(&self) -> bool {
        !self.rules.headers.is_empty() || self.vary.is_some()
    }

    /// Does to the fields of an answer of `status`, which an application has given, what the routes say.
    pub fn change(&self, status: u16, fields: &mut Vec<(String, String)>) {
        self.rules.headers.iter().for_each(|rule| rule.apply(status, fields));
        fields.extend(self.vary.iter().map(|names| ("Vary".to_owned(), names.clone())));
    }

    /// The additions to a file.
    pub fn extras_of_file(&self, status: u16, is_immutable: bool) -> Extras<'_> {
        let mut extras = self.extras(status);
        if is_immutable {
            let fields = extras.fields.to_mut();
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case("Cache-Control"));
            fields.push(("Cache-Control".into(), IMMUTABLE.into()));
        }
        extras
    }
}

/// The answer of `respond`, made once for all requests.
#[derive(Clone, Debug)]
pub struct FixedAnswer {
    /// To GET and HEAD, which may have conditions and ask for a range.
    pub to_reads: Arc<Resource>,
    /// To all other methods, for which 304 and 206 are no answers (RFC 9110 13.1.2 and 14.2).
    pub to_others: Arc<Resource>,
}

/// The answer of `respond`, with the additions of its routes. `conditional`: to conditions and ranges as well.
///
/// # Errors
/// The fields are too long for a head.
pub(super) fn fixed(respond: &Respond, effective: &Effective, conditional: bool) -> Result<Resource, HeadTooLong> {
    let mut extras = effective.extras(respond.status);
    let is_own = |name: &str| respond.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let (types, own): (Vec<_>, Vec<_>) =
        respond.headers.iter().cloned().partition(|(name, _)| name.eq_ignore_ascii_case("Content-Type"));
    let fields = extras.fields.to_mut();
    fields.retain(|(name, _)| !is_own(name));
    fields.extend(own);
    let configured = types.first().map(|(_, value)| value.as_str()).or(effective.rules.media_type.as_deref());
    let (content, media_type) = match &respond.content {
        RespondContent::OfStatus if respond.status >= 400 => return answers::error(respond.status, "", &extras),
        RespondContent::OfStatus => (&[][..], None),
        RespondContent::Text(text) => (text.as_bytes(), Some(configured.unwrap_or("text/plain; charset=utf-8"))),
        RespondContent::File(path) => match effective.files.get(path) {
            Some(file) => (&*file.content, Some(configured.unwrap_or(file.media_type))),
            None if respond.status >= 400 => return answers::error(respond.status, "", &extras),
            None => return answers::error(404, MISSING, &effective.extras(404)),
        },
    };
    let is_ok = conditional && respond.status == 200 && media_type.is_some();
    let etag = is_ok.then(|| etag(content));
    let (fields, vary) = (&*extras.fields, extras.vary);
    let status = Status(respond.status);
    let description =
        Description { media_type, etag: etag.as_deref(), ranges: is_ok, vary, fields, ..Description::of(status) };
    Ok(Resource::one(status, Representation::with_content(&description, content)?))
}

/// The words for a fixed answer without its file.
const MISSING: &str = "There is nothing at this address.";

fn etag(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
