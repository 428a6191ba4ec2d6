//! The access log of a site: `log` and `log_format`.
//!
//! Owns: their judgement. Looks whether a file can be written, where the checker looks at anything.

use std::ops::Range;

use super::SiteTable;
use super::row::SiteKey;
use crate::access_log::{LogFormat, LogTarget};
use crate::checker::Checker;
use crate::environment::check_log;
use crate::page::{Page, quoted};
use crate::written::Text;

/// `log`.
pub(super) struct Log;

impl SiteKey for Log {
    type Value = Option<LogTarget>;

    fn judge(given: &SiteTable, _: &Range<usize>, log: &mut Option<LogTarget>, checker: &mut Checker<'_>) {
        *log = given.log.as_ref().map(|text| log_target(text, checker));
    }

    fn render(log: &Option<LogTarget>, page: &mut Page) {
        if let Some(log) = log {
            page.line("log", quoted(&log.text()));
        }
    }
}

/// The place that lines go to, of a site or of a route.
pub(crate) fn log_target(text: &Text, checker: &mut Checker<'_>) -> LogTarget {
    let target = match LogTarget::from_text(text.get_ref()) {
        LogTarget::File(_) => LogTarget::File(checker.path(text)),
        other => other,
    };
    if !checker.reads_only()
        && let Err((message, hint)) = check_log(&target, checker.checks.depth)
    {
        checker.problem_with_hint(text.span(), message, Some(hint));
    }
    target
}

/// `log_format`.
pub(super) struct Format;

impl SiteKey for Format {
    type Value = Option<LogFormat>;

    fn judge(given: &SiteTable, _: &Range<usize>, format: &mut Option<LogFormat>, checker: &mut Checker<'_>) {
        let Some(text) = &given.log_format else { return };
        match LogFormat::from_text(text.get_ref()) {
            Ok(found) => *format = Some(found),
            Err(why) => checker.expect(false, text, &why),
        }
    }

    fn render(format: &Option<LogFormat>, page: &mut Page) {
        if let Some(format) = format {
            page.line("log_format", quoted(format.text()));
        }
    }
}
