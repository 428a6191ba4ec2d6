//! Which script a path names, and what of the path is left for it (RFC 3875 3.2 and 4.1.5 to 4.1.13).
//!
//! Owns: the rule. Guarantees: a script is a regular file with the extension of a script, found by walking down from the
//! root; the path is one that [`normalise`](crate::parse::path::normalise) gave out, so no name leads out of the root.
//! Whether links do is the caller's to see to when it answers what a name is.
//!
//! # The hole that this closes
//! `/upload/image.png/x.php` names no file. A server that looks at the end of the path only hands it to PHP, which looks
//! for the longest part that is a file, finds the picture that somebody uploaded, and runs it. Here nothing is run but a
//! file whose own name ends with the extension.

use std::borrow::Cow;

/// What a name beneath the root is. Links count as what they lead to, if that is beneath the root; otherwise as nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Nothing, or something that is not served.
    Nothing,
}

/// Which files are scripts.
#[derive(Clone, Copy, Debug)]
pub struct ScriptRules<'a> {
    /// Without the dot, as in `php`; the case counts. If there are none, every file is a script, as in a `cgi-bin`
    /// directory.
    pub extensions: &'a [&'a str],
    /// Names that stand for a directory, in order of preference.
    pub index: &'a [&'a str],
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located<'a> {
    /// A script.
    Script {
        /// The path of the script beneath the root; begins with a slash.
        name: Cow<'a, [u8]>,
        /// What follows in the path: empty, or begins with a slash.
        path_info: &'a [u8],
    },
    /// A file that is no script: to be served as one, if the path ends there.
    File,
    /// Nothing that can be run: 404, or whatever else the route says.
    Nothing,
}

/// Finds the script that `path` names: the first file on the way from the root down. Asks `what` about beginnings of the
/// path that end with a whole name, shortest first, and only about those that could be a script or are the whole path;
/// never about anything below what is not a directory. Asks at most once for each name in the path, and once for each
/// index.
pub fn locate<'a>(path: &'a [u8], rules: ScriptRules<'_>, mut what: impl FnMut(&[u8]) -> What) -> Located<'a> {
    // Paths are normalised before they name anything. One that is not must not reach a file system.
    if !is_normal(path) {
        return Located::Nothing;
    }
    let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        let (name, rest) = path.split_at(end);
        // The directory itself, as in `/` or `/a/`.
        if name.ends_with(b"/") {
            break;
        }
        let is_script = has_extension(name, rules.extensions);
        if !is_script && !rest.is_empty() {
            continue;
        }
        match what(name) {
            What::File if is_script => return Located::Script { name: Cow::Borrowed(name), path_info: rest },
            What::File => return Located::File,
            What::Directory => {}
            What::Nothing => return Located::Nothing,
        }
    }
    index_of(path, rules, what)
}

/// The first index of a directory that is a script.
fn index_of<'a>(path: &'a [u8], rules: ScriptRules<'_>, mut what: impl FnMut(&[u8]) -> What) -> Located<'a> {
    if !path.ends_with(b"/") {
        return Located::Nothing;
    }
    for index in rules.index {
        let name = [path, index.as_bytes()].concat();
        if has_extension(&name, rules.extensions) && what(&name) == What::File {
            return Located::Script { name: Cow::Owned(name), path_info: b"" };
        }
    }
    Located::Nothing
}

fn has_extension(name: &[u8], extensions: &[&str]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let dot = memchr::memrchr(b'.', file);
    extensions.is_empty()
        || dot.is_some_and(|dot| dot > 0 && extensions.iter().any(|one| file[dot + 1..] == *one.as_bytes()))
}

/// What [`normalise`](crate::parse::path::normalise) gives out.
fn is_normal(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/');
    path.starts_with(b"/")
        && !path.contains(&0)
        && names.all(|name| name != b"." && name != b"..")
        && !path.windows(2).any(|pair| pair == b"//")
}

/// The names that an application sees for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// `SCRIPT_NAME`: the part of the path that leads to the application. Empty for one that has the whole server.
    pub script_name: Cow<'a, [u8]>,
    /// `PATH_INFO`: the rest. Empty, or begins with a slash.
    pub path_info: &'a [u8],
    /// The directory in which the script is, and below which `PATH_INFO` is translated; without a slash at its end. None
    /// for an application that is not a file.
    pub root: Option<&'a [u8]>,
}

