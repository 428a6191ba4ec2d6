//! Rights: each path of a copy, a move, a deletion and an answer is judged by itself.

use std::fs;
use std::os::unix::fs::symlink;

use super::{EXCLUSIVE, SET, found, hrefs, lock, status, tree};
use crate::access::{ADA, BOB, OTHER, SESAME};
use crate::client::PATIENCE;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, eventually};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    destinations_and_entries_are_judged_by_their_own_rules,
    routes_say_where_it_is_spoken_and_what_it_changes,
    what_the_server_uses_and_what_leads_out_is_neither_read_nor_replaced,
    a_folder_within_that_has_another_path_is_judged_by_that_as_well,
    what_something_else_answers_for_stays_with_its_folder,
]);

/// A request to delete it by itself would be for the application, or would be led elsewhere.
fn what_something_else_answers_for_stays_with_its_folder(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\nwebdav = true\nupload = true\ndelete = true\nmkdir = true\n\
                  [[site.route]]\nmatch = \"*.cgi\"\ncgi = true\n\
                  [[site.route]]\nmatch = \"/led/there/*\"\nredirect = \"/x\"\n\
                  [[site.route]]\nmatch = \"/said/there/*\"\nrespond = 410\n";
    let launch = Launch::new(engine).config(config).file("runs/p.cgi", "p").file("runs/a", "a");
    let launch = launch.file("led/there/a", "a").file("said/there/a", "a").file("new/a", "new");
    let server = launch.start();
    for folder in ["runs", "led", "said"] {
        assert_eq!(status(&server, "DELETE", &format!("/{folder}/"), "", ""), 207, "{folder}");
        let to = format!("Destination: http://a/{folder}\r\n");
        assert_eq!(status(&server, "COPY", "/new/", &to, ""), 403, "{folder}");
    }
    let left = [
        "led/",
        "led/there/",
        "led/there/a=a",
        "new/",
        "new/a=new",
        "runs/",
        "runs/p.cgi=p",
        "said/",
        "said/there/",
        "said/there/a=a",
    ];
    assert_eq!(tree(&server.site()), left);
    server.finish();
}

