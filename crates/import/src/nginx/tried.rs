//! Paths that `try_files`, `rewrite` and `index` of nginx lead to.
//!
//! Owns: which locations may be come to so from another one ([`leads_to`]). nginx looks for the location of such a path
//! anew, with what it refuses; here what the path of a tried file is rewritten to under a condition is not looked at.
//! Guarantees: no such location is missed; one more may be taken for one. Pure.

use lamna_config::route::pattern::{Pattern, compile};

use super::syntax::Directive;

/// The names of index files that these directives say, and those within them.
pub(super) fn indexes(directives: &[Directive]) -> Vec<String> {
    let own = directives.iter().filter(|one| one.name == "index").flat_map(|one| &one.arguments);
    let inner = directives.iter().flat_map(|one| indexes(one.block.as_deref().unwrap_or_default()));
    own.cloned().chain(inner).collect()
}

/// The path for which a location is looked for anew behind a `rewrite`.
fn rewritten(directive: &Directive) -> Option<&str> {
    let is_looked_for = directive.name == "rewrite" && matches!(directive.argument(2), "" | "last");
    let path = directive.argument(1).split('?').next().unwrap_or_default();
    (is_looked_for && path.starts_with(['/', '$']) && !path.starts_with("$scheme")).then_some(path)
}

/// The paths that are tried in these directives and within them, but for those of the request.
pub(super) fn targets(directives: &[Directive]) -> Vec<String> {
    let mut found = Vec::new();
    for directive in directives {
        if directive.name == "try_files" {
            let words = directive.arguments.iter().map(|word| word.split('?').next().unwrap_or_default());
            let words = words.filter(|word| {
                !word.starts_with(['@', '=']) && !matches!(*word, "" | "$uri" | "$uri/" | "$fastcgi_script_name")
            });
            found.extend(words.map(str::to_owned));
        }
        found.extend(rewritten(directive).map(str::to_owned));
        found.extend(targets(directive.block.as_deref().unwrap_or_default()));
    }
    found
}

/// Whether one of `all` that is not of the location itself may lead to paths of its `pattern`.
pub(super) fn leads_to(all: &[String], location: &Directive, pattern: &Pattern) -> bool {
    let mut others = all.to_vec();
    for own in targets(std::slice::from_ref(location)) {
        if let Some(at) = others.iter().position(|one| *one == own) {
            others.swap_remove(at);
        }
    }
    others.iter().any(|word| may_fit(word, pattern))
}

