//! Files beneath a root that are sent as they are, and that somebody probably wanted run, or kept: programs, dumps and copies.
//!
//! Owns: finding some of them, and the words. The routes of the site are asked whether a file is sent (`route::sent`), so hidden files, files that an
//! application runs and files that are led away are none. Guarantees: a bounded number of names is looked at; folders are not entered by a link.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::route::sent::Sent;
use super::settings::SiteSettings;

/// What their names end with.
const ENDS: [&str; 27] = [
    "php", "php3", "php4", "php5", "php7", "php8", "phtml", "inc", "cgi", "fcgi", "pl", "py", "rb", "asp", "aspx",
    "jsp", "env", "sql", "sqlite", "sqlite3", "bak", "old", "orig", "save", "pem", "key", "htpasswd",
];

/// Names that are looked at.
const ENTRIES_MAX: usize = 4_000;
/// Folders within folders.
const DEPTH_MAX: usize = 5;
/// Names that are said.
const SAID_MAX: usize = 3;

/// A line, if there are such files.
pub(super) fn doubt(name: &str, site: &SiteSettings) -> Option<String> {
    let sent = Sent::new(site).ok()?;
    let aliases = site.aliases.iter().map(|alias| (alias.prefix.clone().into_bytes(), alias.root.clone()));
    let root = site.has_root().then(|| (b"/".to_vec(), site.root.clone()));
    let mut found: Vec<String> = Vec::new();
    for (prefix, root) in root.into_iter().chain(aliases) {
        for path in candidates(&prefix, root) {
            let shown = String::from_utf8_lossy(&path).into_owned();
            if sent.sends(&path) && !found.contains(&shown) {
                found.push(shown);
            }
        }
    }
    if found.is_empty() {
        return None;
    }
    let shown: Vec<String> = found.iter().take(SAID_MAX).map(|path| format!("`{}`", path.escape_debug())).collect();
    let more = match found.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "{name} sends {}{more} as they are, to whoever asks: if these are programs or not for everybody, name the application that runs them \
         (`fastcgi`, `cgi`), or take them out of the root",
        shown.join(", ")
    ))
}

/// Paths beneath `prefix` that end in such a way.
fn candidates(prefix: &[u8], root: PathBuf) -> Vec<Vec<u8>> {
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut folders = VecDeque::from([(prefix.to_vec(), root, 0)]);
    while let Some((prefix, folder, depth)) = folders.pop_front() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            looked += 1;
            if looked > ENTRIES_MAX {
                return found;
            }
            let name = entry.file_name();
            let path = [&prefix, name.as_bytes()].concat();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEPTH_MAX && !name.as_bytes().starts_with(b".") {
                folders.push_back(([&path, &b"/"[..]].concat(), entry.path(), depth + 1));
            } else if !kind.is_dir() && is_telling(&name) {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    found
}

fn is_telling(name: &OsStr) -> bool {
    let name = name.as_bytes().to_ascii_lowercase();
    let end = name.rsplit(|byte| *byte == b'.').next().filter(|end| end.len() < name.len());
    name.ends_with(b"~") || end.is_some_and(|end| ENDS.iter().any(|one| one.as_bytes() == end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn doubts(files: &[&str], route: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let text = format!("[[site]]\nroot = {:?}\n{route}\n", root.path());
        let settings = parse(&text, &root.path().join("lamna.toml")).unwrap();
        doubt("the site", &settings.sites[0])
    }

    #[test]
    fn programs_and_copies_that_are_sent_are_said() {
        let files = ["index.html", "blog/wp-config.php", "dump.SQL", "a.html~", ".env", ".git/config", "prod.env"];
        let said = doubts(&files, "").unwrap();
        assert!(said.contains("`/a.html~`") && said.contains("`/dump.SQL`") && said.contains("1 more"), "{said}");
        let said = doubts(&["blog/wp-config.php"], "").unwrap();
        assert!(said.contains("`/blog/wp-config.php`"), "{said}");
    }

    #[test]
    fn what_is_run_hidden_led_away_or_not_there_is_not() {
        for (files, route) in [
            (&["a.php", "b/c.php"][..], "route = [{ match = \"/*\", fastcgi = \"127.0.0.1:9\" }]"),
            (&["a.py"], "route = [{ match = \"/*\", proxy = \"http://127.0.0.1:9\" }]"),
            (&["a.php"], "route = [{ match = \"*.php\", redirect = \"/\" }]"),
            (&[".env", ".git/a.php", ".a.sql"], ""),
            (&["index.html", "a.phpx", "sql"], ""),
        ] {
            assert_eq!(doubts(files, route), None, "{files:?}");
        }
        let said = doubts(&["a.php"], "route = [{ match = \"/api/*\", fastcgi = \"127.0.0.1:9\" }]");
        assert!(said.is_some());
    }
}
