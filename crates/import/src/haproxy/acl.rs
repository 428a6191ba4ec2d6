//! Access lists of HAProxy and conditions made of them.
//!
//! Owns: what `acl`, `if`, `unless`, `or` and `!` make of tests. Guarantees: what cannot be asked of a request is said
//! to be so ([`Test::Unsaid`]), and is never taken for true or false. `fetch` has the tests themselves.

use std::collections::BTreeMap;

use super::fetch::test;
use super::syntax::Line;
use crate::matching::{Literal, Test, Unsaid};
use crate::{Draft, ReadFile};

/// The tests by their names: one of them has to fit.
#[derive(Clone, Debug, Default)]
pub(super) struct Acls {
    by_name: BTreeMap<String, Vec<One>>,
}

/// A test of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum One {
    Test(Test),
    Not(Test),
    /// A password of this list, of users in one of these groups if some are named.
    Users(String, Vec<String>),
}

/// Some conditions that all have to fit, and the passwords that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conjunction {
    pub(super) literals: Vec<Literal>,
    /// The list, its groups, and whether it applies to those without such a password.
    pub(super) users: Vec<(String, Vec<String>, bool)>,
}

/// Conditions of which one has to fit.
pub(super) type Condition = Vec<Conjunction>;

/// Conditions of one line, beyond which it is not understood.
const CONJUNCTIONS_MAX: usize = 48;

impl Acls {
    /// Takes over a definition.
    pub(super) fn define(&mut self, line: &Line, read: ReadFile<'_>, draft: &mut Draft) {
        let one = test(&line.words[line.words.len().min(2)..], read);
        if let One::Test(Test::Unsaid(Unsaid { why, .. })) | One::Not(Test::Unsaid(Unsaid { why, .. })) = &one {
            draft.lose(line.line, format!("`{}`: {why}", line.text()));
        }
        self.by_name.entry(line.word(1).to_owned()).or_default().push(one);
    }

    fn named(&self, name: &str) -> Vec<One> {
        if let Some(found) = self.by_name.get(name) {
            return found.clone();
        }
        let methods =
            |names: &[&str]| vec![One::Test(Test::Method(names.iter().map(|one| (*one).to_owned()).collect()))];
        match name {
            "TRUE" => vec![One::Test(Test::Always)],
            "FALSE" => vec![One::Test(Test::Never)],
            "HTTP" | "HTTP_URL_SLASH" | "WAIT_END" => vec![One::Test(Test::Always)],
            "LOCALHOST" => vec![One::Test(Test::Client(vec!["127.0.0.0/8".into(), "::1".into()]))],
            "METH_GET" => methods(&["GET"]),
            name if name.starts_with("METH_") => methods(&[&name["METH_".len()..]]),
            _ => vec![One::Test(Test::Unsaid(Unsaid::of_request(format!("no access list is called `{name}`"))))],
        }
    }

    /// The condition of a line, from the word `if` or `unless` on. No words: always.
    pub(super) fn condition(&self, words: &[String], read: ReadFile<'_>) -> Condition {
        let (is_unless, words) = match words.split_first() {
            None => return vec![Conjunction::default()],
            Some((first, rest)) => (first == "unless", rest),
        };
        // Each of them has to fit: one of the tests, or none.
        let mut any: Vec<Vec<(Vec<One>, bool)>> = vec![Vec::new()];
        let mut at = 0;
        let mut is_not = false;
        while at < words.len() {
            let mut word = &*words[at];
            at += 1;
            if matches!(word, "or" | "||") {
                any.push(Vec::new());
                continue;
            }
            while let Some(rest) = word.strip_prefix('!') {
                is_not = !is_not;
                word = rest;
            }
            if word.is_empty() {
                continue;
            }
            let tests = if word == "{" {
                let end = words[at..].iter().position(|one| one == "}").map_or(words.len(), |length| at + length);
                let tests = vec![test(&words[at..end], read)];
                at = end + 1;
                tests
            } else {
                self.named(word)
            };
            any.last_mut().expect("it begins with one").push((tests, is_not));
            is_not = false;
        }
        let condition = if is_unless { negated(&any) } else { any };
        let mut found: Vec<Conjunction> = Vec::new();
        for all in condition {
            found.extend(expanded(&all));
            if found.len() > CONJUNCTIONS_MAX {
                let unsaid = Test::Unsaid(Unsaid::of_request("it has too many alternatives"));
                return vec![Conjunction { literals: vec![(unsaid, false)], users: Vec::new() }];
            }
        }
        found
    }
}

