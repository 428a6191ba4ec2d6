//! Reports of faults in a configuration, worded so that they can be put right: place, fault and probable intention.
//!
//! ```text
//! lamna.toml:3:1: unknown key `rot`
//!   |
//! 3 | rot = "/srv/www"
//!   | ^^^ did you mean `root`?
//! ```
//!
//! Owns: positions, carets and the translation of the TOML reader's words. Decides nothing about values.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use super::checker::Finding;
use super::file::KEYS;
use super::foreign;
use super::suggest::nearest;

/// Why there are no settings. Its display is the whole report, without a newline at the end.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Read {
        /// The file as it was named.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A directory to serve was given beside a file that has sites of its own.
    DirectoryAndSites {
        /// The directory.
        directory: PathBuf,
        /// The file as it was named.
        file: PathBuf,
    },
    /// The file or the command line says something that does not make sense.
    Invalid {
        /// The file as it was named; none if the problems are the command line's.
        file: Option<PathBuf>,
        /// At least one, in the order of the file.
        problems: Vec<Problem>,
    },
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where; none if it is something that is missing altogether.
    pub place: Option<Place>,
    /// The fault, on one line.
    pub message: String,
    /// The advice, on one line.
    pub hint: Option<String>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// Characters that are meant, on this line only. At least 1.
    pub width: usize,
    /// The line, without its end.
    pub source: String,
}

impl Finding {
    /// Turns spans of `source` into places.
    pub(super) fn located(self, source: &str) -> Problem {
        Problem { place: self.span.map(|span| place(source, span)), message: self.message, hint: self.hint }
    }

