//! Listings, searches and archives of a folder that is for anybody, in which something is for some: each client is shown
//! what is for it, and no other.

use super::{ADA, BOB, OTHER, SESAME, WRONG, ask};
use crate::client::{PATIENCE, Response};
use crate::engine::{Engine, for_engines, names_of_one_process};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually};

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
    a_folder_is_shown_to_those_who_may_read_it_and_to_no_others,
    who_signs_in_is_led_back_and_a_wrong_password_is_said_to_be_wrong,
    a_change_is_shown_at_once_to_who_has_made_it,
    each_client_of_one_connection_of_http2_is_shown_its_own,
    a_shared_cache_keeps_the_page_of_a_folder_and_nothing_that_goes_by_a_client,
]);

fn start(engine: Engine) -> Server {
    let config = format!(
        r#"
h2c = true
limit_exempt = []
trusted_proxies = ["127.0.0.1"]

[[site]]
root = "site"
browse = true
upload = true
delete = true
headers = {{ Cache-Control = "max-age=600" }}
users = {{ ada = "{SESAME}", bob = "{OTHER}" }}
access = {{ actions = ["upload", "delete", "mkdir"], users = ["ada"] }}

[[site.route]]
match = "/*"
search = true

[[site.route]]
match = "/ada/*"
access = {{ users = ["ada"] }}

[[site.route]]
match = "/all/*"
access = {{ users = ["*"] }}

[[site.route]]
match = "/net/*"
access = {{ allow = ["192.0.2.0/24"] }}

[[site.route]]
match = "/none/*"
access = "deny"
"#
    );
    let folders = ["ada", "all", "net", "none", "open"];
    let page = |folder: &str| format!("<title>{folder}</title><p>needle");
    let launch = folders.iter().fold(Launch::new(engine).config(&config), |launch, folder| {
        launch.file(&format!("{folder}/{folder}.html"), page(folder))
    });
    launch.start()
}

fn get(server: &Server, target: &str, fields: &str) -> Response {
    let response = ask(server, "GET", target, fields, "");
    assert_eq!(response.status, 200, "{target} {fields}");
    response
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.content).into_owned()
}

/// The folders, of the five, that the listing of the root shows.
fn listed(server: &Server, fields: &str) -> Vec<&'static str> {
    let page = text(&get(server, "/", fields));
    ["ada", "all", "net", "none", "open"].into_iter().filter(|name| page.contains(&format!("./{name}/\""))).collect()
}

const IN_NETWORK: &str = "X-Forwarded-For: 192.0.2.7\r\n";

fn a_folder_is_shown_to_those_who_may_read_it_and_to_no_others(engine: Engine) {
    let server = start(engine);
    // In any order, and again: what one is shown is kept, and is not shown to others.
    for _ in 0..3 {
        assert_eq!(listed(&server, ""), ["open"]);
        assert_eq!(listed(&server, ADA), ["ada", "all", "open"]);
        assert_eq!(listed(&server, BOB), ["all", "open"]);
        assert_eq!(listed(&server, IN_NETWORK), ["net", "open"]);
        assert_eq!(listed(&server, &format!("{IN_NETWORK}{ADA}")), ["ada", "all", "net", "open"]);
    }
    let found = |fields: &str| text(&get(&server, "/?q=needle", &format!("Accept: application/json\r\n{fields}")));
    let archived = |fields: &str| text(&get(&server, "/?download=tar", fields));
    for (fields, is_ada, is_net) in
        [("", false, false), (ADA, true, false), (BOB, false, false), (IN_NETWORK, false, true)]
    {
        for content in [found(fields), archived(fields)] {
            assert_eq!((content.contains("ada.html"), content.contains("net.html")), (is_ada, is_net), "{fields}");
            assert!(content.contains("open.html") && !content.contains("none.html"), "{fields}");
        }
    }
    // What may be done is shown to those who may do it.
    let forms = |fields: &str| {
        let page = text(&get(&server, "/", fields));
        ["<form class=\"upload\"", "?delete\"", "href=\"?sign-in\""].map(|control| page.contains(control))
    };
    assert_eq!(forms(""), [false, false, true]);
    assert_eq!(forms(ADA), [true, true, false]);
    assert_eq!(forms(BOB), [false, false, false]);
    // A shared cache keeps what anybody is shown, and nothing else.
    let kept = |target: &str, fields: &str| get(&server, target, fields).field("Cache-Control").map(str::to_owned);
    assert_eq!(kept("/", "").as_deref(), Some("max-age=600"));
    // Who signs in is not shown what his browser has kept.
    assert!(get(&server, "/", "").field("Vary").is_some_and(|names| names.contains("Authorization")));
    for target in ["/", "/?sort=size", "/?q=needle", "/?download=tar"] {
        assert_eq!(kept(target, ADA).as_deref(), Some("private"), "{target}");
    }
    server.finish();
}

