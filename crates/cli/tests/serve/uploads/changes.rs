//! What clients may change besides storing files: deleting, making directories, and where routes let them.

use std::fs;
use std::os::unix::fs::symlink;

use super::{ask, names};
use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, eventually};

for_engines!(all every_architecture_changes_files: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    what_is_deleted_is_gone_at_once_and_nothing_else_is,
    directories_are_made_where_there_are_none,
    routes_say_where_clients_may_change_something,
    files_of_the_server_beneath_a_root_are_for_no_client,
]);

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn what_is_deleted_is_gone_at_once_and_nothing_else_is(engine: Engine) {
    let launch = Launch::new(engine).file("a.txt", "a").file("b.txt", "b").file("full/c", "c").file("dir/d", "d");
    let launch = launch.argument("--delete").argument("--browse");
    fs::create_dir(launch.site().join("empty")).unwrap();
    fs::create_dir(launch.site().join("other")).unwrap();
    fs::write(launch.directory().join("outside"), "outside").unwrap();
    symlink("../outside", launch.site().join("out")).unwrap();
    symlink("dir", launch.site().join("in")).unwrap();
    let server = launch.start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").unwrap().content, b"a");
    let page = String::from_utf8(client.get("/").unwrap().content).unwrap();
    assert!(page.contains("<form method=\"post\" action=\"./a.txt?delete\"><button class=\"bad\">"));
    assert_eq!(ask(&mut client, "DELETE", "/a.txt", "", b"").status, 204);
    // Who was shown it before is not shown it again.
    assert_eq!(client.get("/a.txt").unwrap().status, 404);
    assert!(!String::from_utf8(client.get("/").unwrap().content).unwrap().contains("a.txt"));
    let pressed = ask(&mut client, "POST", "/empty/?delete", FORM, b"");
    assert_eq!((pressed.status, pressed.field("Location")), (303, Some("/")));
    assert_eq!(client.get("/empty/").unwrap().status, 404);
    for (path, fields, status) in [
        ("/a.txt", "", 404),
        ("/missing/a", "", 404),
        ("/b.txt/", "", 404),
        ("/b.txt", "If-Match: \"x\"\r\n", 412),
        ("/b.txt", "Sec-Fetch-Site: cross-site\r\n", 403),
        ("/full", "", 409),
        ("/full/", "", 409),
        ("/", "", 403),
        ("/full/..", "", 403),
        ("/../site", "", 400),
        ("/.hidden", "", 404),
        // What lies outside is not told of; the link is in the folder.
        ("/out", "If-Match: *\r\n", 404),
        ("/out/", "", 404),
        ("/out", "", 204),
        ("/other", "", 204),
        // The link that leads to a directory, and not the directory.
        ("/in/", "", 204),
    ] {
        assert_eq!(ask(&mut server.connect(), "DELETE", path, fields, b"").status, status, "{path} {fields}");
    }
    for (method, path) in [("PUT", "/new"), ("MKCOL", "/new"), ("POST", "/b.txt"), ("POST", "/?mkdir")] {
        let answer = ask(&mut server.connect(), method, path, FORM, b"");
        assert_eq!((answer.status, answer.field("Allow")), (405, Some("GET, HEAD, OPTIONS, DELETE, POST")), "{method}");
    }
    assert_eq!(names(&server.site()), ["b.txt", "dir", "full"].map(String::from).into());
    assert_eq!(fs::read(server.directory().join("outside")).unwrap(), b"outside");
    assert_eq!(fs::read(server.site().join("dir/d")).unwrap(), b"d");
    server.finish();
}