    /// Says what the TOML reader says, in the words of this configuration.
    pub(super) fn of_reader(message: &str, span: Option<Range<usize>>) -> Finding {
        let (message, hint) = translate(message);
        Finding { span, message, hint }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Read { file, error } => {
                write!(formatter, "{}: cannot be read: {error}", file.display())
            }
            ConfigError::DirectoryAndSites { directory, file } => write!(
                formatter,
                "{} has sites of its own, so the directory `{}` would not be served: leave one of them out",
                file.display(),
                directory.display()
            ),
            ConfigError::Invalid { file, problems } => {
                let file = file.as_ref().map(|file| file.display().to_string());
                for (index, problem) in problems.iter().enumerate() {
                    formatter.write_str(if index == 0 { "" } else { "\n" })?;
                    problem.write(file.as_deref(), formatter)?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Problem {
    fn write(&self, file: Option<&str>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = file {
            write!(formatter, "{file}:")?;
        }
        if let Some(place) = &self.place {
            write!(formatter, "{}:{}:", place.line, place.column)?;
        }
        let space = if file.is_some() || self.place.is_some() { " " } else { "" };
        let message: String = self.message.chars().map(printable).collect();
        write!(formatter, "{space}{message}")?;
        match (&self.place, &self.hint) {
            (Some(place), hint) => place.write(hint.as_deref(), formatter),
            (None, Some(hint)) => write!(formatter, "\n  {hint}"),
            (None, None) => Ok(()),
        }
    }
}

impl Place {
    fn write(&self, hint: Option<&str>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // A tab stays a tab, so that the caret stands below what it means whatever the terminal's tab stops.
        let indent: String =
            self.source.chars().take(self.column - 1).map(|each| if each == '\t' { '\t' } else { ' ' }).collect();
        let carets = "^".repeat(self.width);
        let line = format!("{number} | {}", self.source);
        write!(formatter, "\n{margin} |\n{}\n{margin} | {indent}{carets}", line.trim_end())?;
        match hint {
            Some(hint) => write!(formatter, " {hint}"),
            None => Ok(()),
        }
    }
}

/// The place of a span. A span that ends beyond its first line is cut there; one beyond the source is at its end.
fn place(source: &str, span: Range<usize>) -> Place {
    let start = floor_char_boundary(source, span.start);
    let end = floor_char_boundary(source, span.end).max(start);
    let line_start = source[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = source[start..].find('\n').map_or(source.len(), |length| start + length);
    let line = source[line_start..line_end].trim_end_matches('\r');
    Place {
        line: source[..line_start].matches('\n').count() + 1,
        column: source[line_start..start].chars().count() + 1,
        width: source[start..end.min(line_end)].trim_end().chars().count().max(1),
        source: line.chars().map(printable).collect(),
    }
}

/// A file must not be able to steer the terminal that shows what is wrong with it.
fn printable(character: char) -> char {
    match character {
        '\t' => '\t',
        control if control.is_control() => char::REPLACEMENT_CHARACTER,
        other => other,
    }
}

fn floor_char_boundary(source: &str, index: usize) -> usize {
    let index = index.min(source.len());
    (0..=index).rev().find(|index| source.is_char_boundary(*index)).unwrap_or(0)
}

/// Message and hint for a message of the TOML reader. Its wordings are recognized, not relied on: any other is passed
/// on.
fn translate(message: &str) -> (String, Option<String>) {
    if let Some((key, known)) = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) {
        // The names of the known keys are what stands between pairs of backquotes.
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        return (format!("unknown key `{}`", key.escape_debug()), Some(key_hint(key, &known)));
    }
    if let Some(key) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return (format!("`{key}` is missing"), None);
    }
    let number =
        message.strip_prefix("invalid type: integer `").and_then(|rest| rest.split_once("`, expected a string"));
    let number = number.filter(|(_, rest)| rest.is_empty() || rest.ends_with("`address`")).map(|(number, _)| number);
    if let Some(number) = number {
        return (format!("`{number}` is a number, and a text is expected"), Some(format!("write \"{number}\"")));
    }
    if message == "invalid type: map, expected a sequence" {
        return (
            "expected a list of tables".into(),
            Some("write the name in two pairs of brackets, as in [[site]]".into()),
        );
    }
    let message = message
        .replace("expected a sequence", "expected a list, as in [\"a\", \"b\"]")
        .replace("expected a map", "expected a table")
        .replace('\n', "; ");
    (message, None)
}

/// The hint for a key that is not known in its table: the words for a key of another server, the known key that was
/// probably meant, or the table of the key.
pub(super) fn key_hint(key: &str, known: &[&str]) -> String {
    let is_ours = KEYS.iter().any(|(_, keys)| keys.contains(&key));
    if let Some(advice) = foreign::advice(key).filter(|_| !is_ours) {
        return advice.to_owned();
    }
    if let Some(near) = nearest(key, known.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    match KEYS.iter().find(|(_, keys)| keys.contains(&key)) {
        Some((place, _)) => format!("`{key}` belongs {place}"),
        None => format!("known here: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report(source: &str, span: Range<usize>, hint: Option<&str>) -> String {
        let finding = Finding { span: Some(span), message: "wrong".into(), hint: hint.map(str::to_owned) };
        ConfigError::Invalid { file: Some("a.toml".into()), problems: vec![finding.located(source)] }.to_string()
    }

    #[test]
    fn a_report_shows_the_line_with_a_caret_below() {
        assert_eq!(
            report("one = 1\ntwo = 22\n", 14..16, Some("so")),
            "a.toml:2:7: wrong\n  |\n2 | two = 22\n  |       ^^ so"
        );
    }

    #[test]
    fn columns_count_characters_and_tabs_stay() {
        assert_eq!(report("é\t= x", 5..6, None), "a.toml:1:5: wrong\n  |\n1 | é\t= x\n  |  \t  ^");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert!(!report("a = \u{1b}[2J", 4..5, None).contains('\u{1b}'));
        let problem = Problem { place: None, message: "the directory `\u{1b}[2J` does not exist".into(), hint: None };
        let error = ConfigError::Invalid { file: None, problems: vec![problem] };
        assert!(!error.to_string().contains('\u{1b}'));
    }

    #[test]
    fn a_place_at_the_end_of_the_file_is_shown() {
        assert_eq!(report("x", 1..1, None), "a.toml:1:2: wrong\n  |\n1 | x\n  |  ^");
    }

    #[test]
    fn a_key_of_another_table_is_sent_there() {
        assert_eq!(key_hint("rot", &["root", "index"]), "did you mean `root`?");
        assert!(key_hint("workers", &["root", "index"]).contains("at the top of the file"));
        assert_eq!(key_hint("qqq", &["root", "index"]), "known here: root, index");
        assert!(key_hint("proxy_pass", &["root", "proxy"]).contains("`proxy` on a route"));
    }

    proptest! {
        #[test]
        fn any_span_of_any_source_has_a_place(source in "[a\u{e9}\t\r\n]{0,30}", start in 0usize..40, length in 0usize..40) {
            let place = place(&source, start..start + length);
            prop_assert!(place.line >= 1 && place.column >= 1 && place.width >= 1);
            prop_assert!(place.line <= source.matches('\n').count() + 1);
        }

        #[test]
        fn no_message_panics(message in "(unknown field `)?.{0,30}") {
            let _ = translate(&message);
        }
    }
}
