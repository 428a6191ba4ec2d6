//! Routes as they are written: what is accepted and comes back as it was, and what is wrong with others.

use std::fs;
use std::path::Path;

use crate::settings::{Settings, SiteSettings};
use crate::{parse, render, warnings};

fn load(text: &str) -> Result<Settings, String> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("site")).unwrap();
    load_in(directory.path(), text)
}

fn load_in(directory: &Path, text: &str) -> Result<Settings, String> {
    parse(text, &directory.join("a.toml"))
        .map_err(|error| error.to_string().replace(&format!("{}/", directory.display()), ""))
}

/// The report about lines behind those of a site, the first of which is line 3.
fn report_of(lines: &str) -> String {
    load(&format!("[[site]]\nroot = \"site\"\n{lines}\n")).expect_err("something is wrong with it")
}

const EVERYTHING: &str = r#"
[[site]]
root = "site"
rule_files = true

[[site.route]]
match = "/assets/*"
immutable = true
headers = { X-A = "1", X-B = ["2", "3"], X-C = false }

[[site.route]]
match = ["*.css", "/{a,b}/*.js"]
priority = -2
immutable = "all"
cache = true
cors = true

[[site.route]]
match = { regex = "^/users/(?<id>[0-9]+)$", method = "GET", host = ["*.example.org"], header = { X-Debug = true, X-Not = false, X-Is = ["a", "b"], X-Like = { regex = "^a" } }, query = { q = "1" }, client = ["10.0.0.0/8", "::1"], protocol = "HTTP/1.1" }
rewrite = "/user/${id}.html"
try = ["$path", "$path.html"]
index = ["a.html"]
cache = { fresh_s = 3, ignore_query = ["utm_*"], ignore_cookies = "_ga", ignore_reload = true, bytes_max = "2MiB" }
filters = ["markdown", { name = "insert", where = "head", html = "<link>" }]
error_pages = { "404" = "/gone.html", "4xx" = "/4.html" }

[[site.route]]
match = { path = "/old/*", header = { Accept-Language = { regex = "^de" } } }
redirect = { to = "https://example.org/de/$1", status = 308, if_missing = true }

[[site.route]]
match = "/kept"
cache = false
upload = true
delete = false
mkdir = true
redirect = false
rewrite = false
try = []
cors = { origins = ["https://a.example:8443"], methods = ["PUT"], headers = ["X-A"], expose = ["X-B"], credentials = true, max_age_s = 60 }

[[site.route]]
match = "*"
headers = [{ set = { Cache-Control = "no-cache" }, add = { Link = "</a>" }, remove = ["X-D"], default = { X-F = "1" }, keep = ["X-E"], status = [200, "4xx"] }, { set = { Content-Type = "text/plain" } }]

[[site.route]]
match = "/gone/*"
respond = { status = 410, text = "It is\ngone: \"é\"", headers = { Retry-After = "60", Content-Type = "text/x", X-A = ["1", "2"] } }

[[site.route]]
match = "/robots.txt"
respond = { file = "/other.txt" }

[[site.route]]
match = "/none"
respond = 404
access = "deny"

[[site.route]]
match = { method = "GET" }
error_pages = { "500" = "/sorry.html" }
"#;

#[test]
fn everything_that_can_be_written_is_shown_so_that_it_loads_to_the_same() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("site")).unwrap();
    fs::write(directory.path().join("site/_redirects"), "/x /y\n").unwrap();
    let settings = load_in(directory.path(), EVERYTHING).unwrap();
    assert_eq!(settings.sites[0].routes.len(), 11);
    let shown = render(&settings);
    assert_eq!(load_in(directory.path(), &shown).as_ref(), Ok(&settings), "{shown}");
}

#[test]
fn what_applies_in_the_end_is_shown_for_each_route() {
    let lines = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*\"\nheaders = { X-A = \"1\", Cache-Control = \"max-age=60\" }\n\
                 [[site.route]]\nmatch = \"/app/*\"\ntry = [\"$path\", \"/app.html\"]\nheaders = { X-A = \"2\" }\n";
    let shown = render(&load(lines).unwrap());
    let (_, report) = shown.split_once("# What applies in the end").expect(&shown);
    let expected = "#   /app/*, with /*\n#       try $path, then /app.html\n#       Cache-Control: max-age=60\n#       X-A: 2\n\
                    #       with 404 instead: X-A: 2\n";
    assert!(report.contains(expected), "{report}");
}

