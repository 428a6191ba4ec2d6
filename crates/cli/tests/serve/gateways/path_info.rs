//! A path that goes on behind a script: where that runs the script, who is let in, and what counts for which limits.
//!
//! Owns: these cases over whole servers, and those of paths that a program names in the place of the requested one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::access::{ADA, SESAME};
use crate::client::Response;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    a_path_behind_a_script_runs_it_only_where_its_own_path_does,
    a_script_that_other_paths_lead_to_runs_for_these,
    who_may_ask_for_a_path_is_asked_behind_a_script_too,
    a_path_behind_a_script_counts_for_its_limits,
    a_path_that_a_program_names_counts_for_its_limits_once,
    a_fragment_that_a_program_names_is_left_out,
]);

const SCRIPT: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s %s as %s' ran \"$PATH_INFO\" \"$REMOTE_USER\"\n";
const RULES: &str = "[[site.route]]\nmatch = \"/*\"\ncgi = { extensions = [\"cgi\"], index = [\"index.cgi\"] }\n";

/// A site whose scripts are at `scripts`, with the keys `site`, and behind those of the route of all scripts `routes`.
fn launch(engine: Engine, scripts: &[&str], site: &str, routes: &str) -> Launch {
    let site = format!("limit_exempt = []\n[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n{site}\n");
    let launch = Launch::new(engine).argument("--h2c").config(&format!("{site}{RULES}{routes}"));
    scripts.iter().fold(launch, |launch, name| script(launch, name, SCRIPT))
}

fn script(launch: Launch, name: &str, text: &str) -> Launch {
    let launch = launch.file(name, text);
    fs::set_permissions(launch.site().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    launch
}

fn ask(server: &Server, target: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    client.receive(true).unwrap_or_else(|fault| panic!("{target}: {fault}"))
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.content).into_owned()
}

fn told(server: &Server, target: &str) -> (u16, String) {
    let response = ask(server, target, "");
    (response.status, text(&response))
}

fn a_path_behind_a_script_runs_it_only_where_its_own_path_does(engine: Engine) {
    let routes = "[[site.route]]\nmatch = \"/pub/*.cgi\"\ncgi = false\n\
        [[site.route]]\nmatch = \"/img/*.cgi\"\nredirect = \"/gone\"\n\
        [[site.route]]\nmatch = \"/app/*.cgi\"\nrewrite = \"/page.html\"\n\
        [[site.route]]\nmatch = \"/tried/*.cgi\"\ntry = [\"/page.html\"]\n\
        [[site.route]]\nmatch = \"/other/*.cgi\"\nproxy = \"http://127.0.0.1:9\"\n\
        [[site.route]]\nmatch = { path = \"/led.cgi\", query = { leave = \"yes\" } }\nredirect = \"/gone\"\n";
    let site = "alias = [{ prefix = \"/alias/\", root = \"site/pub\" }]\n\
        error_pages = { \"404\" = \"/404.html\" }\nredirect = [{ from = \"/old/x.cgi\", to = \"/new\" }]";
    let names = ["x.cgi", "pub/x.cgi", "pub/index.cgi", "img/x.cgi", "app/x.cgi", "tried/x.cgi", "other/x.cgi"];
    let launch = launch(engine, &[&names[..], &["old/x.cgi", "led.cgi"]].concat(), site, routes);
    let launch = launch.file("page.html", "the page\n").file("404.html", "not here\n");
    symlink("pub/x.cgi", launch.site().join("link.cgi")).unwrap();
    let server = launch.start();
    for round in 0..2 {
        for target in ["/link.cgi", "/link.cgi/foo", "/alias/x.cgi", "/alias/x.cgi/foo"] {
            assert_eq!(told(&server, target), (404, "not here\n".to_owned()), "{round} {target}");
        }
        assert_eq!(told(&server, "/x.cgi/foo"), (200, "ran /foo as ".to_owned()), "{round}");
        assert_eq!((told(&server, "/img/x.cgi").0, told(&server, "/old/x.cgi").0), (302, 302));
        for folder in ["pub", "img", "app", "tried", "other", "old"] {
            for target in [format!("/{folder}/x.cgi/foo"), format!("/{folder}/x.cgi/")] {
                assert_eq!(told(&server, &target), (404, "not here\n".to_owned()), "{round} {target}");
            }
        }
        // What depends on the request is asked of each.
        assert_eq!(told(&server, "/led.cgi/foo?leave=no").0, 200, "{round}");
        assert_eq!((told(&server, "/led.cgi?leave=yes").0, told(&server, "/led.cgi/foo?leave=yes").0), (302, 404));
        // A file does not stand for its folder as a script.
        let folder = told(&server, "/pub/");
        assert!(folder.0 == 403 && !folder.1.contains("ran"), "{folder:?}");
    }
    server.finish();
}

