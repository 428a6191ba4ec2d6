//! The collector of problems in a file, and the judgement of values that occur in more than one table.
//!
//! Owns: [`Checker`], [`Finding`], and what is known of entries that did not fit ([`Taken`]). Does not know tables.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use lamna_policy::size::parse_size;
use toml::Spanned;

use super::depth::{Depth, check_directory};
use super::gateway::GatewaySettings;
use super::suggest::nearest;
use super::unit::Unit;
use super::written::{Amount, Text};

/// A problem as validation finds it: with a span of bytes instead of a place.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) span: Option<Range<usize>>,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// A key whose value has been taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) key: String,
    /// The span of the table that it was in.
    pub(super) table: Range<usize>,
}

impl Taken {
    /// Whether it is this key of the table with this span, or was meant to be.
    pub(crate) fn is(&self, key: &str, table: &Range<usize>) -> bool {
        self.table == *table && nearest(&self.key, [key]).is_some()
    }
}

/// The depth of checks outside of the file, and the settings excepted because the command line overrides them.
#[derive(Clone, Debug)]
pub(super) struct EnvironmentChecks {
    pub(super) depth: Depth,
    /// Names of settings.
    pub(super) overridden: Vec<&'static str>,
}

impl EnvironmentChecks {
    /// At everything.
    pub(crate) fn all(depth: Depth) -> EnvironmentChecks {
        EnvironmentChecks { depth, overridden: Vec::new() }
    }
}

/// Collects problems, and judges what occurs in more than one table.
pub(super) struct Checker<'a> {
    pub(super) base: &'a Path,
    pub(super) taken: Vec<Taken>,
    pub(super) checks: EnvironmentChecks,
    /// The names of services, which filters of routes may be.
    pub(super) services: Vec<String>,
    /// The applications of the site at hand, which its routes may name; none for one that was refused.
    pub(super) applications: Vec<(String, Option<GatewaySettings>)>,
    /// Files whose content became settings.
    pub(crate) read_files: Vec<PathBuf>,
    pub(super) findings: Vec<Finding>,
}

impl Checker<'_> {
    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// How many problems have been found so far.
    pub(super) fn count_findings(&self) -> usize {
        self.findings.len()
    }

    /// Whether the table with this span has this key, with a value that did not fit and has been reported.
    pub(super) fn was_taken(&self, key: &str, table: &Range<usize>) -> bool {
        self.taken.iter().any(|taken| taken.is(key, table))
    }

    pub(super) fn problem(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.problem_with_hint(span, message, None);
    }

    pub(super) fn problem_with_hint(&mut self, span: Range<usize>, message: impl Into<String>, hint: Option<String>) {
        self.findings.push(Finding { span: Some(span), message: message.into(), hint });
    }

    /// Whether nothing outside of the text is looked at.
    pub(super) fn reads_only(&self) -> bool {
        matches!(self.checks.depth, Depth::Text)
    }

    /// The names of services.
    pub(crate) fn services(&self) -> &[String] {
        &self.services
    }

    /// The directory that relative paths are relative to.
    pub(crate) fn base(&self) -> &Path {
        self.base
    }

    /// Reports `text` unless `ok`, with what is expected of it.
    pub(crate) fn expect(&mut self, ok: bool, text: &Text, expectation: &str) {
        if !ok {
            let message = format!("`{}` {expectation}", text.get_ref().escape_debug());
            self.problem(text.span(), message);
        }
    }

    /// The path that a text means: absolute, relative texts being relative to the file's directory.
    pub(crate) fn path(&mut self, text: &Text) -> PathBuf {
        let ok = !text.get_ref().is_empty() && !text.get_ref().contains('\0');
        self.expect(ok, text, "is not a path");
        self.beside(Path::new(text.get_ref()))
    }

    /// The place that a path of the file names: a relative one is beside the file.
    pub(crate) fn beside(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    /// A directory that must exist.
    pub(crate) fn directory(&mut self, text: &Text) -> PathBuf {
        let path = self.path(text);
        if !self.reads_only()
            && let Err(message) = check_directory(&path)
        {
            self.problem(text.span(), message);
        }
        path
    }

    /// A number within bounds, or none, which has been reported.
    pub(super) fn amount(
        &mut self,
        key: &str,
        given: &Spanned<Amount>,
        unit: Unit,
        bounds: &RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = match given.get_ref() {
            // A negative number is out of any bounds that there are, and reported as such.
            Amount::Number(number) => u64::try_from(*number).ok(),
            Amount::Text(text) if unit == Unit::Bytes => match parse_size(text) {
                Ok(bytes) => Some(bytes),
                Err(message) => {
                    let message = format!("`{key}`: `{}` {message}", text.escape_debug());
                    self.problem(given.span(), message);
                    return None;
                }
            },
            Amount::Text(_) => {
                let what = match unit {
                    Unit::Milliseconds => " of milliseconds",
                    Unit::Seconds => " of seconds",
                    Unit::Count | Unit::Bytes | Unit::Percent => "",
                };
                let message = format!("`{key}` must be a whole number{what}, without quotation marks");
                self.problem(given.span(), message);
                return None;
            }
        };
        let within = value.filter(|value| bounds.contains(value));
        if within.is_none() {
            let (least, most) = (in_unit(*bounds.start(), unit), in_unit(*bounds.end(), unit));
            let message = format!("`{key}` must be between {least} and {most}");
            self.problem(given.span(), message);
        }
        within
    }

    /// A value of a type that has a text form.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&mut self, text: &Text) -> Option<T> {
        let parsed = text.get_ref().parse();
        parsed.map_err(|why| self.problem(text.span(), format!("`{}` {why}", text.get_ref().escape_debug()))).ok()
    }
}

/// A number as messages have it.
fn in_unit(value: u64, unit: Unit) -> String {
    let sign = match unit {
        Unit::Milliseconds => " ms",
        Unit::Seconds => " s",
        Unit::Count | Unit::Bytes | Unit::Percent => "",
    };
    unit.show(value) + sign
}