fn destinations_and_entries_are_judged_by_their_own_rules(engine: Engine) {
    let config = format!(
        r#"
[[site]]
root = "site"
webdav = true
upload = true
delete = true
mkdir = true
users = {{ ada = "{SESAME}", bob = "{OTHER}" }}
access = [{{ actions = ["upload", "delete", "mkdir"], users = ["*"] }}]

[[site.route]]
match = "/ada/*"
access = {{ users = ["ada"] }}

[[site.route]]
match = "*/private/*"
priority = 1
access = {{ users = ["bob"] }}
"#
    );
    let launch = Launch::new(engine).config(&config).file("open/a", "a").file("open/private/p", "p");
    let server = launch.file("ada/secret", "secret").file("bob/b", "b").file("x", "x").start();
    let to = |path: &str, who: &str| format!("Destination: http://a{path}\r\n{who}");
    // What is kept from a client is not told of, and what is for it is.
    let told = |who: &str| {
        let answer = super::ask(&mut server.connect(), "PROPFIND", "/", &format!("Depth: 1\r\n{who}"), "");
        hrefs(&super::text(&answer)).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(told(ADA), ["/", "/ada/", "/bob/", "/open/", "/x"]);
    assert_eq!(told(BOB), ["/", "/bob/", "/open/", "/x"]);
    assert_eq!(hrefs(&found(&server, "/", "1", "")), ["/", "/bob/", "/open/", "/x"]);
    assert_eq!(hrefs(&found(&server, "/open/", "1", "")), ["/open/", "/open/a"]);
    for (method, path, fields, expected) in [
        ("PROPFIND", "/ada/", format!("Depth: 0\r\n{BOB}"), 403),
        ("PROPFIND", "/ada/", "Depth: 0\r\n".to_owned(), 401),
        ("PROPFIND", "/ada/", format!("Depth: 0\r\n{ADA}"), 207),
        // Anybody reads; to store something at the destination takes a user of that path.
        ("COPY", "/x", to("/y", ""), 401),
        ("COPY", "/x", to("/y", BOB), 201),
        ("COPY", "/x", to("/ada/x", BOB), 403),
        ("COPY", "/x", to("/ada/x", ADA), 201),
        ("COPY", "/x", to("/ada/../ada//x%2e", BOB), 403),
        ("COPY", "/ada/secret", to("/z", BOB), 403),
        ("COPY", "/ada/secret", to("/z", ""), 401),
        ("MOVE", "/ada/secret", to("/z", BOB), 403),
        ("MOVE", "/x", to("/ada/x", BOB), 403),
        ("MOVE", "/x", to("/z", ""), 401),
        ("LOCK", "/x", String::new(), 401),
        ("PROPPATCH", "/x", String::new(), 401),
        ("UNLOCK", "/x", String::new(), 401),
        // A folder goes without what the client may not read, or stays.
        ("COPY", "/open/", to("/copy", ADA), 201),
        ("MOVE", "/open/", to("/moved", ADA), 403),
        ("DELETE", "/open/", ADA.to_owned(), 207),
        ("COPY", "/bob/", to("/open/private", ADA), 403),
        ("COPY", "/bob/", to("/ada", BOB), 403),
        ("MOVE", "/bob/", to("/bobs", BOB), 201),
    ] {
        assert_eq!(status(&server, method, path, &fields, ""), expected, "{method} {path} {fields}");
    }
    // What may not be read is not named, either.
    let left = super::text(&super::ask(&mut server.connect(), "DELETE", "/open/", ADA, ""));
    assert_eq!(hrefs(&left), ["/open/"], "{left}");
    let left = [
        "ada/",
        "ada/secret=secret",
        "ada/x=x",
        "bobs/",
        "bobs/b=b",
        "copy/",
        "copy/a=a",
        "open/",
        "open/private/",
        "open/private/p=p",
        "x=x",
        "y=x",
    ];
    assert_eq!(tree(&server.site()), left);
    // Nobody keeps others out of where he may store nothing himself.
    let all = lock(&server, "/", BOB, EXCLUSIVE);
    assert_eq!(status(&server, "PUT", "/new", ADA, "x"), 423);
    assert_eq!(status(&server, "PUT", "/ada/new", ADA, "x"), 201);
    // Nor does his lock exclude those of others there, whichever of them comes first.
    assert_eq!(status(&server, "LOCK", "/y", ADA, EXCLUSIVE), 423);
    let own = lock(&server, "/ada/x", ADA, EXCLUSIVE);
    assert_eq!(status(&server, "UNLOCK", "/", &format!("Lock-Token: <{all}>\r\n{BOB}"), ""), 204);
    let all = lock(&server, "/", BOB, EXCLUSIVE);
    assert_eq!(status(&server, "PUT", "/ada/x", ADA, "x"), 423);
    assert_eq!(status(&server, "PUT", "/ada/x", &format!("If: (<{own}>)\r\n{ADA}"), "x"), 204);
    assert_eq!(status(&server, "UNLOCK", "/", &format!("Lock-Token: <{all}>\r\n{BOB}"), ""), 204);
    let own = lock(&server, "/y", ADA, EXCLUSIVE);
    assert_eq!(status(&server, "LOCK", "/", BOB, EXCLUSIVE), 423);
    assert_eq!(status(&server, "UNLOCK", "/y", &format!("Lock-Token: <{own}>\r\n{ADA}"), ""), 204);
    // A lock is its user's: a token that another one has read is of no use to him.
    let token = lock(&server, "/y", BOB, EXCLUSIVE);
    let shown = |who: &str| format!("If: (<{token}>)\r\n{who}");
    assert_eq!(status(&server, "PUT", "/y", &shown(ADA), "x"), 423);
    assert_eq!(status(&server, "UNLOCK", "/y", &format!("Lock-Token: <{token}>\r\n{ADA}"), ""), 403);
    assert_eq!(status(&server, "PUT", "/y", &shown(BOB), "x"), 204);
    server.finish();
}

fn routes_say_where_it_is_spoken_and_what_it_changes(engine: Engine) {
    let config = r#"
[[site]]
root = "site"
upload = true

[[site.route]]
match = "/dav/*"
webdav = true

[[site.route]]
match = "/dav/full/*"
delete = true
mkdir = true

[[site.route]]
match = "/dav/full/kept/*"
delete = false

[[site.route]]
match = "/dav/read/*"
upload = false

[[site.route]]
match = "*.exe"
priority = 1
upload = false

[[site.route]]
match = "*.md"
filters = ["markdown"]
"#;
    let launch = Launch::new(engine).config(config).file("a", "a").file("dav/a", "a").file("dav/full/kept/k", "k");
    let launch = launch.file("dav/full/made/a.md", "a").file("dav/full/made/b", "b").file("dav/full/run/x.exe", "x");
    let server = launch.file("dav/read/r", "r").file("dav/full/d/f", "f").start();
    // A file that is answered with something else than what is in it is left out.
    assert_eq!(hrefs(&found(&server, "/dav/full/made/", "1", "")), ["/dav/full/made/", "/dav/full/made/b"]);
    let to = |path: &str| format!("Destination: /{path}\r\n");
    for (method, path, fields, expected) in [
        ("PROPFIND", "/a", "Depth: 0\r\n".to_owned(), 405),
        ("PROPFIND", "/dav/", "Depth: 0\r\n".to_owned(), 207),
        ("LOCK", "/a", String::new(), 405),
        ("LOCK", "/dav/read/r", String::new(), 405),
        ("PROPPATCH", "/dav/read/r", String::new(), 405),
        ("COPY", "/dav/read/r", to("dav/r"), 201),
        ("COPY", "/dav/a", to("dav/read/a"), 403),
        // Where it is not spoken nothing is copied to.
        ("COPY", "/dav/a", to("b"), 403),
        ("COPY", "/a", to("dav/b"), 405),
        // Without `delete` nothing is replaced and nothing moves; without `mkdir` no folder comes to be.
        ("COPY", "/dav/a", to("dav/r"), 403),
        ("COPY", "/dav/full/d", to("dav/d"), 403),
        ("MOVE", "/dav/a", to("dav/b"), 405),
        ("COPY", "/dav/full/d", to("dav/full/e"), 201),
        ("MOVE", "/dav/full/e", to("dav/full/g"), 201),
        ("MOVE", "/dav/full/g/f", to("dav/moved"), 201),
        ("MOVE", "/dav/full/kept", to("dav/full/k"), 403),
        ("COPY", "/dav/full/d", to("dav/full/kept"), 403),
        ("COPY", "/dav/full/made", to("dav/full/bare"), 201),
        ("MOVE", "/dav/full/made", to("dav/full/moved"), 403),
        // What may not be stored where it would go keeps all of it from going.
        ("COPY", "/dav/full/run", to("dav/full/ran"), 403),
        ("MOVE", "/dav/full/run", to("dav/full/ran"), 403),
        ("DELETE", "/dav/a", String::new(), 405),
        ("DELETE", "/dav/full/d", String::new(), 204),
    ] {
        assert_eq!(status(&server, method, path, &fields, ""), expected, "{method} {path} {fields}");
    }
    let deleted = super::ask(&mut server.connect(), "DELETE", "/dav/full/kept/", "", "");
    assert!(matches!(deleted.status, 405 | 403), "{deleted:?}");
    let left = [
        "a=a",
        "full/",
        "full/bare/",
        "full/bare/b=b",
        "full/g/",
        "full/kept/",
        "full/kept/k=k",
        "full/made/",
        "full/made/a.md=a",
        "full/made/b=b",
        "full/run/",
        "full/run/x.exe=x",
        "moved=f",
        "r=r",
        "read/",
        "read/r=r",
    ];
    // The copy that was refused is removed by a thread of its own.
    eventually("the copy is gone", PATIENCE, || (tree(&server.site().join("dav")) == left).then_some(()));
    server.finish();
}

/// An alias leads to a folder deep in a tree: the tree goes only if it may go by the paths of the alias.
fn a_folder_within_that_has_another_path_is_judged_by_that_as_well(engine: Engine) {
    for rule in ["delete = false", "access = { users = [\"bob\"] }", "webdav = true"] {
        let config = format!(
            "[[site]]\nroot = \"site\"\nwebdav = true\nupload = true\ndelete = true\nmkdir = true\n\
             users = {{ ada = \"{SESAME}\", bob = \"{OTHER}\" }}\n\
             alias = [{{ prefix = \"/files/\", root = \"site/data/in/files\" }}]\n\
             [[site.route]]\nmatch = \"/files/*\"\n{rule}\n"
        );
        let launch = Launch::new(engine).config(&config).file("data/a", "a").file("other/o", "o").file("one", "1");
        let launch = launch.file("data/in/files/d/x", "x").file("data/in/b", "b");
        let server = launch.start();
        let to = |path: &str| format!("Destination: /{path}\r\n");
        for (method, path, fields, expected) in [
            ("MOVE", "/data", to("mine"), 403),
            ("MOVE", "/data/in/", to("mine"), 403),
            ("MOVE", "/data/in/files", to("mine"), 403),
            ("COPY", "/other", to("data"), 403),
            ("MOVE", "/other", to("data/in"), 403),
            ("COPY", "/one", to("data"), 403),
            ("COPY", "/one", to("data/in/files"), 403),
            ("DELETE", "/data", String::new(), 207),
            ("DELETE", "/data", String::new(), 207),
        ] {
            assert_eq!(status(&server, method, path, &fields, ""), expected, "{rule}: {method} {path} {fields}");
        }
        let left = ["data/", "data/in/", "data/in/files/", "data/in/files/d/", "data/in/files/d/x=x"];
        let rest = ["one=1", "other/", "other/o=o"];
        // The root of the alias stays, though all in it may go.
        assert_eq!(tree(&server.site()), [&left[..], &rest].concat(), "{rule}");
        fs::remove_dir_all(server.site().join("data/in/files/d")).unwrap();
        assert_eq!(status(&server, "DELETE", "/data/in/files", "", ""), 403, "{rule}");
        assert!(server.site().join("data/in/files").exists());
        server.finish();
    }
}

fn what_the_server_uses_and_what_leads_out_is_neither_read_nor_replaced(engine: Engine) {
    let launch = Launch::new(engine).file("a.txt", "a").file("d/b", "b").file("pw.txt", "").file("_headers", "");
    fs::write(launch.directory().join("outside"), "outside").unwrap();
    fs::create_dir(launch.directory().join("elsewhere")).unwrap();
    for (to, name) in
        [("../pw.txt", "d/link"), ("../../outside", "d/out"), ("../../elsewhere", "d/folder"), ("..", "d/up")]
    {
        symlink(to, launch.site().join(name)).unwrap();
    }
    let config = "[[site]]\nroot = \"site\"\nusers_file = \"site/pw.txt\"\nrule_files = true\nwebdav = true\nupload = true\n\
                  delete = true\nmkdir = true\n[[site.route]]\nmatch = \"/fixed\"\nrespond = { status = 200, text = \"x\" }\n";
    let server = launch.config(config).start();
    let to = |path: &str| format!("Destination: /{path}\r\n");
    assert_eq!(hrefs(&found(&server, "/", "1", "")), ["/", "/a.txt", "/d/"]);
    assert_eq!(hrefs(&found(&server, "/d/", "1", "")), ["/d/", "/d/b", "/d/up/"]);
    for (method, path, fields) in [
        ("COPY", "/pw.txt", to("x")),
        ("COPY", "/d/link", to("x")),
        ("COPY", "/d/out", to("x")),
        ("COPY", "/d/up/pw.txt", to("x")),
        ("MOVE", "/d/up/pw.txt", to("x")),
        ("MOVE", "/pw.txt", to("x")),
        ("COPY", "/a.txt", to("pw.txt")),
        ("COPY", "/a.txt", to("d/up/pw.txt")),
        ("COPY", "/a.txt", to("_headers")),
        ("MOVE", "/a.txt", to("_headers")),
        ("COPY", "/a.txt", to("d/folder/x")),
        ("COPY", "/a.txt", to("fixed")),
        ("COPY", "/a.txt", to(".hidden")),
        ("LOCK", "/pw.txt", String::new()),
        ("LOCK", "/fixed/", String::new()),
        ("LOCK", "/.hidden", String::new()),
        ("PROPPATCH", "/pw.txt", String::new()),
        ("PROPPATCH", "/d/link", String::new()),
        ("PROPPATCH", "/d/out", String::new()),
        ("MOVE", "/d", to("d/up/e")),
        ("COPY", "/d", to("d/up/d/e")),
    ] {
        let content = if method == "LOCK" {
            EXCLUSIVE
        } else if method == "PROPPATCH" {
            SET
        } else {
            ""
        };
        let answer = status(&server, method, path, &fields, content);
        let is_done_elsewhere = (method, path, fields.as_str()) == ("MOVE", "/d", "Destination: /d/up/e\r\n");
        assert!(
            matches!(answer, 400 | 403 | 404) || is_done_elsewhere && answer == 201,
            "{method} {path} {fields}: {answer}"
        );
    }
    assert_eq!(fs::read(server.site().join("pw.txt")).unwrap(), b"");
    assert!(
        !server.site().join("x").exists()
            && fs::read_dir(server.directory().join("elsewhere")).unwrap().next().is_none()
    );
    // Links go with a tree that is deleted, and never what they lead to.
    let folder = if server.site().join("d").exists() { "/d" } else { "/e" };
    assert_eq!(status(&server, "DELETE", folder, "", ""), 204);
    assert_eq!(tree(&server.site()), ["_headers=", "a.txt=a", "pw.txt="]);
    assert_eq!(fs::read(server.directory().join("outside")).unwrap(), b"outside");
    server.finish();
}
