//! WebDAV: what is told of, what is copied, moved and deleted, and that locks hold, with every engine.
//!
//! Owns: these cases. Guarantees: nothing asserts on time, but for locks that are to expire, which are waited for.

mod litmus;
mod rights;

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::client::{Client, PATIENCE, Response};
use crate::control::order;
use crate::engine::{Engine, for_engines, names_of_one_process};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually};

for_engines!(all every_architecture_speaks_webdav: [
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
    a_folder_is_told_of_as_get_has_it,
    trees_are_copied_moved_and_deleted_whole,
    locks_keep_others_out_by_whatever_method,
    properties_that_clients_set_stay_with_their_files,
    a_large_folder_is_told_of_whole,
    what_a_request_has_the_server_say_is_bounded,
    both_versions_of_http_have_the_same_answers,
    a_reload_turns_it_on_and_off_and_locks_stay_over_all_changes,
    a_copy_whose_client_leaves_is_whole_or_not_there,
]);

const ALL: [&str; 4] = ["--webdav", "--upload", "--delete", "--mkdir"];

fn launch(engine: Engine) -> Launch {
    ALL.iter().fold(Launch::new(engine).file("a.txt", "abc\n"), |launch, argument| launch.argument(argument))
}

/// Sends a request and receives what is answered.
fn ask(client: &mut Client<TcpStream>, method: &str, path: &str, fields: &str, content: &str) -> Response {
    let length = content.len();
    client.send(
        format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{fields}\r\n{content}").as_bytes(),
    );
    let response = client.receive(true).unwrap_or_else(|fault| panic!("{method} {path}: {fault}"));
    response.check().unwrap_or_else(|fault| panic!("{method} {path}: {fault}"));
    response
}

/// The status of a request on a connection of its own.
fn status(server: &Server, method: &str, path: &str, fields: &str, content: &str) -> u16 {
    ask(&mut server.connect(), method, path, fields, content).status
}

fn text(response: &Response) -> String {
    String::from_utf8(response.content.clone()).expect("it is text")
}

/// What PROPFIND says of a path.
fn found(server: &Server, path: &str, depth: &str, body: &str) -> String {
    let response = ask(&mut server.connect(), "PROPFIND", path, &format!("Depth: {depth}\r\n"), body);
    assert_eq!(response.status, 207, "{path}: {response:?}");
    assert_eq!(response.field("Content-Type"), Some("application/xml; charset=utf-8"));
    text(&response)
}

/// The paths that an answer tells of, in order.
fn hrefs(text: &str) -> Vec<&str> {
    let mut paths: Vec<&str> = text
        .split("<D:response><D:href>")
        .skip(1)
        .filter_map(|rest| rest.split_once('<'))
        .map(|(path, _)| path)
        .collect();
    paths.sort_unstable();
    paths
}

fn prop(names: &str) -> String {
    format!("<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop>{names}</D:prop></D:propfind>")
}