fn directories_are_made_where_there_are_none(engine: Engine) {
    let launch = Launch::new(engine).file("a.txt", "a").argument("--mkdir").argument("--browse").argument("--upload");
    fs::create_dir(launch.directory().join("outside")).unwrap();
    symlink("../outside", launch.site().join("out")).unwrap();
    let server = launch.start();
    let mut client = server.connect();
    assert_eq!(client.get("/new/").unwrap().status, 404);
    let made = ask(&mut client, "MKCOL", "/new/", "", b"");
    assert_eq!((made.status, made.field("Location")), (201, Some("/new/")));
    assert_eq!(client.get("/new/").unwrap().status, 200);
    assert!(String::from_utf8(client.get("/").unwrap().content).unwrap().contains("href=\"./new/\""));
    assert_eq!(ask(&mut client, "PUT", "/new/file", "", b"abc").status, 201);
    let form = ask(&mut client, "POST", "/new/?mkdir", FORM, b"name=a+b%C3%A4");
    assert_eq!((form.status, form.field("Location")), (303, Some("/new/")));
    let again = ask(&mut server.connect(), "MKCOL", "/new", "", b"");
    assert_eq!((again.status, again.field("Allow")), (405, Some("GET, HEAD, OPTIONS, PUT, MKCOL, POST")));
    for (method, path, content, status) in [
        ("MKCOL", "/", "", 405),
        ("MKCOL", "/a.txt", "", 405),
        ("MKCOL", "/missing/a", "", 409),
        ("MKCOL", "/a.txt/b", "", 409),
        ("MKCOL", "/.hidden", "", 403),
        ("MKCOL", "/out/b", "", 403),
        ("MKCOL", "/x", "<xml/>", 415),
        ("POST", "/?mkdir", "name=new", 409),
        ("POST", "/?mkdir", "name=", 400),
        ("POST", "/?mkdir", "x=y", 400),
        ("POST", "/?mkdir", "name=..", 400),
        ("POST", "/?mkdir", "name=a%2Fb", 400),
        ("POST", "/?mkdir", "name=a%00", 400),
        ("POST", "/?mkdir", "name=.hidden", 403),
        ("POST", "/a.txt?mkdir", "name=b", 400),
        ("DELETE", "/new/", "", 405),
    ] {
        let answer = ask(&mut server.connect(), method, path, FORM, content.as_bytes());
        assert_eq!(answer.status, status, "{method} {path} {content}");
    }
    let elsewhere = "Sec-Fetch-Site: cross-site\r\n";
    assert_eq!(ask(&mut server.connect(), "POST", "/?mkdir", elsewhere, b"name=z").status, 403);
    assert_eq!(names(&server.site()), ["a.txt", "new", "out"].map(String::from).into());
    assert_eq!(names(&server.site().join("new")), ["file", "a bä"].map(String::from).into());
    assert!(names(&server.directory().join("outside")).is_empty());
    server.finish();
}

fn routes_say_where_clients_may_change_something(engine: Engine) {
    let config = r#"
[[site]]
root = "site"
browse = true
mkdir = true

[[site.route]]
match = "/in/*"
upload = true
delete = true

[[site.route]]
match = "/in/kept/*"
delete = false
mkdir = false

[[site.route]]
match = "*.exe"
priority = 1
upload = false

[[site.route]]
match = { path = "/keyed/*", header = { X-Key = "secret" } }
upload = true
"#;
    let launch = Launch::new(engine).file("in/kept/x", "x").file("keyed/x", "x").config(config);
    let server = launch.start();
    let (site, in_kept) = ("GET, HEAD, OPTIONS, MKCOL, POST", "GET, HEAD, OPTIONS, PUT, POST");
    for (method, path, fields, status, allow) in [
        ("PUT", "/a", "", 405, Some(site)),
        ("PUT", "/in/a", "", 201, None),
        ("PUT", "/in/a.exe", "", 405, Some("GET, HEAD, OPTIONS, DELETE, MKCOL, POST")),
        ("DELETE", "/in/a", "", 204, None),
        ("PUT", "/in/kept/a", "", 201, None),
        ("DELETE", "/in/kept/a", "", 405, Some(in_kept)),
        ("OPTIONS", "/in/kept/a", "", 204, Some(in_kept)),
        ("OPTIONS", "/", "", 204, Some(site)),
        ("MKCOL", "/in/kept/b", "", 405, Some(in_kept)),
        ("MKCOL", "/in/b", "", 201, None),
        ("MKCOL", "/c", "", 201, None),
        ("PUT", "/keyed/a", "", 405, Some(site)),
        ("PUT", "/keyed/a", "X-Key: secret\r\n", 201, None),
    ] {
        let answer = ask(&mut server.connect(), method, path, fields, b"");
        assert_eq!((answer.status, answer.field("Allow")), (status, allow), "{method} {path}");
    }
    // What a form names is judged as if it were asked for.
    let form = |path: &str, name: &str, fields: &str| {
        let content = format!("--b\r\nContent-Disposition: form-data; filename=\"{name}\"\r\n\r\nx\r\n--b--\r\n");
        let fields = format!("Content-Type: multipart/form-data; boundary=b\r\n{fields}");
        ask(&mut server.connect(), "POST", path, &fields, content.as_bytes()).status
    };
    assert_eq!([form("/in/", "f", ""), form("/in/", "f.exe", ""), form("/", "f", "")], [303, 403, 405]);
    assert_eq!([form("/keyed/", "f", ""), form("/keyed/", "f", "X-Key: secret\r\n")], [405, 303]);
    let mut client = server.connect();
    let page = |path: &str| String::from_utf8(server.connect().get(path).unwrap().content).unwrap();
    let forms = |path| ["class=\"upload\"", "action=\"?mkdir\"", "?delete"].map(|form| page(path).contains(form));
    assert_eq!(["/", "/in/", "/in/kept/"].map(forms), [[false, true, false], [true; 3], [true, false, false]]);
    assert_eq!(client.get("/in/f").unwrap().content, b"x");
    assert_eq!(names(&server.site()), ["c", "in", "keyed"].map(String::from).into());
    assert_eq!(names(&server.site().join("in")), ["b", "f", "kept"].map(String::from).into());
    server.finish();
}

