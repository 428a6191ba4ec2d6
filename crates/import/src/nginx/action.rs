//! Where the answers of a block of nginx come from.
//!
//! Owns: the [`Action`] of a block, as far as its directives have been read. Reads none itself.

use super::PASSED_WORDS;
use crate::{Draft, is_program};

/// Where answers of a block come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Action {
    /// The value of `redirect`.
    pub(super) redirect: Option<String>,
    /// The value of `respond`.
    pub(super) respond: Option<String>,
    pub(super) tried: Option<Vec<String>>,
    pub(super) is_denied: bool,
    /// Files alone are tried: a folder is none, whatever is in it.
    pub(super) tries_files_alone: bool,
    /// Its scripts are run for clients that come to them by another path, and for none that asks for them.
    pub(super) is_internal: bool,
    /// Its scripts are run for paths that go on behind them, and those of another location are not.
    pub(super) goes_on_behind_scripts: bool,
    /// The value of `access`.
    pub(super) access: Option<String>,
    /// The key by which an application answers, and its value.
    pub(super) gateway: Option<(&'static str, String)>,
    /// The expression of a location in a narrower form, for which its scripts are run. What else fits it is not served.
    pub(super) narrowed: Option<String>,
    /// `rewrite` or `redirect` for all of its paths.
    pub(super) rewrite: Option<(&'static str, String)>,
    /// Scripts that are tried: line, directive, and what is tried.
    pub(super) programs: Vec<(usize, String, String)>,
    /// Requests that it leads elsewhere, and where to: line and directive, keys of `match`, and what is done.
    pub(super) turned: Vec<Turned>,
}

pub(super) type Turned = (usize, String, Vec<String>, (&'static str, String));

impl Action {
    /// Whether it keeps from some what is there.
    pub(super) fn restricts(&self) -> bool {
        let is_fixed = self.redirect.is_some() || self.respond.is_some();
        self.is_denied || self.is_internal || self.access.is_some() || is_fixed
    }

    /// Whether no file of a folder is looked for.
    pub(super) fn is_answered(&self) -> bool {
        self.is_denied || self.redirect.is_some() || self.respond.is_some() || self.gateway.is_some()
    }

    /// Whether files are looked for, and no folders.
    pub(super) fn is_of_files_alone(&self) -> bool {
        self.tries_files_alone && self.tried.is_some()
    }

    /// No program runs scripts: none is tried, or it would be sent. A location that tries one is denied, because its
    /// other files are meant only where there is no script.
    pub(super) fn forget_programs(&mut self, draft: &mut Draft) {
        self.is_denied |= self.tried.iter().flatten().next().is_some_and(|path| is_program(path));
        for (line, text, word) in self.programs.drain(..) {
            draft.lose(line, format!("`{word}` of `{text}`: {PASSED_WORDS}"));
        }
        self.tried.iter_mut().for_each(|tried| tried.retain(|path| !is_program(path)));
    }
}
