//! Tests of the keys that name an application: what is read, refused and shown.

use std::path::Path;

use super::Switch;
use super::gateways::render;
use crate as config;
use crate::gateway::GatewaySettings;
use crate::upstream_address::Place;

/// The gateway of a route with these keys, or the fault in them.
fn gateway_of(keys: &str, directory: &Path) -> Result<GatewaySettings, String> {
    let text = format!("[[site]]\nroute = [{{ match = \"/*\", {keys} }}]\n");
    let text = text.replace("[[site]]\n", &format!("[[site]]\nroot = \"{}\"\n", directory.display()));
    let settings = config::parse(&text, &directory.join("lamna.toml")).map_err(|error| error.to_string())?;
    match &settings.sites[0].routes[0].gateway {
        Switch::Set(gateway) => Ok(gateway.clone()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn the_socket_of_an_application_is_beside_the_file_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let there = Place::Unix(directory.path().join("run/app.sock"));
    for keys in [r#"proxy = "unix:run/app.sock""#, r#"fastcgi = { to = "unix:run/app.sock" }"#] {
        assert_eq!(gateway_of(keys, directory.path()).unwrap().upstreams[0].address.place, there, "{keys}");
    }
    let long = format!(r#"proxy = "unix:{}""#, "a".repeat(100));
    assert!(gateway_of(&long, directory.path()).unwrap_err().contains("longer than the 107 bytes"));
}

#[test]
fn what_is_shown_is_read_as_the_same() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("ca.pem"), "").unwrap();
    for keys in [
        r#"proxy = "http://127.0.0.1:3000""#,
        r#"proxy = "https://app.internal""#,
        r#"proxy = { to = ["https://app.internal/base/", "http://10.0.0.1/base"] }"#,
        r#"proxy = { to = ["https://a.test", "http://b.test:81"], weights = [1, 0], ca = "ca.pem", server_name = "c.test" }"#,
        r#"fastcgi = { to = "127.0.0.1:9000", resolve_root = false }"#,
        r#"proxy = { to = "https://10.0.0.1:8443", verify = false, host = "a.test", body_bytes_max = 5 }"#,
        r#"proxy = { to = ["http://a.test", "http://b.test"], balance = "least-time", retry = { status = [503, "5xx"], tries = 3 } }"#,
        r#"proxy = { to = ["http://a.test", "http://b.test"], sticky = "client" }"#,
        r#"proxy = { to = ["http://a.test", "http://b.test"], sticky = { header = "x-user" } }"#,
        r#"fastcgi = { to = ["a.test:1", "b.test:1"], sticky = { cookie = "PHPSESSID" } }"#,
        r#"proxy = { to = ["http://a.test", "http://b.test"], sticky = { set_cookie = "place" } }"#,
        r#"proxy = { to = "http://a.test", send_proxy = "v1" }"#,
        r#"proxy = { to = "http://a.test", buffer = true }"#,
        r#"fastcgi = { to = "a.test:9000", buffer = "1 MiB", buffer_directory = ".", body_bytes_max = 5 }"#,
        r#"fastcgi = { to = "a.test:9000", buffer = false }"#,
        r#"scgi = { to = "a.test:9000", buffer_directory = ".", body_bytes_max = 5 }"#,
        r#"fastcgi = { to = "a.test:9000", send_proxy = "v2" }"#,
        r#"proxy = { to = "http://a.test", check = "/health?full=1" }"#,
        r#"proxy = { to = "http://a.test", check = { path = "/", interval_ms = 500, status = [204, "4xx"], passes = 1 } }"#,
        r#"fastcgi = { to = "unix:/run/a.sock", extensions = ["php"], index = ["a.php"] }"#,
        r#"proxy = { to = "unix:/run/a.sock", command = ["a", "--socket={socket}"], instances = 3 }"#,
        r#"proxy = { to = ["http://127.0.0.1:3000", "http://localhost:3001"], command = "a", weights = [1, 2] }"#,
    ] {
        let gateway = gateway_of(keys, directory.path()).unwrap();
        let shown = format!("{} = {}", gateway.key(), render(&gateway));
        assert_eq!(gateway_of(&shown, directory.path()), Ok(gateway), "{keys}: {shown}");
    }
}

#[test]
fn what_is_no_application_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    for (keys, reason) in [
        (r#"fastcgi = "https://a.test""#, "FastCGI has none"),
        (r#"proxy = { to = "http://a.test", ca = "ca.pem" }"#, "are for places with https://"),
        (r#"proxy = { to = "http://a.test", resolve_root = true }"#, "are for `fastcgi`"),
        (r#"proxy = { to = "http://a.test", verify = false }"#, "are for places with https://"),
        (r#"proxy = { to = "https://a.test", ca = "none.pem" }"#, "none.pem` cannot be read"),
        (r#"proxy = { to = "https://a.test", ca = "none.pem", verify = false }"#, "`ca` would have no effect"),
        (r#"proxy = { to = "https://a.test", server_name = "a.test:443" }"#, "is not the name of a server"),
        (r#"fastcgi = { to = "unix:/run/a.sock", check = "/health" }"#, "asks over HTTP"),
        (r#"proxy = { to = "http://a.test", check = "health" }"#, "is not a path"),
        (r#"proxy = { to = "http://a.test", buffer = "much" }"#, "`buffer`: `much`"),
        (r#"proxy = { to = "http://a.test", buffer = "1 GiB" }"#, "`buffer` must be between"),
        (r#"proxy = { to = "http://a.test", buffer_directory = "/tmp" }"#, "there is none"),
        (r#"proxy = { to = "http://a.test", buffer = true, buffer_directory = "none" }"#, "none"),
        (r#"proxy = { to = "http://a.test", check = "/a b" }"#, "is not a path"),
        (r#"proxy = { to = "http://a.test", balance = "fastest" }"#, "least-time"),
        (r#"proxy = { to = "http://a.test", retry = { tries = 2 } }"#, "`status` says"),
        (r#"proxy = { to = "http://a.test", retry = { status = [200] } }"#, "statuses of errors"),
        (r#"proxy = { to = "http://a.test", retry = { status = [503], tries = 1 } }"#, "tries"),
        (r#"proxy = { to = ["http://a.test", "http://b.test"], sticky = "cookie" }"#, "have in common"),
        (r#"proxy = { to = ["http://a.test", "http://b.test"], sticky = { cookie = "a b" } }"#, "have in common"),
        (
            r#"proxy = { to = ["http://a.test", "http://b.test"], sticky = { cookie = "a", header = "b" } }"#,
            "have in common",
        ),
        (r#"proxy = { to = "http://a.test", check = true }"#, "which path"),
        (r#"proxy = { to = "http://a.test", send_proxy = "v3" }"#, "versions of the PROXY protocol"),
        (r#"proxy = { to = "http://a.test", check = { interval_ms = 500 } }"#, "`path` says"),
        (r#"proxy = { to = "http://a.test", check = { path = "/", interval_ms = 5 } }"#, "interval_ms"),
        (r#"proxy = { to = "http://a.test", check = { path = "/", misses = 0 } }"#, "misses"),
        (r#"proxy = { to = "http://a.test", check = { path = "/", status = "good" } }"#, "`status` has"),
        (r#"proxy = { to = ["http://a.test/a", "http://b.test/b"] }"#, "the same path"),
        (r#"access = { service = { to = "http://a.test/a", path = "/b" } }"#, "`to` has no path for a service"),
        (r#"proxy = "http://a.test/a//b""#, "beneath which an application is"),
        (r#"proxy = "http://a.test/a?b""#, "beneath which an application is"),
        (r#"proxy = "http://a.test", strip_prefix = "/app""#, "not every path of this route is beneath `/app`"),
        (r#"proxy = "http://a.test", strip_prefix = "/a%20""#, "`strip_prefix` is a path as /app"),
        (r#"proxy = "https://unix:/run/a.sock""#, "Unix socket"),
        (r#"proxy = "ftp://a.test""#, "neither http nor https"),
    ] {
        let refused = gateway_of(keys, directory.path()).unwrap_err();
        assert!(refused.contains(reason), "{keys}: {refused}");
    }
}
