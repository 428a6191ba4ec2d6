//! A rule on a path holds however the path is reached: each way to a script and to a file, for those who are let in at
//! that path and for others.
//!
//! Owns: these cases over whole servers. That a translation gives nothing that is not judged is tested over generated
//! configurations in `lamna-server` (`content/translate/verdicts.rs`).

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{Mode, OFlags, mkdirat, openat};

use super::ask;
use crate::client::Response;
use crate::engine::{AMPED, Engine, for_engines};
use crate::server::{Launch, Server};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
] => [
    a_script_is_run_by_whatever_way_only_for_who_is_let_in_at_it,
    a_script_is_sent_with_the_fields_and_within_the_limits_of_its_own_path,
    no_way_leads_to_a_file_that_is_kept_from_who_asks,
    no_archive_and_no_search_has_the_source_of_a_script,
    a_path_for_readers_leads_to_no_script_by_another_method,
    what_an_application_is_asked_to_do_needs_leave_to_read_what_it_answers,
    a_directory_that_takes_the_place_of_a_root_has_its_rules_at_once,
]);

const TOKEN: &str = "Authorization: Bearer abcdefghijklmnop\r\n";
const HASH: &str = "sha256:f39dac6cbaba535e2c207cd0cd8f154974223c848f727f98b3564cea569b41cf";
const SCRIPT: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nit has run: %s%s' \"$REQUEST_METHOD\" \"$PATH_INFO\"\n";
/// What leads to `/admin.cgi`, and to `/folder/index.cgi`.
const WAYS: [&str; 11] = [
    "/admin.cgi",
    "/admin.cgi/",
    "/admin.cgi/x/y.css",
    "/%61dmin.cgi/x",
    "//admin.cgi//x",
    "/try/x",
    "/way/x",
    "/moved/x",
    "/folder/",
    "/linked.cgi",
    "/alias/admin.cgi",
];

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.content).into_owned()
}

