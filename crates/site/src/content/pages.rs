//! The pages that the server writes itself: for errors and for redirects.
//!
//! Owns: their content in each media type that a client may prefer. Pure functions of their arguments; whatever those
//! contain is shown and never interpreted. Does not choose between the media types or write header fields.

use serde::Serialize;

use super::escape::{push_html, push_one_line};

/// One page in every media type that is negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// `text/html; charset=utf-8`: small and self-contained, light or dark as the client prefers.
    pub html: Vec<u8>,
    /// `application/problem+json` (RFC 9457) for errors, `application/json` for redirects.
    pub json: Vec<u8>,
    /// `text/plain; charset=utf-8`: one line, ended by a line feed.
    pub text: Vec<u8>,
}

/// The page of an error: its status code with the reason phrase, and its cause in a sentence that the client may see.
pub fn error(status: u16, reason_phrase: &str, cause: &str) -> Page {
    let mut paragraph = String::with_capacity(cause.len() + 16);
    push_html(&mut paragraph, cause);
    Page {
        html: html(status, reason_phrase, &paragraph),
        json: json(&Problem { title: reason_phrase, status, detail: cause }),
        text: text(status, reason_phrase, cause),
    }
}

/// The page of a redirect, for clients that do not follow it: where the content is. The location is a link only if it
/// leads to the web or stays on this server, so that no other scheme is ever one click away.
pub fn redirect(status: u16, location: &str) -> Page {
    let mut escaped = String::with_capacity(location.len() + 16);
    push_html(&mut escaped, location);
    let paragraph = if is_web_reference(location) {
        format!("The content is at <a href=\"{escaped}\">{escaped}</a>.")
    } else {
        format!("The content is at {escaped}.")
    };
    let title = redirect_phrase(status);
    Page {
        html: html(status, title, &paragraph),
        json: json(&Redirection { title, status, location }),
        text: text(status, title, location),
    }
}

/// Members of a problem after RFC 9457 3.1. Without `type` it is `about:blank`: nothing beyond the status code.
#[derive(Serialize)]
struct Problem<'a> {
    title: &'a str,
    status: u16,
    detail: &'a str,
}

#[derive(Serialize)]
struct Redirection<'a> {
    title: &'a str,
    status: u16,
    location: &'a str,
}

/// The reason phrases of RFC 9110 15.4.
fn redirect_phrase(status: u16) -> &'static str {
    match status {
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => "Redirect",
    }
}

/// Whether a URI reference has the scheme http or https, or none because it starts as only a relative one can.
fn is_web_reference(location: &str) -> bool {
    let has_scheme =
        |scheme: &str| location.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    has_scheme("http://") || has_scheme("https://") || location.starts_with(['/', '.', '?', '#'])
}

/// The page with this paragraph, which is HTML already.
fn html(status: u16, title: &str, paragraph: &str) -> Vec<u8> {
    let mut escaped_title = String::with_capacity(title.len() + 16);
    push_html(&mut escaped_title, title);
    let title = escaped_title;
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{status} {title}</title>\n\
         {HEAD_AFTER_TITLE}<h1><b>{status}</b> {title}</h1>\n<p>{paragraph}</p>\n</main>\n</body>\n</html>\n"
    )
    .into_bytes()
}

const HEAD_AFTER_TITLE: &str = concat!(
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<style>\n",
    include_str!("assets/page.css"),
    include_str!("assets/message.css"),
    "</style>\n</head>\n<body>\n<header>\n<nav><a href=\"/\">Home</a></nav>\n</header>\n<main>\n",
);

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut json = serde_json::to_vec(value).expect("strings and numbers can always be written to memory");
    json.push(b'\n');
    json
}

fn text(status: u16, title: &str, detail: &str) -> Vec<u8> {
    let mut line = format!("{status} ");
    push_one_line(&mut line, title);
    if !detail.is_empty() {
        line.push_str(": ");
        push_one_line(&mut line, detail);
    }
    line.push('\n');
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn utf8(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).expect("UTF-8")
    }

    fn value(bytes: &[u8]) -> serde_json::Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    #[test]
    fn an_error_says_what_and_why_in_every_media_type() {
        let page = error(404, "Not Found", "There is nothing at /a.");
        assert!(utf8(&page.html).contains("<title>404 Not Found</title>"));
        assert!(utf8(&page.html).contains("<h1><b>404</b> Not Found</h1>\n<p>There is nothing at /a.</p>"));
        assert_eq!(utf8(&page.text), "404 Not Found: There is nothing at /a.\n");
        let expected = serde_json::json!({"title": "Not Found", "status": 404, "detail": "There is nothing at /a."});
        assert_eq!(value(&page.json), expected);
    }

    #[test]
    fn an_error_without_a_cause_is_its_status() {
        assert_eq!(error(404, "Not Found", "").text, b"404 Not Found\n");
    }

    #[test]
    fn a_redirect_says_where_to() {
        let page = redirect(308, "/a/?b=c&d");
        assert!(utf8(&page.html).contains("<a href=\"/a/?b=c&amp;d\">/a/?b=c&amp;d</a>"));
        assert_eq!(utf8(&page.text), "308 Permanent Redirect: /a/?b=c&d\n");
        assert_eq!(value(&page.json)["location"], "/a/?b=c&d");
        assert!(utf8(&redirect(302, "https://example.org/").html).contains("<a href=\"https://example.org/\">"));
    }

    #[test]
    fn only_references_into_the_web_are_links() {
        for location in ["javascript:alert(1)", "JavaScript:x", "data:text/html,x", " /a", "a:b", ""] {
            let links = utf8(&redirect(302, location).html).matches("<a ").count();
            assert_eq!(links, 1, "the one home: {location}");
        }
    }

    #[test]
    fn pages_ask_for_nothing_from_elsewhere() {
        let page = error(500, "Internal Server Error", "");
        let page = utf8(&page.html).replace("<a href=\"/\">Home</a>", "");
        for reference in ["src=", "href=", "url(", "@import", "http"] {
            assert!(!page.contains(reference), "{reference}");
        }
    }

    proptest! {
        #[test]
        fn arguments_never_become_syntax(reason in any::<String>(), cause in any::<String>()) {
            let page = error(400, &reason, &cause);
            let syntax = |page: &Page| utf8(&page.html).chars().filter(|c| "<>\"'".contains(*c)).count();
            prop_assert_eq!(syntax(&page), syntax(&error(400, "x", "x")));
            prop_assert_eq!(utf8(&page.text).matches(char::is_control).count(), 1);
            let problem = value(&page.json);
            prop_assert_eq!(problem["title"].as_str(), Some(&*reason));
            prop_assert_eq!(problem["detail"].as_str(), Some(&*cause));
        }

        #[test]
        fn a_location_never_becomes_syntax(location in "[/a]\\PC{0,40}") {
            let page = redirect(302, &location);
            let tags = utf8(&page.html).matches('<').count();
            let expected = utf8(&redirect(302, &location[..1]).html).matches('<').count();
            prop_assert_eq!(tags, expected);
        }
    }
}
