//! Tests of applications with a name: which routes have them, what is refused, and what `lamna check` shows.

use std::path::Path;

use crate::gateway::{GatewayProtocol, GatewaySettings, Sticky};
use crate::route::Switch;
use crate::{parse_unseen, render};

const TWO: &str = r#"
application = [
    { name = "rails", proxy = { to = ["http://127.0.0.1:3000", "http://127.0.0.1:3001"], check = "/up", sticky = { set_cookie = "place" } } },
    { name = "php", fastcgi = "unix:/run/php.sock" },
]
"#;

/// The site with these lines, or what is wrong with them.
fn site(lines: &str) -> Result<crate::settings::Settings, String> {
    parse_unseen(&format!("[[site]]\nroot = \"/srv\"\n{lines}"), Path::new("/a.toml"))
        .map_err(|error| error.to_string())
}

fn gateway(settings: &crate::settings::Settings, route: usize) -> &GatewaySettings {
    match &settings.sites[0].routes[route].gateway {
        Switch::Set(gateway) => gateway,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_routes_that_name_an_application_have_the_same_one() {
    let routes = r#"route = [
        { match = "/*", try = ["$path", "@rails"] },
        { match = "/cable", application = "rails", log = "off" },
        { match = "/api/*", try = "@rails" },
        { match = "*.php", application = "php" },
    ]"#;
    let settings = site(&format!("{TWO}{routes}")).unwrap();
    let rails = gateway(&settings, 0);
    assert_eq!((rails.name.as_deref(), rails.protocol), (Some("rails"), GatewayProtocol::Http));
    assert_eq!((gateway(&settings, 1), gateway(&settings, 2)), (rails, rails));
    // A client has one place, whichever route it asks.
    assert!(matches!(&rails.sticky, Some(Sticky::SetCookie { path, .. }) if path == "/"));
    let tried = |route: usize| settings.sites[0].routes[route].try_files.as_ref().map(Vec::len);
    assert_eq!([0, 1, 2].map(tried), [Some(1), None, None]);
    let names: Vec<String> = settings.sites[0].applications().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["rails", "php"]);
}

#[test]
fn what_is_shown_names_it_and_is_read_as_the_same() {
    let routes = r#"route = [{ match = "/*", try = ["$path", "@rails"] }, { match = "*.php", application = "php" }]"#;
    let settings = site(&format!("{TWO}{routes}")).unwrap();
    let shown = render(&settings);
    for line in [
        "[[site.application]]\nname = \"rails\"\nproxy = { to = [\"127.0.0.1:3000\", \"127.0.0.1:3001\"]",
        "try = [\"$path\"]\napplication = \"rails\"\n",
        "#       application `rails`, proxy to 127.0.0.1:3000 or 127.0.0.1:3001\n",
        "#       application `php`, files that end with .php are run by unix:/run/php.sock\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let again = parse_unseen(&shown, Path::new("/a.toml")).unwrap();
    assert_eq!(again.sites, settings.sites);
}

#[test]
fn what_no_application_or_no_route_is_meant_by_is_refused_with_the_reason() {
    let route = |keys: &str| {
        format!("{TWO}route = [{{ match = \"/a\", application = \"php\" }}, {{ match = \"/b\", {keys} }}]")
    };
    let one = "application = \"rails\"";
    for (lines, reason) in [
        (route("application = \"rail\""), "no application with the name `rail`"),
        (route("application = \"rail\""), "did you mean `rails`?"),
        (route("try = \"@node\""), "it has rails, php"),
        (route("immutable = true"), "no route names the application `rails`"),
        (route("try = [\"@rails\", \"$path\"]"), "is the last that is tried"),
        (route("application = \"rails\", try = [\"$path\", \"@rails\"]"), "a route has one application"),
        (route("application = \"rails\", proxy = \"http://127.0.0.1:1\""), "a route has one application"),
        (route("application = \"rails\", cgi = true"), "a route has one application"),
        (route("try = [\"$path\", \"@php\"]"), "`php` runs files, and has none at a path of its own"),
        (format!("route = [{{ match = \"/a\", {one} }}]"), "give it one: [[site.application]]"),
        (format!("application = [{{ name = \"rails\" }}]\nroute = [{{ match = \"/a\", {one} }}]"), "is nowhere"),
        ("application = [{ proxy = \"http://a.test\" }]".to_owned(), "this application has no `name`"),
        ("application = [{ name = \"a b\", proxy = \"http://a.test\" }]".to_owned(), "`a b` is no name"),
        ("application = [{ name = \"a\", proxy = false }]".to_owned(), "this says that there is none"),
        (
            "application = [{ name = \"a\", proxy = \"http://a.test\", scgi = \"a.test:1\" }]".to_owned(),
            "an application is asked in one way",
        ),
        (
            "application = [{ name = \"a\", proxy = \"http://a.test\" }, { name = \"a\", proxy = \"http://b.test\" }]\n\
             route = [{ match = \"/a\", application = \"a\" }]"
                .to_owned(),
            "two applications of this site have the name `a`",
        ),
    ] {
        let told = site(&lines).map(|_| ()).unwrap_err();
        assert!(told.contains(reason), "{lines}: {told}");
    }
    let refused =
        format!("application = [{{ name = \"rails\", proxy = \"ftp://a\" }}]\nroute = [{{ match = \"/a\", {one} }}]");
    assert_eq!(site(&refused).unwrap_err().matches("a.toml:").count(), 1, "it is told of once");
}

#[test]
fn a_site_of_which_an_application_answers_all_needs_no_root() {
    let text = |keys: &str| {
        format!(
            "[[site]]\napplication = [{{ name = \"a\", proxy = \"http://127.0.0.1:1\" }}]\nroute = [{{ match = \"/*\", {keys} }}]"
        )
    };
    let read =
        |keys: &str| parse_unseen(&text(keys), Path::new("/a.toml")).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(read("application = \"a\""), Ok(()));
    assert_eq!(read("try = \"@a\""), Ok(()));
    let other = |keys: &str| {
        let text = format!("[[site]]\nroute = [{{ match = \"/*\", {keys} }}]");
        parse_unseen(&text, Path::new("/a.toml")).map(|_| ()).map_err(|error| error.to_string())
    };
    for keys in ["scgi = \"a.test:1\"", "uwsgi = \"a.test:1\"", "fastcgi = { to = \"a.test:1\", extensions = [] }"] {
        assert_eq!(other(keys), Ok(()), "{keys}");
    }
    assert!(other("fastcgi = \"a.test:1\"").unwrap_err().contains("no `root`"), "it runs files");
    assert!(read("try = [\"$path\", \"@a\"]").unwrap_err().contains("no `root`"));
}
