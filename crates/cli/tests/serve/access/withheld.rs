//! A file whose own path is answered otherwise: by a fixed answer, by a way to a hidden name, by a way elsewhere that
//! is for this client, or by running it. No other path of its folder (an alias, a link) gives it out or changes it.
//!
//! Owns: these cases, by reading, as a part of what is gone through, and as the source of a copy. Changes by every
//! method are the matrix of changes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::ask;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    what_is_withheld_is_had_and_changed_by_no_other_path,
    the_source_of_a_script_is_had_by_no_other_path,
    where_a_path_leads_nowhere_every_change_is_404,
    nothing_is_stored_by_a_path_at_another_of_which_it_would_be_run,
]);

const PAGE: &str = "<!doctype html><title>x</title><p>needle SECRET\n";
const LOCK: &str =
    "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
const SET: &str =
    "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><a xmlns='x:'>b</a></D:prop></D:set></D:propertyupdate>";
const OPEN: &str = "<!doctype html><title>y</title><p>needle open\n";

/// Routes that withhold `/kept/*`, each in its way.
const WITHHELD: [&str; 5] = [
    "match = [\"/kept\", \"/kept/*\"]\nrespond = 404\n",
    "match = \"/kept/*\"\nrespond = { text = \"no\" }\n",
    "match = \"/kept/*\"\nrewrite = \"/.denied\"\ntry = []\n",
    "match = { path = \"/kept/*\", client = \"127.0.0.0/8\" }\nrespond = 403\n",
    "match = \"/kept/*\"\naccess = \"deny\"\n",
];

fn start(engine: Engine, routes: &str) -> Server {
    let config = format!(
        "h2c = true\n[[site]]\nroot = \"site\"\nbrowse = true\nwebdav = true\nupload = true\ndelete = true\nmkdir = true\n\
         [[site.alias]]\nprefix = \"/alias/\"\nroot = \"site/kept\"\n\
         [[site.route]]\nmatch = \"/*\"\nsearch = true\n[[site.route]]\n{routes}"
    );
    let launch = Launch::new(engine).config(&config);
    let launch = launch.file("kept/p.html", PAGE).file("kept/d/q.html", PAGE).file("pub/open.html", OPEN);
    symlink("../kept/p.html", launch.site().join("pub/of-p.html")).unwrap();
    symlink("../kept", launch.site().join("pub/of-kept")).unwrap();
    launch.start()
}

/// The answers over both versions: the status, and the text.
fn both(server: &Server, method: &str, target: &str, fields: &[(&str, &str)]) -> Vec<(u16, String)> {
    let content = match method {
        "LOCK" => LOCK,
        "PROPPATCH" => SET,
        _ => "",
    };
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let one = ask(server, method, target, &lines, content);
    let mut client = Http2::connect(server.address());
    let other = client.ask(vec![request(method, target, fields).map(|_| content.into())]).remove(0).unwrap();
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    vec![(one.status, text(&one.content)), (other.status, text(&other.content))]
}

fn what_is_withheld_is_had_and_changed_by_no_other_path(engine: Engine) {
    for routes in WITHHELD {
        let server = start(engine, routes);
        for (method, target, fields) in [
            ("GET", "/alias/p.html", &[][..]),
            ("GET", "/pub/of-p.html", &[]),
            ("GET", "/pub/of-kept/p.html", &[]),
            ("GET", "/alias/?download=tar", &[]),
            ("GET", "/alias/?q=needle", &[]),
            ("GET", "/pub/?download=tar", &[]),
            ("GET", "/pub/of-kept/?download=tar", &[]),
            ("GET", "/pub/of-kept/?q=needle", &[]),
            ("GET", "/?download=tar", &[]),
            ("COPY", "/alias/p.html", &[("destination", "/pub/got")]),
            ("MOVE", "/alias/p.html", &[("destination", "/pub/got")]),
            ("COPY", "/pub/of-p.html", &[("destination", "/pub/got")]),
            ("COPY", "/alias/d", &[("destination", "/pub/got")]),
            ("DELETE", "/alias/p.html", &[]),
            ("DELETE", "/pub/of-kept/p.html", &[]),
            ("PUT", "/alias/p.html", &[]),
            ("PUT", "/pub/of-kept/new", &[]),
            ("MKCOL", "/alias/new", &[]),
            ("LOCK", "/alias/", &[]),
            ("LOCK", "/alias/p.html", &[]),
            ("PROPPATCH", "/alias/", &[]),
            ("PROPPATCH", "/pub/of-kept/p.html", &[]),
            ("PROPFIND", "/alias/p.html", &[("depth", "0")]),
            ("PROPFIND", "/pub/of-p.html", &[("depth", "0")]),
        ] {
            for (status, text) in both(&server, method, target, fields) {
                let told = || format!("{routes} {method} {target}: {status} {text}");
                assert!(!text.contains("SECRET") && !text.contains("p.html\0"), "{}", told());
                assert!(target.contains('?') || status >= 400, "{}", told());
            }
            assert!(!server.site().join("pub/got").exists(), "{routes} {method} {target}");
        }
        let fields = &[("accept", "application/json"), ("depth", "1")];
        for (method, target) in [("GET", "/pub/?q=needle"), ("GET", "/?q=needle"), ("PROPFIND", "/pub/")] {
            for (status, text) in both(&server, method, target, fields) {
                let is_right = text.contains("open.html") && !text.contains("of-p") && !text.contains("SECRET");
                assert!(is_right, "{routes} {method} {target}: {status} {text}");
            }
        }
        assert_eq!(both(&server, "COPY", "/pub/", &[("destination", "/copy/")])[0].0, 201, "{routes}");
        assert!(server.site().join("copy/open.html").exists() && !server.site().join("copy/of-p.html").exists());
        let kept: Vec<_> = fs::read_dir(server.site().join("kept")).unwrap().flatten().collect();
        assert_eq!(kept.len(), 2, "{routes}: {kept:?}");
        assert_eq!(fs::read_to_string(server.site().join("kept/p.html")).unwrap(), PAGE, "{routes}");
        server.finish();
    }
}