fn a_folder_is_told_of_as_get_has_it(engine: Engine) {
    let launch = launch(engine).file("d/b ä.html", "<p>").file("d/.hidden", "x").file("d/e/f", "f");
    fs::write(launch.directory().join("outside"), "outside").unwrap();
    symlink("../../outside", launch.site().join("d/out")).unwrap();
    symlink("../a.txt", launch.site().join("d/in")).unwrap();
    let server = launch.start();
    let options = ask(&mut server.connect(), "OPTIONS", "/d/", "", "");
    assert_eq!(
        (options.status, options.field("DAV"), options.field("MS-Author-Via")),
        (200, Some("1, 2"), Some("DAV"))
    );
    let allow = "GET, HEAD, OPTIONS, PUT, DELETE, MKCOL, POST, PROPFIND, COPY, MOVE, PROPPATCH, LOCK, UNLOCK";
    assert_eq!(options.field("Allow"), Some(allow));
    // A folder that is not listed is told of.
    assert_eq!(server.connect().get("/d/").unwrap().status, 403);
    let all = found(&server, "/d", "1", "");
    assert_eq!(hrefs(&all), ["/d/", "/d/b%20%C3%A4.html", "/d/e/", "/d/in"]);
    assert_eq!(hrefs(&found(&server, "/d/", "0", "")), ["/d/"]);
    assert_eq!(hrefs(&found(&server, "/a.txt", "1", "")), ["/a.txt"]);
    etag_of(&server, "/a.txt");
    let file = server.connect().get("/a.txt").unwrap();
    let told = found(
        &server,
        "/a.txt",
        "0",
        &prop("<D:getetag/><D:getlastmodified/><D:getcontentlength/><D:getcontenttype/><D:x/>"),
    );
    let value = |name: &str| {
        format!(
            "<D:{name}>{}<",
            file.field(match name {
                "getetag" => "ETag",
                "getlastmodified" => "Last-Modified",
                _ => "Content-Type",
            })
            .unwrap()
            .replace('"', "&quot;")
        )
    };
    for name in ["getetag", "getlastmodified", "getcontenttype"] {
        assert!(told.contains(&value(name)), "{name}: {told}");
    }
    assert!(
        told.contains("<D:getcontentlength>4<") && told.contains("<x xmlns=\"DAV:\"/></D:prop><D:status>HTTP/1.1 404"),
        "{told}"
    );
    assert!(found(&server, "/d/", "0", &prop("<D:quota-available-bytes/>")).contains("<D:quota-available-bytes>"));
    for (path, depth, body, expected) in [
        ("/d/", "infinity", "", 403),
        ("/d/", "2", "", 400),
        ("/none", "0", "", 404),
        ("/a.txt/", "0", "", 404),
        ("/d/.hidden", "0", "", 404),
        ("/d/out", "0", "", 404),
        ("/d/", "0", "<x", 400),
        (
            "/d/",
            "0",
            "<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><propfind xmlns='DAV:'><prop>&a;</prop></propfind>",
            400,
        ),
        ("/d/", "0", &"x".repeat(70_000), 413),
    ] {
        let fields = format!("Depth: {depth}\r\n");
        let answer = ask(&mut server.connect(), "PROPFIND", path, &fields, body);
        assert_eq!(answer.status, expected, "{path} {depth} {body:.20}");
        assert_eq!(text(&answer).contains("propfind-finite-depth"), depth == "infinity", "{answer:?}");
    }
    server.finish();
}

/// The names beneath a folder, with what files hold.
fn tree(folder: &Path) -> Vec<String> {
    // What was given up is removed behind the answer.
    eventually("what was given up has been removed", PATIENCE, || {
        let all = tree_now(folder);
        let is_settled = !all.iter().any(|name| name.contains(".lamna-new-"));
        is_settled.then_some(all)
    })
}

fn tree_now(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    // What is being removed may have gone.
    let Ok(entries) = fs::read_dir(folder) else { return all };
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => {
                all.push(format!("{name}/"));
                all.extend(tree_now(&entry.path()).into_iter().map(|inner| format!("{name}/{inner}")));
            }
            false => all.push(format!("{name}={}", fs::read_to_string(entry.path()).unwrap_or_default().trim())),
        }
    }
    all.sort();
    all
}

