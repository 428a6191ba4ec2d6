//! TOML as text: lines, the beginnings of tables, strings and lists.
//!
//! Owns: how values are quoted. Does not know keys.

use std::fmt::Write;
use std::path::Path;

use lamna_policy::size::format_size;

/// The text so far, written line by line.
#[derive(Default)]
pub(crate) struct Page {
    text: String,
}

impl Page {
    pub(crate) fn line(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.text, "{key} = {value}").expect("writing to a string does not fail");
    }

    pub(crate) fn table(&mut self, header: &str) {
        writeln!(self.text, "\n{header}").expect("writing to a string does not fail");
    }

    /// Adds text as it is.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// All of it.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// A number of bytes, in the largest unit that divides it.
pub(crate) fn bytes(value: u64) -> String {
    let text = format_size(value);
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { quoted(&text) }
}

/// A path as a string.
pub(crate) fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A list of strings.
pub(crate) fn list(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

/// A basic string, which can be a key as well as a value (TOML 1.0, String).
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                write!(quoted, "\\u{:04X}", control as u32).expect("writing to a string does not fail");
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
