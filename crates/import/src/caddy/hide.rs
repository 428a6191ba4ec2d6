//! `hide` of `file_server`: files that are sent to nobody.
//!
//! Owns: for which paths of a site they stand. A word without a slash is the name of a file or folder anywhere; any
//! other is a path of the file system, which counts where it is beneath a directory of the site. Guarantees: what Caddy
//! hides is hidden; where it is not known which paths that are, more is. Source: `fileHidden` of Caddy's `fileserver`.

use super::matcher::Matcher;
use super::settle::FileServer;
use super::{deny_keys, syntax::Line};
use crate::{Draft, Route, Site};

/// Has what `hide` names be there for nobody.
pub(super) fn settle(file_servers: &[FileServer], site: &mut Site, draft: &mut Draft) {
    let root = site.keys.iter().find(|(key, _)| *key == "root").map(|(_, root)| root.trim_matches('"').to_owned());
    let mut directories: Vec<(String, String)> = site.aliases.clone();
    directories.extend(root.map(|root| ("/".to_owned(), root)));
    for (line, name) in file_servers
        .iter()
        .flat_map(|one| &one.hidden)
        .flat_map(|line| line.words[1..].iter().map(move |name| (line, name)))
    {
        match hidden(name, &directories) {
            Ok(found) => {
                if found.is_empty() {
                    let why = "no directory of the site has it";
                    draft.need_not(line.line, format!("`{name}` of `{}`: {why}", line.text()));
                }
                found.iter().for_each(|matcher| deny(line, matcher, site));
            }
            Err((why, wider)) => {
                let matches = wider.to_wider_toml();
                draft.lose(line.line, format!("`{name}` of `{}`: {why}; nothing is sent for {matches}", line.text()));
                deny(line, &wider, site);
            }
        }
    }
}

fn deny(line: &Line, matcher: &Matcher, site: &mut Site) {
    let keys = [("match", matcher.to_wider_toml())].into_iter().chain(deny_keys()).collect();
    site.routes.push(Route { line: line.line, keys });
}

/// The paths of what a word names.
///
/// # Errors
/// Why they are not known, and more paths.
fn hidden(name: &str, directories: &[(String, String)]) -> Result<Vec<Matcher>, (&'static str, Matcher)> {
    if name.contains('{') {
        return Err(("a placeholder is not known here", Matcher::any()));
    }
    let parts = cleaned(name);
    let Some(regexes) = parts.iter().map(|part| glob(part)).collect::<Option<Vec<String>>>() else {
        return Err(("it is no pattern", Matcher::any()));
    };
    if !name.contains('/') {
        return Ok(vec![anywhere(name, &regexes)]);
    }
    let mut found = Vec::new();
    for (prefix, directory) in directories {
        // Both are in the directory that Caddy is started in, or neither is.
        if directory.starts_with('/') != name.starts_with('/') || parts.iter().any(|part| part == "..") {
            let last = parts.last().map_or(name, String::as_str);
            let why = "it depends on the directory that Caddy is started in";
            return Err((why, anywhere(last, &regexes[regexes.len().saturating_sub(1)..])));
        }
        let own = cleaned(directory);
        let fits = |(regex, part): (&String, &String)| {
            lamna_config::route::pattern::compile(&format!("^{regex}$"))
                .is_ok_and(|regex| regex.is_match(part.as_bytes()))
        };
        if !regexes.iter().zip(&own).all(fits) {
            continue;
        }
        match regexes.get(own.len()..).filter(|rest| !rest.is_empty()) {
            Some(rest) => {
                let regex = format!("^{}{}(?:/|$)", regex::escape(prefix), rest.join("/"));
                found.push(Matcher::of_regex(&regex));
            }
            None => found.push(Matcher::of_paths(&[format!("{prefix}*")])),
        }
    }
    Ok(found)
}

/// Files and folders of that name, and all beneath them.
fn anywhere(name: &str, regexes: &[String]) -> Matcher {
    if name.contains(['[', ']', '?', '\\', '{', '}']) || name.is_empty() {
        return Matcher::of_regex(&format!("/{}(?:/|$)", regexes.concat()));
    }
    Matcher::of_paths(&[format!("**/{name}"), format!("**/{name}/*")])
}

/// The parts of a path, without those that mean nothing.
fn cleaned(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." if parts.last().is_some_and(|last| last != "..") => _ = parts.pop(),
            ".." if path.starts_with('/') => {}
            part => parts.push(part.to_owned()),
        }
    }
    parts
}

/// An expression for a name that fits a pattern. None if it is none.
fn glob(pattern: &str) -> Option<String> {
    let mut regex = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '\\' => regex.push_str(&regex::escape(&letters.next()?.to_string())),
            '[' => {
                let class: String = letters.by_ref().take_while(|one| *one != ']').collect();
                regex.push_str(&format!("[{class}]"));
            }
            letter => regex.push_str(&regex::escape(&letter.to_string())),
        }
    }
    lamna_config::route::pattern::compile(&regex).is_ok().then_some(regex)
}

#[cfg(test)]
mod tests {
    use crate::asked::Asked;
    use crate::caddy;

    fn of(root: &str, hide: &str, more: &str) -> String {
        let text = format!(":80 {{\nroot * {root}\nfile_server {{\nhide {hide}\n}}\n{more}\n}}\n");
        caddy(&text).unwrap_or_else(|note| panic!("{text}: {note:?}")).text
    }

    #[test]
    fn what_is_hidden_is_sent_to_nobody() {
        for (root, hide, hidden, sent) in [
            ("/srv/www", ".git *.bak /srv/www/admin", "/admin/x.txt", "/a/admin"),
            ("/srv/www", "/srv/www/admin", "/admin", "/adminx"),
            ("/srv/www/", "/srv/www/private/*", "/private/x", "/private"),
            ("/srv/www", "/srv/www/admin/x.txt", "/admin/x.txt", "/admin/y.txt"),
            ("/srv/www", "/srv/*/admin", "/admin/x", "/a"),
            ("/srv/www", "[a-b].txt", "/x/a.txt", "/c.txt"),
            ("/srv/www", "?.txt", "/a.txt", "/ab.txt"),
            ("/srv/www", "*.bak", "/x/a.bak", "/a.bakx"),
            ("/srv/www", "/secret.txt", "/.git", "/secret.txt"),
            ("/srv/www", "/srv", "/a", ""),
            ("/srv/www", "./admin/x", "/any/x", "/a"),
            ("www", "./www/admin", "/admin/x", "/www/admin"),
            ("www", "/srv/www/admin", "/any/admin", "/a"),
            ("/srv/www", "{env.X}", "/a", ""),
        ] {
            let text = of(root, hide, "");
            if hide != "/secret.txt" {
                assert_eq!(Asked::of(hidden).answer(&text, ""), "nothing", "{root} {hide} {hidden}: {text}");
            }
            if !sent.is_empty() {
                assert_eq!(Asked::of(sent).answer(&text, ""), format!("file {sent}"), "{root} {hide} {sent}: {text}");
            }
        }
        let text = of("/srv/www", "/docs/secret", "handle_path /docs/* {\nroot * /docs\nfile_server\n}");
        assert_eq!(Asked::of("/docs/secret/x").answer(&text, ""), "nothing", "{text}");
        assert_eq!(Asked::of("/docs/x").answer(&text, ""), "file /docs/x", "{text}");
        let text = of("/srv/www", "/secret.txt", "");
        assert!(text.contains("no directory of the site has it"), "{text}");
    }
}
