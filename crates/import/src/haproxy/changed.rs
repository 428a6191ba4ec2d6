//! Parts of a request that earlier rules of HAProxy change.
//!
//! Owns: what a rule changes ([`Changed`]), and what a later condition about that is worth here: a route looks at the
//! request as the client has sent it. Guarantees: such a condition is never taken for true or false. Pure.

use super::acl::{Condition, Conjunction};
use super::syntax::Line;
use crate::matching::{Test, Unsaid};

/// The parts of a request that have been changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed {
    /// Names of fields in small letters.
    fields: Vec<String>,
    is_any_field: bool,
    is_path: bool,
    is_query: bool,
    is_method: bool,
    is_client: bool,
}

impl Changed {
    /// Takes over what a rule changes, for some requests or for all.
    pub(super) fn by(&mut self, line: &Line) {
        let has_pattern = line.words.iter().any(|word| word == "-m");
        match (line.word(0), line.word(1)) {
            ("http-request", "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value") => {
                self.fields.push(line.word(2).to_ascii_lowercase());
                self.is_any_field |= has_pattern;
            }
            ("http-request", "set-path" | "replace-path") => self.is_path = true,
            ("http-request", "set-pathq" | "replace-pathq") => (self.is_path, self.is_query) = (true, true),
            ("http-request", "set-uri" | "replace-uri") => {
                (self.is_path, self.is_query) = (true, true);
                self.fields.push("host".to_owned());
            }
            ("http-request", "set-query" | "replace-query") => self.is_query = true,
            ("http-request", "set-method") => self.is_method = true,
            ("http-request", "set-src") => self.is_client = true,
            ("tcp-request", _) => self.is_client |= line.words.iter().any(|word| word == "set-src"),
            // They are about lines of the head, the first of which is the request line.
            ("reqadd" | "reqdel" | "reqidel", _) => self.is_any_field = true,
            ("reqrep" | "reqirep", _) => {
                (self.is_any_field, self.is_path, self.is_query, self.is_method) = (true, true, true, true);
            }
            _ => {}
        }
    }

    /// A condition that is asked after that.
    pub(super) fn settle(&self, condition: Condition) -> Condition {
        condition.into_iter().map(|one| self.of_conjunction(one)).collect()
    }

    fn of_conjunction(&self, mut conjunction: Conjunction) -> Conjunction {
        for (test, _) in &mut conjunction.literals {
            match &mut *test {
                Test::Unsaid(unsaid) => {
                    let is_meant = |bound: &Option<Box<Test>>| bound.as_ref().is_some_and(|bound| self.is_of(bound));
                    if is_meant(&unsaid.at_least) || is_meant(&unsaid.at_most) {
                        (unsaid.at_least, unsaid.at_most) = (None, None);
                    }
                }
                said if self.is_of(said) => {
                    let why = "an earlier rule changes what it asks for, and here it is asked for as it was sent";
                    *test = Test::Unsaid(Unsaid::of_request(why));
                }
                _ => {}
            }
        }
        conjunction
    }

    /// Whether a test looks at something that is changed.
    fn is_of(&self, test: &Test) -> bool {
        let is_field = |name: &str| self.is_any_field || self.fields.iter().any(|one| one.eq_ignore_ascii_case(name));
        match test {
            Test::Path(_) => self.is_path,
            Test::Host(_) => is_field("host"),
            Test::Method(_) => self.is_method,
            Test::Client(_) => self.is_client,
            Test::Header(name, _) => is_field(name),
            Test::Query(..) => self.is_query,
            Test::Always | Test::Never | Test::Tls | Test::Unsaid(_) => false,
        }
    }
}
