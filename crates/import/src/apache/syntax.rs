//! The syntax of Apache: words, quotes, continued lines and sections; what `Define`, `IfModule` and `Include` do.
//!
//! Owns: [`parse`] and [`expand`].

use std::collections::BTreeMap;

use crate::audit::Tree;
use crate::{Draft, FILE_LINES, Files, Note};

/// A directive, and for a section those within it.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) line: usize,
    /// In small letters.
    pub(super) name: String,
    pub(super) words: Vec<String>,
    pub(super) inner: Option<Vec<Directive>>,
}

impl Tree for Directive {
    fn place(&self) -> (usize, String) {
        (self.line, self.text())
    }

    fn arguments(&mut self) -> &mut [String] {
        self.words.get_mut(1..).unwrap_or_default()
    }

    fn inner(&mut self) -> Option<&mut Vec<Directive>> {
        self.inner.as_mut()
    }
}

impl Directive {
    /// As it is written, without those within it.
    pub(super) fn text(&self) -> String {
        let text = self.words.join(" ");
        if self.inner.is_some() { format!("<{text}>") } else { text }
    }

    /// An argument; empty if there are fewer.
    pub(super) fn argument(&self, at: usize) -> &str {
        self.words.get(at + 1).map_or("", String::as_str)
    }

    pub(super) fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    pub(super) fn within(&self) -> &[Directive] {
        self.inner.as_deref().unwrap_or_default()
    }
}

/// Files within files, beyond which none is read.
const DEPTH_MAX: usize = 8;

/// Files that are included, beyond which none is read.
const FILES_MAX: usize = 400;

/// The directives of a text.
///
/// # Errors
/// Where it is not what Apache reads, and why.
pub(super) fn parse(text: &str, first: usize) -> Result<Vec<Directive>, Note> {
    let mut open: Vec<Directive> = Vec::new();
    let mut top = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let number = first + at + 1;
        let mut whole = line.trim().to_owned();
        while whole.ends_with('\\') && !whole.starts_with('#') {
            whole.pop();
            match lines.next() {
                Some((_, more)) => whole.push_str(more.trim_end()),
                None => break,
            }
        }
        if whole.is_empty() || whole.starts_with('#') {
            continue;
        }
        if let Some(name) = whole.strip_prefix("</") {
            let name = name.trim_end_matches('>').trim().to_ascii_lowercase();
            match open.pop() {
                Some(section) if section.name == name => push(section, &mut open, &mut top),
                _ => return Err(Note::new(number, format!("`{whole}` ends what does not begin before"))),
            }
            continue;
        }
        let (is_section, inner) = match whole.strip_prefix('<') {
            Some(rest) => (true, rest.trim_end().strip_suffix('>').unwrap_or(rest).to_owned()),
            None => (false, whole),
        };
        let words = words(&inner);
        let Some(first) = words.first() else { continue };
        let name = first.to_ascii_lowercase();
        let directive = Directive { line: number, name, words, inner: is_section.then(Vec::new) };
        if is_section { open.push(directive) } else { push(directive, &mut open, &mut top) }
    }
    match open.pop() {
        Some(section) => Err(Note::new(section.line, format!("`{}` has no end", section.text()))),
        None => Ok(top),
    }
}

fn push(directive: Directive, open: &mut [Directive], top: &mut Vec<Directive>) {
    match open.last_mut().and_then(|section| section.inner.as_mut()) {
        Some(inner) => inner.push(directive),
        None => top.push(directive),
    }
}

fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = line.chars().peekable();
    while let Some(one) = rest.next() {
        match (quote, one) {
            (Some(end), '\\') if rest.peek() == Some(&end) => word.get_or_insert_default().extend(rest.next()),
            (Some(end), one) if one == end => quote = None,
            (None, '"' | '\'') if word.is_none() => {
                quote = Some(one);
                word = Some(String::new());
            }
            (None, one) if one.is_whitespace() => words.extend(word.take()),
            (_, one) => word.get_or_insert_default().push(one),
        }
    }
    words.extend(word);
    words
}

/// With files in the place of `Include`, values in that of variables, and what a condition is about in that of it.
pub(super) fn expand(directives: Vec<Directive>, files: Files<'_>, draft: &mut Draft) -> Vec<Directive> {
    let mut variables = BTreeMap::new();
    expanded(directives, files, &mut variables, 0, draft)
}

