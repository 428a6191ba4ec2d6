//! Changes to the header fields of answers: set, add and remove, by status.
//!
//! Owns: [`HeaderRule`], and how several come to one list of fields. Guarantees: a field that has one value in an
//! answer is never there twice, whichever rules come together. Pure.

/// The changes of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRule {
    /// Fields with all their values, in place of what less specific rules say.
    pub set: Vec<(String, Vec<String>)>,
    /// Values besides those that are there.
    pub add: Vec<(String, String)>,
    /// Names of fields that go.
    pub remove: Vec<String>,
    /// Fields with all their values, where an answer has none of that name.
    pub default: Vec<(String, Vec<String>)>,
    /// Names of fields of which nothing counts that less specific rules say.
    pub keep: Vec<String>,
    /// The statuses that it is for; empty: see [`HeaderRule::applies`].
    pub statuses: Vec<Statuses>,
}

/// Some statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statuses {
    /// This one.
    One(u16),
    /// All that begin with this digit.
    Class(u16),
}

impl Statuses {
    /// Those that a text as `404` or `5xx` means. 206 and 304 are made of the answer with 200 and have its fields.
    pub fn from_text(text: &str) -> Option<Statuses> {
        if let Some(class) = text.strip_suffix("xx") {
            return class.parse().ok().filter(|class| (2..=5).contains(class)).map(Statuses::Class);
        }
        let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        let status = text.parse().ok().filter(|_| is_number)?;
        ((200..=599).contains(&status) && status != 206 && status != 304).then_some(Statuses::One(status))
    }

    /// As it is written.
    pub fn text(self) -> String {
        match self {
            Statuses::One(status) => status.to_string(),
            Statuses::Class(class) => format!("{class}xx"),
        }
    }

    /// Whether `other` is one of these, or they are the same.
    pub fn cover(self, other: Statuses) -> bool {
        match other {
            Statuses::One(status) => self.contains(status),
            Statuses::Class(_) => self == other,
        }
    }

    /// Whether they are all errors.
    pub fn are_of_errors(self) -> bool {
        match self {
            Statuses::One(status) => status >= 400,
            Statuses::Class(class) => class >= 4,
        }
    }

    /// Whether `status` is one of them.
    pub fn contains(self, status: u16) -> bool {
        match self {
            Statuses::One(one) => one == status,
            Statuses::Class(class) => status / 100 == class,
        }
    }
}

impl HeaderRule {
    /// A rule that sets these fields, in every answer.
    pub fn of_fields(fields: &[(String, String)]) -> HeaderRule {
        let mut set: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in fields {
            match set.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
                Some((_, values)) => values.push(value.clone()),
                None => set.push((name.clone(), vec![value.clone()])),
            }
        }
        HeaderRule { set, ..HeaderRule::default() }
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        let Self { set, add, remove, default, keep, statuses: _ } = self;
        set.is_empty() && add.is_empty() && remove.is_empty() && default.is_empty() && keep.is_empty()
    }

    /// Bytes of the fields that it makes.
    pub fn bytes(&self) -> usize {
        let line = |name: &str, value: &str| name.len() + value.len() + ": \r\n".len();
        let set = self.set.iter().chain(&self.default);
        let set = set.flat_map(|(name, values)| values.iter().map(move |value| line(name, value)));
        set.sum::<usize>() + self.add.iter().map(|(name, value)| line(name, value)).sum::<usize>()
    }

    /// The names that it says something about; those that it keeps are what others say.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let set = self.set.iter().chain(&self.default).map(|(name, _)| &**name);
        set.chain(self.add.iter().map(|(name, _)| &**name)).chain(self.remove.iter().map(|name| &**name))
    }

    /// Whether a field with this value is for an answer of `status`. A rule that names no statuses is for all of them,
    /// but what lets caches keep an answer is not for errors: a page for 404 would hide the file that comes a minute
    /// later.
    fn applies(&self, name: &str, value: &str, status: u16) -> bool {
        match self.statuses.is_empty() {
            true => status < 400 || !lets_caches_keep(name, value),
            false => self.statuses.iter().any(|statuses| statuses.contains(status)),
        }
    }

    /// Does to the fields of an answer of `status` what it says.
    pub fn apply(&self, status: u16, fields: &mut Vec<(String, String)>) {
        let is_named = self.statuses.is_empty() || self.statuses.iter().any(|statuses| statuses.contains(status));
        let remove = |fields: &mut Vec<(String, String)>, name: &str| {
            fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        };
        if is_named {
            self.remove.iter().for_each(|name| remove(fields, name));
        }
        for (name, values) in &self.set {
            if values.iter().all(|value| self.applies(name, value, status)) {
                remove(fields, name);
                fields.extend(values.iter().map(|value| (name.clone(), value.clone())));
            }
        }
        for (name, values) in &self.default {
            let is_there = fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            if !is_there && values.iter().all(|value| self.applies(name, value, status)) {
                fields.extend(values.iter().map(|value| (name.clone(), value.clone())));
            }
        }
        let added = self.add.iter().filter(|(name, value)| self.applies(name, value, status));
        fields.extend(added.cloned());
    }

    /// Says nothing of the fields of these names any more.
    fn forget(&mut self, names: &[String]) {
        let is_other = |name: &str| !names.iter().any(|one| one.eq_ignore_ascii_case(name));
        self.set.retain(|(name, _)| is_other(name));
        self.add.retain(|(name, _)| is_other(name));
        self.remove.retain(|name| is_other(name));
        self.default.retain(|(name, _)| is_other(name));
    }
}

