//! The filter `markdown`: pages of Markdown as HTML.
//!
//! Owns: the page around the text (title, style sheet, identifiers of headings). CommonMark with tables, footnotes,
//! strikethrough and task lists is `pulldown-cmark`'s; [`crate::structured`] divides it into sections. Needs the whole
//! content. Bytes that are not UTF-8 become U+FFFD, as a browser would show them.

mod allowed;

use std::collections::HashMap;
use std::sync::Arc;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

use crate::html::escaped;
use crate::{Content, Effect, Fault, Filter, Kind, Make, Parameters, Source};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "markdown",
    about: "Makes pages of HTML of Markdown (CommonMark, tables, footnotes, task lists).",
    version: 2,
    effect: Effect::Form,
    required: &[],
    optional: &[
        (
            "html",
            "What happens to HTML in the text: \"keep\" (as it is) or \"show\" (as text, and links to http, https, mailto and places of \
             the site only). Default: \"show\"",
        ),
        ("lang", "The language of the pages, as \"en\""),
        ("style", "The address of a style sheet"),
    ],
    make,
};

/// The parameters of pages made of Markdown.
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
            allowed::allow(&mut events);
        }
        let mut made = String::with_capacity(bytes * 3 / 2);
        html::push_html(&mut made, events.into_iter());
        made
    }
}

/// Gives every heading an identifier that has none, so that links can lead to it. Returns the text of the first
/// heading.
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

    /// Pieces of hostile texts.
    const PIECES: [&str; 50] = [
        "\n",
        "\n\n",
        " ",
        "# T",
        "## T\n",
        " {onclick=alert(1)}",
        " {onclick=\"a(1)\" onmouseover=b #x .y}",
        "{#x\"onclick=a}",
        "{style=x}",
        "[x](",
        "![x](",
        ")",
        "<",
        ">",
        "[x]: ",
        "[x]",
        "![x]",
        "[x][y]",
        "[y]: ",
        "javascript:alert(1)",
        "JaVaScRiPt:a",
        "java\tscript:a",
        "javascript&colon;a",
        "&#106;avascript:a",
        "&#x6A;avascript:a",
        "&#1;javascript:a",
        "\u{1}javascript:a",
        "java&NewLine;script:a",
        "&Tab;javascript:a",
        "data:text/html,<script>",
        "vbscript:a",
        "\\javascript:a",
        "javascript\\:a",
        "%6aavascript:a",
        "https://a.example/?a=1&b",
        "mailto:a@b.example",
        "a@b.example",
        "javascript:a@b.example",
        "/a.html",
        "#x",
        " \"title\" onclick=\"a\"",
        "\"",
        "'",
        "<script>a</script>",
        "<a href=\"javascript:a\">",
        "<img src=x onerror=a>",
        "<!-- a -->",
        "[^1]",
        "[^1]: a",
        "```js\" onclick=\"a\n",
    ];

    /// Checks a page against the list: attributes by name, and addresses as a browser reads them.
    fn judge(page: &str) -> Result<(), String> {
        use lol_html::{RewriteStrSettings, element, rewrite_str};
        const ATTRIBUTES: [&str; 17] = [
            "id", "class", "href", "src", "alt", "title", "start", "style", "type", "checked", "disabled", "lang",
            "charset", "name", "content", "rel", "role",
        ];
        let handler = element!("*", |element| {
            for attribute in element.attributes() {
                let (name, value) = (attribute.name(), attribute.value());
                if !ATTRIBUTES.contains(&&*name) {
                    return Err(format!("{name}={value}").into());
                }
                if name == "style" && !value.starts_with("text-align: ") {
                    return Err(format!("{name}={value}").into());
                }
                let read = value.replace("&amp;", "&").replace(['\t', '\n', '\r'], "");
                let read = read.trim_start_matches(|letter: char| letter <= ' ').to_ascii_lowercase();
                let scheme = read.split(['/', '?', '#']).next().and_then(|start| start.split_once(':'));
                let is_allowed = scheme.is_none_or(|(scheme, _)| ["http", "https", "mailto"].contains(&scheme));
                if matches!(&*name, "href" | "src") && !is_allowed {
                    return Err(format!("{name}={value}").into());
                }
            }
            match &*element.tag_name() {
                "script" | "iframe" | "object" | "embed" | "form" | "base" | "svg" | "math" => {
                    Err(element.tag_name().into())
                }
                _ => Ok(()),
            }
        });
        let settings = RewriteStrSettings::new().append_element_content_handler(handler);
        rewrite_str(page, settings).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_heading_has_no_handlers_and_a_link_no_scripts() {
        let made = page(b"# T {onclick=\"alert(1)\" onmouseover=alert(2) #i .c}\n[x](javascript:alert(3)) <javascript:a> ![y](data:a)\n", &[]);
        assert!(made.contains("<h1 id=\"i\" class=\"c\">T</h1>\n<p>x javascript:a y</p>"), "{made}");
        assert!(
            judge("<p onclick=a>").is_err() && judge("<a href='java\tscript:a'>").is_err(),
            "the judge sees what it should"
        );
        let kept = page(b"# T {onclick=a}\n[x](javascript:a)\n", &[("html", "keep")]);
        assert!(kept.contains("onclick=\"a\"") && kept.contains("javascript:a"), "whoever writes HTML may write that");
        let fine = page(b"[x](https://a.example) <a@b.example> [y](/z?a=b:c#d) ![p](p.png)\n", &[]);
        assert!(
            fine.contains("mailto:a@b.example")
                && fine.contains("src=\"p.png\"")
                && fine.contains("href=\"/z?a=b:c#d\""),
            "{fine}"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_make_a_page(text: Vec<u8>) {
            let made = page(&text, &[]);
            prop_assert!(made.starts_with("<!doctype html>") && made.ends_with("</html>\n"));
        }

        #[test]
        fn a_text_brings_nothing_into_a_page_but_what_is_allowed(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 0..14), rest in "[<>/a-c !\\-\"='&;:\n`*\\[\\]()]{0,30}",
        ) {
            let text = pieces.concat() + &rest;
            for parameters in [&[][..], &[("html", "show")]] {
                if let Err(wrong) = judge(&page(text.as_bytes(), parameters)) {
                    prop_assert!(false, "{wrong}: {text:?}");
                }
            }
        }
    }
}
