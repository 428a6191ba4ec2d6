//! Fields of requests that Caddy changes before it asks matchers about them.
//!
//! Owns: which directives change which ([`fields`]), and what a matcher about one is worth then: a route looks at the
//! field that the client has sent. Pure.

use super::matcher::{Matcher, Matchers, Unsaid};
use super::syntax::Line;
use super::who::About;

/// The names of fields that a directive changes, in small letters; a star at the end stands for any ending.
pub(super) fn fields(line: &Line, matchers: &Matchers) -> Vec<String> {
    let bare = |name: &str| name.trim_start_matches(['+', '-', '>', '?']).to_ascii_lowercase();
    match line.word(0) {
        "request_header" => {
            let (_, words) = matchers.of(line);
            words.first().map(|name| bare(name)).into_iter().collect()
        }
        "forward_auth" => {
            let copied = line.block.iter().flatten().filter(|inner| inner.word(0) == "copy_headers");
            let names = copied.flat_map(|inner| {
                let lines = inner.block.iter().flatten().flat_map(|one| &one.words);
                inner.words[1..].iter().chain(lines).collect::<Vec<_>>()
            });
            names.map(|name| bare(name.rsplit('>').next().unwrap_or_default())).collect()
        }
        _ => Vec::new(),
    }
}

/// The matcher, unless it asks about a field of these.
pub(super) fn without(matcher: Matcher, changed: &[String]) -> Result<Matcher, Unsaid> {
    let wider = changed.iter().fold(matcher.clone(), |matcher, name| matcher.without_field(name));
    if wider == matcher {
        return Ok(matcher);
    }
    let why =
        "a directive before changes the field that it asks for, and here it is asked for as it was sent".to_owned();
    Err(Unsaid { why, wider, about: About { asks_who: true, leaves_files: false } })
}
