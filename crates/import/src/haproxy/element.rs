//! Elements of fields as HAProxy takes lines of a field apart, as expressions for whole lines.
//!
//! Owns: which lines have an element that fits. HAProxy's elements stand between separators that are in no quoted
//! string, without the space around them. Guarantees: a line fits what is exact if one of its elements fits there; for
//! all other expressions a lower and an upper bound are given. Source: `http_find_hdr_value_end` of HAProxy. Pure.

use lamna_config::route::pattern::compile;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, HirKind, Look};

use crate::matching::Kind;

/// Expressions for lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    Exactly(String),
    /// Two expressions: a value that fits the first has such an element, and one that has it fits the second, if that
    /// is known.
    Between(Option<String>, Option<String>),
}

/// Alternatives of an expression, beyond which it is not taken apart.
const BRANCHES_MAX: usize = 64;

/// A field of elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'a> {
    /// The bytes between elements, as in a class.
    pub(super) separators: &'a str,
    /// An expression for the beginning of the element, which is no part of its value: the name of a cookie.
    pub(super) lead: &'a str,
}

/// The value of an element: its beginning is that of the element, or its end.
struct Value {
    body: String,
    is_at_start: bool,
    is_at_end: bool,
}

impl Elements<'_> {
    /// Lines of which an element has one of these values.
    pub(super) fn of(&self, kind: Kind, values: &[String], is_any_case: bool) -> Lines {
        let (mut found, mut is_exact, mut is_read) = (Vec::new(), true, true);
        for value in values {
            match kind {
                Kind::Regex => match self.of_regex(value, is_any_case) {
                    Some((more, is_all)) => {
                        is_exact &= is_all;
                        found.extend(more);
                    }
                    None => is_read = false,
                },
                // It may stand in a quoted string alone.
                _ if self.is_quoted(value) => is_exact = false,
                _ => found.push(of_text(kind, value, is_any_case)),
            }
        }
        let lines: Vec<String> = found.iter().map(|one| self.line(one)).collect();
        let joined = Some(lines.join("|")).filter(|joined| !joined.is_empty());
        match joined {
            Some(joined) if compile(&joined).is_err() => Lines::Between(None, None),
            Some(joined) if is_exact && is_read => Lines::Exactly(joined),
            joined => {
                // What is left out needs a quoted string in the line.
                let beyond = joined.iter().cloned().chain(["\"".to_owned()]).collect::<Vec<_>>().join("|");
                Lines::Between(joined, is_read.then_some(beyond))
            }
        }
    }

    /// Lines with such an element. HAProxy does not find one at the end of a line that has no value.
    pub(super) fn present(&self) -> String {
        self.line(&Value { body: "[^ \\t]".to_owned(), is_at_start: true, is_at_end: false })
    }

    fn is_quoted(&self, text: &str) -> bool {
        text.bytes().any(|byte| self.bytes().contains(&byte))
    }

    /// The alternatives of an expression without separators and quotation marks, and whether it fits none of these
    /// anyway. None if it cannot be read here.
    fn of_regex(&self, text: &str, is_any_case: bool) -> Option<(Vec<Value>, bool)> {
        let mut parser = regex_syntax::ParserBuilder::new();
        let hir = parser.unicode(false).utf8(false).case_insensitive(is_any_case).build().parse(text).ok()?;
        let (mut values, mut is_exact) = (Vec::new(), true);
        for mut parts in branches(&hir)? {
            let is_at_start = parts.first().is_some_and(|one| *one.kind() == HirKind::Look(Look::Start));
            parts.drain(..usize::from(is_at_start));
            let is_at_end = parts.last().is_some_and(|one| *one.kind() == HirKind::Look(Look::End));
            parts.truncate(parts.len() - usize::from(is_at_end));
            let body = Hir::concat(parts);
            if is_anchored(&body) {
                return None;
            }
            let narrow = self.without(&body);
            is_exact &= narrow == body;
            values.push(Value { body: format!("(?:{narrow})"), is_at_start, is_at_end });
        }
        Some((values, is_exact))
    }

    /// The same without what fits a separator or a quotation mark.
    fn without(&self, hir: &Hir) -> Hir {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => hir.clone(),
            HirKind::Literal(literal) if literal.0.iter().any(|byte| self.bytes().contains(byte)) => Hir::fail(),
            HirKind::Literal(_) => hir.clone(),
            HirKind::Class(class) => {
                let mut class = match class {
                    Class::Bytes(class) => class.clone(),
                    Class::Unicode(class) => class.to_byte_class().unwrap_or_else(ClassBytes::empty),
                };
                let gone = self.bytes().into_iter().map(|byte| ClassBytesRange::new(byte, byte));
                let before = class.clone();
                class.difference(&ClassBytes::new(gone));
                if class == before { hir.clone() } else { Hir::class(Class::Bytes(class)) }
            }
            HirKind::Repetition(repeated) => {
                let mut repeated = repeated.clone();
                repeated.sub = Box::new(self.without(&repeated.sub));
                Hir::repetition(repeated)
            }
            HirKind::Capture(capture) => {
                let mut capture = capture.clone();
                capture.sub = Box::new(self.without(&capture.sub));
                Hir::capture(capture)
            }
            HirKind::Concat(parts) => Hir::concat(parts.iter().map(|one| self.without(one)).collect()),
            HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(|one| self.without(one)).collect()),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        [self.separators.as_bytes(), b"\""].concat()
    }

    /// The lines that have it.
    fn line(&self, value: &Value) -> String {
        let Elements { separators, lead } = self;
        // A string may be left open to the end of the line.
        let open = "\"(?:[^\"\\\\]|\\\\.)*";
        let inner = format!("(?:[^\"{separators}]|{open}\")*");
        let start = format!("^(?:{inner}[{separators}])*[ \\t]*{lead}");
        let end = format!("[ \\t]*(?:[{separators}]|$)");
        let body = &value.body;
        match (value.is_at_start, value.is_at_end) {
            (true, true) => format!("(?:{start}{body}{end})"),
            (true, false) => format!("(?:{start}{body})"),
            (false, true) => format!("(?:{start}{inner}(?:{body}{end}|{open}{body}[ \\t]*$))"),
            (false, false) => format!("(?:{start}{inner}(?:{open})?{body})"),
        }
    }
}

