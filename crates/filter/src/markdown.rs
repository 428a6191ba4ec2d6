//! The filter `markdown`: pages of Markdown as HTML.
//!
//! Owns: the page around the text (title, style sheet, identifiers of headings). CommonMark with tables, footnotes, strikethrough and
//! task lists is `pulldown-cmark`'s; [`crate::structured`] divides it into sections. Needs the whole content. Bytes that are not UTF-8 become U+FFFD, as a browser would show them.

use std::collections::HashMap;
use std::sync::Arc;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::html::escaped;
use crate::{Content, Fault, Filter, Kind, Make, Parameters, Source};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "markdown",
    about: "Makes pages of HTML of Markdown (CommonMark, tables, footnotes, task lists).",
    version: 1,
    required: &[],
    optional: &[
        (
            "html",
            "What happens to HTML in the text: \"keep\" (as it is) or \"show\" (as text). \"show\" unless it is said",
        ),
        ("lang", "The language of the pages, as \"en\""),
        ("style", "The address of a style sheet"),
    ],
    make,
};

/// What pages are made of Markdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Markdown {
    keeps_html: bool,
    pub(crate) lang: Option<String>,
    style: Option<String>,
}

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let keeps_html = match parameters.get("html").map(String::as_str) {
        None | Some("show") => false,
        Some("keep") => true,
        Some(_) => return Err("`html` is \"keep\" or \"show\"".into()),
    };
    let (lang, style) = (parameters.get("lang").cloned(), parameters.get("style").cloned());
    Ok(Arc::new(Markdown { keeps_html, lang, style }))
}

impl Make for Markdown {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        if !is_markdown(content) {
            return None;
        }
        content.media_type = "text/html; charset=utf-8".into();
        Some(Box::new(Page { of: self.clone(), text: Vec::new() }))
    }

    fn needs_whole(&self) -> bool {
        true
    }

    fn writes_html_of(&self, content: &Content) -> Option<Source> {
        is_markdown(content).then(|| Source::markdown(self.clone()))
    }
}

fn is_markdown(content: &Content) -> bool {
    content.is_plain() && content.is_of(&["text/markdown", "text/x-markdown"])
}

struct Page {
    of: Markdown,
    text: Vec<u8>,
}

impl Filter for Page {
    fn take(&mut self, piece: &[u8], _: &mut Vec<u8>) -> Result<(), Fault> {
        self.text.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let text = String::from_utf8_lossy(&self.text);
        let mut events: Vec<Event<'_>> = Parser::new_ext(&text, OPTIONS).collect();
        let title = name_headings(&mut events);
        out.extend_from_slice(self.of.head(&title.unwrap_or_default()).as_bytes());
        out.extend_from_slice(self.of.html(events, text.len()).as_bytes());
        out.extend_from_slice(b"</main>\n</body>\n</html>\n");
        Ok(())
    }
}

pub(crate) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_HEADING_ATTRIBUTES);

impl Markdown {
    pub(crate) fn head(&self, title: &str) -> String {
        let lang = self.lang.as_ref().map(|lang| format!(" lang=\"{}\"", escaped(lang))).unwrap_or_default();
        let style = self.style_link().map(|link| format!("{link}\n")).unwrap_or_default();
        let title = escaped(title);
        format!(
            "<!doctype html>\n<html{lang}>\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n{style}</head>\n<body>\n<main>\n"
        )
    }
}

impl Markdown {
    /// The element of the style sheet.
    pub(crate) fn style_link(&self) -> Option<String> {
        self.style.as_ref().map(|style| format!("<link rel=\"stylesheet\" href=\"{}\">", escaped(style)))
    }

    /// The HTML of `events`, which came of about so many bytes.
    pub(crate) fn html(&self, mut events: Vec<Event<'_>>, bytes: usize) -> String {
        if !self.keeps_html {
            events.iter_mut().for_each(show_html);
        }
        let mut made = String::with_capacity(bytes * 3 / 2);
        html::push_html(&mut made, events.into_iter());
        made
    }
}

/// HTML is shown as the text that it is.
fn show_html(event: &mut Event<'_>) {
    if let Event::Html(text) | Event::InlineHtml(text) = event {
        *event = Event::Text(std::mem::replace(text, CowStr::Borrowed("")));
    }
}

