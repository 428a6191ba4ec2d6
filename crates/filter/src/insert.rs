//! The filter `insert`: HTML at the end of the head or of the body of pages.
//!
//! Owns: where that is. A page without a head
//! has the text before its first element that belongs to none; a page without a body's end tag has it at its own end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lol_html::html_content::ContentType;
use lol_html::send::{IntoHandler, Settings};
use lol_html::{element, end};

use crate::html::rewriting;
use crate::{Content, Effect, Filter, Kind, Make, Parameters};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "insert",
    about: "Adds HTML at the end of the head or of the body of pages.",
    version: 1,
    effect: Effect::Form,
    required: &[("where", "\"head\" or \"body\""), ("html", "What is added, as it is")],
    optional: &[],
    make,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    Body,
}

#[derive(Debug)]
struct Insert {
    place: Place,
    html: Arc<str>,
}

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let place = match parameters.get("where").map(String::as_str) {
        Some("head") => Place::Head,
        Some("body") => Place::Body,
        _ => return Err("`where` is \"head\" or \"body\"".into()),
    };
    let html = parameters.get("html").map(String::as_str).unwrap_or_default().into();
    Ok(Arc::new(Insert { place, html }))
}

impl Make for Insert {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        if !content.is_plain() || !content.is_of(&["text/html", "application/xhtml+xml"]) {
            return None;
        }
        Some(rewriting(self.settings()))
    }
}

impl Insert {
    /// The rewriter's handlers: the text is added once, at the first place that is right.
    fn settings(&self) -> Settings<'static, 'static> {
        let is_done = Arc::new(AtomicBool::new(false));
        let once = |html: &Arc<str>| {
            let (is_done, html) = (is_done.clone(), html.clone());
            move || (!is_done.swap(true, Relaxed)).then(|| html.clone())
        };
        let (at_end_tag, before_element, at_end) = (once(&self.html), once(&self.html), once(&self.html));
        let of_page = match self.place {
            Place::Head => "head",
            Place::Body => "body",
        };
        let mut settings = Settings::new_send().append_element_content_handler(element!(of_page, move |element| {
            let at_end_tag = at_end_tag.clone();
            let add = move |tag: &mut lol_html::html_content::EndTag<'_>| {
                if let Some(html) = at_end_tag() {
                    tag.before(&html, ContentType::Html);
                }
                Ok(())
            };
            // None where an element has no end.
            if let Some(handlers) = element.end_tag_handlers() {
                handlers.push(IntoHandler::into_handler(add));
            }
            Ok(())
        }));
        if self.place == Place::Head {
            settings = settings.append_element_content_handler(element!("*", move |element| {
                if !OF_HEAD.contains(&&*element.tag_name())
                    && let Some(html) = before_element()
                {
                    element.before(&html, ContentType::Html);
                }
                Ok(())
            }));
        }
        settings.append_document_content_handler(end!(move |end| {
            if let Some(html) = at_end() {
                end.append(&html, ContentType::Html);
            }
            Ok(())
        }))
    }
}

/// Elements that a head may hold, or that hold it (HTML, 4.2).
const OF_HEAD: [&str; 10] =
    ["html", "head", "title", "base", "link", "meta", "style", "script", "noscript", "template"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;
    use crate::html::MEMORY_BYTES_MAX;
    use proptest::prelude::*;

    fn filtered(place: &str, page: &str) -> Result<String, Fault> {
        let parameters = [("where".into(), place.into()), ("html".into(), "<i>".into())].into();
        let mut filter = make(&parameters).unwrap().start(&mut Content::new("text/html")).unwrap();
        let mut out = Vec::new();
        page.as_bytes().chunks(1 << 16).try_for_each(|piece| filter.take(piece, &mut out))?;
        filter.finish(&mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn the_text_is_added_at_the_end_of_the_head() {
        for (page, expected) in [
            ("<html><head><title>a</title></head><body>b", "<html><head><title>a</title><i></head><body>b"),
            ("<!doctype html><title>a</title><p>b", "<!doctype html><title>a</title><i><p>b"),
            ("<head><title>a</title><body>b", "<head><title>a</title><i><body>b"),
            ("<HTML><HEAD></HEAD><HEAD></HEAD>", "<HTML><HEAD><i></HEAD><HEAD></HEAD>"),
            ("words", "words<i>"),
            ("", "<i>"),
        ] {
            assert_eq!(filtered("head", page).unwrap(), expected);
        }
    }

    #[test]
    fn the_text_is_added_at_the_end_of_the_body() {
        for (page, expected) in [
            ("<body><p>a</p></body></html>", "<body><p>a</p><i></body></html>"),
            ("<p>a", "<p>a<i>"),
            ("<body>a<!-- </body> -->b</body>", "<body>a<!-- </body> -->b<i></body>"),
            ("<body><script>'</body>'</script></body>", "<body><script>'</body>'</script><i></body>"),
        ] {
            assert_eq!(filtered("body", page).unwrap(), expected);
        }
    }

    #[test]
    fn a_tag_without_end_is_a_fault_and_not_held_for_ever() {
        let page = format!("<p {}", "a".repeat(2 * MEMORY_BYTES_MAX));
        assert!(matches!(filtered("head", &page), Err(Fault::Content(_))));
    }

    #[test]
    fn a_place_that_there_is_not_is_refused() {
        let parameters = [("where".into(), "foot".into()), ("html".into(), String::new())].into();
        assert_eq!(make(&parameters).unwrap_err(), "`where` is \"head\" or \"body\"");
    }

    proptest! {
        #[test]
        fn any_page_keeps_its_bytes_and_gains_the_text_once(page in "[<>/!a-eh-y =\"'-]{0,80}") {
            for place in ["head", "body"] {
                let made = filtered(place, &page).unwrap();
                prop_assert_eq!(made.len(), page.len() + 3);
                prop_assert!(made.contains("<i>"));
            }
        }
    }
}