/// A site with scripts of which `access` is said.
fn scripts(engine: Engine, more: &str, access: &str) -> Server {
    let config = format!(
        r#"limit_exempt = []
[[site]]
root = "site"
rule_files = true
browse = true
tokens = {{ ci = "{HASH}" }}
{more}
[[site.alias]]
prefix = "/alias/"
root = "site"
[[site.route]]
match = "/*"
cgi = {{ extensions = ["cgi"] }}
[[site.route]]
match = "/try/*"
try = ["/admin.cgi"]
[[site.route]]
match = "/way/*"
rewrite = "/admin.cgi"
[[site.route]]
match = "/folder/"
index = ["index.cgi"]
[[site.route]]
match = ["/admin.cgi", "/folder/index.cgi"]
{access}
"#
    );
    let launch = Launch::new(engine).config(&config).file("admin.cgi", SCRIPT).file("folder/index.cgi", SCRIPT);
    let launch = launch.file("_redirects", "/moved/* /admin.cgi 200\n").file("open.txt", "open\n");
    for name in ["admin.cgi", "folder/index.cgi"] {
        fs::set_permissions(launch.site().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    symlink("admin.cgi", launch.site().join("linked.cgi")).unwrap();
    launch.start()
}

fn a_script_is_run_by_whatever_way_only_for_who_is_let_in_at_it(engine: Engine) {
    let files = "Content-Type: multipart/form-data; boundary=x\r\n";
    let server = scripts(engine, "", "access = { tokens = [\"ci\"] }");
    for round in 0..2 {
        for way in WAYS {
            for (method, fields, content) in
                [("GET", "", ""), ("POST", "", "a=b"), ("POST", files, "--x--\r\n"), ("PUT", "", "x")]
            {
                let refused = ask(&server, method, way, fields, content);
                assert_eq!(refused.status, 401, "{round} {method} {way} {fields}");
                assert!(!text(&refused).contains("it has run"), "{way}");
                let let_in = ask(&server, method, way, &format!("{fields}{TOKEN}"), content);
                assert_eq!(let_in.status, 200, "{round} {method} {way} {fields}: {}", text(&let_in));
                assert!(text(&let_in).starts_with(&format!("it has run: {method}")), "{way}: {}", text(&let_in));
                assert_eq!(let_in.field("Cache-Control"), Some("private"), "{way}");
            }
        }
    }
    server.finish();
    let server = scripts(engine, "", "access = { allow = [\"192.0.2.0/24\"] }");
    for way in WAYS {
        assert_eq!(ask(&server, "GET", way, TOKEN, "").status, 403, "{way}");
        assert_eq!(ask(&server, "POST", way, TOKEN, "x").status, 403, "{way}");
    }
    assert_eq!(ask(&server, "GET", "/open.txt", "", "").status, 200);
    server.finish();
}

fn a_script_is_sent_with_the_fields_and_within_the_limits_of_its_own_path(engine: Engine) {
    let server = scripts(engine, "", "headers = { X-Own = \"yes\", Cache-Control = \"no-store\" }");
    for way in WAYS {
        let response = ask(&server, "GET", way, "", "");
        let fields = (response.status, response.field("X-Own"), response.field("Cache-Control"));
        assert_eq!(fields, (200, Some("yes"), Some("no-store")), "{way}");
    }
    server.finish();
    for way in WAYS.into_iter().filter(|way| *way != "/folder/") {
        let limit = "[[site.limit]]\npath = \"/admin.cgi\"\nrequests = \"2/h\"";
        let server = scripts(engine, limit, "");
        let statuses = [(); 4].map(|()| ask(&server, "GET", way, "", "").status);
        assert_eq!(statuses, [200, 200, 429, 429], "{way}");
        assert_eq!(ask(&server, "GET", "/open.txt", "", "").status, 200);
        server.finish();
    }
}

fn no_way_leads_to_a_file_that_is_kept_from_who_asks(engine: Engine) {
    let config = format!(
        r#"[[site]]
root = "site"
rule_files = true
browse = true
tokens = {{ ci = "{HASH}" }}
error_pages = {{ "404" = "/kept/error.html" }}
[[site.alias]]
prefix = "/alias/"
root = "site/kept"
[[site.alias]]
prefix = "/whole/"
root = "site"
[[site.route]]
match = ["/kept/*", "/index/index.html", "/one.txt"]
access = {{ tokens = ["ci"] }}
[[site.route]]
match = "/*"
search = true
[[site.route]]
match = "/way/*"
rewrite = "/kept/$1"
[[site.route]]
match = "/try/*"
try = ["/kept/$1", "/one.txt"]
[[site.route]]
match = "/page.html"
filters = ["include"]
"#
    );
    let secret = "<p>the secret</p>\n";
    let launch = Launch::new(engine)
        .config(&config)
        .file("kept/a.txt", secret)
        .file("kept/error.html", secret)
        .file("kept/index.html", secret)
        .file("index/index.html", secret)
        .file("one.txt", secret)
        .file("plain.txt", "open\n")
        .file(
            "page.html",
            "before <!--#include virtual=\"/kept/a.txt\" --><!--#include virtual=\"/link.txt\" --> after",
        )
        .file("links/open.txt", "open\n")
        .file("_redirects", "/moved/* /kept/:splat 200\n");
    for (to, name) in [
        ("kept/a.txt", "link.txt"),
        ("kept", "folder"),
        ("../kept/a.txt", "links/a.txt"),
        ("../one.txt", "links/one.txt"),
        ("kept/a.txt", "plain.txt.gz"),
    ] {
        symlink(to, launch.site().join(name)).unwrap();
    }
    let server = launch.start();
    let ways = [
        "/kept/a.txt",
        "/kept/",
        "/index/",
        "/way/a.txt",
        "/try/a.txt",
        "/try/none",
        "/moved/a.txt",
        "/alias/a.txt",
        "/alias/",
        "/none",
        "/whole/kept/a.txt",
        "/whole/one.txt",
        "/link.txt",
        "/folder/a.txt",
        "/folder/",
        "/links/a.txt",
        "/links/one.txt",
        "/page.html",
        "/plain.txt",
        "/links/?download=tar",
        "/folder/?download=tar",
        "/?download=tar",
        "/whole/?download=zip",
        "/?q=secret&format=json",
        "/whole/?q=secret&format=json",
        "/links/?q=secret&format=json",
        "/whole/index/",
        "/plain.txt.gz",
    ];
    for round in 0..2 {
        for way in ways {
            for fields in ["", "Accept-Encoding: gzip, zstd, br\r\n"] {
                let response = ask(&server, "GET", way, fields, "");
                assert!(!text(&response).contains("the secret"), "{round} {way}: {}", text(&response));
            }
        }
        assert!(text(&ask(&server, "GET", "/page.html", "", "")).contains("before"));
        for way in ["/kept/a.txt", "/kept/", "/one.txt"] {
            let response = ask(&server, "GET", way, TOKEN, "");
            assert!(response.status == 200 && text(&response).contains("the secret"), "{way}");
        }
        assert!(text(&ask(&server, "GET", "/plain.txt", "", "")).contains("open"));
    }
    server.finish();
}

fn no_archive_and_no_search_has_the_source_of_a_script(engine: Engine) {
    let config = r#"[[site]]
root = "site"
browse = true
[[site.route]]
match = "/*"
search = true
[[site.route]]
match = { path = "*.cgi", query = { run = "yes" } }
cgi = { extensions = ["cgi"] }
[[site.route]]
match = { path = "*.cgi", header = { X-Other = "1" } }
priority = 1
proxy = "http://127.0.0.1:9"
"#;
    let launch =
        Launch::new(engine).config(config).file("a.cgi", SCRIPT).file("deep/b.cgi", SCRIPT).file("c.txt", "it has not");
    symlink("a.cgi", launch.site().join("link.txt")).unwrap();
    let server = launch.start();
    for target in ["/?download=tar", "/deep/?download=tar", "/?q=printf&format=json", "/a.cgi", "/a.cgi?x"] {
        for fields in ["", "X-Other: 1\r\n"] {
            let response = ask(&server, "GET", target, fields, "");
            assert!(!text(&response).contains("it has run"), "{target} {fields}: {}", text(&response));
        }
    }
    assert!(text(&ask(&server, "GET", "/?download=tar", "", "")).contains("it has not"));
    server.finish();
}

fn a_path_for_readers_leads_to_no_script_by_another_method(engine: Engine) {
    // The rule is that of the path that is asked for, and the script is for everybody.
    let rule = "access = { anyone = true }\n[[site.route]]\nmatch = [\"/try/x\", \"/way/x\", \"/moved/x\", \"/admin.cgi/x\"]\naccess = { actions = [\"read\"], tokens = [\"ci\"] }\n";
    let files = "Content-Type: multipart/form-data; boundary=x\r\n";
    let server = scripts(engine, "", rule);
    for way in ["/try/x", "/way/x", "/moved/x", "/admin.cgi/x"] {
        for (method, fields, content) in [
            ("GET", "", ""),
            ("HEAD", "", ""),
            ("POST", "", "a=b"),
            ("POST", files, "--x--\r\n"),
            ("PUT", "", "x"),
            ("DELETE", "", ""),
            ("MKCOL", "", ""),
            ("QUERY", "", "x"),
        ] {
            let refused = ask(&server, method, way, fields, content);
            assert_eq!(refused.status, 401, "{method} {way} {fields}");
            let let_in = ask(&server, method, way, &format!("{fields}{TOKEN}"), content);
            assert_eq!(let_in.status, 200, "{method} {way} {fields}: {}", text(&let_in));
        }
    }
    assert_eq!(ask(&server, "PUT", "/admin.cgi", "", "x").status, 200, "it is for everybody by its own name");
    server.finish();
}

fn what_an_application_is_asked_to_do_needs_leave_to_read_what_it_answers(engine: Engine) {
    let files = "Content-Type: multipart/form-data; boundary=x\r\n";
    let all = [("GET", ""), ("HEAD", ""), ("POST", ""), ("POST", files), ("PUT", ""), ("DELETE", ""), ("PATCH", "")];
    let server = scripts(engine, "", "access = { actions = [\"read\"], tokens = [\"ci\"] }");
    for (method, fields) in all {
        for target in ["/admin.cgi", "/admin.cgi/x?delete", "/try/x"] {
            assert_eq!(ask(&server, method, target, fields, "").status, 401, "{method} {target} {fields}");
        }
    }
    server.finish();
    // What is said of an action of its own counts for that.
    let rules = "access = [{ actions = [\"read\"], tokens = [\"ci\"] }, { actions = [\"upload\"], anyone = true }]";
    let server = scripts(engine, "", rules);
    assert_eq!(ask(&server, "PUT", "/admin.cgi", "", "x").status, 200);
    assert_eq!(ask(&server, "POST", "/admin.cgi", files, "x").status, 401);
    server.finish();
}

/// A root that another directory takes the place of is noticed when it is asked for, and its rules hold before that.
fn a_directory_that_takes_the_place_of_a_root_has_its_rules_at_once(engine: Engine) {
    let config = format!(
        "[[site]]\nroot = \"site\"\nbrowse = true\nupload = true\ntokens = {{ ci = \"{HASH}\" }}\n\
         [[site.alias]]\nprefix = \"/own/\"\nroot = \"site/data/own\"\n\
         [[site.alias]]\nprefix = \"/now/\"\nroot = \"site/data/now\"\n\
         [[site.route]]\nmatch = \"/own/*\"\naccess = {{ tokens = [\"ci\"] }}\n\
         [[site.route]]\nmatch = \"/now/*\"\naccess = {{ tokens = [\"ci\"] }}\n"
    );
    let launch = Launch::new(engine).config(&config).file("data/own/a.txt", "own").file("data/one/b.txt", "one");
    let launch = launch.file("data/two/c.txt", "two").file("data/new/d.txt", "new");
    let data = launch.site().join("data");
    symlink("one", data.join("now")).unwrap();
    let server = launch.start();
    let check = |targets: &[&str], round: &str| {
        for target in targets {
            for method in ["GET", "PUT"] {
                let answer = ask(&server, method, target, "", if method == "PUT" { "x" } else { "" });
                assert!(matches!(answer.status, 401 | 403 | 404), "{round}: {method} {target}: {}", answer.status);
            }
        }
    };
    check(&["/data/own/a.txt", "/own/a.txt", "/data/one/b.txt", "/data/now/b.txt"], "before");
    fs::rename(data.join("own"), data.join("old")).unwrap();
    fs::rename(data.join("new"), data.join("own")).unwrap();
    symlink("two", data.join("next")).unwrap();
    fs::rename(data.join("next"), data.join("now")).unwrap();
    for round in ["at once", "later"] {
        check(&["/data/own/d.txt", "/data/own/e.txt", "/data/two/c.txt", "/data/now/c.txt"], round);
        std::thread::sleep(std::time::Duration::from_millis(1200));
    }
    assert_eq!(ask(&server, "GET", "/own/d.txt", TOKEN, "").content, b"new");
    server.finish();
}

/// The way to a file may be longer than the system can say. Then nobody knows which rules are meant for it, and it is
/// nobody's.
#[test]
fn what_is_farther_away_than_the_system_can_say_is_not_had_by_a_link() {
    let rule = "[[site.route]]\nmatch = \"/secret/*\"\naccess = { tokens = [\"ci\"] }\n";
    let config = format!("[[site]]\nroot = \"site\"\ntokens = {{ ci = \"{HASH}\" }}\n{rule}");
    let launch = Launch::new(AMPED).config(&config);
    let names = |letter: &str| vec![letter.repeat(250); 9];
    let below = [vec!["secret".to_owned()], names("s"), names("t")].concat();
    let folder = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut directory = rustix::fs::open(launch.site(), folder, Mode::empty()).unwrap();
    let plant = |directory: &OwnedFd| {
        let file = openat(directory, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR | Mode::ROTH).unwrap();
        rustix::io::write(&file, b"secret").unwrap();
    };
    for (depth, name) in below.iter().enumerate() {
        mkdirat(&directory, name.as_str(), Mode::from_raw_mode(0o755)).unwrap();
        directory = openat(&directory, name.as_str(), folder, Mode::empty()).unwrap();
        if [9, below.len() - 1].contains(&depth) {
            plant(&directory);
        }
    }
    symlink(below[..10].join("/"), launch.site().join("link")).unwrap();
    let server = launch.start();
    for target in ["/link/file".to_owned(), format!("/link/{}/file", names("t").join("/"))] {
        let without = ask(&server, "GET", &target, "", "");
        assert!(without.status >= 400 && without.content != b"secret", "{}", without.status);
    }
    server.finish();
}