fn a_script_that_other_paths_lead_to_runs_for_these(engine: Engine) {
    for (front, asked, path_info) in [
        // Who asks for the script is led to its folder.
        ("try = [\"$path\", \"/index.cgi\"]\n[[site.route]]\nmatch = \"/index.cgi\"\nredirect = \"/\"", "/a/b", "/a/b"),
        (
            "try = [\"$path\", \"/index.cgi$path\"]\n[[site.route]]\nmatch = \"/index.cgi\"\nredirect = \"/\"",
            "/a",
            "/a",
        ),
        ("rewrite = \"/index.cgi/$1\"", "/a/b", "/a/b"),
        ("rewrite = \"/index.cgi$path\"\n[[site.route]]\nmatch = \"/index.cgi\"\nrewrite = \"/.denied\"", "/a", "/a"),
        // It is led to itself.
        ("try = [\"$path\", \"/index.cgi\"]", "/index.cgi/a/b", "/a/b"),
        ("try = [\"/index.cgi$path\"]", "/a", "/a"),
    ] {
        let server = launch(engine, &["index.cgi"], "", &format!("{front}\n")).start();
        for _ in 0..2 {
            assert_eq!(told(&server, asked), (200, format!("ran {path_info} as ")), "{front}");
        }
        server.finish();
    }
}

fn who_may_ask_for_a_path_is_asked_behind_a_script_too(engine: Engine) {
    let access = "try = [\"$path\", \"/index.cgi\"]\n[[site.route]]\nmatch = [\"/admin/*\", \"/blog/admin/*\"]\naccess = { users = [\"ada\"] }\n\
        headers = { X-Own = \"yes\" }\n[[site.route]]\nmatch = \"/free/*\"\naccess = { anyone = true }\n\
        [[site.route]]\nmatch = \"/kept.cgi*\"\naccess = { users = [\"ada\"] }\n\
        [[site.route]]\nmatch = \"/front/*\"\nrewrite = \"/index.cgi/$1\"\n\
        [[site.route]]\nmatch = \"/blog/*\"\ntry = [\"$path\", \"/blog/index.cgi\"]\n";
    let server = launch(engine, &["index.cgi", "blog/index.cgi", "kept.cgi"], "", access).start();
    for round in 0..2 {
        for target in [
            "/admin/x",
            "/index.cgi/admin/x",
            "/index.cgi//admin/./x",
            "/index.cgi/%61dmin/x",
            "/front/admin/x",
            "/blog/admin/x",
            "/blog/index.cgi/admin/x",
        ] {
            let refused = ask(&server, target, "");
            assert!(refused.status == 401 && !text(&refused).contains("ran"), "{round} {target}: {}", refused.status);
            let let_in = ask(&server, target, ADA);
            assert_eq!((let_in.status, text(&let_in)), (200, "ran /admin/x as ada".to_owned()), "{round} {target}");
            assert_eq!(let_in.field("Cache-Control"), Some("private"), "{target}");
        }
        // Neither the fields of that path apply, nor is anybody let in by it.
        assert_eq!(ask(&server, "/index.cgi/admin/x", ADA).field("X-Own"), None);
        let free = ask(&server, "/index.cgi/free/x", "");
        assert_eq!((free.status, text(&free), free.field("Cache-Control")), (200, "ran /free/x as ".to_owned(), None));
        assert_eq!(told(&server, "/kept.cgi/free/x").0, 401, "{round}");
        assert_eq!(told(&server, "/index.cgi/other").0, 200, "{round}");
    }
    server.finish();
}

