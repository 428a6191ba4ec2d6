//! The field `If` (RFC 4918 10.4).
//!
//! Owns: [`IfField`], its syntax and its truth. Guarantees: whatever a client sends is read or refused, and costs no
//! more than its length. Knows neither locks nor files: those who ask say what holds.

/// The value of an `If` field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IfField(Vec<List>);

/// Conditions that hold together, for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    /// The URL of the resource; none for the one that is asked for.
    tag: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    is_negated: bool,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It is locked with this token.
    Token(String),
    /// It has this entity tag.
    Etag(String),
}

/// A predicate about a resource, which holds or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predicate<'q> {
    /// Whether it is locked with this token.
    IsLocked(&'q str),
    /// Whether it has this entity tag.
    Has(&'q str),
}

/// Conditions of a field: each may be looked up on the disk.
const CONDITIONS_MAX: usize = 64;

impl IfField {
    /// Reads a value; none if it is malformed, or has too many conditions.
    pub(super) fn parse(value: &[u8]) -> Option<IfField> {
        let mut rest = std::str::from_utf8(value).ok()?.trim_ascii();
        let (mut lists, mut tag) = (Vec::new(), None);
        let mut is_tag_used = true;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('<') {
                let (url, after) = after.split_once('>')?;
                // Untagged lists come alone, and a tag is of one list or more.
                if !is_tag_used || url.is_empty() || tag.is_none() && !lists.is_empty() {
                    return None;
                }
                (tag, is_tag_used, rest) = (Some(url.to_owned()), false, after.trim_ascii_start());
                continue;
            }
            let (conditions, after) = conditions(rest.strip_prefix('(')?)?;
            lists.push(List { tag: tag.clone(), conditions });
            (is_tag_used, rest) = (true, after.trim_ascii_start());
        }
        let count: usize = lists.iter().map(|list| list.conditions.len()).sum();
        (is_tag_used && (1..=CONDITIONS_MAX).contains(&count)).then_some(IfField(lists))
    }

    /// Whether it holds. `answer` says whether one holds for the resource with this URL, or for the one that is asked
    /// for.
    pub(super) fn holds(&self, mut answer: impl FnMut(Option<&str>, Predicate<'_>) -> bool) -> bool {
        self.0.iter().any(|list| {
            list.conditions.iter().all(|condition| {
                let predicate = match &condition.state {
                    State::Token(token) => Predicate::IsLocked(token),
                    State::Etag(etag) => Predicate::Has(etag),
                };
                answer(list.tag.as_deref(), predicate) != condition.is_negated
            })
        })
    }

    /// Whether a client shows this token by it.
    pub(super) fn shows(&self, token: &str) -> bool {
        let mut conditions = self.0.iter().flat_map(|list| &list.conditions);
        conditions.any(|one| !one.is_negated && matches!(&one.state, State::Token(shown) if shown == token))
    }
}

/// Reads conditions up to the parenthesis that ends them, and what follows it.
fn conditions(mut rest: &str) -> Option<(Vec<Condition>, &str)> {
    let mut conditions = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if let Some(after) = rest.strip_prefix(')') {
            return (!conditions.is_empty()).then_some((conditions, after));
        }
        let is_not = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("not"));
        let is_negated = is_not;
        if is_negated {
            rest = rest[3..].trim_ascii_start();
        }
        let state = match rest.as_bytes().first()? {
            b'<' => {
                let (token, after) = rest[1..].split_once('>')?;
                rest = after;
                if token.is_empty() {
                    return None;
                }
                State::Token(token.to_owned())
            }
            b'[' => {
                let inner = &rest[1..];
                // An entity tag may have a bracket in its quotes.
                let open = inner.find('"')?;
                if !matches!(inner[..open].trim_ascii(), "" | "W/") {
                    return None;
                }
                let end = open + 1 + inner[open + 1..].find('"')?;
                rest = inner[end + 1..].trim_ascii_start().strip_prefix(']')?;
                State::Etag(inner[..=end].trim_ascii().to_owned())
            }
            _ => return None,
        };
        conditions.push(Condition { is_negated, state });
    }
}