fn who_signs_in_is_led_back_and_a_wrong_password_is_said_to_be_wrong(engine: Engine) {
    let server = start(engine);
    let signs_in = |target: &str, fields: &str| {
        let answer = ask(&server, "GET", target, fields, "");
        let field = |name: &str| answer.field(name).map(str::to_owned);
        (answer.status, field("WWW-Authenticate").is_some_and(|asks| asks.starts_with("Basic ")), field("Location"))
    };
    assert_eq!(signs_in("/?sign-in", ""), (401, true, None));
    assert_eq!(signs_in("/?sign-in", WRONG), (401, true, None));
    assert_eq!(signs_in("/?sign-in", ADA), (303, false, Some("/".to_owned())));
    assert_eq!(signs_in("/open/?sign-in", BOB), (303, false, Some("/open/".to_owned())));
    // Of a file nothing is asked.
    assert_eq!(signs_in("/open/open.html?sign-in", ""), (200, false, None));
    assert_eq!(signs_in("/open/open.html", WRONG), (200, false, None));
    // What a client is shown goes by its password, so one that is wrong is no password.
    assert_eq!(signs_in("/", WRONG), (401, true, None));
    assert_eq!(signs_in("/?q=needle", WRONG), (401, true, None));
    server.finish();
}

fn a_change_is_shown_at_once_to_who_has_made_it(engine: Engine) {
    let server = start(engine);
    let shows = |fields: &str, target: &str, name: &str| text(&get(&server, target, fields)).contains(name);
    for target in ["/", "/?sort=modified", "/open/"] {
        assert!(!shows(ADA, target, "new.txt") && !shows("", target, "new.txt"));
        let path = format!("{}new.txt", target.split('?').next().unwrap());
        assert_eq!(ask(&server, "PUT", &path, ADA, "new").status, 201);
        for fields in [ADA, "", BOB] {
            match names_of_one_process().contains(&engine.architecture) && fields != BOB {
                true => assert!(shows(fields, target, "new.txt"), "{target} {fields}"),
                false => eventually("it is shown", PATIENCE, || shows(fields, target, "new.txt").then_some(())),
            }
        }
        assert_eq!(ask(&server, "DELETE", &path, ADA, "").status, 204);
        eventually("it is gone", PATIENCE, || {
            (!shows(ADA, target, "new.txt") && !shows("", target, "new.txt")).then_some(())
        });
    }
    server.finish();
}

fn each_client_of_one_connection_of_http2_is_shown_its_own(engine: Engine) {
    let server = start(engine);
    let mut http2 = Http2::connect(server.address());
    let basic = |line: &'static str| line.trim_start_matches("Authorization: ").trim_end();
    for (who, expected) in [(None, false), (Some(ADA), true), (Some(BOB), false)].repeat(2) {
        let fields: Vec<_> = who.map(|who| ("authorization", basic(who))).into_iter().collect();
        let answer = http2.try_ask(request("GET", "/", &fields)).expect("it is answered");
        let is_shown = String::from_utf8_lossy(&answer.content).contains("./ada/\"");
        assert_eq!((answer.status, is_shown), (200, expected), "{fields:?}");
    }
    server.finish();
}

/// A site with the page of a folder, and a rule of access of some other place that every client here fulfils.
fn public(engine: Engine) -> Server {
    let config = format!(
        r#"
h2c = true

[[site]]
root = "site"
browse = true
upload = true
headers = {{ Cache-Control = "public, max-age=600", Expires = "Thu, 01 Jan 2099 00:00:00 GMT" }}
users = {{ ada = "{SESAME}", bob = "{OTHER}" }}
access = {{ actions = ["upload"], users = ["ada"] }}

[[site.route]]
match = "/office/*"
access = {{ deny = ["10.0.0.0/8"] }}
"#
    );
    let launch = Launch::new(engine).config(&config).file("index.html", "home");
    launch.file("office/a.txt", "office").file("listed/a.txt", "listed").start()
}

fn a_shared_cache_keeps_the_page_of_a_folder_and_nothing_that_goes_by_a_client(engine: Engine) {
    let server = public(engine);
    let page = Some("public, max-age=600");
    let cases = [
        ("/", "", 200, page),
        ("/", ADA, 200, page),
        ("/listed/", "", 200, Some("private")),
        ("/listed/", ADA, 200, Some("private")),
        ("/listed/?sign-in", ADA, 303, Some("no-store")),
        // No cache keeps these where nothing says so.
        ("/gone/", "", 404, None),
        ("/listed/?sign-in", "", 401, None),
        ("/listed/", WRONG, 401, None),
    ];
    let mut http2 = Http2::connect(server.address());
    for (target, fields, status, kept) in cases {
        let answer = ask(&server, "GET", target, fields, "");
        assert_eq!((answer.status, answer.field("Cache-Control")), (status, kept), "{target} {fields}");
        assert_eq!(answer.field("Expires").is_some(), kept == page, "{target} {fields}");
        let fields = fields.trim_end().strip_prefix("Authorization: ").map(|value| ("authorization", value));
        let fields: Vec<_> = fields.into_iter().collect();
        let answer = http2.try_ask(request("GET", target, &fields)).expect("it is answered");
        let said = answer.fields.iter().find(|(name, _)| name == "cache-control").map(|(_, value)| &**value);
        assert_eq!((answer.status, said), (status, kept), "HTTP/2: {target} {fields:?}");
    }
    drop(http2);
    server.finish();
}