fn a_path_behind_a_script_counts_for_its_limits(engine: Engine) {
    for target in ["/login", "/index.cgi/login", "/front/login", "/index.cgi/%6cogin"] {
        let routes = "try = [\"$path\", \"/index.cgi\"]\n\
            [[site.route]]\nmatch = \"/front/*\"\nrewrite = \"/index.cgi/$1\"\n";
        let server = launch(engine, &["index.cgi"], LIMIT_LOGIN, routes).start();
        let statuses = [(); 4].map(|()| told(&server, target).0);
        assert_eq!(statuses, [200, 200, 429, 429], "{target}");
        assert_eq!(told(&server, "/index.cgi/other").0, 200);
        server.finish();
    }
}

const LIMIT_LOGIN: &str = "limit = [{ path = \"/login\", requests = \"2/h\" }]";

fn a_path_that_a_program_names_counts_for_its_limits_once(engine: Engine) {
    let to = |path: &str| format!("#!/bin/sh\nprintf 'Location: {path}\\r\\n\\r\\n'\n");
    let field = "X-Key: 7\r\n";
    for (limit, fields, allowed) in [
        ("{ path = \"/cgi/adm.cgi\", requests = \"2/h\" }", "", 2),
        ("{ path = \"/cgi/adm.cgi\", requests = \"2/h\", key = \"header:X-Key\" }", field, 2),
        ("{ path = \"/cgi/adm.cgi\", requests = \"2/h\", key = \"user\" }", ADA, 2),
        // By the way there, and by both of them: it is one request.
        ("{ path = \"/cgi/by.cgi\", requests = \"2/h\" }", "", 2),
        ("{ path = \"/cgi/\", requests = \"3/h\" }", "", 3),
        ("{ path = \"/cgi/\", requests = \"3/h\", key = \"user\" }", ADA, 3),
        ("{ requests = \"3/h\" }", "", 3),
        ("{ path = \"/closed\", requests = \"2/h\" }", "", 2),
    ] {
        let routes = "access = { users = [\"ada\"] }\n\
            [[site.route]]\nmatch = \"/closed/*\"\nrewrite = \"/cgi/adm.cgi\"\n";
        let routes = if fields == ADA { routes } else { &routes.replace("access = { users = [\"ada\"] }", "") };
        let site = format!("limit = [{limit}]");
        let launch = launch(engine, &["cgi/adm.cgi", "hello.cgi"], &site, routes);
        let target = if limit.contains("/closed") { "/closed/x" } else { "/cgi/adm.cgi" };
        let launch = script(script(launch, "cgi/q.cgi", &to("/cgi/by.cgi?x")), "cgi/by.cgi", &to(target));
        let server = launch.start();
        let statuses: Vec<u16> = (0..allowed + 2).map(|_| ask(&server, "/cgi/q.cgi", fields).status).collect();
        let expected = [vec![200; allowed], vec![429; 2]].concat();
        assert_eq!(statuses, expected, "{limit}");
        if !limit.contains("path = \"/c") {
            server.finish();
            continue;
        }
        let fields: Vec<(&str, &str)> = fields.trim().split_once(": ").into_iter().collect();
        let over_http2 = Http2::connect(server.address()).ask(vec![request("GET", "/cgi/q.cgi", &fields)]);
        assert_eq!(over_http2[0].as_ref().unwrap().status, 429, "{limit}");
        server.finish();
    }
    let site = "limit = [{ path = \"/cgi/adm.cgi\", requests = \"2/h\" }]";
    let launch = script(launch(engine, &["cgi/adm.cgi"], site, ""), "cgi/q.cgi", &to("/cgi/adm.cgi"));
    let server = launch.start();
    let mut client = Http2::connect(server.address());
    assert_eq!([(); 3].map(|()| client.get("/cgi/q.cgi").status), [200, 200, 429], "over one HTTP/2 connection");
    server.finish();
}

fn a_fragment_that_a_program_names_is_left_out(engine: Engine) {
    let to = |path: &str| format!("#!/bin/sh\nprintf 'Location: {path}\\r\\n\\r\\n'\n");
    let launch = script(launch(engine, &["x.cgi"], "", ""), "q.cgi", &to("/pub/a.txt#x"));
    let launch = script(launch, "p.cgi", &to("/x.cgi/info?a#b?c")).file("pub/a.txt", "a file\n");
    let server = launch.start();
    assert_eq!(told(&server, "/q.cgi"), (200, "a file\n".to_owned()));
    assert_eq!(told(&server, "/p.cgi"), (200, "ran /info as ".to_owned()));
    server.finish();
}