fn expanded(
    directives: Vec<Directive>,
    files: Files<'_>,
    variables: &mut BTreeMap<String, String>,
    depth: usize,
    draft: &mut Draft,
) -> Vec<Directive> {
    let mut found = Vec::new();
    for mut directive in directives {
        for word in directive.words.iter_mut().skip(1) {
            for (name, value) in variables.iter().filter(|_| word.contains("${")).collect::<Vec<_>>() {
                *word = word.replace(&format!("${{{name}}}"), value);
            }
        }
        match &*directive.name {
            "define" => _ = variables.insert(directive.argument(0).to_owned(), directive.argument(1).to_owned()),
            "undefine" => _ = variables.remove(directive.argument(0)),
            "include" | "includeoptional" => include(&directive, files, variables, depth, &mut found, draft),
            "ifmodule" | "ifversion" | "ifdefine" => {
                let holds = holds(&directive, variables);
                let inner = directive.inner.take().unwrap_or_default();
                if holds {
                    found.extend(expanded(inner, files, variables, depth, draft));
                } else {
                    directive.inner = Some(Vec::new());
                    let why = "every module of Apache 2.4 is taken for there, and no other condition for true";
                    draft.need_not(directive.line, format!("`{}` and all that it says: {why}", directive.text()));
                }
            }
            _ => {
                let inner = directive.inner.take();
                directive.inner = inner.map(|inner| expanded(inner, files, variables, depth, draft));
                found.push(directive);
            }
        }
    }
    found
}

/// Whether a condition holds for Apache 2.4 with all modules.
fn holds(directive: &Directive, variables: &BTreeMap<String, String>) -> bool {
    let word = directive.argument(0);
    let (is_not, word) = word.strip_prefix('!').map_or((false, word), |word| (true, word));
    match &*directive.name {
        // Modules of versions before, which say the same in another way.
        "ifmodule" => {
            is_not
                == matches!(word, "mod_access.c" | "mod_authz_default.c" | "mod_php4.c" | "mod_php5.c" | "php5_module")
        }
        "ifdefine" => is_not != variables.contains_key(word),
        _ => {
            let (how, version) = match directive.arguments() {
                [how, version] => (&**how, &**version),
                [version] => ("=", &**version),
                _ => return false,
            };
            let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
            let ordering = [2, 4, 60][..parts.len().min(3)].cmp(&parts[..]);
            match how {
                ">=" => ordering.is_ge(),
                ">" => ordering.is_gt(),
                "<" => ordering.is_lt(),
                "<=" => ordering.is_le(),
                _ => ordering.is_eq(),
            }
        }
    }
}

fn include(
    directive: &Directive,
    files: Files<'_>,
    variables: &mut BTreeMap<String, String>,
    depth: usize,
    found: &mut Vec<Directive>,
    draft: &mut Draft,
) {
    let pattern = directive.argument(0);
    let is_needed = directive.name == "include";
    let mut names = if pattern.contains(['*', '?']) { (files.list)(pattern) } else { vec![pattern.to_owned()] };
    if pattern.ends_with('/') {
        names = (files.list)(&format!("{pattern}*"));
    }
    // What it says is not known: a directive of this name stands for it.
    let unknown = |why: String, found: &mut Vec<Directive>, draft: &mut Draft| {
        draft.lose(directive.line, format!("`{}`: {why}", directive.text()));
        if is_needed {
            found.push(directive.clone());
        }
    };
    if depth >= DEPTH_MAX || draft.file_names.len() >= FILES_MAX {
        return unknown("files are included too deep".into(), found, draft);
    }
    if names.is_empty() {
        draft.need_not(directive.line, format!("`{}`: no file is there", directive.text()));
    }
    for name in names {
        match (files.read)(&name) {
            Ok(text) => {
                draft.file_names.push(name.clone());
                let first = draft.file_names.len() * FILE_LINES;
                match parse(&text, first) {
                    Ok(inner) => found.extend(expanded(inner, files, variables, depth + 1, draft)),
                    Err(note) => unknown(format!("it cannot be read: {}", note.words), found, draft),
                }
            }
            Err(why) if is_needed => unknown(format!("it cannot be read: {why}"), found, draft),
            Err(_) => draft.need_not(directive.line, format!("`{}`: no file is there", directive.text())),
        }
    }
}
