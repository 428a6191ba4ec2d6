//! Blocks of which one is taken: `handle`, `handle_path` and `route`.
//!
//! Owns: what a block is for, and what `handle_path` takes away. What several blocks say to each other is in `settle`.

use lamna_config::render::quoted;

use super::matcher::Matcher;
use super::settle::Handle;
use super::syntax::Line;
use super::{DENIED_WORDS, Draft, Place, Route, Site, deny, runs_scripts, within};

/// Reads a block for the requests of `matcher`.
pub(super) fn handle(line: &Line, matcher: Matcher, place: &Place<'_>, site: &mut Site, draft: &mut Draft) {
    match matcher.prefix().filter(|prefix| prefix.len() > 1 && !prefix.ends_with('/')).map(str::to_owned) {
        Some(prefix) if line.word(0) == "handle_path" => beneath(line, &prefix, place, site, draft),
        _ => block(line, matcher, place, site, draft),
    }
}

/// Reads `handle_path /x*`, as `/x/*`: `/x` is led there. What goes on otherwise (`/xy`) has no path behind what is
/// taken away, and is not served.
fn beneath(line: &Line, prefix: &str, place: &Place<'_>, site: &mut Site, draft: &mut Draft) {
    let slashed = format!("{prefix}/");
    block(line, Matcher::of_paths(&[format!("{slashed}*")]), place, site, draft);
    let led = format!("{{ to = {}, status = 308 }}", quoted(&slashed));
    site.routes.push(Route { line: line.line, keys: vec![("match", quoted(prefix)), ("redirect", led)] });
    let rest = format!("^{}[^/]", regex::escape(prefix));
    draft.lose(line.line, format!("`{}`: what fits `{rest}` is answered with 404", line.text()));
    deny(line, &Matcher::of_regex(&rest), site);
}

fn block(line: &Line, matcher: Matcher, place: &Place<'_>, site: &mut Site, draft: &mut Draft) {
    let inner = line.block.as_deref().unwrap_or_default();
    let (start, prefix, matches) = (site.routes.len(), matcher.prefix().map(str::to_owned), matcher.to_toml());
    handle_within(line, matcher, place, site, draft);
    if let Some(matches) = matches.ok().filter(|_| line.word(0) != "route") {
        let has_scripts = runs_scripts(inner.iter(), place.snippets, 0);
        draft.handles.push(Handle { line: line.line, matches, prefix, routes: start..site.routes.len(), has_scripts });
    }
}

/// The route by which the beginning of paths is taken away. It stands behind all that may answer before.
pub(super) fn strips(line: &Line, matches: String) -> Route {
    // What stands behind the prefix is what `$1` stands for.
    Route { line: line.line, keys: vec![("match", matches), ("rewrite", quoted("/$1"))] }
}

/// Whether a `rewrite` puts the beginning of all paths of `matcher` before what is left of them.
fn puts_back(line: &Line, matcher: &Matcher) -> bool {
    let Some(bare) = matcher.prefix().and_then(|prefix| prefix.strip_suffix('/')) else { return false };
    let to: Vec<&str> = line.words.iter().skip(1).map(String::as_str).filter(|word| *word != "*").collect();
    let is_same = |to: &str| to.strip_prefix(bare).is_some_and(|rest| matches!(rest, "{path}" | "{uri}"));
    line.word(0) == "rewrite" && matches!(to[..], [to] if is_same(to))
}

fn handle_within(line: &Line, matcher: Matcher, place: &Place<'_>, site: &mut Site, draft: &mut Draft) {
    let all = line.block.as_deref().unwrap_or_default();
    let again: Vec<Line> = all.iter().filter(|one| !puts_back(one, &matcher)).cloned().collect();
    // What is taken away and put back stays.
    let is_back = line.word(0) == "handle_path" && again.len() < all.len();
    let inner = if is_back { &again } else { all };
    let is_whole = matcher.is_any();
    let (prefix, own_root) = (matcher.prefix().map(str::to_owned), inner.iter().find(|one| one.word(0) == "root"));
    let is_stripped = line.word(0) == "handle_path" && !is_whole && !is_back;
    let own_prefix = prefix.as_ref().filter(|_| is_stripped).map(|prefix| prefix.trim_end_matches('/').to_owned());
    let stripped = own_prefix.or_else(|| place.stripped.clone());
    let is_ordered = line.word(0) == "route";
    let changed = place.changed.clone();
    let place = Place { matcher, stripped, changed, is_site: place.is_site && is_whole, is_ordered, ..*place };
    let lose = |draft: &mut Draft| {
        draft.lose(
            line.line,
            format!("`{}` and all that it says: a path as in /x/* is needed; {DENIED_WORDS}", line.text()),
        )
    };
    match (is_stripped, prefix, own_root) {
        (true, Some(prefix), Some(root)) if prefix.ends_with('/') => {
            site.aliases.push((prefix, root.word(root.words.len() - 1).to_owned()));
            let rest: Vec<Line> = inner.iter().filter(|one| one.word(0) != "root").cloned().collect();
            return within(&rest, &place, site, draft);
        }
        (true, Some(prefix), None) if prefix.ends_with('/') => match place.matcher.to_toml() {
            Ok(matches) => {
                within(inner, &place, site, draft);
                return site.routes.push(strips(line, matches));
            }
            Err(_) => {
                lose(draft);
                return deny(line, &place.matcher, site);
            }
        },
        (true, ..) => {
            lose(draft);
            return deny(line, &place.matcher, site);
        }
        (false, ..) => {}
    }
    within(inner, &place, site, draft);
}

#[cfg(test)]
mod tests {
    use crate::asked::Asked;
    use crate::caddy;

    #[test]
    fn what_is_taken_away_may_end_without_a_slash() {
        let text = caddy(
            ":80 {\nhandle_path /api* {\nreverse_proxy localhost:1\n}\nhandle_path /docs* {\nroot * /docs\n\
                          file_server\n}\nhandle {\nreverse_proxy localhost:2\n}\n}\n",
        );
        let text = text.unwrap().text;
        let place = |path| Asked::of(path).place(&text, "a.example");
        assert_eq!(
            (&*place("/api/x"), &*place("/x"), &*place("/api")),
            ("localhost:1", "localhost:2", "to /api/"),
            "{text}"
        );
        assert!(
            text.contains("strip_prefix = \"/api\"") && text.contains("prefix = \"/docs/\"\nroot = \"/docs\""),
            "{text}"
        );
        let answer = |path| Asked::of(path).answer(&text, "a.example");
        assert_eq!(
            (&*answer("/apis"), &*answer("/docs/a"), &*answer("/docs")),
            ("nothing", "file /docs/a", "to /docs/"),
            "{text}"
        );
    }
}