impl<'a> Place<'a> {
    /// Of a script that [`locate`] found below `root`.
    pub fn of_script(name: Cow<'a, [u8]>, path_info: &'a [u8], root: &'a [u8]) -> Place<'a> {
        Place { script_name: name, path_info, root: Some(root.strip_suffix(b"/").unwrap_or(root)) }
    }
}

/// The names for an application that has everything below `prefix`, and is no file: `/app` and `/app/` both mean
/// `/app/...`. None if the path is not below it.
pub fn mounted<'a>(prefix: &'a [u8], path: &'a [u8]) -> Option<Place<'a>> {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let path_info = path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))?;
    Some(Place { script_name: Cow::Borrowed(prefix), path_info, root: None })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::parse::path::normalise;

    const PHP: ScriptRules<'static> = ScriptRules { extensions: &["php"], index: &["index.html", "index.php"] };

    fn tree() -> BTreeMap<&'static str, What> {
        BTreeMap::from([
            ("/index.php", What::File),
            ("/a", What::Directory),
            ("/a/b.php", What::File),
            ("/a/.php", What::File),
            ("/a/page.html", What::File),
            ("/image.png", What::File),
            ("/dir.php", What::Directory),
            ("/dir.php/x.php", What::File),
            ("/shout.PHP", What::File),
        ])
    }

    /// Asks the tree as a file system would: there is nothing below a file.
    fn locate_in(path: &str, rules: ScriptRules<'_>) -> (Located<'static>, Vec<String>) {
        let (tree, mut asked) = (tree(), Vec::new());
        let path: &'static str = path.to_string().leak();
        let located = locate(path.as_bytes(), rules, |name| {
            let name = std::str::from_utf8(name).unwrap();
            asked.push(name.to_string());
            tree.get(name).copied().unwrap_or(What::Nothing)
        });
        (located, asked)
    }

    fn script(name: &'static str, path_info: &'static str) -> Located<'static> {
        Located::Script { name: Cow::Borrowed(name.as_bytes()), path_info: path_info.as_bytes() }
    }

    #[test]
    fn the_first_script_on_the_way_is_run_and_gets_the_rest() {
        for (path, located) in [
            ("/index.php", script("/index.php", "")),
            ("/index.php/", script("/index.php", "/")),
            ("/a/b.php/c/d", script("/a/b.php", "/c/d")),
            ("/a/b.php/x.php", script("/a/b.php", "/x.php")),
            ("/dir.php/x.php/i", script("/dir.php/x.php", "/i")),
            ("/", script("/index.php", "")),
            ("/a/", Located::Nothing),
            ("/a", Located::Nothing),
            ("/a/page.html", Located::File),
        ] {
            assert_eq!(locate_in(path, PHP).0, located, "{path}");
        }
    }

    #[test]
    fn what_is_not_a_script_is_never_run_whatever_the_path_ends_with() {
        for path in
            ["/image.png/x.php", "/image.png/", "/a/page.html/index.php", "/missing.php", "/missing/x.php", "/a/.php"]
        {
            assert!(!matches!(locate_in(path, PHP).0, Located::Script { .. }), "{path}");
        }
        assert_eq!(locate_in("/image.png/x.php", PHP), (Located::Nothing, vec!["/image.png/x.php".to_string()]));
        assert_eq!(locate_in("/shout.PHP", PHP).0, Located::File);
    }

    #[test]
    fn nothing_is_asked_below_what_is_not_there() {
        let (located, asked) = locate_in("/no.php/a.php/b.php/c.php", PHP);
        assert_eq!((located, asked), (Located::Nothing, vec!["/no.php".to_string()]));
    }

    #[test]
    fn without_extensions_every_file_is_a_script() {
        let any = ScriptRules { extensions: &[], index: &[] };
        assert_eq!(locate_in("/a/page.html/info", any).0, script("/a/page.html", "/info"));
        assert_eq!(locate_in("/image.png", any).0, script("/image.png", ""));
        assert_eq!(locate_in("/a", any).0, Located::Nothing);
        assert_eq!(locate_in("/none/x", any).0, Located::Nothing);
    }

    #[test]
    fn an_application_that_is_mounted_gets_what_is_below() {
        let names = |prefix: &'static str, path: &'static str| {
            mounted(prefix.as_bytes(), path.as_bytes()).map(|place| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (text(&place.script_name), text(place.path_info))
            })
        };
        let pair = |a: &str, b: &str| Some((a.to_string(), b.to_string()));
        assert_eq!(names("/app", "/app/x"), pair("/app", "/x"));
        assert_eq!(names("/app/", "/app"), pair("/app", ""));
        assert_eq!(names("/", "/x"), pair("", "/x"));
        assert_eq!(names("/app", "/apple"), None);
    }

    proptest! {
        #[test]
        fn a_script_is_a_file_with_the_extension_on_the_way(path in "(/(a|b\\.php|x\\.php|dir\\.php|image\\.png|index\\.php|\\.php)){0,5}/?") {
            let path = if path.is_empty() { "/".to_string() } else { path };
            let tree = tree();
            if let (Located::Script { name, path_info }, asked) = locate_in(&path, PHP) {
                let name = String::from_utf8(name.into_owned()).unwrap();
                prop_assert_eq!(tree.get(&*name), Some(&What::File));
                prop_assert!(name.ends_with(".php"));
                prop_assert!(asked.len() <= path.matches('/').count() + PHP.index.len() + 1);
                let whole = name.clone() + std::str::from_utf8(path_info).unwrap();
                prop_assert!(whole == path || (path_info.is_empty() && name.starts_with(&path)));
            }
        }

        #[test]
        fn a_path_that_is_not_normal_names_nothing(path in "/?(\\.|\\.\\.|a|\0|b\\.php|/){0,6}") {
            let mut normal = Vec::new();
            let is_normal = normalise(path.as_bytes(), &mut normal).is_ok() && normal == path.as_bytes();
            let (located, asked) = locate_in(&path, PHP);
            prop_assert!(is_normal || (located == Located::Nothing && asked.is_empty()), "{:?}", path);
        }
    }
}