#[test]
fn what_clients_may_change_is_shown_and_does_not_contradict_itself() {
    let route = |path: &str, keys: &str| format!("[[site.route]]\nmatch = \"{path}\"\n{keys}\n");
    let site = |routes: String| format!("[[site]]\nroot = \"site\"\n{routes}");
    let shown =
        render(&load(&site(route("/in/*", "upload = true") + &route("*", "upload = false\ndelete = true"))).unwrap());
    assert!(shown.contains("#   /in/*, with /*\n#       upload is on\n#       delete is on\n"), "{shown}");
    let both = route("/a/*", "mkdir = true") + &route("/a/*", "mkdir = false");
    assert!(load(&site(both)).unwrap_err().to_string().contains("`mkdir`"));
}

#[test]
fn what_is_wrong_with_a_route_is_said_at_its_line() {
    for (lines, place, words) in [
        ("[[site.route]]\nimmutable = true", "3:", "this route has no `match`"),
        ("[[site.route]]\nmatch = \"a\"", "4:9", "must start with `/` or `*`"),
        ("[[site.route]]\nmatch = 5", "4:9", "a string, a list of strings or a table"),
        ("[[site.route]]\nmatch = []", "4:9", "the list `match` is empty"),
        ("[[site.route]]\nmatch = { regex = \"(\" }", "4:19", "is no regular expression: unclosed group"),
        ("[[site.route]]\nmatch = { pth = \"/\" }", "4:11", "did you mean `path`?"),
        ("[[site.route]]\nmatch = { method = \"get\" }", "4:20", "written in capitals"),
        ("[[site.route]]\nmatch = { client = \"10/8\" }", "4:20", "is not a network"),
        ("[[site.route]]\nmatch = { protocol = \"h2\" }", "4:22", "known are HTTP/1.0, HTTP/1.1"),
        ("[[site.route]]\nmatch = \"/a\"\nredirect = \"/b/$1\"", "5:12", "`match` has no such capture"),
        ("[[site.route]]\nmatch = \"/a*\"\nredirect = \"https://b$1\"", "5:12", "a part of the host"),
        ("[[site.route]]\nmatch = \"/a\"\nredirect = \"b\"", "5:12", "must start with"),
        ("[[site.route]]\nmatch = \"/a\"\nredirect = { to = \"/b\", status = 200 }", "5:34", "must be between"),
        ("[[site.route]]\nmatch = \"/a\"\nredirect = true", "5:12", "is where to"),
        ("[[site.route]]\nmatch = \"/a\"\nredirect = \"/b\"\ntry = [\"$path\"]", "3:", "have nothing to do"),
        ("[[site.route]]\nmatch = \"/a\"\nrewrite = \"b\"", "5:11", "must start with `/` or `$path`"),
        ("[[site.route]]\nmatch = \"/a\"\nrewrite = \"/b?c\"", "5:11", "files have none"),
        ("[[site.route]]\nmatch = \"/a\"\nrewrite = { a = 1 }", "5:", "and not a table"),
        ("[[site.route]]\nmatch = \"/a\"\ntry = [\"/a$\"]", "5:7", "names no capture"),
        ("[[site.route]]\nmatch = \"/a\"\nimmutable = \"yes\"", "5:13", "names with a hash"),
        ("[[site.route]]\nmatch = \"/a\"\nheaders = { Content-Length = \"1\" }", "5:13", "is computed by the server"),
        ("[[site.route]]\nmatch = \"/a\"\nheaders = { Server = false }", "5:13", "not be removed"),
        ("[[site.route]]\nmatch = \"/a\"\nheaders = { X-A = 1 }", "5:", "a string"),
        (
            "[[site.route]]\nmatch = \"/a\"\nheaders = [{ status = 304, set = { X-A = \"1\" } }]",
            "5:23",
            "is not a status that fields can be for",
        ),
        (
            "[[site.route]]\nmatch = \"/a\"\nheaders = [{ add = { Expires = \"1\" } }]",
            "5:22",
            "has one value in an answer",
        ),
        ("[[site.route]]\nmatch = \"/a\"\nheaders = [{ status = 404 }]", "5:12", "says nothing"),
        ("[[site.route]]\nmatch = \"/a\"\ncors = { credentials = true }", "5:8", "does not go with `*`"),
        ("[[site.route]]\nmatch = \"/a\"\ncors = { origins = \"https://a.example/b\" }", "5:20", "and no path"),
        ("[[site.route]]\nmatch = \"/a\"\ncors = \"*\"", "5:8", "write cors = true"),
        ("[[site.route]]\nmatch = \"/a\"\nrespond = true", "5:11", "a status as in 410"),
        ("[[site.route]]\nmatch = \"/a\"\nrespond = 99", "5:11", "must be between"),
        ("[[site.route]]\nmatch = \"/a\"\nrespond = 301", "5:11", "`redirect` is for"),
        ("[[site.route]]\nmatch = \"/a\"\nrespond = { status = 204, text = \"a\" }", "5:11", "has no content"),
        ("[[site.route]]\nmatch = \"/a\"\nrespond = { text = \"a\", file = \"/b\" }", "5:32", "and not both"),
        ("[[site.route]]\nmatch = \"/a\"\nrespond = { file = \"b\" }", "5:20", "must start with `/`"),
        (
            "[[site.route]]\nmatch = \"/a\"\nrespond = { headers = { ETag = \"1\" } }",
            "5:25",
            "is computed by the server",
        ),
        ("[[site.route]]\nmatch = \"/a\"\nrespond = 404\nredirect = \"/b\"", "3:", "answered by `respond`"),
        ("[[site.route]]\nmatch = \"/a\"\naccess = \"nobody\"", "5:10", "is no access"),
        ("[[site.route]]\nmatch = \"/a\"\nmach = 1", "5:1", "did you mean `match`?"),
        ("rout = []", "3:1", "did you mean `root`?"),
    ] {
        let said = report_of(lines);
        assert!(
            said.contains(&format!("a.toml:{place}")) && said.contains(words),
            "{lines}\n{said}\nexpected {place} {words}"
        );
    }
}

