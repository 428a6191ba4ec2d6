//! Header fields: the `headers` of a site, and which fields can be sent at all.
//!
//! Owns: the judgement of names and values, for sites and for routes. Guarantees: whatever passes can be written into a
//! response as it is (RFC 9110 5.1 and 5.5).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use lamna_policy::size::format_size;
use lamna_proto::parse::is_token_byte;
use serde_json::{Value, json};
use toml::Spanned;

use super::SiteTable;
use super::row::SiteKey;
use crate::checker::Checker;
use crate::page::{Page, list, quoted};
use crate::schema::values::several;
use crate::written::{Text, Texts};

/// Fields that the server computes for each response, or that are about the connection: a fixed value would contradict
/// it.
const OWNED_FIELDS: [&str; 19] = [
    "Accept-Ranges",
    "Allow",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Proxy-Connection",
    "Retry-After",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Vary",
];

/// Fields that have one value in a response: a second line would contradict the first. `Server` and
/// `X-Content-Type-Options` replace what the server sends by itself.
const SINGLE_FIELDS: [&str; 12] = [
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Origin",
    "Access-Control-Max-Age",
    "Age",
    "Content-Disposition",
    "Content-Location",
    "Cross-Origin-Resource-Policy",
    "Expires",
    "Server",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
];

/// Bytes of all further fields of a site, names, separators and line ends included. Clients refuse heads that are much
/// longer.
pub(crate) const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// `headers`.
pub(super) struct Headers;

impl SiteKey for Headers {
    type Value = Vec<(String, String)>;

    fn judge(given: &SiteTable, _: &Range<usize>, headers: &mut Self::Value, checker: &mut Checker<'_>) {
        *headers = judge(&given.headers, checker);
    }

    /// Values of one name are brought together.
    fn render(headers: &Self::Value, page: &mut Page) {
        if !headers.is_empty() {
            page.table("[site.headers]");
        }
        for (index, (name, value)) in headers.iter().enumerate() {
            let is_same = |(other, _): &&(String, String)| other == name;
            if headers[..index].iter().any(|field| is_same(&field)) {
                continue;
            }
            let values: Vec<&String> = headers.iter().filter(is_same).map(|(_, value)| value).collect();
            match values.as_slice() {
                [_] => page.line(&quoted(name), quoted(value)),
                several => page.line(&quoted(name), list(several)),
            }
        }
    }
}

/// The schema of `headers`.
pub(super) fn schema() -> Value {
    json!({ "type": "object", "additionalProperties": several("") })
}

/// Fields in the order of the file.
fn judge(given: &BTreeMap<Text, Spanned<Texts>>, checker: &mut Checker<'_>) -> Vec<(String, String)> {
    let mut in_order: Vec<_> = given.iter().collect();
    in_order.sort_by_key(|(name, _)| name.span().start);
    let mut seen = BTreeSet::new();
    let mut headers = Vec::new();
    for (name, values) in in_order {
        field_name(name, FieldUse::Site, checker);
        checker.expect(
            seen.insert(name.get_ref().to_ascii_lowercase()),
            name,
            "is given twice: write its values as one list",
        );
        field_values(name, &values.get_ref().0, &values.span(), checker);
        headers.extend(values.get_ref().0.iter().map(|value| (name.get_ref().clone(), value.clone())));
    }
    let bytes = headers_bytes(&headers);
    if let (true, Some((first, _))) =
        (bytes > HEADERS_BYTES_MAX, given.iter().min_by_key(|(name, _)| name.span().start))
    {
        let most = format_size(HEADERS_BYTES_MAX as u64);
        checker
            .problem(first.span(), format!("the fields of this site have {bytes} bytes: at most {most} can be sent"));
    }
    headers
}

/// Where a field is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUse {
    /// It is sent with every answer of a site.
    Site,
    /// It is sent with answers of a route, which may say of what type its files are.
    Route,
    /// It is sent with one fixed answer, which may say what the server computes for others.
    Answer,
    /// It is looked for in requests.
    Request,
}

/// Fields that the server computes, and that a fixed answer may have.
const FIXED_FIELDS: [&str; 3] = ["Allow", "Content-Type", "Retry-After"];

fn is_among(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Whether a field has one value in an answer.
pub fn is_single(name: &str) -> bool {
    is_among(name, &SINGLE_FIELDS) || ["Content-Type", "Retry-After"].iter().any(|one| one.eq_ignore_ascii_case(name))
}

pub(crate) fn field_name(name: &Text, of: FieldUse, checker: &mut Checker<'_>) {
    if let Err(why) = check_field_name(name.get_ref(), of) {
        checker.expect(false, name, why);
    }
}

fn check_field_name(name: &str, of: FieldUse) -> Result<(), &'static str> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err("is not the name of a field: expected letters, digits and !#$%&'*+-.^_`|~");
    }
    let is_type_of_files = of == FieldUse::Route && name.eq_ignore_ascii_case("Content-Type");
    let is_fixed = of == FieldUse::Answer && is_among(name, &FIXED_FIELDS);
    if of != FieldUse::Request && is_among(name, &OWNED_FIELDS) && !is_type_of_files && !is_fixed {
        return Err("is computed by the server for each response and cannot be fixed");
    }
    Ok(())
}

/// The values of a field that is sent.
pub(crate) fn field_values(name: &Text, values: &[String], span: &Range<usize>, checker: &mut Checker<'_>) {
    if values.iter().any(|value| value.chars().any(char::is_control)) {
        checker.problem(span.clone(), "a field value must not contain control characters");
    }
    if values.len() > 1 && is_single(name.get_ref()) {
        checker.problem(span.clone(), format!("`{}` has one value: give one string", name.get_ref()));
    }
}

/// Whether a field can be sent as it is.
pub fn is_sendable(name: &str, value: &str, of: FieldUse) -> Result<(), &'static str> {
    check_field_name(name, of)?;
    if value.chars().any(char::is_control) { Err("has a control character in its value") } else { Ok(()) }
}

/// A field as in `X-Frame-Options: DENY`, judged as one of a file is.
///
/// # Errors
/// The fault of the text.
pub fn field_from_text(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE, as in X-Frame-Options: DENY")?;
    let (name, value) = (name.trim_end(), value.trim());
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err(format!("`{}` is not the name of a field", name.escape_debug()));
    }
    if is_among(name, &OWNED_FIELDS) {
        return Err(format!("`{name}` is computed by the server for each response and cannot be fixed"));
    }
    if value.chars().any(char::is_control) {
        return Err("a field value must not contain control characters".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Whether the fields of a site can be sent together: what is wrong if not, and what to do.
pub(crate) fn check_headers(headers: &[(String, String)]) -> Result<(), (String, String)> {
    let same = |name: &str| headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).count();
    if let Some(name) = SINGLE_FIELDS.iter().find(|name| same(name) > 1) {
        return Err((format!("`{name}` has one value, and is given several times"), "give it once".to_owned()));
    }
    let bytes = headers_bytes(headers);
    if bytes > HEADERS_BYTES_MAX {
        let most = format_size(HEADERS_BYTES_MAX as u64);
        let message = format!("the fields of a site have {bytes} bytes, and at most {most} can be sent");
        return Err((message, "leave some of them out".to_owned()));
    }
    Ok(())
}

fn headers_bytes(headers: &[(String, String)]) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len() + ": \r\n".len()).sum()
}