/// Gives every heading an identifier that has none, so that links can lead to it. Returns the text of the first heading.
pub(crate) fn name_headings(events: &mut [Event<'_>]) -> Option<String> {
    let mut title = None;
    let mut taken = HashMap::new();
    for at in 0..events.len() {
        if !matches!(events[at], Event::Start(Tag::Heading { .. })) {
            continue;
        }
        let text = heading_text(&events[at + 1..]);
        if let Event::Start(Tag::Heading { id, .. }) = &mut events[at] {
            let name = id.take().map_or_else(|| slug(&text), |given| given.into_string());
            *id = Some(unused(name, &mut taken).into());
        }
        title.get_or_insert(text);
    }
    title
}

/// The text of the heading whose content begins with these events.
pub(crate) fn heading_text(events: &[Event<'_>]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let text = inside.filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(&**text),
        Event::SoftBreak | Event::HardBreak => Some(" "),
        _ => None,
    });
    text.collect()
}

/// A name for a heading: its letters and digits in lower case, with hyphens between words.
pub(crate) fn slug(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.map(str::to_lowercase).collect::<Vec<_>>().join("-");
    if name.is_empty() { "section".into() } else { name }
}

/// `name`, with a number behind it if an earlier heading has it.
pub(crate) fn unused(name: String, taken: &mut HashMap<String, u32>) -> String {
    let count = taken.entry(name.clone()).or_insert(0);
    *count += 1;
    match *count {
        1 => name,
        count => unused(format!("{name}-{count}"), taken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(text: &[u8], parameters: &[(&str, &str)]) -> String {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut filter =
            make(&parameters.iter().map(own).collect()).unwrap().start(&mut Content::new("text/markdown")).unwrap();
        let mut out = Vec::new();
        filter.take(text, &mut out).unwrap();
        filter.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_text_becomes_a_page_with_the_title_of_its_first_heading() {
        let made = page(b"# One & *two*\n\nText\n", &[("lang", "en"), ("style", "/s.css?a&b")]);
        let expected = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
            <title>One &amp; two</title>\n<link rel=\"stylesheet\" href=\"/s.css?a&amp;b\">\n</head>\n<body>\n<main>\n\
            <h1 id=\"one-two\">One &amp; <em>two</em></h1>\n<p>Text</p>\n</main>\n</body>\n</html>\n";
        assert_eq!(made, expected);
    }

    #[test]
    fn headings_of_the_same_text_have_names_of_their_own() {
        let made = page(b"# a\n# a\n# a-2\n# {#x}\n# ?", &[]);
        let names: Vec<&str> = made.split("id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(names, ["a", "a-2", "a-2-2", "x", "section"]);
    }

    #[test]
    fn html_is_shown_unless_it_is_to_be_kept() {
        let text = b"<script>x</script>\n\na <b>b</b>";
        assert!(!page(text, &[]).contains("<script>"));
        assert!(page(text, &[]).contains("&lt;b&gt;"));
        assert!(page(text, &[("html", "keep")]).contains("<script>x</script>"));
        assert!(make(&[("html".into(), "yes".into())].into()).is_err());
    }

    #[test]
    fn tables_and_task_lists_are_understood() {
        let made = page(b"|a|\n|-|\n|b|\n\n- [x] done\n", &[]);
        assert!(made.contains("<td>b</td>") && made.contains("type=\"checkbox\""), "{made}");
    }

    proptest! {
        #[test]
        fn any_bytes_make_a_page(text: Vec<u8>) {
            let made = page(&text, &[]);
            prop_assert!(made.starts_with("<!doctype html>") && made.ends_with("</html>\n"));
        }

        // https://spec.commonmark.org/ allows HTML, and links with any scheme: what "show" keeps away is the former.
        #[test]
        fn no_tag_of_the_text_gets_through(text in "[<>/a-c !\\-\"='&;\n`*]{0,60}") {
            let (made, plain) = (page(text.as_bytes(), &[]), page(b"", &[]));
            prop_assert!(!made[plain.len() - "</main>\n</body>\n</html>\n".len()..].contains("<a>"));
        }
    }
}
