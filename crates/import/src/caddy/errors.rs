//! Errors and fixed answers: `respond`, `error`, `abort` and `handle_errors`.
//!
//! Owns: what becomes of them, and what is said of the rest.

use lamna_config::render::quoted;

use super::matcher::Matcher;
use super::syntax::Line;
use super::{DENIED_PRIORITY, Draft, Route, Site, denied, is_program};
use crate::respond as fixed_answer;

/// Answers what fits `matcher`. An error for some comes before all else; all other answers have their place in Caddy's
/// order.
pub(super) fn respond(line: &Line, words: &[String], matcher: &Matcher, site: &mut Site, draft: &mut Draft) {
    let (mut answer, mut is_error) = (denied().to_vec(), true);
    match fixed(line, words) {
        _ if matches!(words, [status] if status == "404") => {}
        // What cannot be said for some is not answered for more.
        Some(value) if matcher.to_toml().is_ok_and(|exact| exact == matcher.to_wider_toml()) => {
            is_error = fixed_answer::is_error(&value)
                || value.starts_with("{ status = 4")
                || value.starts_with("{ status = 5");
            answer = vec![("respond", value)];
        }
        _ => draft.lose(line.line, format!("`{}`: it is answered with 404, and with no text of its own", line.text())),
    }
    if let Some(words) = words.first().filter(|word| line.word(0) == "error" && !is_status(word)) {
        draft.need_not(line.line, format!("`{words}` of `{}`: the words of an error are not sent", line.text()));
    }
    let comes_first = is_error && !matcher.is_any();
    let first = comes_first.then(|| ("priority", DENIED_PRIORITY.to_owned()));
    let keys = [("match", matcher.to_wider_toml())].into_iter().chain(first).chain(answer).collect();
    site.routes.push(Route { line: line.line, keys });
}

fn is_status(word: &str) -> bool {
    word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The value of `respond` for `respond` or `error`, if it can be said so.
fn fixed(line: &Line, words: &[String]) -> Option<String> {
    let is_error = line.word(0) == "error";
    let (text, status) = match words {
        _ if line.block.is_some() || line.word(0) == "abort" => return None,
        [status] if is_status(status) => ("", &**status),
        [text] if is_error => (&**text, "500"),
        [text] => (&**text, "200"),
        [text, status] => (&**text, &**status),
        _ => return None,
    };
    // The words of an error are for `handle_errors`, and not sent.
    fixed_answer::value(status, if is_error { "" } else { text })
}

/// A page for errors, if that is all that it is about.
pub(super) fn handle_errors(line: &Line, site: &mut Site, draft: &mut Draft) {
    let inner = line.block.as_deref().unwrap_or_default();
    let page = inner.iter().find(|one| one.word(0) == "rewrite").map(|one| one.word(one.words.len() - 1).to_owned());
    let is_plain = inner.iter().all(|one| matches!(one.word(0), "rewrite" | "file_server"));
    match page {
        Some(page) if is_program(&page) => {
            draft.lose(
                line.line,
                format!("`handle_errors` with `{page}`: a page is a file that is sent, and this one is run"),
            );
        }
        Some(page) if is_plain && page.starts_with('/') && !page.contains(['{', '?']) => {
            let given: Vec<&str> = line.words[1..].iter().map(String::as_str).collect();
            let statuses = if given.is_empty() { vec!["4xx", "5xx"] } else { given };
            if !statuses.iter().all(|status| matches!(*status, "4xx" | "5xx") || fixed_answer::is_error(status)) {
                let why = "`error_pages` are by status, 400 to 599, 4xx or 5xx";
                return draft.lose(line.line, format!("`{}`: {why}", line.text()));
            }
            add_pages(site, &statuses, &page);
        }
        _ => draft.lose(line.line, "`handle_errors` and all that it says: `error_pages` are files, by status"),
    }
}

/// Adds `page` to the pages of the site, for `statuses`. Several blocks may each have some.
fn add_pages(site: &mut Site, statuses: &[&str], page: &str) {
    let more: Vec<String> = statuses.iter().map(|status| format!("{} = {}", quoted(status), quoted(page))).collect();
    let more = more.join(", ");
    match site.keys.iter_mut().find(|(key, _)| *key == "error_pages") {
        Some((_, pages)) => *pages = format!("{}, {more} }}", pages.trim_end_matches([' ', '}'])),
        None => site.keys.push(("error_pages", format!("{{ {more} }}"))),
    }
}
