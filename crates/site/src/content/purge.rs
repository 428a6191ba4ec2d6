//! Which kept answers of applications are not to be used any more.
//!
//! Owns: [`Purge`], what an administrator says, and what that means for the keys of answers. Removes nothing.

use lamna_policy::words;
use lamna_proto::parse::{host, path};
use serde::{Deserialize, Serialize};

use super::explain::Asked;
use crate::cache::answer_key::AnswerKey;

/// The answers to purge: those of one URL, of all URLs with a prefix, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Purge {
    /// This one.
    pub url: Option<Asked>,
    /// Those that begin like this.
    pub prefix: Option<Asked>,
}

impl Purge {
    /// Says of a key whether it is of what is meant.
    ///
    /// # Errors
    /// It says two things, or a path that nothing has.
    pub fn judge(&self) -> Result<impl Fn(&[u8]) -> bool, String> {
        let (asked, is_prefix) = match (&self.url, &self.prefix) {
            (Some(_), Some(_)) => return Err("either `url` or `prefix` says what to purge".to_owned()),
            (Some(url), None) => (Some(url), false),
            (None, Some(prefix)) => (Some(prefix), true),
            (None, None) => (None, false),
        };
        let meant = asked.map(|asked| {
            let (target, query) = match asked.target.split_once('?') {
                Some((target, query)) => (target, Some(query.as_bytes().to_vec())),
                None => (&*asked.target, None),
            };
            let mut path = Vec::new();
            path::normalise_for_rules(target.as_bytes(), &mut path)
                .map_err(|_| format!("no request has the path {target}"))?;
            Ok::<_, String>((asked.host_name()?.map(str::to_ascii_lowercase), path, query))
        });
        let meant = meant.transpose()?;
        Ok(move |key: &[u8]| {
            let Some(key) = AnswerKey::read(key) else { return false };
            let Some((host, path, query)) = &meant else { return true };
            let is_host = host.as_ref().is_none_or(|host| host.as_bytes() == host::name_of(key.authority));
            // However it was spelled where it was asked for.
            let mut normal = Vec::new();
            is_host
                && path::normalise_for_rules(key.path, &mut normal).is_ok()
                && match is_prefix {
                    true => normal.starts_with(path),
                    false => normal == *path && key.query == query.as_deref(),
                }
        })
    }

    /// A sentence about the purge.
    pub fn describe(&self, count: usize) -> String {
        match count {
            0 => "nothing of that was kept".to_owned(),
            count => format!("purged {}", words::count(count, "kept answer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_meant(purge: &Purge, authority: &str, path: &str, query: Option<&str>) -> bool {
        let key = AnswerKey {
            path: path.as_bytes(),
            outcome: b"",
            is_secure: true,
            authority: authority.as_bytes(),
            way: b"",
            query: query.map(str::as_bytes),
        };
        let mut bytes = Vec::new();
        assert!(key.write(&[], &mut bytes));
        purge.judge().unwrap()(&bytes)
    }

    fn asked(host: Option<&str>, target: &str) -> Option<Asked> {
        Some(Asked { host: host.map(str::to_owned), target: target.to_owned(), ..Asked::default() })
    }

    #[test]
    fn a_url_means_itself_however_it_is_spelled_and_a_prefix_all_beneath() {
        let one = Purge { url: asked(Some("A.example"), "/x/../a%62?q"), prefix: None };
        assert!(is_meant(&one, "a.example:8080", "/ab", Some("q")) && is_meant(&one, "a.example", "/ab", Some("q")));
        for (authority, path, query) in
            [("b.example", "/ab", Some("q")), ("a.example", "/abc", Some("q")), ("a.example", "/ab", None)]
        {
            assert!(!is_meant(&one, authority, path, query));
        }
        let beneath = Purge { url: None, prefix: asked(None, "/a/") };
        assert!(is_meant(&beneath, "any", "/a/b", Some("q")) && !is_meant(&beneath, "any", "/a", None));
        let all = Purge::default();
        assert!(is_meant(&all, "any", "/", None));
        assert!(!all.judge().unwrap()(b"/file"), "files are no answers");
    }

    #[test]
    fn a_host_is_meant_whatever_its_port_and_one_that_is_none_is_refused() {
        let one = Purge { url: asked(Some("a.example:8080"), "/ab"), prefix: None };
        assert!(is_meant(&one, "a.example", "/ab", None) && !is_meant(&one, "b.example:8080", "/ab", None));
        assert!(Purge { url: asked(Some("a.example:65536"), "/ab"), prefix: None }.judge().is_err());
    }

    #[test]
    fn what_was_asked_for_in_another_spelling_is_meant_as_well() {
        let one = Purge { url: asked(None, "/a;b c"), prefix: None };
        assert!(is_meant(&one, "any", "/a;b%20c", None) && is_meant(&one, "any", "/a%3Bb%20c", None));
        let with_slash = Purge { url: asked(None, "/a%2Fb"), prefix: None };
        assert!(["/a/b", "/a%2fb", "/a//b"].iter().all(|path| is_meant(&with_slash, "any", path, None)));
        let beneath = Purge { url: None, prefix: asked(None, "/a%20b/") };
        assert!(is_meant(&beneath, "any", "/a%20b/c", None));
    }

    #[test]
    fn what_says_two_things_or_no_path_says_nothing() {
        assert!(Purge { url: asked(None, "/a"), prefix: asked(None, "/b") }.judge().is_err());
        assert!(Purge { url: asked(None, "/%"), prefix: None }.judge().is_err());
    }
}
