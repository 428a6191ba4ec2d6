//! The pages that are made of a structure: the overview, and a section as a page of its own.
//!
//! Owns: their HTML. Guarantees: elements are balanced, whatever the section was cut out of: what is open at its end is
//! closed, what it closes without having opened it is left out. Of the head of the page the title, the language and the
//! style sheets remain. Does not change attributes.

use std::fmt::Write as _;
use std::ops::Range;

use super::scan::{Kind, Token, Tokens};
use super::structure::{Section, Structure};
use crate::Fault;

/// Elements that are open at the same time at most; deeper ones are left out.
const DEPTH_MAX: usize = 256;

/// Looks of the overview: it has to be readable, no more.
const STYLE: &str = "<style>body{font:1rem/1.5 sans-serif;max-width:40rem;margin:0 auto;padding:0 1rem}\
    ul{padding-left:1.2rem}li{margin:.4rem 0}small{color:#666}</style>\n";

/// The headings with links to their sections.
pub(super) fn outline(structure: &Structure) -> String {
    let title = if structure.title.is_empty() { "Overview" } else { &structure.title };
    let mut page = head(structure, title);
    let whole = size(structure.bytes);
    // Writing to a string does not fail.
    let _ = write!(page, "{STYLE}</head>\n<body>\n<h1>{title}</h1>\n<p><a href=\"?view=whole\">Whole page</a> ");
    let _ = write!(page, "<small>{whole}</small></p>\n<ul>\n");
    // Items that are open, and whether each has a list of its own.
    let mut open: Vec<(usize, bool)> = Vec::new();
    for (at, section) in structure.sections.iter().enumerate() {
        if section.level == 0 && structure.sections.len() > 1 && !structure.has_beginning {
            continue;
        }
        while let Some((_, has_list)) = open.pop_if(|(last, _)| Some(*last) != section.parent) {
            page.push_str(end_of_item(has_list));
        }
        if let Some((_, has_list)) = open.last_mut() {
            page.push_str(if *has_list { "" } else { "\n<ul>\n" });
            *has_list = true;
        }
        let _ = write!(page, "<li>{} <small>{}</small>", link(structure, section), size(section.range.len()));
        open.push((at, false));
    }
    open.iter().rev().for_each(|(_, has_list)| page.push_str(end_of_item(*has_list)));
    page.push_str("</ul>\n");
    if structure.left_out > 0 {
        let _ = writeln!(page, "<p>{} more headings are not shown.</p>", structure.left_out);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn end_of_item(has_list: bool) -> &'static str {
    if has_list { "</ul></li>\n" } else { "</li>\n" }
}

/// The section `id`, if it can be a page of its own.
pub(super) fn find(structure: &Structure, id: &str) -> Result<usize, Fault> {
    let at = structure.find(id).ok_or_else(|| Fault::Absent("The page has no section of this name".into()))?;
    if structure.has_base {
        let why = "the page has a `base` element: its sections cannot be pages of their own";
        return Err(Fault::Unreadable(why.into()));
    }
    Ok(at)
}

/// The ranges that the section `at` is made of: those that sections share, and last the section itself.
pub(super) fn ranges(structure: &Structure, at: usize) -> Vec<Range<usize>> {
    let Section { level, range, .. } = &structure.sections[at];
    let own = if *level == 0 { structure.body..range.end } else { range.clone() };
    let is_outside = |one: &&Range<usize>| one.start < own.start || one.end > own.end;
    structure.shared.iter().filter(is_outside).cloned().chain([own.clone()]).collect()
}

/// The section `at` with links up, before and after, of its [`ranges`].
pub(super) fn section(structure: &Structure, at: usize, pieces: &[&[u8]]) -> Vec<u8> {
    let Some((own, shared)) = pieces.split_last() else { return Vec::new() };
    let section = &structure.sections[at];
    let own = structure.source.section(section, own, shared);
    let title = match (&*name(section), &*structure.title) {
        (name, "") => name.to_owned(),
        (name, title) => format!("{name} – {title}"),
    };
    let mut page = head(structure, &title).into_bytes();
    for style in structure.source.styles(shared) {
        page.extend_from_slice(&style);
        page.push(b'\n');
    }
    page.extend_from_slice(b"</head>\n<body>\n");
    let around = around(structure, at);
    page.extend_from_slice(around.as_bytes());
    Balanced { out: &mut page, open: Vec::new() }.copy(&own);
    let parts = structure.sections[at + 1..].iter().filter(|part| part.parent == Some(at));
    let parts: String = parts.map(|part| format!("<li>{}</li>\n", link(structure, part))).collect();
    if !parts.is_empty() {
        page.extend_from_slice(format!("\n<ul>\n{parts}</ul>").as_bytes());
    }
    page.extend_from_slice(format!("\n{around}</body>\n</html>\n").as_bytes());
    page
}

/// Links to what is before, above and after a section.
fn around(structure: &Structure, at: usize) -> String {
    let to = |sign: &str, section: Option<&Section>| {
        section.map(|section| format!("{sign} {}<br>\n", link(structure, section))).unwrap_or_default()
    };
    let before = to("←", at.checked_sub(1).map(|before| &structure.sections[before]));
    let up = to("↑", structure.sections[at].parent.map(|parent| &structure.sections[parent]));
    let after = to("→", structure.sections.get(at + 1));
    format!(
        "<nav>\n<p>{before}{up}{after}<a href=\"?view=outline\">Overview</a> · <a href=\"?view=whole\">Whole page</a></p>\n</nav>\n"
    )
}

fn link(structure: &Structure, section: &Section) -> String {
    let id = lamna_proto::parse::path::encode(section.id.as_bytes())
        .replace('/', "%2F")
        .replace('+', "%2B")
        .replace('&', "%26");
    match (structure.has_base, section.has_anchor) {
        (false, _) => format!("<a href=\"?section={id}\">{}</a>", name(section)),
        // Links within a section would lead elsewhere.
        (true, true) => format!("<a href=\"?view=whole#{id}\">{}</a>", name(section)),
        (true, false) => name(section),
    }
}

fn name(section: &Section) -> String {
    match (section.level, section.text.is_empty()) {
        (0, _) => "Beginning".into(),
        (_, true) => section.id.clone(),
        (_, false) => section.text.clone(),
    }
}

fn head(structure: &Structure, title: &str) -> String {
    let lang = structure.lang.as_ref().map(|lang| format!(" lang=\"{lang}\"")).unwrap_or_default();
    let charset = structure.charset.as_deref().unwrap_or("utf-8");
    format!(
        "<!doctype html>\n<html{lang}>\n<head>\n<meta charset=\"{charset}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n"
    )
}

/// A size for people.
fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Copies a part of a page such that its elements are balanced.
struct Balanced<'a> {
    out: &'a mut Vec<u8>,
    open: Vec<String>,
}