/// Carries out what `rules` keep, the least specific first: what stands before it says nothing of these fields.
pub fn settle(rules: &mut [HeaderRule]) {
    let mut kept: Vec<String> = Vec::new();
    for rule in rules.iter_mut().rev() {
        rule.forget(&kept);
        kept.extend(rule.keep.iter().cloned());
    }
}

/// The fields of an answer of `status` by `rules`, the least specific first.
pub fn fields<'r>(rules: impl IntoIterator<Item = &'r HeaderRule>, status: u16) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    rules.into_iter().for_each(|rule| rule.apply(status, &mut fields));
    fields
}

/// Whether a cache may keep an answer because of this field. `no-store`, `no-cache` and the like only keep it from
/// doing so.
fn lets_caches_keep(name: &str, value: &str) -> bool {
    const NAMES: [&str; 4] = ["Cache-Control", "CDN-Cache-Control", "Surrogate-Control", "Expires"];
    let is_about_caches = NAMES.iter().any(|other| other.eq_ignore_ascii_case(name));
    let is_named = |directive: &str| {
        let lower = value.to_ascii_lowercase();
        ["no-store", "no-cache", "max-age=0"].iter().any(|other| lower.contains(other)) || directive == lower
    };
    is_about_caches && !is_named("private") && value != "0"
}

/// The value of `Cache-Control` of an answer that never changes.
pub const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Whether a file name has a hash of its content in it, as build tools write it: a part of eight characters or more,
/// between `.`, `-`, `_` or `~`, of letters and digits. A number alone is a date more often, and letters alone are a
/// word.
pub fn has_hash(name: &[u8]) -> bool {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let Some(dot) = memchr::memrchr(b'.', last) else { return false };
    let is_hash = |part: &[u8]| {
        let is_one = part.len() >= HASH_BYTES_MIN && part.iter().all(u8::is_ascii_alphanumeric);
        is_one && part.iter().any(u8::is_ascii_digit) && part.iter().any(u8::is_ascii_alphabetic)
    };
    last[..dot].split(|byte| b".-_~".contains(byte)).skip(1).any(is_hash)
}

