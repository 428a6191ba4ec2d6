//! From settings back to a configuration file: what `lamna check` shows.
//!
//! Guarantees that the text loads to the same settings, for settings that were loaded. Not for others: paths that are
//! not UTF-8 cannot be written in TOML and are written lossily, and of a field given several times the values are
//! brought together.

use std::fmt::Write;
use std::path::Path;

use lamna_proto::limits::Limits;

use super::limits::{ROWS, Unit};
use super::settings::{LogTarget, Settings, SiteSettings};
use super::size::format_size;

/// The settings as TOML, defaults included.
pub fn render(settings: &Settings) -> String {
    let mut page = Page::default();
    let addresses = settings.listen.iter().map(ToString::to_string);
    page.line("listen", list(addresses));
    page.line("arch", quoted(settings.architecture.name()));
    page.line("workers", settings.workers);
    page.line("helpers_max", settings.helpers_max);
    page.line("cache_bytes", bytes(settings.cache_bytes_max));
    page.line("log", log_target(&settings.log));
    page.line("log_format", quoted(settings.log_format.name()));
    limits(&settings.limits, &mut page);
    for each in &settings.sites {
        site(each, &mut page);
    }
    page.text
}

/// The text so far, written line by line.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.text, "{key} = {value}").expect("writing to a string does not fail");
    }

    fn table(&mut self, header: &str) {
        writeln!(self.text, "\n{header}").expect("writing to a string does not fail");
    }
}

fn limits(limits: &Limits, page: &mut Page) {
    page.table("[limits]");
    for row in &ROWS {
        let value = (row.read)(limits);
        match row.unit {
            Unit::Bytes => page.line(row.name, bytes(value)),
            Unit::Count | Unit::Milliseconds => page.line(row.name, value),
        }
    }
}

fn site(site: &SiteSettings, page: &mut Page) {
    page.table("[[site]]");
    if !site.hosts.is_empty() {
        page.line("hosts", list(&site.hosts));
    }
    page.line("root", path(&site.root));
    page.line("index", list(&site.index));
    page.line("browse", site.browse);
    page.line("spa", site.spa);
    if let Some(directory) = &site.user_directory {
        page.line("user_directory", quoted(directory));
    }
    headers(&site.headers, page);
    if !site.error_pages.is_empty() {
        page.table("[site.error_pages]");
    }
    for (status, target) in &site.error_pages {
        page.line(&quoted(&status.to_string()), quoted(target));
    }
    for redirect in &site.redirects {
        page.table("[[site.redirect]]");
        page.line("from", quoted(&redirect.from));
        page.line("to", quoted(&redirect.to));
        page.line("status", redirect.status);
    }
    for alias in &site.aliases {
        page.table("[[site.alias]]");
        page.line("prefix", quoted(&alias.prefix));
        page.line("root", path(&alias.root));
    }
}

fn headers(headers: &[(String, String)], page: &mut Page) {
    if !headers.is_empty() {
        page.table("[site.headers]");
    }
    for (index, (name, value)) in headers.iter().enumerate() {
        let is_same = |(other, _): &&(String, String)| other == name;
        if headers[..index].iter().any(|field| is_same(&field)) {
            continue;
        }
        let values: Vec<&String> = headers
            .iter()
            .filter(is_same)
            .map(|(_, value)| value)
            .collect();
        match values.as_slice() {
            [_] => page.line(&quoted(name), quoted(value)),
            several => page.line(&quoted(name), list(several)),
        }
    }
}

/// A number of bytes, in the largest unit that divides it.
fn bytes(value: u64) -> String {
    let text = format_size(value);
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text
    } else {
        quoted(&text)
    }
}

fn log_target(log: &LogTarget) -> String {
    match log {
        LogTarget::Off => quoted("off"),
        LogTarget::Stdout => quoted("-"),
        LogTarget::File(file) => path(file),
    }
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn list(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let texts: Vec<String> = texts
        .into_iter()
        .map(|text| quoted(text.as_ref()))
        .collect();
    format!("[{}]", texts.join(", "))
}

/// A basic string, which can be a key as well as a value (TOML 1.0, String).
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                write!(quoted, "\\u{:04X}", control as u32)
                    .expect("writing to a string does not fail");
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
