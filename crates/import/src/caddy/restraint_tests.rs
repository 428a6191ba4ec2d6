//! That what Caddy has run, refuses or leads elsewhere is not sent where it cannot be said here, and what is dropped of it is said.

use crate::asked::Asked;
use crate::caddy;

fn of(text: &str) -> String {
    caddy(text).unwrap_or_else(|note| panic!("{text}: {note:?}")).text
}

/// What a site with files that says this becomes.
fn site(inner: &str) -> String {
    of(&format!(":80 {{\nroot * /srv\nfile_server\n{inner}\n}}\n"))
}

fn answer(text: &str, path: &str) -> String {
    Asked::of(path).answer(text, "a.example")
}

fn of_query(text: &str, query: &str) -> String {
    Asked { query, ..Asked::of("/a") }.answer(text, "a.example")
}

fn with(text: &str, fields: &str) -> String {
    Asked { fields, ..Asked::of("/a") }.answer(text, "a.example")
}

#[test]
fn a_site_that_nobody_reaches_from_elsewhere_is_for_nobody_elsewhere() {
    let public = "http://a.example {\nroot * /srv\nfile_server\n}\n";
    let admin = "http://admin.local:8081 {\nbind 127.0.0.1 [::1]\nroot * /srv/admin\nfile_server\n}\n";
    for text in [of(&format!("{public}{admin}")), of(&format!("{admin}{public}"))] {
        let from = |client: &str, host: &str| Asked { client, ..Asked::of("/a") }.answer(&text, host);
        assert_eq!(
            (from("127.0.0.1", "admin.local"), from("192.0.2.7", "admin.local")),
            ("file /a".into(), "nothing".into()),
            "{text}"
        );
        assert_eq!(from("192.0.2.7", "a.example"), "file /a");
        assert!(text.contains("answers on every address"), "{text}");
    }
    let text = of("{\ndefault_bind 127.0.0.1\n}\nhttp://a.example {\nroot * /srv\nfile_server\n}\n");
    assert!(text.contains("listen = [\"127.0.0.1:80\"]"), "{text}");
}