#[cfg(test)]
mod tests {
    use super::super::condition_checks::if_field;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_hold_if_all_of_one_does() {
        let held = |value: &str, true_ones: &[&str]| {
            let field = IfField::parse(value.as_bytes()).expect(value);
            field.holds(|tag, predicate| {
                let (Predicate::IsLocked(text) | Predicate::Has(text)) = predicate;
                true_ones.contains(&&*format!("{}{text}", tag.unwrap_or_default()))
            })
        };
        for (value, true_ones, expected) in [
            ("(<t>)", &["t"][..], true),
            ("(<t>)", &[], false),
            ("(Not <t>)", &[], true),
            ("(<t> [\"e\"])", &["t"], false),
            ("(<t> [\"e\"])", &["t", "\"e\""], true),
            ("(<t>) ([\"e\"])", &["\"e\""], true),
            ("(<t>)(not<DAV:no-lock>)", &[], true),
            ("</a> (<t>) </b>([W/\"e\"])", &["/bW/\"e\""], true),
            ("</a> (<t>) </b>([W/\"e\"])", &["/at"], true),
            ("</a> (<t>)(<u>)", &["/au"], true),
            ("</a> (<t>)", &["t"], false),
            ("( [\"]\"] )", &["\"]\""], true),
        ] {
            assert_eq!(held(value, true_ones), expected, "{value} {true_ones:?}");
        }
    }

    #[test]
    fn what_is_malformed_is_no_condition() {
        for value in [
            "",
            "()",
            "(",
            "(<t>",
            "(<>)",
            "<t>",
            "</a>",
            "(<t>) </a> (<u>)",
            "</a> </b> (<t>)",
            "(t)",
            "(x<t>)",
            "([e])",
            "([\"e\")",
        ] {
            assert_eq!(IfField::parse(value.as_bytes()), None, "{value}");
        }
        let many = |count: usize| "(<t>)".repeat(count);
        assert!(IfField::parse(many(CONDITIONS_MAX).as_bytes()).is_some());
        assert_eq!(IfField::parse(many(CONDITIONS_MAX + 1).as_bytes()), None);
    }

    #[test]
    fn a_token_is_shown_unless_it_is_negated() {
        let field = IfField::parse(b"</x> (<a> Not <b>)").unwrap();
        assert!(field.shows("a") && !field.shows("b") && !field.shows("c"));
    }

    /// The same grammar, the other way round.
    fn write(IfField(lists): &IfField) -> String {
        let mut text = String::new();
        let mut tag: Option<&String> = None;
        for list in lists {
            if list.tag.as_ref() != tag {
                tag = list.tag.as_ref();
                text.push_str(&format!("<{}> ", list.tag.as_deref().unwrap_or_default()));
            }
            let words = list.conditions.iter().map(|one| {
                let not = if one.is_negated { "Not " } else { "" };
                match &one.state {
                    State::Token(token) => format!("{not}<{token}>"),
                    State::Etag(etag) => format!("{not}[{etag}]"),
                }
            });
            text.push_str(&format!("({}) ", words.collect::<Vec<_>>().join(" ")));
        }
        text
    }

    fn fields() -> impl Strategy<Value = IfField> {
        let state =
            prop_oneof!["[a-z:()\\[ ]{1,8}".prop_map(State::Token), "(W/)?\"[a-z\\]>)]{0,6}\"".prop_map(State::Etag),];
        let condition = (any::<bool>(), state).prop_map(|(is_negated, state)| Condition { is_negated, state });
        let lists = proptest::collection::vec((0..3_u8, proptest::collection::vec(condition, 1..4)), 1..5);
        (any::<bool>(), lists).prop_map(|(is_tagged, lists)| {
            let list = |(tag, conditions)| List { tag: is_tagged.then(|| format!("/{tag}")), conditions };
            IfField(lists.into_iter().map(list).collect())
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(field in fields()) {
            let text = write(&field);
            prop_assert_eq!(IfField::parse(text.as_bytes()), Some(field), "{}", text);
            if_field(text.as_bytes());
        }

        #[test]
        fn whatever_is_sent_is_read_or_refused(value in "[()<>\\[\\]\"NotW/ a:]{0,40}") {
            if let Some(field) = IfField::parse(value.as_bytes()) {
                prop_assert_eq!(IfField::parse(write(&field).as_bytes()), Some(field.clone()), "{}", value);
            }
            if_field(value.as_bytes());
        }
    }
}