fn trees_are_copied_moved_and_deleted_whole(engine: Engine) {
    let server = launch(engine).file("d/b", "b").file("d/e/f", "f").file("t/old", "old").file("x", "x").start();
    let site = server.site();
    let to = |path: &str, more: &str| format!("Destination: http://a{path}\r\n{more}");
    let mut client = server.connect();
    assert_eq!(client.get("/c/e/f").unwrap().status, 404);
    let made = ask(&mut client, "COPY", "/d/", &to("/c/", ""), "");
    assert_eq!((made.status, made.field("Location")), (201, Some("/c/")));
    // Who was told that there is nothing is not told so again.
    assert_eq!(client.get("/c/e/f").unwrap().content, b"f");
    assert_eq!(tree(&site.join("c")), tree(&site.join("d")));
    for (method, path, fields, expected) in [
        ("COPY", "/d/", to("/c", "Overwrite: F\r\n"), 412),
        ("COPY", "/d", to("/flat", "Depth: 0\r\n"), 201),
        ("COPY", "/d", to("/d/inner", ""), 403),
        ("COPY", "/d/e", to("/d", ""), 403),
        ("MOVE", "/d", to("/d/inner/more", ""), 409),
        ("COPY", "/x", to("/x", ""), 403),
        ("COPY", "/x", to("/none/y", ""), 409),
        ("COPY", "/x", to("/.y", ""), 403),
        ("COPY", "/x", to("/", ""), 403),
        ("COPY", "/none", to("/y", ""), 404),
        ("COPY", "/x", String::new(), 400),
        ("COPY", "/x", "Destination: http://b/y\r\n".to_owned(), 502),
        ("COPY", "/x", to("/../y", ""), 400),
        ("COPY", "/d", to("/y", "Depth: 1\r\n"), 400),
        ("MOVE", "/d", to("/y", "Depth: 0\r\n"), 400),
        ("MOVE", "/", to("/y", ""), 403),
        ("COPY", "/x", to("/y", "Sec-Fetch-Site: cross-site\r\n"), 403),
        // What is there goes as a whole, whatever it was.
        ("COPY", "/d/", to("/t", ""), 204),
        ("MOVE", "/c", to("/x", ""), 204),
        ("MOVE", "/x", to("/moved", "Overwrite: F\r\n"), 201),
        ("COPY", "/a.txt", to("/flat", ""), 204),
        ("COPY", "/a.txt", to("/b%20c", ""), 201),
        ("MOVE", "/a.txt", to("/b%20c", "Overwrite: F\r\n"), 412),
        ("MOVE", "/a.txt", to("/b%20c", ""), 204),
    ] {
        assert_eq!(status(&server, method, path, &fields, ""), expected, "{method} {path} {fields}");
    }
    let full = |name: &str| [format!("{name}/"), format!("{name}/b=b"), format!("{name}/e/"), format!("{name}/e/f=f")];
    let expected =
        [&["b c=abc".to_owned()][..], &full("d"), &["flat=abc".to_owned()], &full("moved"), &full("t")].concat();
    assert_eq!(tree(&site), expected);
    gone(&server, "/c/e/f");
    assert_eq!(client.get("/moved/e/f").unwrap().content, b"f");
    assert_eq!(status(&server, "DELETE", "/moved/", "", ""), 204);
    gone(&server, "/moved/e/f");
    // What is hidden stays, and what it is in; it is not named.
    fs::write(site.join("d/e/.kept"), "").unwrap();
    let partly = ask(&mut client, "DELETE", "/d", "", "");
    assert_eq!((partly.status, hrefs(&text(&partly))), (207, vec!["/d/e/"]), "{partly:?}");
    assert_eq!(tree(&site.join("d")), ["e/", "e/.kept="]);
    assert_eq!(status(&server, "MOVE", "/d", &to("/y", ""), ""), 403);
    server.finish();
}

const EXCLUSIVE: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>\
                         <D:owner>me &amp; you</D:owner></D:lockinfo>";

/// Locks a path. The token.
fn lock(server: &Server, path: &str, fields: &str, body: &str) -> String {
    let response = ask(&mut server.connect(), "LOCK", path, fields, body);
    assert!(matches!(response.status, 200 | 201), "{path}: {response:?}");
    let token = response.field("Lock-Token").expect("there is a token").trim_matches(['<', '>']).to_owned();
    assert!(text(&response).contains(&format!("<D:href>{token}</D:href>")), "{response:?}");
    token
}

