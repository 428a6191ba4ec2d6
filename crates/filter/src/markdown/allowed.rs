//! The parts of a text that an untrusted writer may bring into a page (`html = "show"`).
//!
//! Owns: the list of what is allowed. Guarantees: HTML is shown as the text that it is; of attributes a heading keeps
//! its `id` and its classes; a link and an image lead to `http`, `https` and `mailto`, or to a place relative to the
//! page, as a browser would read them, else their text is all that stays. Everything else is left out, whatever the
//! parser may come to know.

use pulldown_cmark::{CowStr, Event, LinkType, Tag, TagEnd};

/// Schemes of addresses.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

/// Leaves of `events` what is allowed.
pub(super) fn allow(events: &mut [Event<'_>]) {
    // Of the links and images that are open, whether each is kept: an image may be in a link.
    let mut open: Vec<bool> = Vec::new();
    for event in events {
        let is_kept = match event {
            Event::Html(text) | Event::InlineHtml(text) => {
                *event = Event::Text(std::mem::replace(text, CowStr::Borrowed("")));
                true
            }
            Event::Start(Tag::Heading { attrs, .. }) => {
                attrs.clear();
                true
            }
            Event::Start(Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. }) => {
                // The address of such a link is written with its scheme.
                let is_allowed = *link_type == LinkType::Email || is_allowed(dest_url);
                open.push(is_allowed);
                is_allowed
            }
            Event::End(TagEnd::Link | TagEnd::Image) => open.pop().unwrap_or(false),
            _ => true,
        };
        if !is_kept {
            *event = Event::Text(CowStr::Borrowed(""));
        }
    }
}

/// Whether a browser takes `address` for one of [`SCHEMES`], or for one without a scheme. It leaves out line breaks and
/// tabs wherever they are, and what is not visible at the beginning (WHATWG URL 4.4); here no control character and no
/// space counts.
fn is_allowed(address: &str) -> bool {
    let is_seen = |letter: &char| !letter.is_control() && !letter.is_whitespace();
    let read: String =
        address.chars().filter(is_seen).take_while(|letter| !matches!(letter, '/' | '?' | '#')).collect();
    match read.split_once(':') {
        Some((scheme, _)) => SCHEMES.iter().any(|one| scheme.eq_ignore_ascii_case(one)),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_browsers_do() {
        for address in
            ["", "#a", "a.html", "./a:b", "/a:b", "?a:b", "HTTP://a", "https://a", "mailto:a@b", "//a", "a/b:c"]
        {
            assert!(is_allowed(address), "{address}");
        }
        for address in [
            "javascript:a",
            "JavaScript:a",
            " javascript:a",
            "java\tscript:a",
            "java\nscript:a",
            "\u{1}javascript:a",
            "\u{0}javascript:a",
            "javascript\r:a",
            "data:text/html,a",
            "vbscript:a",
            "file:///a",
            "blob:a",
            "a:b",
            ":a",
            "\u{a0}javascript:a",
            "view-source:http://a",
            "jar:http://a",
        ] {
            assert!(!is_allowed(address), "{address:?}");
        }
    }
}
