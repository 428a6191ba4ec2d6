//! Files beneath a root, sent as they are, but probably meant to be run or kept back: programs, dumps and copies.
//!
//! Owns: finding some of them, and the words. The routes of the site are asked whether a file is sent (`route::sent`),
//! so hidden files, files that an application runs, files of the server and files that are led away are none.
//! Guarantees: a bounded number of names is looked at; folders are not entered by a link.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::own_files::OwnPath;
use super::route::sent::Sent;
use super::settings::SiteSettings;

/// The extensions of their names.
const ENDS: [&str; 52] = [
    "php", "php3", "php4", "php5", "php7", "php8", "phtml", "phps", "inc", "cgi", "fcgi", "pl", "py", "rb", "lua",
    "sh", "bash", "asp", "aspx", "jsp", "env", "sql", "sqlite", "sqlite3", "db", "mdb", "dump", "rdb", "bak", "old",
    "orig", "save", "swp", "swo", "rej", "pem", "key", "p12", "pfx", "jks", "kdbx", "ppk", "htpasswd", "htaccess",
    "passwd", "tfstate", "tfvars", "log", "pcap", "core", "mysql", "ovpn",
];

/// Names of them, with any extension.
const NAMES: [&str; 10] = [
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "htpasswd",
    "htaccess",
    "shadow",
    "authorized_keys",
    "credentials",
    "web.config",
];

/// Words that follow `env.` in the names of files with secrets.
const ENVIRONMENTS: [&str; 8] = ["local", "production", "prod", "staging", "development", "dev", "test", "example"];

/// The extensions of packed files, behind an extension from [`ENDS`].
const PACKED: [&str; 11] = ["gz", "bz2", "xz", "zst", "zip", "7z", "rar", "tar", "tgz", "br", "lz4"];

/// Folders that hold the history of a program, or keys: none of their files is for the public.
const FOLDERS: [&str; 7] = [".git", ".svn", ".hg", ".bzr", ".ssh", ".gnupg", ".aws"];

/// Names that are looked at.
const ENTRIES_MAX: usize = 4_000;
/// Folders within folders.
const DEPTH_MAX: usize = 5;
/// Names that are said.
const SAID_MAX: usize = 3;

/// A line, if there are such files.
pub(super) fn warning(name: &str, site: &SiteSettings, own: &[OwnPath]) -> Option<String> {
    let sent = Sent::new(site).ok()?;
    let aliases = site.aliases.iter().map(|alias| (alias.prefix.clone().into_bytes(), alias.root.clone()));
    let root = site.has_root().then(|| (b"/".to_vec(), site.root.clone()));
    let mut found: Vec<String> = Vec::new();
    for (prefix, root) in root.into_iter().chain(aliases) {
        let is_kept = root.components().any(|part| FOLDERS.iter().any(|name| part.as_os_str() == OsStr::new(name)));
        for path in candidates(&prefix, root, is_kept) {
            let shown = String::from_utf8_lossy(&path).into_owned();
            let is_own = own.iter().any(|one| one.covers(&path));
            if !is_own && sent.sends(&path) && sent.is_open(&path) && !found.contains(&shown) {
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

/// Paths beneath `prefix` that end in such a way, or all if none of them `is_kept` from others by its name.
fn candidates(prefix: &[u8], root: PathBuf, is_kept: bool) -> Vec<Vec<u8>> {
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
            // Other hidden names are never sent.
            let is_entered = !name.as_bytes().starts_with(b".") || depth == 0 && name.as_bytes() == b".well-known";
            if kind.is_dir() && depth < DEPTH_MAX && is_entered {
                folders.push_back(([&path, &b"/"[..]].concat(), entry.path(), depth + 1));
            } else if !kind.is_dir() && (is_kept || is_telling(&name)) {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    found
}

fn is_telling(name: &OsStr) -> bool {
    let name = name.as_bytes().to_ascii_lowercase();
    let Ok(mut name) = std::str::from_utf8(&name) else { return false };
    while let Some((rest, _)) = name.rsplit_once('.').filter(|(rest, end)| PACKED.contains(end) && !rest.is_empty()) {
        name = rest;
    }
    let is_environment = name.strip_prefix("env.").is_some_and(|of| ENVIRONMENTS.contains(&of));
    let end = name.rsplit_once('.').map(|(_, end)| end);
    name.ends_with('~') || is_environment || NAMES.contains(&name) || end.is_some_and(|end| ENDS.contains(&end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn warnings(files: &[&str], route: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let text = format!("[[site]]\nroot = {:?}\n{route}\n", root.path());
        let settings = parse(&text, &root.path().join("lamna.toml")).unwrap();
        warning("the site", &settings.sites[0], &[])
    }

    #[test]
    fn programs_and_copies_that_are_sent_are_said() {
        let files = ["index.html", "blog/wp-config.php", "dump.SQL", "a.html~", ".env", ".git/config", "prod.env"];
        let said = warnings(&files, "").unwrap();
        assert!(said.contains("`/a.html~`") && said.contains("`/dump.SQL`") && said.contains("1 more"), "{said}");
        let said = warnings(&["blog/wp-config.php"], "").unwrap();
        assert!(said.contains("`/blog/wp-config.php`"), "{said}");
    }

    #[test]
    fn each_kind_of_what_is_not_for_everybody_is_known() {
        for name in [
            "dump.sql.gz",
            "dump.sql.tar.xz",
            "deploy.sh",
            "a.php.swp",
            "a.php~",
            "wp-config.php.bak",
            "id_rsa",
            "id_ed25519",
            "server.pem",
            "server.key",
            "x.htpasswd",
            "htpasswd",
            "env.local",
            "prod.env",
            "data.sqlite3.zst",
            "index.php.old",
            ".well-known/a.key",
        ] {
            assert!(warnings(&[name], "").is_some_and(|said| said.contains(name)), "{name}");
        }
        for name in
            ["a.html.gz", "a.tar.gz", "a.zip", "environment.html", "key.html", "a.css.br", ".DS_Store", ".env.local"]
        {
            assert_eq!(warnings(&[name], ""), None, "{name}");
        }
    }

    #[test]
    fn a_root_within_the_history_of_a_program_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join(".git");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("config"), "x").unwrap();
        let text = format!("[[site]]\nroot = {root:?}\n");
        let settings = parse(&text, &directory.path().join("lamna.toml")).unwrap();
        assert!(warning("the site", &settings.sites[0], &[]).is_some_and(|said| said.contains("`/config`")));
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
            assert_eq!(warnings(files, route), None, "{files:?}");
        }
        // Who is not let in is sent nothing.
        for route in [
            "access = { users = \"*\" }\nusers = { ada = \"HASH\" }",
            "access = { allow = [\"10.0.0.0/8\"] }",
            "route = [{ match = \"*.sql\", access = { allow = [\"10.0.0.0/8\"] } }]",
        ] {
            let hash = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs";
            assert_eq!(warnings(&["a.sql"], &route.replace("HASH", hash)), None, "{route}");
        }
        let open =
            "access = { allow = [\"10.0.0.0/8\"] }\nroute = [{ match = \"/a.sql\", access = { anyone = true } }]";
        assert!(warnings(&["a.sql", "b.sql"], open).unwrap().contains("`/a.sql` as"));
        let said = warnings(&["a.php"], "route = [{ match = \"/api/*\", fastcgi = \"127.0.0.1:9\" }]");
        assert!(said.is_some());
    }
}