fn the_source_of_a_script_is_had_by_no_other_path(engine: Engine) {
    let script = "#!/bin/sh\n# SECRET\nprintf 'Content-Type: text/plain\\r\\n\\r\\nthe script'\n";
    for keys in ["cgi = true", "cgi = { extensions = [\"sh\"] }"] {
        let config = format!(
            "h2c = true\n[[site]]\nroot = \"site\"\nbrowse = true\n[[site.alias]]\nprefix = \"/alias/\"\nroot = \"site/run\"\n\
             [[site.route]]\nmatch = \"/run/*\"\n{keys}\n"
        );
        let launch = Launch::new(engine).config(&config).file("run/x.sh", script).file("pub/open.html", OPEN);
        fs::set_permissions(launch.site().join("run/x.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("../run/x.sh", launch.site().join("pub/of-x.sh")).unwrap();
        symlink("../run", launch.site().join("pub/of-run")).unwrap();
        let server = launch.start();
        for _ in 0..2 {
            for target in ["/alias/x.sh", "/pub/of-x.sh", "/pub/of-run/x.sh"] {
                for (status, text) in both(&server, "GET", target, &[]) {
                    assert!(status == 404 && !text.contains("SECRET"), "{keys} {target}: {status} {text}");
                }
            }
            for (target, expected) in [("/run/x.sh", "the script"), ("/pub/open.html", OPEN)] {
                for seen in both(&server, "GET", target, &[]) {
                    assert_eq!(seen, (200, expected.to_owned()), "{keys} {target}");
                }
            }
        }
        server.finish();
    }
}

fn where_a_path_leads_nowhere_every_change_is_404(engine: Engine) {
    let server = start(engine, WITHHELD[2]);
    for (method, target, fields) in [
        ("PUT", "/kept/new", &[][..]),
        ("DELETE", "/kept/p.html", &[]),
        ("MKCOL", "/kept/new/", &[]),
        ("POST", "/kept/p.html?delete", &[]),
        ("LOCK", "/kept/p.html", &[]),
        ("PROPFIND", "/kept/p.html", &[("depth", "0")]),
        ("COPY", "/kept/p.html", &[("destination", "/pub/got")]),
    ] {
        for (status, text) in both(&server, method, target, fields) {
            assert_eq!(status, 404, "{method} {target}: {text}");
        }
    }
    // Nor is anything brought there.
    for (status, text) in both(&server, "COPY", "/pub/open.html", &[("destination", "/kept/new")]) {
        assert_eq!(status, 403, "{text}");
    }
    let kept: Vec<_> = fs::read_dir(server.site().join("kept")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    server.finish();
}

fn nothing_is_stored_by_a_path_at_another_of_which_it_would_be_run(engine: Engine) {
    for keys in
        ["cgi = true", "fastcgi = { to = \"127.0.0.1:1\", extensions = [\"php\"] }", "proxy = \"http://127.0.0.1:1\""]
    {
        let config = format!(
            "h2c = true\n[[site]]\nroot = \"site\"\nwebdav = true\nupload = true\ndelete = true\nmkdir = true\n\
             [[site.alias]]\nprefix = \"/alias/\"\nroot = \"site/run\"\n[[site.route]]\nmatch = \"/run/*\"\n{keys}\n"
        );
        let launch = Launch::new(engine).config(&config).file("run/open.txt", OPEN).file("pub/x.php", OPEN);
        symlink("../run", launch.site().join("pub/of-run")).unwrap();
        let server = launch.start();
        for (method, target, fields) in [
            ("PUT", "/alias/x.php", &[][..]),
            ("PUT", "/pub/of-run/x.php", &[]),
            ("COPY", "/pub/x.php", &[("destination", "/alias/x.php")]),
            ("MOVE", "/pub/x.php", &[("destination", "/pub/of-run/x.php")]),
            ("POST", "/pub/x.php?move=/alias/x.php", &[]),
        ] {
            for (status, text) in both(&server, method, target, fields) {
                assert!((400..500).contains(&status), "{keys} {method} {target}: {status} {text}");
            }
        }
        assert!(!server.site().join("run/x.php").exists() && server.site().join("pub/x.php").exists(), "{keys}");
        server.finish();
    }
}