fn may_fit(word: &str, pattern: &Pattern) -> bool {
    let Some(first) = word.find('$') else {
        return match pattern {
            Pattern::Exact(path) => word == path,
            Pattern::Prefix(prefix) => word.starts_with(prefix.as_str()),
            Pattern::Regex(text) => compile(text).is_ok_and(|regex| regex.is_match(word.as_bytes())),
            Pattern::Glob(_) => true,
        };
    };
    let last = word.rfind('$').map_or("", |at| &word[at + 1..]);
    let end = last.strip_prefix('{').map_or_else(
        || last.trim_start_matches(|one: char| one.is_ascii_alphanumeric() || one == '_'),
        |inner| inner.split_once('}').map_or("", |(_, end)| end),
    );
    match pattern {
        Pattern::Exact(path) => path.starts_with(&word[..first]) && path.ends_with(end),
        // A path that does not begin so does with what is put behind it.
        Pattern::Prefix(prefix) if word == format!("$uri{end}") => {
            (1..=end.len()).any(|length| end.get(..length).is_some_and(|end| prefix.ends_with(end)))
        }
        Pattern::Prefix(prefix) => prefix.starts_with(&word[..first]) || word[..first].starts_with(prefix.as_str()),
        Pattern::Regex(_) | Pattern::Glob(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::asked::Asked;
    use crate::{Files, nginx};

    #[test]
    fn a_refusal_where_try_leads_to_counts_for_what_leads_there() {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        for (tries, location, path, is_refused) in [
            ("$uri /f.html", "= /f.html", "/x", true),
            ("$uri /f.html", "~ \\.html$", "/x", true),
            ("$uri /in/f.html?a", "/in/", "/x", true),
            ("$uri $uri.html", "~ \\.html$", "/x", true),
            ("$uri /a$uri", "/a/", "/x", true),
            ("$uri $uri/i.html", "/in/", "/in", true),
            ("$uri $uri/ /f.html", "= /g.html", "/x", false),
            ("$uri $uri/ =404", "/in/", "/x", false),
            ("$uri $uri.html", "/in/", "/x", false),
        ] {
            let refusal = "if ($http_x = \"1\") { return 403; }";
            let text = format!(
                "server {{ root /srv; location / {{ try_files {tries}; }} location {location} {{ {refusal} }} }}"
            );
            let text = nginx(&text, files).unwrap_or_else(|note| panic!("{text}: {note:?}")).text;
            let asked = Asked { fields: "X: 1\r\n", ..Asked::of(path) };
            assert_eq!(asked.answer(&text, "") == "nothing", is_refused, "{tries} {location} {path}: {text}");
            assert_ne!(Asked::of(path).answer(&text, ""), "nothing", "{tries} {location} {path}: {text}");
        }
        // Its own files are asked for where it is.
        let text = "server { root /srv; location / { if ($http_x = \"1\") { return 403; } try_files $uri /i.html; } \
                    location /api/ { proxy_pass http://127.0.0.1:1; } }";
        let text = nginx(text, files).unwrap().text;
        assert!(text.contains("path = \"/*\""), "{text}");
    }

    #[test]
    fn a_file_that_nginx_leads_from_is_not_sent_by_another_path() {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        let login = "if ($http_cookie !~ \"s=1\") { return 302 /login; }";
        for (way, location, path) in [
            ("location / { index p.txt; }", "~ p\\.txt$", "/private/"),
            ("location / { try_files $uri /private/p.txt; }", "/private/", "/nope"),
            ("location /app/ { rewrite ^ /private/p.txt last; }", "/private/", "/app/x"),
            ("location /app/ { rewrite ^/app/(.*)$ /private/$1; }", "/private/", "/app/x"),
        ] {
            for leads in [login, "return 302 /login;", "rewrite ^ /login redirect;"] {
                let text = format!("server {{ root /srv; {way} location {location} {{ {leads} }} }}");
                let text = nginx(&text, files).unwrap_or_else(|note| panic!("{text}: {note:?}")).text;
                let is_sent = |path: &str| {
                    let (answer, index) = (Asked::of(path).answer(&text, ""), Asked::of(path).index(&text, ""));
                    let file = if path.ends_with('/') { "/private/p.txt" } else { "" };
                    let is_index = index.contains(&"p.txt".to_owned()) && !file.is_empty();
                    answer.starts_with("file") && (!is_index || Asked::of(file).answer(&text, "").starts_with("file"))
                };
                let tried = Asked::of("/private/p.txt").answer(&text, "");
                assert!(!is_sent(path) || tried == "nothing", "{way} {location} {leads}: {text}");
                assert!(text.contains("Not carried over"), "{text}");
            }
        }
        // The sources of programs among them are refused by their own paths.
        let text = "server { root /srv; location /app/ { rewrite ^/app/(.*)$ /private/$1 last; } location /private/ { deny all; } }";
        assert!(nginx(text, files).unwrap().text.contains("/private/"));
        // A way that nothing else leads to is one.
        let text = nginx(
            "server { root /srv; location /old/ { return 301 /new/; } location / { try_files $uri /i.html; } }",
            files,
        );
        assert_eq!(Asked::of("/old/x").answer(&text.unwrap().text, ""), "to /new/");
    }

    #[test]
    fn a_folder_is_no_file_and_stands_for_none_of_its_files() {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        let other = "location /other/ { } location = /index.html { auth_basic x; auth_basic_user_file pw; }";
        for (location, path, index) in [
            ("location / { try_files $uri /index.html; }", "/app/", &[][..]),
            ("location / { try_files $uri =404; }", "/app/", &[]),
            ("location / { try_files $uri /app/; }", "/x/", &[]),
            ("try_files $uri /index.html;", "/app/", &[]),
            ("location /app/ { try_files $uri @be; } location @be { deny all; proxy_pass http://a:1; }", "/app/", &[]),
            ("location / { try_files $uri $uri/ /index.html; }", "/app/", &["index.html"]),
            ("try_files $uri $uri/ /index.html;", "/app/", &["index.html"]),
            ("location / { try_files $uri /index.html; }", "/other/", &["index.html"]),
            ("index a.html; location / { try_files $uri /index.html; }", "/other/", &["a.html"]),
            ("try_files $uri /index.html;", "/other/", &["index.html"]),
        ] {
            let text = format!("server {{ root /srv; {location} {other} }}");
            let text = nginx(&text, files).unwrap_or_else(|note| panic!("{text}: {note:?}")).text;
            assert_eq!(Asked::of(path).index(&text, ""), index, "{location} {path}: {text}");
        }
        let text = nginx("server { root /srv; autoindex on; location /a/ { try_files $uri =404; } }", files);
        assert!(!text.unwrap().text.contains("browse"));
    }

    #[test]
    fn a_folder_of_which_the_index_file_is_refused_is_none_of_an_application() {
        let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
        let place = |tries: &str, path: &str| {
            let text = format!(
                "server {{ root /srv; location / {{ try_files {tries} @app; }} location @app {{ proxy_pass http://127.0.0.1:1; }} \
                 location = /index.html {{ return 403; }} }}"
            );
            let text = nginx(&text, files).unwrap_or_else(|note| panic!("{text}: {note:?}")).text;
            Asked::of(path).answer(&text, "")
        };
        assert_eq!(place("$uri $uri/", "/"), "nothing");
        assert_eq!(place("$uri $uri/", "/x/"), "file $path, else application");
        assert_eq!(place("$uri", "/"), "file $path, else application");
    }
}
