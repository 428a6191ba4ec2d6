//! Fields of answers and requests, types and ages of files of Apache.
//!
//! Owns: `Header`, `RequestHeader`, `Expires…`, `AddType` and `ErrorDocument` as keys of routes.

use lamna_config::route::request_fields::{objection, value as judged};
use lamna_config::site::{FieldUse, is_sendable, is_single};

use super::syntax::Directive;
use crate::Draft;
use crate::haproxy::fields::{Change, Does};
use crate::told::is_believed;

/// The change that `Header` or `RequestHeader` makes. None if it is none, which is told.
pub(super) fn change(directive: &Directive, draft: &mut Draft) -> Option<Change> {
    let text = directive.text();
    let is_of_request = directive.name == "requestheader";
    let mut words: Vec<&str> = directive.arguments().iter().map(String::as_str).collect();
    if words.first().is_some_and(|word| word.eq_ignore_ascii_case("always") || word.eq_ignore_ascii_case("onsuccess")) {
        words.remove(0);
    }
    let (verb, name) = (words.first()?.to_ascii_lowercase(), (*words.get(1)?).trim_end_matches(':'));
    let is_removal = verb == "unset";
    let value = if is_removal { "" } else { words.get(2).copied().unwrap_or_default() };
    let more = words.get(if is_removal { 2 } else { 3 }).copied().unwrap_or_default();
    let has_condition = more.starts_with("env=") || more.starts_with("expr=") || more.starts_with("early");
    let made = |does| Some(Change { is_of_request, name: name.to_owned(), does });
    let is_plain = !value.contains('%') && !value.contains("${");
    let why = if is_of_request {
        if ["X-Forwarded-Proto", "X-Forwarded-For", "X-Forwarded-Host", "X-Request-Id", "Forwarded", "Via"]
            .iter()
            .any(|one| one.eq_ignore_ascii_case(name))
        {
            draft.need_not(
                directive.line,
                format!("`{text}`: the server writes this field itself, from what it knows of the request"),
            );
            return None;
        }
        let template = match value {
            "%{REMOTE_ADDR}s" | "expr=%{REMOTE_ADDR}" => Some("${client}".to_owned()),
            "%{REQUEST_SCHEME}s" | "expr=%{REQUEST_SCHEME}" => Some("${scheme}".to_owned()),
            "%{REMOTE_USER}s" | "expr=%{REMOTE_USER}" | "%{REMOTE_USER}e" => Some("${user}".to_owned()),
            _ => is_plain.then(|| value.replace('$', "$$")),
        };
        let template = template.filter(|text| judged(text, &[]).is_ok() && !has_condition);
        match (objection(name), &*verb, template) {
            (Some(why), ..) => why,
            (None, "unset", _) if !has_condition || is_believed(name) => return made(Does::Remove),
            (None, "set" | "setifempty", Some(value)) => return made(Does::Set(value)),
            (None, "add" | "append" | "merge", Some(value)) => return made(Does::Add(value)),
            _ if is_believed(name) => {
                let why = "its value cannot be said here: an application is sent no such field, neither by this server nor by a client";
                draft.lose(directive.line, format!("`{text}`: {why}"));
                return made(Does::Remove);
            }
            _ => "its value cannot be said here",
        }
    } else {
        match (&*verb, is_sendable(name, value, FieldUse::Route)) {
            _ if has_condition => "it is for some answers only, which is not asked",
            (_, Err(why)) => why,
            ("unset", _) if name.eq_ignore_ascii_case("Server") => {
                "the server names itself in it, and it is not removed"
            }
            ("unset", Ok(())) => return made(Does::Remove),
            _ if !is_plain => "its value is made of something that answers are not given",
            ("set" | "setifempty", Ok(())) => return made(Does::Set(value.to_owned())),
            ("add" | "append" | "merge", Ok(())) if is_single(name) => return made(Does::Set(value.to_owned())),
            ("add" | "append" | "merge", Ok(())) => return made(Does::Add(value.to_owned())),
            _ => "fields are set, added and removed",
        }
    };
    draft.lose(directive.line, format!("`{text}`: {why}"));
    None
}

/// Seconds that an age of `mod_expires` means.
pub(super) fn seconds(text: &str) -> Option<u64> {
    if let Some(Ok(seconds)) = text.strip_prefix(['A', 'a']).map(str::parse) {
        return Some(seconds);
    }
    let rest = text.strip_prefix("access").or(text.strip_prefix("now"))?.trim();
    let rest = rest.strip_prefix("plus").unwrap_or(rest).trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let mut all = 0u64;
    for pair in words.chunks(2) {
        let [number, unit] = pair else { return None };
        let unit = match unit.trim_end_matches('s') {
            "second" => 1,
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            "week" => 604_800,
            "month" => 2_592_000,
            "year" => 31_536_000,
            _ => return None,
        };
        all = all.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
    }
    Some(all)
}

/// Endings of the files of a type.
pub(super) fn endings(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind.trim_end_matches(';') {
        "text/html" => &["html", "htm"],
        "text/css" => &["css"],
        "text/javascript" | "application/javascript" | "application/x-javascript" => &["js", "mjs"],
        "application/json" => &["json"],
        "text/xml" | "application/xml" => &["xml"],
        "text/plain" => &["txt"],
        "image/jpg" | "image/jpeg" => &["jpg", "jpeg"],
        "image/png" => &["png"],
        "image/gif" => &["gif"],
        "image/webp" => &["webp"],
        "image/avif" => &["avif"],
        "image/svg+xml" => &["svg"],
        "image/x-icon" | "image/vnd.microsoft.icon" | "image/ico" | "image/icon" => &["ico"],
        "font/woff2" | "application/font-woff2" => &["woff2"],
        "font/woff" | "application/font-woff" | "application/x-font-woff" => &["woff"],
        "font/ttf" | "application/x-font-ttf" | "font/truetype" => &["ttf"],
        "font/otf" | "font/opentype" => &["otf"],
        "application/vnd.ms-fontobject" => &["eot"],
        "application/pdf" => &["pdf"],
        "video/mp4" => &["mp4"],
        "video/webm" => &["webm"],
        "video/ogg" => &["ogv"],
        "audio/ogg" => &["ogg"],
        "audio/mpeg" => &["mp3"],
        "application/manifest+json" => &["webmanifest"],
        "application/rss+xml" => &["rss"],
        "application/atom+xml" => &["atom"],
        _ => return None,
    })
}
