//! The form in listings that renames and moves: judged at both ends as MOVE of WebDAV is, over both versions of HTTP.

use std::fs;
use std::os::unix::fs::symlink;

use super::{ask, names};
use crate::access::{ADA, BOB, OTHER, SESAME};
use crate::client::Response;
use crate::engine::{Engine, for_engines};
use crate::http2::{Answer, Http2, request};
use crate::server::{Launch, Server};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    a_form_renames_and_moves_and_leads_back,
    both_ends_of_a_move_are_judged_by_their_own_rules,
    a_lock_keeps_a_form_from_moving_what_is_locked,
    a_form_moves_over_http2,
]);

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// Sends the form of the entry at `path`, and again where it is led to, as browsers do.
fn press(server: &Server, path: &str, fields: &str, form: &str) -> Response {
    let post = |path: &str| ask(&mut server.connect(), "POST", path, &format!("{FORM}{fields}"), form.as_bytes());
    let led = post(&format!("{path}?move"));
    match (led.status, led.field("Location")) {
        (307, Some(location)) => post(location),
        _ => led,
    }
}

fn launch(engine: Engine) -> Launch {
    let arguments = ["--upload", "--delete", "--mkdir", "--browse"];
    arguments.iter().fold(Launch::new(engine).file("a.txt", "a"), |launch, argument| launch.argument(argument))
}

fn a_form_renames_and_moves_and_leads_back(engine: Engine) {
    let launch = launch(engine).file("d/b", "b").file("d/.hidden", "x").file("e/f", "f").file("g/h/i", "i");
    fs::write(launch.directory().join("outside"), "outside").unwrap();
    symlink("../outside", launch.site().join("out")).unwrap();
    let server = launch.start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").unwrap().content, b"a");
    let led = ask(&mut client, "POST", "/a.txt?move", FORM, b"to=b+%23c.txt");
    assert_eq!((led.status, led.field("Location")), (307, Some("/a.txt?move=/b%20%23c.txt")));
    assert_eq!(names(&server.site()), ["a.txt", "d", "e", "g", "out"].map(String::from).into(), "nothing is done yet");
    let done = ask(&mut client, "POST", "/a.txt?move=/b%20%23c.txt", FORM, b"to=b+%23c.txt");
    assert_eq!((done.status, done.field("Location")), (303, Some("/")));
    // Who was shown it before is shown it no more.
    assert_eq!(client.get("/a.txt").unwrap().status, 404);
    assert_eq!(client.get("/b%20%23c.txt").unwrap().content, b"a");
    for (path, form, status, back) in [
        ("/b%20%23c.txt", "to=d/", 303, Some("/")),
        ("/d/b%20%23c.txt", "to=../a.txt", 303, Some("/d/")),
        ("/g/h/", "to=/e/h2", 303, Some("/g/")),
        ("/e/h2", "to=/g/h/", 409, None),
        ("/e/h2", "to=/g/h", 303, Some("/e/")),
    ] {
        let answer = press(&server, path, "", form);
        assert_eq!((answer.status, answer.field("Location")), (status, back), "{path} {form}: {answer:?}");
    }
    for (path, fields, form, status) in [
        // Nothing is replaced.
        ("/a.txt", "", "to=d/b", 409),
        ("/a.txt", "", "to=e", 409),
        ("/e/", "", "to=d", 409),
        ("/a.txt", "", "to=", 400),
        ("/a.txt", "", "name=b", 400),
        ("/a.txt", "", "to=../../b", 400),
        ("/a.txt", "", "to=b%00", 400),
        ("/a.txt", "", "to=.b", 403),
        ("/a.txt", "", "to=d/.b/c", 403),
        ("/a.txt", "", "to=missing/b", 409),
        ("/a.txt", "Sec-Fetch-Site: cross-site\r\n", "to=b", 403),
        ("/a.txt", "Origin: http://evil.example\r\n", "to=b", 403),
        ("/a.txt", "", "to=a.txt", 403),
        ("/g/", "", "to=g/h/i2", 403),
        ("/missing", "", "to=b", 404),
        ("/d/.hidden", "", "to=/b", 404),
        ("/out", "", "to=/b", 404),
        // Something in it is hidden, and so is not known to the client.
        ("/d/", "", "to=d2", 403),
        ("/", "", "to=b", 400),
    ] {
        let answer = press(&server, path, fields, form);
        assert_eq!(answer.status, status, "{path} {form}: {answer:?}");
        assert!(answer.status != 403 || answer.field("Content-Type").is_some_and(|kind| kind.starts_with("text/")));
    }
    // Without its first step it is refused as well.
    let elsewhere = "Sec-Fetch-Site: cross-site\r\n";
    for (target, fields, status) in
        [("/a.txt?move=/b", elsewhere, 403), ("/a.txt?move=//evil/b", "", 400), ("/a.txt?move=b", "", 400)]
    {
        assert_eq!(ask(&mut server.connect(), "POST", target, fields, b"").status, status, "{target}");
    }
    assert_eq!(names(&server.site()), ["a.txt", "d", "e", "g", "out"].map(String::from).into());
    assert_eq!(names(&server.site().join("g/h")), ["i"].map(String::from).into());
    server.finish();
}

