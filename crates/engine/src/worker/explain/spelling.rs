//! The spelling of a path, in an explanation: what an application is asked for, or why it is not.
//!
//! Owns: the sentence. The spelling itself is `lamna_site::gateway`'s.

use lamna_proto::parse::path;
use lamna_site::content::route::Effective;
use lamna_site::content::site::Site;
use lamna_site::gateway::write_asked_path;

/// A sentence about the spelling of `target`, a path, if it matters. Without an application, it names a file.
pub(super) fn spelling_asked(site: &Site, rules: &Effective, target: &str, by_application: bool) -> Option<String> {
    let mut asked = Vec::new();
    match write_asked_path(site, rules, None, target.as_bytes(), &mut asked) {
        _ if !by_application => {
            path::encoded_slash(target.as_bytes()).map(|_| "no name of a file has a slash, encoded or not".to_owned())
        }
        Ok(()) if asked == target.as_bytes() => None,
        Ok(()) => Some(format!("the application is asked for {}", String::from_utf8_lossy(&asked))),
        Err(_) => Some("an application may read the path in several ways, and its rules are not the same".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use lamna_site::content::explain::Asked;

    use crate::worker::explain::{Explainer, Parts};

    #[test]
    fn the_spelling_of_a_path_is_told_where_it_matters() {
        let root = tempfile::tempdir().unwrap();
        let text = format!(
            "[[site]]\nroot = {:?}\n[[site.route]]\nmatch = [\"/api/*\", \"/one/*\"]\nproxy = \"127.0.0.1:3000\"\n\
             [[site.route]]\nmatch = \"/one/*\"\npath = \"normal\"\n",
            root.path()
        );
        let settings = lamna_config::parse(&text, &root.path().join("a.toml")).unwrap();
        let explainer = Explainer::new(&settings, Parts::default()).unwrap();
        let of = |target: &str| explainer.explain(&Asked { target: target.to_owned(), ..Asked::default() }).unwrap();
        for (target, status, said) in [
            ("/one/%7E", None, "the application is asked for /one/~"),
            ("/one/a%2Fb", Some(400), "may read the path in several ways"),
            ("/api/a/../b", None, "the application is asked for /api/b"),
            ("/api%2Fa", Some(400), "may read the path in several ways"),
            ("/a%2Fb", Some(400), "no name of a file has a slash"),
        ] {
            let explained = of(target);
            let because = explained.because.join("; ");
            assert!(explained.answer.status == status && because.contains(said), "{target}: {explained}");
        }
        assert!(!of("/api/a%2Fb").because.join("; ").contains("asked for"));
    }

    #[test]
    fn fields_that_routes_say_to_an_application_are_told() {
        let text = "[[site]]\n[[site.route]]\nmatch = \"*\"\nrequest_headers = { X-A = \"$client\" }\n\
                    [[site.route]]\nmatch = \"/api/*\"\nproxy = \"127.0.0.1:3000\"\nrequest_headers = { X-B = false }\n";
        let settings = lamna_config::parse(text, "/a.toml".as_ref()).unwrap();
        let explainer = Explainer::new(&settings, Parts::default()).unwrap();
        let explained = explainer.explain(&Asked { target: "/api/a".to_owned(), ..Asked::default() }).unwrap();
        let application = explained.answer.application.as_deref().unwrap_or_default();
        assert!(application.ends_with("127.0.0.1:3000, with fields of routes: x-a, x-b"), "{explained}");
    }
}