fn files_of_the_server_beneath_a_root_are_for_no_client(engine: Engine) {
    let launch = Launch::new(engine).file("a.txt", "a\n").file("pw.txt", "").file("access.log.1", "old\n");
    symlink("pw.txt", launch.site().join("link")).unwrap();
    symlink(".", launch.site().join("folder")).unwrap();
    let log = launch.site().join("access.log").display().to_string();
    let launch = launch.argument("--log").argument(&log);
    let config = "error_log = \"site/errors\"\n\
                  [[site]]\nroot = \".\"\nusers_file = \"site/pw.txt\"\nbrowse = true\nupload = true\ndelete = true\n\
                  mkdir = true\n[[site.alias]]\nprefix = \"/up/\"\nroot = \"site\"\n\
                  [[site.route]]\nmatch = \"/to\"\nrewrite = \"/up/pw.txt\"\n[[site.route]]\nmatch = \"*\"\nsearch = true\n";
    let server = launch.config(config).start();
    let mut client = server.connect();
    let names = ["pw.txt", "access.log", "access.log.1", "errors", "folder/pw.txt"];
    let places = ["/site/", "/up/", "/site/folder/"];
    let paths = places.iter().flat_map(|place| names.map(|name| format!("{place}{name}")));
    for path in paths.chain(["/lamna.toml".to_owned()]) {
        assert_eq!(client.get(&path).unwrap().status, 404, "{path}");
        for method in ["PUT", "MKCOL", "DELETE"] {
            let answer = ask(&mut server.connect(), method, &path, "", b"");
            assert!(matches!(answer.status, 403 | 404), "{method} {path}: {answer:?}");
        }
    }
    for path in ["/site/link", "/up/link", "/to"] {
        assert_eq!(client.get(path).unwrap().status, 404, "{path}");
    }
    assert_eq!(client.get("/up/a.txt").unwrap().content, b"a\n");
    for path in ["/", "/site/", "/up/", "/?download=tar", "/up/?download=tar"] {
        let answer = client.get(path).unwrap();
        let content = String::from_utf8_lossy(&answer.content).into_owned();
        let names = ["pw.txt", "access.log", "errors", "lamna.toml"];
        assert!(answer.status == 200 && !names.iter().any(|name| content.contains(name)), "{path}: {content}");
    }
    let found = client.get("/up/?q=old").unwrap();
    assert!(!String::from_utf8_lossy(&found.content).contains("access.log.1"), "{found:?}");
    let site = server.site();
    assert_eq!(
        (fs::read(site.join("pw.txt")).unwrap(), fs::read(site.join("access.log.1")).unwrap()),
        (vec![], b"old\n".to_vec())
    );
    assert_eq!(ask(&mut client, "PUT", "/up/b.txt", "", b"b").status, 201);
    // A reload that changes nothing of a site may have the server use another file.
    fs::write(site.join("other"), "other\n").unwrap();
    assert_eq!(client.get("/up/other").unwrap().status, 200);
    let written = server.directory().join("lamna.toml");
    fs::write(&written, fs::read_to_string(&written).unwrap().replace("site/errors", "site/other")).unwrap();
    order(&server, &["reload"]).unwrap();
    eventually("the file is the server's", PATIENCE, || {
        (server.connect().get("/up/other").unwrap().status == 404).then_some(())
    });
    assert_eq!(server.connect().get("/up/errors").unwrap().status, 200, "it is no longer");
    drop(client);
    // Another process may serve: the order goes to that one.
    order(&server, &["drain"]).expect("it serves");
    server.finish();
}