fn both_ends_of_a_move_are_judged_by_their_own_rules(engine: Engine) {
    let config = format!(
        r#"
[[site]]
root = "site"
browse = true
upload = true
delete = true
users = {{ ada = "{SESAME}", bob = "{OTHER}" }}
access = {{ actions = ["upload", "delete", "mkdir"], users = ["*"] }}

[[site.route]]
match = "/ada/*"
access = {{ users = ["ada"] }}

[[site.route]]
match = "/kept/*"
delete = false

[[site.route]]
match = "/read/*"
upload = false

[[site.route]]
match = "*.exe"
priority = 1
upload = false
"#
    );
    let launch = Launch::new(engine).config(&config).file("x", "x").file("ada/secret", "s").file("kept/k", "k");
    let server = launch.file("read/r", "r").file("folder/f", "f").start();
    let form = |target: &str, who: &str| ask(&mut server.connect(), "POST", target, who, b"").status;
    for (target, who, status) in [
        ("/x?move", "", 401),
        ("/x?move=/y", "", 401),
        ("/x?move=/ada/x", BOB, 403),
        ("/ada/secret?move=/s", "", 401),
        ("/ada/secret?move=/s", BOB, 403),
        ("/kept/k?move=/k", ADA, 405),
        ("/x?move=/read/x", ADA, 403),
        ("/x?move=/x.exe", ADA, 403),
        // Folders are not made here.
        ("/folder/?move=/other", ADA, 403),
        ("/x?move=/ada/x", ADA, 303),
        ("/ada/x?move=/y", ADA, 303),
        ("/y?move=/x", BOB, 303),
    ] {
        assert_eq!(form(target, who), status, "{target} {who}");
    }
    assert_eq!(names(&server.site()), ["ada", "folder", "kept", "read", "x"].map(String::from).into());
    assert_eq!(names(&server.site().join("ada")), ["secret"].map(String::from).into());
    server.finish();
}

const LOCK: &[u8] =
    b"<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

fn a_lock_keeps_a_form_from_moving_what_is_locked(engine: Engine) {
    let server = launch(engine).argument("--webdav").file("d/b", "b").start();
    assert_eq!(ask(&mut server.connect(), "LOCK", "/a.txt", "", LOCK).status, 200);
    assert_eq!(ask(&mut server.connect(), "LOCK", "/d/", "", LOCK).status, 200);
    for (path, form) in [("/a.txt", "to=b"), ("/d/b", "to=/b"), ("/d/", "to=e")] {
        let answer = press(&server, path, "Accept: text/html\r\n", form);
        assert_eq!(answer.status, 423, "{path}: {answer:?}");
        assert!(String::from_utf8_lossy(&answer.content).contains("<b>423</b> Locked"), "a page, for a browser");
    }
    assert_eq!(names(&server.site().join("d")), ["b"].map(String::from).into());
    server.finish();
}

fn location(answer: &Answer) -> Option<&str> {
    answer.fields.iter().find(|(name, _)| name == "location").map(|(_, value)| &**value)
}

fn a_form_moves_over_http2(engine: Engine) {
    let server = launch(engine).argument("--h2c").file("d/b", "b").start();
    let mut http2 = Http2::connect(server.address());
    let mut post = |path: &str, fields: &[(&str, &str)]| {
        let mut request = request("POST", path, fields);
        *request.body_mut() = b"to=d%2F".to_vec();
        http2.try_ask(request).expect("it is answered")
    };
    let led = post("/a.txt?move", &[]);
    assert_eq!((led.status, location(&led)), (307, Some("/a.txt?move=/d/a.txt")));
    assert_eq!(post("/a.txt?move=/d/a.txt", &[("sec-fetch-site", "cross-site")]).status, 403);
    assert_eq!(post("/a.txt?move=/d/b", &[]).status, 409);
    let done = post("/a.txt?move=/d/a.txt", &[("sec-fetch-site", "same-origin")]);
    assert_eq!((done.status, location(&done)), (303, Some("/")));
    assert_eq!(names(&server.site().join("d")), ["a.txt", "b"].map(String::from).into());
    server.finish();
}