fn of_text(kind: Kind, text: &str, is_any_case: bool) -> Value {
    let case = if is_any_case { "i" } else { "" };
    Value {
        body: format!("(?{case}:{})", regex::escape(text)),
        is_at_start: matches!(kind, Kind::Exact | Kind::Prefix),
        is_at_end: matches!(kind, Kind::Exact | Kind::Suffix),
    }
}

fn is_anchored(hir: &Hir) -> bool {
    let looks = hir.properties().look_set();
    looks.contains(Look::Start) || looks.contains(Look::End)
}

/// The alternatives of an expression that differ in where they begin or end: each is a row of parts. None if it repeats
/// a beginning or an end, or has too many.
fn branches(hir: &Hir) -> Option<Vec<Vec<Hir>>> {
    let found = match hir.kind() {
        _ if !is_anchored(hir) => vec![vec![hir.clone()]],
        HirKind::Repetition(_) => return None,
        HirKind::Capture(capture) => branches(&capture.sub)?,
        HirKind::Alternation(parts) => {
            parts.iter().map(branches).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect()
        }
        HirKind::Concat(parts) => parts.iter().try_fold(vec![Vec::new()], |before, part| {
            let more = branches(part)?;
            let pairs = before.iter().flat_map(|row: &Vec<Hir>| more.iter().map(move |next| [&row[..], next].concat()));
            Some(pairs.take(BRANCHES_MAX + 1).collect())
        })?,
        _ => vec![vec![hir.clone()]],
    };
    (found.len() <= BRANCHES_MAX).then_some(found)
}
