//! Refusals for paths in any case: Caddy compares paths without regard to it.
//!
//! Owns: a second route beside each that keeps somebody out, for its paths in other letters. Guarantees: what is exempt
//! from the first one stays so. Does not carry over where else paths in other letters lead, and leaves names of files
//! alone (`hide`), which Caddy compares with regard to case.

use lamna_config::render::quoted;

use super::is_denied;
use crate::{Route, Site};

/// Beyond the priority of all that is not for other letters.
const CASE_PRIORITY: usize = 110_000;

/// Has each route that keeps somebody out count for its paths in other letters, too.
pub(super) fn keep_out_any_case(site: &mut Site) {
    let mut others: Vec<(usize, Route)> = Vec::new();
    for route in &site.routes {
        let Some((key, matches)) = route.keys.first().filter(|(_, matches)| !matches.contains("\"**/")) else {
            continue;
        };
        let kept: Vec<(&'static str, String)> = match () {
            // It counts before all that is not refused, so nothing is exempt from it.
            () if refuses(route) => route.keys[1..].iter().filter(|(key, _)| *key != "priority").cloned().collect(),
            () => route.keys.iter().filter(|(key, _)| *key == "access").cloned().collect(),
        };
        let regex = |paths: &[&str]| match refuses(route) {
            true => format!("(?i){}", whole(&alternatives(paths.iter().map(|path| regex(path))))),
            false => whole(&alternatives(paths.iter().filter_map(|path| other_case(path)))),
        };
        if let (Some(other), false) = (with_paths(matches, regex), kept.is_empty()) {
            let keys = [(*key, other)].into_iter().chain(kept).collect();
            others.push((matches.len(), Route { line: route.line, keys }));
        }
    }
    // The longer one says more. No two are equally specific.
    others.sort_by_key(|(length, _)| *length);
    for (place, (_, mut route)) in others.into_iter().enumerate() {
        route.keys.insert(1, ("priority", (CASE_PRIORITY + place).to_string()));
        site.routes.push(route);
    }
}

/// Whether a route answers with an error, before all others.
fn refuses(route: &Route) -> bool {
    let is_error =
        |value: &str| ["4", "5", "{ status = 4", "{ status = 5"].iter().any(|start| value.starts_with(start));
    let says = |(key, value): &(&str, String)| *key == "rewrite" || *key == "respond" && is_error(value);
    is_denied(route) && route.keys.iter().any(says)
}

/// A `match` with an expression in the place of its paths. None if it names no paths, or none that have a case.
fn with_paths(matches: &str, regex: impl Fn(&[&str]) -> String) -> Option<String> {
    let (paths, rest) = match matches.strip_prefix("{ path = [") {
        Some(table) => table.split_once(']')?,
        None => (matches, " }"),
    };
    let bare = |path: &'_ str| path.len() > 1 && path.starts_with('"') && path.ends_with('"');
    let quotes: Vec<&str> = paths.split(", ").collect();
    if !quotes.iter().all(|path| bare(path)) || !paths.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let paths: Vec<&str> = quotes.iter().map(|path| &path[1..path.len() - 1]).collect();
    Some(format!("{{ regex = {}{rest}", quoted(&regex(&paths))))
}

/// One of these expressions.
fn alternatives(regexes: impl Iterator<Item = String>) -> String {
    let regexes: Vec<String> = regexes.collect();
    if let [one] = &regexes[..] { one.clone() } else { format!("(?:{})", regexes.join("|")) }
}

/// An expression for a whole path.
fn whole(regex: &str) -> String {
    let start = regex.strip_prefix(ANYTHING).map_or_else(|| format!("^{regex}"), str::to_owned);
    start.strip_suffix(ANYTHING).map_or_else(|| format!("{start}$"), str::to_owned)
}

const ANYTHING: &str = "(?s:.*)";

/// An expression for what fits a pattern.
fn regex(path: &str) -> String {
    part(path, 0..path.len())
}