fn locks_keep_others_out_by_whatever_method(engine: Engine) {
    let server = launch(engine).file("d/b", "b").file("e/c", "c").start();
    let to = |path: &str| format!("Destination: /{path}\r\n");
    let file = lock(&server, "/a.txt", "Depth: 0\r\nTimeout: Second-100\r\n", EXCLUSIVE);
    let folder = lock(&server, "/d/", "", EXCLUSIVE);
    let name = lock(&server, "/e/", "Depth: 0\r\n", EXCLUSIVE);
    let told = found(&server, "/d/b", "0", &prop("<D:lockdiscovery/>"));
    for part in [&*folder, "<D:depth>infinity<", "me &amp; you", "<D:lockroot><D:href>/d/<", "<D:timeout>Second-"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let form = "Content-Type: multipart/form-data; boundary=b\r\n";
    let of_form =
        |name: &str| format!("--b\r\nContent-Disposition: form-data; filename=\"{name}\"\r\n\r\nx\r\n--b--\r\n");
    let changes = [
        ("PUT", "/a.txt", String::new(), "x".to_owned()),
        ("PUT", "/a.txt", "Content-Range: bytes 0-0/1\r\n".to_owned(), "x".to_owned()),
        ("POST", "/", form.to_owned(), of_form("a.txt")),
        ("POST", "/a.txt?delete", String::new(), String::new()),
        ("DELETE", "/a.txt", String::new(), String::new()),
        ("MOVE", "/a.txt", to("y"), String::new()),
        ("COPY", "/e/c", to("a.txt"), String::new()),
        ("PUT", "/d/b", String::new(), "x".to_owned()),
        ("PUT", "/d/new", String::new(), "x".to_owned()),
        ("POST", "/d/", form.to_owned(), of_form("new")),
        ("MKCOL", "/d/new", String::new(), String::new()),
        ("POST", "/d/?mkdir", String::new(), "name=new".to_owned()),
        ("COPY", "/e/c", to("d/new"), String::new()),
        ("PROPPATCH", "/d/b", String::new(), SET.to_owned()),
        ("LOCK", "/d/b", String::new(), EXCLUSIVE.to_owned()),
        ("LOCK", "/d/new", String::new(), EXCLUSIVE.to_owned()),
        ("LOCK", "/", String::new(), EXCLUSIVE.to_owned()),
        ("DELETE", "/d", String::new(), String::new()),
        ("MKCOL", "/e/new", String::new(), String::new()),
        ("DELETE", "/e/c", String::new(), String::new()),
        ("MOVE", "/e/c", to("y"), String::new()),
    ];
    let before = tree(&server.site());
    for (method, path, fields, content) in &changes {
        let answer = ask(&mut server.connect(), method, path, fields, content);
        assert_eq!(answer.status, 423, "{method} {path} {fields}: {answer:?}");
    }
    assert_eq!(tree(&server.site()), before);
    // A token of another place, and one that is negated, are none.
    for shown in [
        format!("If: (<{folder}>)\r\n"),
        format!("If: (Not <DAV:no-lock> Not <{file}>)\r\n"),
        "If: (<urn:x>)\r\n".to_owned(),
    ] {
        let answer = status(&server, "PUT", "/a.txt", &shown, "x");
        assert_eq!(answer, 412, "{shown}");
    }
    assert_eq!(status(&server, "PUT", "/a.txt", &format!("If: </d/> (<{folder}>)\r\n"), "x"), 423);
    assert_eq!(status(&server, "PUT", "/a.txt", "If: (Not <DAV:no-lock>)\r\n", "x"), 423);
    assert_eq!(status(&server, "PUT", "/a.txt", "If: (\r\n", "x"), 400);
    // With its token each is done; the content of a folder that only its names are locked of is free.
    assert_eq!(status(&server, "PUT", "/e/c", "", "cc"), 204);
    assert_eq!(status(&server, "PUT", "/a.txt", &format!("If: (<{file}>)\r\n"), "x"), 204);
    assert_eq!(status(&server, "MKCOL", "/e/new", &format!("If: </e/> (<{name}>)\r\n"), ""), 201);
    let etag = etag_of(&server, "/a.txt");
    assert_eq!(status(&server, "PUT", "/a.txt", &format!("If: (<{file}> [{etag}])\r\n"), "y"), 204);
    assert_eq!(status(&server, "PUT", "/a.txt", &format!("If: (<{file}> [{etag}])\r\n"), "z"), 412);
    // Refreshed, given back.
    let shown = format!("If: (<{file}>)\r\nTimeout: Second-3000\r\n");
    assert!(text(&ask(&mut server.connect(), "LOCK", "/a.txt", &shown, "")).contains("Second-3000<"));
    assert_eq!(status(&server, "LOCK", "/a.txt", "If: (<urn:x>)\r\n", ""), 412);
    assert_eq!(status(&server, "UNLOCK", "/d/", &format!("Lock-Token: <{file}>\r\n"), ""), 409);
    assert_eq!(status(&server, "UNLOCK", "/a.txt", "", ""), 400);
    assert_eq!(status(&server, "UNLOCK", "/a.txt", &format!("Lock-Token: <{file}>\r\n"), ""), 204);
    assert_eq!(status(&server, "PUT", "/a.txt", "", "free"), 204);
    // A lock goes with what it is of, and does not move.
    assert_eq!(status(&server, "MOVE", "/d/b", &format!("{}If: </d/b> (<{folder}>)\r\n", to("out")), ""), 201);
    assert_eq!(status(&server, "PUT", "/out", "", "free"), 204);
    assert_eq!(status(&server, "DELETE", "/d/", &format!("If: </d/> (<{folder}>)\r\n"), ""), 204);
    assert_eq!(status(&server, "MKCOL", "/d", "", ""), 201);
    assert_eq!(status(&server, "PUT", "/d/free", "", "x"), 201);
    // One where nothing is makes a file; shared ones are beside each other.
    let shared = EXCLUSIVE.replace("exclusive", "shared");
    let one = lock(&server, "/made", "Depth: 0\r\n", &shared);
    let other = lock(&server, "/made", "Depth: 0\r\n", &shared);
    assert_eq!((one == other, server.connect().get("/made").unwrap().content.len()), (false, 0));
    assert_eq!(status(&server, "LOCK", "/made", "", EXCLUSIVE), 423);
    assert_eq!(status(&server, "PUT", "/made", &format!("If: (<{other}>)\r\n"), "x"), 204);
    // One expires by itself.
    lock(&server, "/short", "Timeout: Second-1\r\n", EXCLUSIVE);
    eventually("a lock expires", PATIENCE, || (status(&server, "PUT", "/short", "", "x") == 204).then_some(()));
    for token in [one, other] {
        assert_eq!(status(&server, "UNLOCK", "/made", &format!("Lock-Token: <{token}>\r\n"), ""), 204);
    }
    assert_eq!(status(&server, "UNLOCK", "/e/c", &format!("Lock-Token: <{name}>\r\n"), ""), 409);
    assert_eq!(status(&server, "UNLOCK", "/e/", &format!("Lock-Token: <{name}>\r\n"), ""), 204);
    assert!(!server.site().join(".lamna-locks").exists());
    server.finish();
}

/// Waits until nothing has this path: another process than the one that has changed something sees it within a second.
fn gone(server: &Server, path: &str) {
    eventually("it is gone", PATIENCE, || (server.connect().get(path).unwrap().status == 404).then_some(()));
}

/// The entity tag of a file, which it has a moment after it was changed.
fn etag_of(server: &Server, path: &str) -> String {
    eventually("the file has a tag", PATIENCE, || server.connect().get(path).unwrap().field("ETag").map(str::to_owned))
}

const SET: &str = "<D:propertyupdate xmlns:D='DAV:' xmlns:u='urn:u'><D:set><D:prop><u:a>1 &lt; <u:b/></u:a><u:c/></D:prop></D:set>\
                   <D:remove><D:prop><u:none/></D:prop></D:remove></D:propertyupdate>";

fn properties_that_clients_set_stay_with_their_files(engine: Engine) {
    let server = launch(engine).file("d/b", "b").start();
    let set = ask(&mut server.connect(), "PROPPATCH", "/a.txt", "", SET);
    if text(&set).contains("403") {
        crate::skip::skipped("webdav properties", "the file system has no extended attributes");
        return;
    }
    assert_eq!((set.status, text(&set).matches("HTTP/1.1 200 OK").count()), (207, 3), "{set:?}");
    let asked = prop("<a xmlns='urn:u'/><c xmlns='urn:u'/><none xmlns='urn:u'/>");
    let has = |path: &str| {
        found(&server, path, "0", &asked).contains("<a xmlns=\"urn:u\">1 &lt; <b/></a><c xmlns=\"urn:u\"/>")
    };
    assert!(has("/a.txt"), "{}", found(&server, "/a.txt", "0", &asked));
    // They stay when the file is replaced, and go where it goes.
    for part in ["", "Content-Range: bytes 0-4/5\r\n"] {
        assert_eq!(status(&server, "PUT", "/a.txt", part, "other"), 204);
        assert!(has("/a.txt"), "{part}");
    }
    assert_eq!(status(&server, "COPY", "/a.txt", "Destination: /d/copy\r\n", ""), 201);
    assert_eq!(status(&server, "MOVE", "/a.txt", "Destination: /d/moved\r\n", ""), 201);
    assert_eq!(status(&server, "MOVE", "/d", "Destination: /e\r\n", ""), 201);
    assert!(has("/e/copy") && has("/e/moved") && !has("/e/b"));
    assert!(found(&server, "/e", "1", "").matches("urn:u").count() >= 4);
    assert_eq!(status(&server, "PROPPATCH", "/e", "", SET), 207);
    assert!(has("/e/"));
    // All of it or nothing: what the server works out is not set.
    let protected = SET.replace("<u:c/>", "<D:getetag>x</D:getetag><u:d/>");
    let answer = text(&ask(&mut server.connect(), "PROPPATCH", "/e/b", "", &protected));
    assert!(
        answer.contains("403 Forbidden") && answer.contains("424 Failed") && !answer.contains("200 OK"),
        "{answer}"
    );
    assert!(answer.contains("cannot-modify-protected-property") && !has("/e/b"), "{answer}");
    let large = SET.replace("1 &lt;", &"x".repeat(40_000));
    let answer = text(&ask(&mut server.connect(), "PROPPATCH", "/e/b", "", &large));
    assert!(answer.contains("507 Insufficient Storage"), "{answer}");
    let windows = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><Z:Win32FileAttributes xmlns:Z='urn:schemas-microsoft-com:'>00000020\
                   </Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>";
    assert!(text(&ask(&mut server.connect(), "PROPPATCH", "/e/b", "", windows)).contains("200 OK"));
    let remove = SET.replace("D:set", "D:remove");
    assert_eq!(status(&server, "PROPPATCH", "/e/copy", "", &remove), 207);
    assert!(!has("/e/copy") && has("/e/moved"));
    for (path, body, expected) in [("/none", SET, 404), ("/e/b", "<x/>", 400), ("/.h", SET, 403)] {
        assert_eq!(status(&server, "PROPPATCH", path, "", body), expected, "{path}");
    }
    server.finish();
}

fn a_large_folder_is_told_of_whole(engine: Engine) {
    const FILES: usize = 3000;
    let launch = launch(engine);
    fs::create_dir(launch.site().join("many")).unwrap();
    for number in 0..FILES {
        fs::write(launch.site().join(format!("many/{number}")), "x").unwrap();
    }
    let server = launch.start();
    let told = found(&server, "/many/", "1", "");
    assert_eq!(hrefs(&told).len(), FILES + 1);
    assert!(told.ends_with("</D:multistatus>\n"));
    // One that leaves in the middle disturbs nobody.
    let mut client = server.connect();
    client.send(b"PROPFIND /many/ HTTP/1.1\r\nHost: a\r\nDepth: 1\r\n\r\n");
    client.receive_head().unwrap();
    client.reset();
    assert_eq!(status(&server, "DELETE", "/many/", "", ""), 204);
    assert_eq!(tree(&server.site()), ["a.txt=abc"]);
    server.finish();
}

/// Names, namespaces and owners are the client's to choose, and are said again in answers.
fn what_a_request_has_the_server_say_is_bounded(engine: Engine) {
    let server = (0..50).fold(launch(engine), |launch, number| launch.file(&format!("d/{number}"), "x")).start();
    let mut most = 0;
    for (namespace_bytes, count, is_many, expected) in [
        (50_000, 2000, false, 400),
        (256, 2000, true, 400),
        (256, 2000, false, 207),
        (256, 50, true, 207),
        (10, 1000, true, 207),
    ] {
        let name = |number: usize| format!("<q:a{}/>", if is_many { number } else { 0 });
        let names: String = (0..count).map(name).collect();
        let body = format!(
            "<D:propfind xmlns:D='DAV:' xmlns:q='{}'><D:prop>{names}</D:prop></D:propfind>",
            ">".repeat(namespace_bytes)
        );
        let told = ask(&mut server.connect(), "PROPFIND", "/d/", "Depth: 1\r\n", &body);
        assert_eq!(told.status, expected, "{namespace_bytes} {count} {is_many}");
        most = most.max(told.content.len());
        let patch = body.replace("D:prop>", "D:prop></D:set>").replacen("<D:prop></D:set>", "<D:set><D:prop>", 1);
        let patch = patch.replace("propfind", "propertyupdate");
        let patched = status(&server, "PROPPATCH", "/a.txt", "", &patch);
        assert!(matches!(patched, 207 | 400), "{patched}");
    }
    assert!(most < 51 * 70_000, "{most}");
    let body = EXCLUSIVE.replace("me &amp; you", &"<q:a/>".repeat(1000));
    let body = body.replacen("<D:lockinfo ", &format!("<D:lockinfo xmlns:q='{}' ", ">".repeat(256)), 1);
    assert!(body.len() > 6000);
    assert_eq!(status(&server, "LOCK", "/a.txt", "", &body), 400);
    server.finish();
}

fn both_versions_of_http_have_the_same_answers(engine: Engine) {
    let server = launch(engine).argument("--h2c").file("d/b", "b").start();
    let mut http2 = Http2::connect(server.address());
    let with = |method: &str, path: &str, fields: &[(&str, &str)], content: &str| {
        let mut request = request(method, path, fields);
        *request.body_mut() = content.as_bytes().to_vec();
        request
    };
    let mut ask_2 = |method: &str, path: &str, fields: &[(&str, &str)], content: &str| {
        http2.try_ask(with(method, path, fields, content)).expect("it is answered")
    };
    etag_of(&server, "/d/b");
    let told = ask_2("PROPFIND", "/d/", &[("depth", "1")], "");
    assert_eq!(told.status, 207);
    assert_eq!(String::from_utf8(told.content).unwrap(), found(&server, "/d/", "1", ""));
    assert_eq!(ask_2("COPY", "/d/", &[("destination", "/c")], "").status, 201);
    assert_eq!(ask_2("MOVE", "/c/b", &[("destination", "/c/x"), ("overwrite", "F")], "").status, 201);
    assert_eq!(ask_2("LOCK", "/c/", &[], EXCLUSIVE).status, 200);
    assert_eq!(status(&server, "PUT", "/c/x", "", "x"), 423);
    assert_eq!(ask_2("DELETE", "/c/x", &[], "").status, 423);
    assert_eq!(ask_2("PROPPATCH", "/d/b", &[], SET).status, 207);
    assert_eq!(ask_2("UNLOCK", "/c/", &[], "").status, 400);
    assert_eq!(tree(&server.site().join("c")), ["x=b"]);
    server.finish();
}

fn a_reload_turns_it_on_and_off_and_locks_stay_over_all_changes(engine: Engine) {
    let config = |webdav: bool| format!("[[site]]\nroot = \"site\"\nupload = true\nwebdav = {webdav}\n");
    let server = Launch::new(engine).file("a.txt", "a").config(&config(true)).start();
    let token = lock(&server, "/a.txt", "", EXCLUSIVE);
    let written = server.directory().join("lamna.toml");
    let turn = |webdav: bool| {
        let text = fs::read_to_string(&written).unwrap();
        fs::write(&written, text.replace(&format!("webdav = {}", !webdav), &format!("webdav = {webdav}"))).unwrap();
        order(&server, &["reload"]).unwrap();
        let expected = if webdav { 207 } else { 405 };
        eventually("the settings are in force", PATIENCE, || {
            (status(&server, "PROPFIND", "/a.txt", "Depth: 0\r\n", "") == expected).then_some(())
        });
    };
    turn(false);
    for method in ["PROPFIND", "PROPPATCH", "COPY", "MOVE", "LOCK", "UNLOCK"] {
        assert_eq!(status(&server, method, "/a.txt", "Destination: /b\r\n", ""), 405, "{method}");
    }
    assert_eq!(status(&server, "OPTIONS", "/a.txt", "", ""), 204);
    // A lock that was given holds until it expires.
    assert_eq!(status(&server, "PUT", "/a.txt", "", "x"), 423);
    turn(true);
    if names_of_one_process().contains(&engine.architecture) {
        for architecture in names_of_one_process() {
            order(&server, &["arch", "set", architecture]).unwrap();
            assert_eq!(status(&server, "PUT", "/a.txt", "", "x"), 423, "{architecture}");
        }
    }
    order(&server, &["upgrade"]).unwrap();
    assert_eq!(status(&server, "PUT", "/a.txt", "", "x"), 423, "after an upgrade");
    assert_eq!(status(&server, "LOCK", "/a.txt", &format!("If: (<{token}>)\r\n"), ""), 200, "it is refreshed");
    assert_eq!(status(&server, "PUT", "/a.txt", &format!("If: (<{token}>)\r\n"), "x"), 204);
    order(&server, &["drain"]).expect("it serves");
    server.finish();
}

fn a_copy_whose_client_leaves_is_whole_or_not_there(engine: Engine) {
    const FILES: usize = 600;
    let launch = launch(engine).file("d/old", "old");
    fs::create_dir(launch.site().join("many")).unwrap();
    for number in 0..FILES {
        fs::write(launch.site().join(format!("many/{number}")), "x").unwrap();
    }
    let large = fs::File::create(launch.site().join("many/large")).unwrap();
    large.set_len(8 << 20).unwrap();
    let server = launch.start();
    let site = server.site();
    for destination in ["/new", "/d"] {
        let mut client = server.connect();
        client.send(format!("COPY /many HTTP/1.1\r\nHost: a\r\nDestination: {destination}\r\n\r\n").as_bytes());
        client.reset();
    }
    let nothing_is_left = || {
        eventually("nothing is left on its way", PATIENCE, || {
            let mut names = fs::read_dir(&site).unwrap().flatten().map(|entry| entry.file_name());
            names.all(|name| !name.to_string_lossy().starts_with(".lamna")).then_some(())
        });
    };
    nothing_is_left();
    for (name, before) in [("new", 0), ("d", 1)] {
        let there = fs::read_dir(site.join(name)).map_or(0, Iterator::count);
        assert!(there == before || there == FILES + 1, "{name}: {there}");
    }
    // One that stays gets all of it.
    let made = status(&server, "COPY", "/many", "Destination: /kept\r\n", "");
    assert_eq!((made, fs::read_dir(site.join("kept")).unwrap().count()), (201, FILES + 1));
    assert_eq!(fs::metadata(site.join("kept/large")).unwrap().len(), 8 << 20);
    assert_eq!(status(&server, "DELETE", "/kept", "", ""), 204);
    nothing_is_left();
    server.finish();
}
