//! That nothing which was to restrict something is dropped because it is empty, and that what is shown is read again.

use std::path::Path;

use crate::{parse_unseen, render};

fn parsed(keys: &str) -> Result<crate::settings::Settings, String> {
    let text = format!("[[site]]\nroot = \"/srv\"\n{keys}\n");
    parse_unseen(&text, Path::new("/etc/lamna.toml")).map_err(|error| error.to_string())
}

#[test]
fn access_to_nothing_and_of_no_actions_is_a_mistake_in_a_site_and_in_a_route() {
    for (value, key) in [
        ("{ actions = [], users = [\"ada\"] }", "actions"),
        ("{ actions = [], allow = [\"10.0.0.0/8\"] }", "actions"),
        ("[{ actions = [], deny = [\"127.0.0.1\"] }]", "actions"),
        ("[]", "access"),
        ("[[]]", "access"),
        ("{ deny = [] }", "deny"),
        ("{ allow = [\"10.0.0.0/8\"], deny = [] }", "deny"),
        ("{ users = [] }", "users"),
        ("{ tokens = [] }", "tokens"),
        ("{ certificates = [] }", "certificates"),
        ("{ allow = [] }", "allow"),
        ("{ service = { to = [], path = \"/\" } }", "to"),
    ] {
        for before in ["", "[[site.route]]\nmatch = \"/a/*\"\n"] {
            let told = parsed(&format!("{before}access = {value}")).unwrap_err();
            assert!(told.contains(&format!("the list `{key}` is empty")), "{before}access = {value}: {told}");
        }
    }
}

#[test]
fn conditions_that_are_empty_are_a_mistake_which_is_told_once() {
    for (value, told) in [
        ("[]", "the list `match` is empty"),
        ("{}", "the table `match` is empty"),
        ("{ path = [] }", "the list `path` is empty"),
        ("{ path = \"/*\", client = [] }", "the list `client` is empty"),
        ("{ path = \"/*\", method = [] }", "the list `method` is empty"),
        ("{ path = \"/*\", protocol = [] }", "the list `protocol` is empty"),
        ("{ regex = [] }", "the list `regex` is empty"),
        ("{ host = [] }", "the list `host` is empty"),
        ("{ header = {} }", "the table `header` is empty"),
        ("{ query = {} }", "the table `query` is empty"),
        ("{ header = { X = [] } }", "the list `X` is empty"),
        ("{ query = { q = [] } }", "the list `q` is empty"),
        ("{ not = {} }", "the table `not` is empty"),
        ("{ not = [] }", "the list `not` is empty"),
        ("{ not = { client = [] } }", "the list `client` is empty"),
        ("{ not = { host = [] } }", "the list `host` is empty"),
        ("{ not = { header = {} } }", "the table `header` is empty"),
        ("{ not = { not = { query = { q = [] } } } }", "the list `q` is empty"),
    ] {
        let route = format!("[[site.route]]\nmatch = {value}\naccess = {{ allow = [\"10.0.0.0/8\"] }}");
        let refused = parsed(&route).unwrap_err();
        assert!(refused.starts_with("/etc/lamna.toml:4:") && refused.contains(told), "{value}: {refused}");
        assert_eq!(refused.matches("/etc/lamna.toml:").count(), 1, "{value}: {refused}");
    }
}

#[test]
fn what_is_shown_of_lists_is_read_as_the_same() {
    for keys in [
        "index = []",
        "access = { deny = [\"10.0.0.0/8\"] }",
        "[[site.route]]\nmatch = \"/a\"\nindex = []",
        "[[site.route]]\nmatch = \"/a\"\ntry = []\nfilters = []",
        "[[site.route]]\nmatch = \"/a\"\ncors = true",
        "[[site.route]]\nmatch = \"/a\"\ncors = { origins = \"https://a.test\", headers = [], credentials = true }",
        "[[site.route]]\nmatch = \"/a\"\ncgi = true",
        "[[site.route]]\nmatch = \"/a\"\ncgi = { extensions = \"sh\", index = \"x\" }",
        "[[site.route]]\nmatch = \"/a\"\nfastcgi = { to = \"127.0.0.1:9\", extensions = [] }",
        "[[site.route]]\nmatch = \"/a\"\nfastcgi = { to = \"127.0.0.1:9\", index = [] }",
        "[[site.route]]\nmatch = \"/a\"\nproxy = \"http://127.0.0.1:9\"\ncache = { ignore_query = \"a\" }",
    ] {
        let settings = parsed(keys).unwrap();
        let shown = render(&settings);
        let again = parse_unseen(&shown, Path::new("/etc/lamna.toml"));
        assert_eq!(again.map_err(|error| error.to_string()).as_ref(), Ok(&settings), "{keys}: {shown}");
    }
    for (keys, words) in [("access = { deny = [\"10.0.0.0/8\"] }", "deny = ["), ("access = { users = \"*\" }", "users")]
    {
        let text = format!("users = {{ ada = {:?} }}\n{keys}", crate::access::hash_password(b"x").unwrap());
        assert!(render(&parsed(&text).unwrap()).contains(words));
    }
}

#[test]
fn a_list_that_switches_something_off_takes_the_place_of_what_less_specific_routes_say() {
    let routes = "[[site.route]]\nmatch = \"/*\"\ntry = [\"$path\", \"/a\"]\nfilters = [\"markdown\"]\nindex = [\"a\"]\n\
                  [[site.route]]\nmatch = \"/b/*\"\ntry = []\nfilters = []\nindex = []";
    let settings = parsed(routes).unwrap();
    let inner = &settings.sites[0].routes[1];
    assert!(inner.try_files.as_deref() == Some(&[]) && inner.filters.as_deref() == Some(&[]));
    assert_eq!(inner.index.as_deref(), Some(&[][..]));
}