/// Vite, esbuild and Parcel write eight characters, others more.
const HASH_BYTES_MIN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str], statuses: &[&str]) -> HeaderRule {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        HeaderRule {
            set: set.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect(),
            add: add.iter().map(own).collect(),
            remove: remove.iter().map(|name| (*name).to_owned()).collect(),
            statuses: statuses.iter().map(|text| Statuses::from_text(text).unwrap()).collect(),
            ..HeaderRule::default()
        }
    }

    fn shown(rules: &[HeaderRule], status: u16) -> String {
        let lines: Vec<String> = fields(rules, status).iter().map(|(name, value)| format!("{name}: {value}")).collect();
        lines.join("; ")
    }

    #[test]
    fn the_more_specific_rule_replaces_adds_and_removes() {
        let base = rule(&[("X-A", "1"), ("X-B", "1")], &[("Link", "<a>")], &[], &[]);
        let more = rule(&[("x-a", "2")], &[("Link", "<b>")], &["X-B"], &[]);
        assert_eq!(shown(&[base, more], 200), "Link: <a>; x-a: 2; Link: <b>");
    }

    #[test]
    fn a_field_that_is_kept_is_as_the_answer_has_it() {
        let base = rule(&[("X-A", "1"), ("Cache-Control", "max-age=9")], &[("Link", "<a>")], &["X-C"], &[]);
        let keep = ["x-a", "Cache-Control", "Link", "X-C"].map(str::to_owned).to_vec();
        let mut rules = vec![base, HeaderRule { keep, ..HeaderRule::default() }];
        settle(&mut rules);
        let mut fields = ["Cache-Control: private", "X-C: 1"].map(|line| line.split_once(": ").unwrap()).to_vec();
        let mut owned = fields.drain(..).map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>();
        let before = owned.clone();
        rules.iter().for_each(|rule| rule.apply(200, &mut owned));
        assert_eq!(owned, before, "nothing is taken from an application, and nothing said in its place");
        // What is said in the same rule, or a more specific one, counts.
        let mut rules = vec![
            rule(&[("X-A", "1")], &[], &[], &[]),
            HeaderRule { keep: vec!["X-A".into()], ..rule(&[], &[("X-A", "2")], &[], &[]) },
        ];
        settle(&mut rules);
        assert_eq!(shown(&rules, 200), "X-A: 2");
    }

    #[test]
    fn a_default_is_for_answers_without_the_field() {
        let rules = [HeaderRule { default: vec![("X-A".into(), vec!["1".into()])], ..HeaderRule::default() }];
        let mut fields = vec![("x-a".to_owned(), "own".to_owned())];
        rules[0].apply(200, &mut fields);
        assert_eq!(fields.len(), 1);
        assert_eq!(shown(&rules, 200), "X-A: 1");
    }

    #[test]
    fn a_rule_with_statuses_is_for_them_only() {
        let rules = [rule(&[("X-A", "all")], &[], &[], &[]), rule(&[("X-A", "error")], &[], &[], &["404", "5xx"])];
        assert_eq!(shown(&rules, 200), "X-A: all");
        assert_eq!(shown(&rules, 404), "X-A: error");
        assert_eq!(shown(&rules, 503), "X-A: error");
        for text in ["206", "304", "100", "6xx", "abc", "2000"] {
            assert_eq!(Statuses::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn what_lets_caches_keep_an_answer_is_not_on_errors_unless_they_are_named() {
        let long = rule(&[("Cache-Control", "max-age=60"), ("X-A", "1")], &[], &[], &[]);
        assert_eq!(shown(std::slice::from_ref(&long), 200), "Cache-Control: max-age=60; X-A: 1");
        assert_eq!(shown(&[long], 404), "X-A: 1");
        let never = rule(&[("Cache-Control", "no-store")], &[], &[], &[]);
        assert_eq!(shown(&[never], 404), "Cache-Control: no-store");
        let named = rule(&[("Cache-Control", "max-age=5")], &[], &[], &["404"]);
        assert_eq!(shown(&[named], 404), "Cache-Control: max-age=5");
    }

    #[test]
    fn a_name_with_a_hash_is_told_from_one_with_a_date_or_a_word() {
        for name in ["app.3f2a9c1b.js", "index-BX7f3kq2.css", "main~2f41aa90.chunk.js", "/a/b/x-0a1b2c3d4e5f.woff2"] {
            assert!(has_hash(name.as_bytes()), "{name}");
        }
        for name in
            ["report-20261123.pdf", "index-JavaScript.js", "app.js", "3f2a9c1b.js", "jquery-3.7.1.min.js", "x-3f2a9c1b"]
        {
            assert!(!has_hash(name.as_bytes()), "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_field_that_is_set_is_there_once(values in proptest::collection::vec(("[Xx]-[AB]", "[0-9]"), 0..6)) {
            let rules: Vec<HeaderRule> =
                values.iter().map(|(name, value)| rule(&[(name, value)], &[], &[], &[])).collect();
            let fields = fields(&rules, 200);
            let mut names: Vec<String> = fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
            names.sort();
            let count = names.len();
            names.dedup();
            prop_assert_eq!(names.len(), count);
        }
    }
}