impl Balanced<'_> {
    fn copy(mut self, html: &[u8]) {
        let mut tokens = Tokens::new(html, 0..html.len()).peekable();
        while let Some(Token { kind, range }) = tokens.next() {
            let source = &html[range];
            match kind {
                Kind::Start(name) => {
                    let is_left_out = is_left_out(&name) || !self.may_hold(&name) || self.open.len() >= DEPTH_MAX;
                    if !is_left_out {
                        self.start(name, source);
                    } else if tokens.next_if(|token| token.kind == Kind::Raw).is_some() {
                        // Its content is none of the page's.
                    }
                }
                Kind::End(name) => self.end(&name),
                Kind::Raw => self.out.extend_from_slice(source),
                Kind::Text if source == b"<" => self.out.extend_from_slice(b"&lt;"),
                Kind::Text => self.out.extend_from_slice(source),
                Kind::Other => {}
            }
        }
        while let Some(name) = self.open.pop() {
            self.close(&name);
        }
    }

    /// Whether an element may stand here: parts of tables and lists only within one.
    fn may_hold(&self, name: &str) -> bool {
        let has = |names: &[&str]| self.open.iter().any(|open| names.contains(&&**open));
        match name {
            "caption" | "col" | "colgroup" | "tbody" | "td" | "tfoot" | "th" | "thead" | "tr" => has(&["table"]),
            "li" => has(&["ul", "ol", "menu"]),
            "dt" | "dd" => has(&["dl"]),
            "option" | "optgroup" => has(&["select", "datalist"]),
            "summary" => has(&["details"]),
            "figcaption" => has(&["figure"]),
            "legend" => has(&["fieldset"]),
            _ => true,
        }
    }

    fn start(&mut self, name: String, source: &[u8]) {
        while let Some(ended) = self.open.pop_if(|open| is_ended_by(open, &name)) {
            self.close(&ended);
        }
        self.out.extend_from_slice(source);
        let is_foreign =
            self.open.iter().any(|open| matches!(&**open, "svg" | "math")) || matches!(&*name, "svg" | "math");
        let ends_itself = is_void(&name) || is_foreign && source.ends_with(b"/>");
        if !ends_itself {
            self.open.push(name);
        }
    }

    fn end(&mut self, name: &str) {
        let Some(at) = self.open.iter().rposition(|open| open == name) else { return };
        while self.open.len() > at {
            let Some(ended) = self.open.pop() else { return };
            self.close(&ended);
        }
    }

    fn close(&mut self, name: &str) {
        self.out.extend_from_slice(format!("</{name}>").as_bytes());
    }
}

/// Whether an element occurs only once in a page, or only in its head.
fn is_left_out(name: &str) -> bool {
    matches!(
        name,
        "html" | "head" | "body" | "title" | "meta" | "link" | "style" | "base" | "frameset" | "frame" | "plaintext"
    )
}

pub(super) fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area" | "br" | "col" | "embed" | "hr" | "img" | "input" | "source" | "track" | "wbr" | "param" | "keygen"
    )
}

/// Whether the end tag of `open` is left out where `next` begins.
fn is_ended_by(open: &str, next: &str) -> bool {
    let rows = ["tbody", "tfoot", "thead"];
    match open {
        "p" => is_block(next),
        "li" => next == "li",
        "dt" | "dd" => matches!(next, "dt" | "dd"),
        "td" | "th" => matches!(next, "td" | "th" | "tr") || rows.contains(&next),
        "tr" => next == "tr" || rows.contains(&next),
        "tbody" | "thead" | "tfoot" => rows.contains(&next),
        "caption" | "colgroup" => next == "tr" || rows.contains(&next) || next == "colgroup",
        "option" => matches!(next, "option" | "optgroup"),
        "optgroup" => next == "optgroup",
        _ => false,
    }
}

/// Elements that end a paragraph.
fn is_block(name: &str) -> bool {
    const BLOCKS: [&str; 36] = [
        "address",
        "article",
        "aside",
        "blockquote",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "ul",
        "hgroup",
    ];
    BLOCKS.contains(&name)
}