#[test]
fn routes_that_contradict_each_other_are_refused_and_a_priority_decides() {
    let two = |more: &str| {
        format!(
            "[[site.route]]\nmatch = {{ regex = \"^/a/[0-9]+$\" }}\nindex = [\"a\"]\n{more}\n\
             [[site.route]]\nmatch = {{ regex = \"^/a/[a-z]+$\" }}\nindex = [\"b\"]\n"
        )
    };
    let said = report_of(&two(""));
    assert!(
        said.contains("equally specific") && said.contains("differ in `index`") && said.contains("priority = 1"),
        "{said}"
    );
    assert!(load(&format!("[[site]]\nroot = \"site\"\n{}", two("priority = 1"))).is_ok());
}

#[test]
fn a_site_that_only_redirects_needs_no_root() {
    for redirect in [
        "redirect = [{ from = \"/*\", to = \"https://example.org/*\" }]",
        "route = [{ match = \"*\", redirect = \"https://example.org$path\" }]",
    ] {
        let settings = load(&format!("[[site]]\n{redirect}\n")).unwrap();
        assert!(!settings.sites[0].has_root());
        let shown = render(&settings);
        assert_eq!(load(&shown).unwrap(), settings, "{shown}");
    }
    assert!(
        load("[[site]]\nhosts = [\"a\"]\n")
            .unwrap_err()
            .contains("A site that only redirects, or passes requests on, needs none")
    );
}

#[test]
fn files_of_site_generators_are_read_where_they_are_allowed_and_what_is_not_done_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let site = directory.path().join("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("_headers"), "/*\n  X-A: 1\n  Content-Length: 1\n").unwrap();
    fs::write(site.join("_redirects"), "/a /b 301\n/api/* https://api.example/:splat 200\n").unwrap();
    let with = |key: &str| load_in(directory.path(), &format!("[[site]]\nroot = \"site\"\n{key}\n")).unwrap();
    let without: SiteSettings = with("").sites.remove(0);
    assert!(without.routes.is_empty() && without.skipped_lines.is_empty());
    let settings = with("rule_files = true");
    assert_eq!(settings.sites[0].routes.len(), 2);
    let said = warnings(&settings).join("\n");
    assert!(said.contains("`_headers`, line 3, of the site is not done"), "{said}");
    assert!(
        said.contains("`_redirects`, line 2, of the site is not done: it would fetch from another server"),
        "{said}"
    );
    assert!(render(&settings).contains("(_redirects, line 1)"));
}