/// An expression for what fits a pattern without regard to case, and does not with regard to it: at one of its letters
/// the case differs, before it none does. None for a pattern without letters.
fn other_case(path: &str) -> Option<String> {
    let letters = || path.char_indices().filter(|(_, letter)| letter.is_ascii_alphabetic());
    let differing = letters().map(|(at, letter)| {
        let flipped =
            if letter.is_ascii_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        let rest = part(path, at + 1..path.len());
        let rest = if letters().any(|(later, _)| later > at) { format!("(?i:{rest})") } else { rest };
        format!("{}{flipped}{rest}", part(path, 0..at))
    });
    let differing: Vec<String> = differing.collect();
    (!differing.is_empty()).then(|| alternatives(differing.into_iter()))
}

/// A part of a pattern as an expression. A star at the beginning and at the end of the whole is anything, and within
/// it anything but a slash.
fn part(path: &str, range: std::ops::Range<usize>) -> String {
    let mut regex = String::new();
    let mut buffer = [0; 4];
    for (at, letter) in path.char_indices().filter(|(at, _)| range.contains(at)) {
        let is_twice = path[..at].ends_with('*') || path[at + letter.len_utf8()..].starts_with('*');
        match letter {
            '*' if at == 0 || at + 1 == path.len() || is_twice => regex.push_str(ANYTHING),
            '*' => regex.push_str("[^/]*"),
            _ => regex.push_str(&regex::escape(letter.encode_utf8(&mut buffer))),
        }
    }
    regex
}

#[cfg(test)]
mod tests {
    use crate::asked::Asked;
    use crate::caddy;

    fn of(inner: &str) -> String {
        let text = format!(":80 {{\nroot * /srv\n{inner}\n}}\n");
        caddy(&text).unwrap_or_else(|note| panic!("{text}: {note:?}")).text
    }

    fn place(text: &str, path: &str) -> String {
        Asked::of(path).place(text, "a.example")
    }

    #[test]
    fn what_is_refused_is_refused_in_capitals_too() {
        for refusal in [
            "respond /admin/* 403",
            "@no path /admin/* /other\nrespond @no 403",
            "@no {\npath /admin/*\nnot remote_ip 10.0.0.0/8\n}\nrespond @no 403",
            "handle /admin/* {\nrespond 403\n}",
        ] {
            let text = of(&format!("{refusal}\nreverse_proxy localhost:3000"));
            for path in ["/admin/a.php", "/ADMIN/a.php", "/Admin/", "/admiN/x"] {
                assert_eq!(place(&text, path), "403", "{refusal}: {path}\n{text}");
            }
            for path in ["/ADMIN", "/xADMIN/", "/a", "/OTHERS"] {
                assert_ne!(place(&text, path), "403", "{refusal}: {path}\n{text}");
            }
        }
        let ends = of("@ends path *.bak\nrespond @ends 403\nreverse_proxy localhost:3000");
        assert_eq!(place(&ends, "/a.BAK"), "403", "{ends}");
        assert_eq!(place(&ends, "/a.BAKE"), "localhost:3000", "{ends}");
        let nothing = of("respond /admin/* 404\nreverse_proxy localhost:3000");
        assert_eq!(Asked::of("/ADMIN/a").answer(&nothing, "a.example"), "nothing", "{nothing}");
    }

    #[test]
    fn a_password_is_asked_for_in_capitals_too() {
        let hash = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";
        let text = of(&format!("basicauth /secret/* {{\nada {hash}\n}}\nreverse_proxy localhost:3000"));
        let lets_all_in = |path: &str| Asked::of(path).lets_anyone_in(&text, "a.example");
        assert!(lets_all_in("/a") && lets_all_in("/SECRETS"), "{text}");
        for path in ["/secret/a", "/SECRET/a", "/Secret/"] {
            assert!(!lets_all_in(path), "{path}\n{text}");
        }
    }

    #[test]
    fn what_is_exempt_from_a_password_as_it_is_written_stays_so() {
        let hash = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";
        let open = "handle /a/open/* {\nreverse_proxy localhost:1\n}";
        let text = of(&format!("{open}\nhandle /a/* {{\nbasicauth {{\nada {hash}\n}}\nreverse_proxy localhost:2\n}}"));
        let lets_all_in = |path: &str| Asked::of(path).lets_anyone_in(&text, "a.example");
        assert!(!lets_all_in("/a/x") && !lets_all_in("/A/x") && !lets_all_in("/A/open/x"), "{text}");
        assert_eq!(place(&text, "/a/open/x"), "localhost:1", "{text}");
    }
}