/// The opposite.
fn negated(any: &[Vec<(Vec<One>, bool)>]) -> Vec<Vec<(Vec<One>, bool)>> {
    let mut found: Vec<Vec<(Vec<One>, bool)>> = vec![Vec::new()];
    for all in any {
        let each = |before: &Vec<(Vec<One>, bool)>| {
            let with = |(tests, is_not): &(Vec<One>, bool)| [before.clone(), vec![(tests.clone(), !is_not)]].concat();
            all.iter().map(with).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(each).take(CONJUNCTIONS_MAX * 2).collect();
    }
    found
}

/// Without alternatives.
fn expanded(all: &[(Vec<One>, bool)]) -> Vec<Conjunction> {
    let mut found = vec![Conjunction::default()];
    for (tests, is_not) in all {
        if *is_not {
            for one in tests {
                found.iter_mut().for_each(|conjunction| conjunction.push(one, true));
            }
            continue;
        }
        let with = |one: &One| {
            let more = found.iter().cloned().map(|mut conjunction| {
                conjunction.push(one, false);
                conjunction
            });
            more.collect::<Vec<_>>()
        };
        found = joined(tests).iter().flat_map(with).take(CONJUNCTIONS_MAX * 2).collect();
    }
    found
}

/// Tests of one kind as one.
fn joined(tests: &[One]) -> Vec<One> {
    let mut found: Vec<One> = Vec::new();
    for test in tests {
        let last = found.iter_mut().find_map(|other| match (other, test) {
            (One::Test(Test::Path(had)), One::Test(Test::Path(more))) => {
                had.extend(more.iter().cloned());
                Some(())
            }
            (One::Test(Test::Host(had)), One::Test(Test::Host(more)))
            | (One::Test(Test::Method(had)), One::Test(Test::Method(more)))
            | (One::Test(Test::Client(had)), One::Test(Test::Client(more))) => {
                had.extend(more.iter().cloned());
                Some(())
            }
            _ => None,
        });
        if last.is_none() {
            found.push(test.clone());
        }
    }
    found
}

impl Conjunction {
    fn push(&mut self, one: &One, is_not: bool) {
        match one {
            One::Test(test) => self.literals.push((test.clone(), is_not)),
            One::Not(test) => self.literals.push((test.clone(), !is_not)),
            One::Users(name, groups) => self.users.push((name.clone(), groups.clone(), is_not)),
        }
    }

    /// Both.
    pub(super) fn and(&self, other: &Conjunction) -> Conjunction {
        Conjunction {
            literals: [&self.literals[..], &other.literals[..]].concat(),
            users: [&self.users[..], &other.users[..]].concat(),
        }
    }

    /// Conditions of which one fits where this does not.
    pub(super) fn opposites(&self) -> Vec<Conjunction> {
        let of_test =
            |(test, is_not): &(Test, bool)| Conjunction { literals: vec![(test.clone(), !is_not)], users: Vec::new() };
        let of_users = |(name, groups, is_not): &(String, Vec<String>, bool)| Conjunction {
            literals: Vec::new(),
            users: vec![(name.clone(), groups.clone(), !is_not)],
        };
        self.literals.iter().map(of_test).chain(self.users.iter().map(of_users)).collect()
    }

    pub(super) fn without_always(mut self) -> Conjunction {
        self.literals.retain(|(test, is_not)| !matches!((test, is_not), (Test::Always, false) | (Test::Never, true)));
        self
    }

    /// With the words about TLS settled where all requests have come by it, or none.
    pub(super) fn over(mut self, is_tls: Option<bool>) -> Conjunction {
        for (test, _) in &mut self.literals {
            if let (Test::Tls, Some(is_tls)) = (&*test, is_tls) {
                *test = if is_tls { Test::Always } else { Test::Never };
            }
        }
        self
    }
}
