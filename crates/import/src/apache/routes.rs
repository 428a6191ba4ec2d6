//! The routes of a site of Apache while they are being made.
//!
//! Owns: their priorities, in the order in which Apache asks: rewriting, redirects, applications, sections. Guarantees:
//! no two routes have the same priority; what cannot be said is refused to more where it restricts.

use lamna_config::render::quoted;

use super::syntax::Directive;
use crate::matching::{self, Literal, Test};
use crate::{DENIED_WORDS, Draft, Route};

/// The order in which routes count: the first is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    Rewrite,
    /// Rules of a folder that look for another file: its other rules are carried out for that as well.
    Inner,
    Redirect,
    Proxy,
    /// The later one of two counts.
    Section,
    Whole,
}

#[derive(Debug, Default)]
pub(super) struct Routes {
    pub(super) all: Vec<Route>,
    /// The value of `fastcgi`, where scripts are run.
    pub(super) fastcgi: Option<String>,
}

impl Routes {
    /// A route with these keys.
    pub(super) fn push(&mut self, strength: Strength, line: usize, matches: String, keys: Vec<(&'static str, String)>) {
        let count = i32::try_from(self.all.len()).unwrap_or(0);
        let priority = match strength {
            Strength::Rewrite => 80_000 - count,
            Strength::Inner => 70_000 - count,
            Strength::Redirect => 60_000 - count,
            Strength::Proxy => 40_000 - count,
            Strength::Section => 5_000 + count,
            Strength::Whole => -count,
        };
        let first = [("match", matches), ("priority", priority.to_string())];
        self.all.push(Route { line, keys: first.into_iter().chain(keys).collect() });
    }

    /// A route for requests that fit. What cannot be said is for more where it restricts, and answered with 404 where
    /// something else than the file at the path answers.
    pub(super) fn emit(
        &mut self,
        strength: Strength,
        line: &Directive,
        all: &[Literal],
        keys: Vec<(&'static str, String)>,
        restricts: bool,
        draft: &mut Draft,
    ) {
        match matching::said(all) {
            Ok(None) => {}
            Ok(Some(matches)) => self.push(strength, line.line, matches, keys),
            Err(why) => {
                let Some(wider) = matching::wider(all) else { return };
                let keys = if restricts { keys } else { vec![("respond", "404".to_owned())] };
                let what = if restricts { "it is for more requests" } else { DENIED_WORDS };
                draft.lose(line.line, format!("`{}`: {}; {what}, for {wider}", line.text(), why.why));
                self.push(strength, line.line, wider, keys);
            }
        }
    }

    /// A redirect for requests that fit. One whose condition cannot be said is left out, or has those who it may be for
    /// answered with 404 where it is about who they are.
    pub(super) fn lead(
        &mut self,
        strength: Strength,
        line: &Directive,
        all: &[Literal],
        value: String,
        to: &str,
        draft: &mut Draft,
    ) {
        let sample = to.replace("$path", "/x").replace("$1", "x").replace("$2", "x").replace("$3", "x");
        let goes_round = to.starts_with('/')
            && all.iter().all(|(test, is_not)| match test {
                Test::Path(paths) => paths.iter().any(|path| path.fits(&sample)) != *is_not,
                Test::Always => !*is_not,
                _ => false,
            });
        if goes_round {
            return draft.lose(line.line, format!("`{}`: it leads to a path that it is for again", line.text()));
        }
        match matching::said(all) {
            Ok(None) => {}
            Ok(Some(matches)) => self.push(strength, line.line, matches, vec![("redirect", value)]),
            Err(why) if !why.is_of_request => draft.lose(line.line, format!("`{}`: {}", line.text(), why.why)),
            Err(why) => {
                let Some(wider) = matching::wider(all) else { return };
                draft.lose(line.line, format!("`{}`: {}; {DENIED_WORDS}, for {wider}", line.text(), why.why));
                self.push(strength, line.line, wider, vec![("respond", "404".to_owned())]);
            }
        }
    }

    /// Nothing is there for paths that fit an expression, whatever else is said.
    pub(super) fn refuse(&mut self, line: usize, regex: &str) {
        let keys =
            [("match", format!("{{ regex = {} }}", quoted(regex))), ("priority", crate::DENIED_PRIORITY.to_owned())];
        self.all.push(Route { line, keys: keys.into_iter().chain(crate::denied()).collect() });
    }
}
