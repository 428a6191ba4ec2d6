//! What is exchanged beside filters: applications and listeners that are suspended and resumed while the server serves,
//! in every engine.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use super::{Application, await_answer, content, get, refused, say};
use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!(all other_services_are_tried_with_every_architecture: [
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    an_application_is_suspended_and_resumed_and_nothing_else_notices,
    a_listener_is_suspended_and_resumed_and_who_has_connected_is_served,
]);

/// The state of a service, as it is shown.
fn state(server: &Server, name: &str) -> String {
    let info = say(server, &["info", name]);
    let line = info.lines().find_map(|line| line.strip_prefix("state"));
    line.unwrap_or_else(|| panic!("{info}")).trim().to_owned()
}

fn an_application_is_suspended_and_resumed_and_nothing_else_notices(engine: Engine) {
    let (one, other) = (Application::start(content(3)), Application::start(content(1)));
    let route = |paths: &str, address| {
        format!("[[site.route]]\nmatch = \"{paths}\"\nproxy = \"http://{address}\"\ncache = {{ fresh_s = 600 }}\n")
    };
    let routes = [route("/one/*", one.address), route("/same/*", one.address), route("/other/*", other.address)];
    let launch = Launch::new(engine).config(&format!("[[site]]\nroot = \"site\"\n{}", routes.concat()));
    let server = launch.file("one.txt", content(2)).start();
    let beside = || {
        await_answer(&server, "/other/x", 200, &content(1));
        await_answer(&server, "/one.txt", 200, &content(2));
    };
    await_answer(&server, "/one/x", 200, &content(3));
    await_answer(&server, "/same/x", 200, &content(3));
    beside();
    let told = say(&server, &["suspend", "/one/*"]);
    assert!(told.contains("`/one/*` is suspended") && told.contains("for /one/*; /same/*"), "{told}");
    // What is kept of its answers as well: the route is out of service.
    await_answer(&server, "/one/x", 503, "not available");
    await_answer(&server, "/same/y", 503, "not available");
    // Each process learns of it by itself, so this may be another one's answer.
    eventually("the answer says when to come again", PATIENCE, || {
        let response = get(&server, "/one/x");
        (response.status == 503 && response.field("retry-after").is_some()).then_some(())
    });
    beside();
    assert_eq!([state(&server, "/one/*"), state(&server, "/other/*")], ["suspended", "in use"]);
    assert!(refused(&server, &["suspend", "/one/*"]).contains("is suspended already"));
    assert!(refused(&server, &["remove", "/one/*"]).contains("by a reload"));
    // Who takes the place of the server knows it.
    order(&server, &["upgrade"]).expect("the program is there");
    await_answer(&server, "/one/x", 503, "not available");
    beside();
    say(&server, &["resume", "/one/*"]);
    await_answer(&server, "/one/x", 200, &content(3));
    assert_eq!(state(&server, "/one/*"), "in use");
    order(&server, &["drain"]).expect("who serves now can end");
}

/// Whether somebody who connects gets through within a moment: the patience of who is not to get through.
fn gets_in(server: &Server) -> bool {
    match TcpStream::connect_timeout(&server.address(), Duration::from_millis(300)) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            false
        }
    }
}

fn a_listener_is_suspended_and_resumed_and_who_has_connected_is_served(engine: Engine) {
    let launch = Launch::new(engine).config("[[site]]\nroot = \"site\"\n");
    let server = launch.file("a.txt", "hello").start();
    let name = format!("http://{}", server.address());
    let mut connected = server.connect();
    assert_eq!(connected.get("/a.txt").expect("it is served").content, b"hello");
    say(&server, &["suspend", &name]);
    assert_eq!(state(&server, &name), "suspended");
    assert!(!gets_in(&server));
    assert_eq!(connected.get("/a.txt").expect("it stays connected").content, b"hello");
    assert!(refused(&server, &["suspend", &name]).contains("is suspended already"));
    order(&server, &["upgrade"]).expect("the program is there");
    assert!(!gets_in(&server), "who takes the place of the server has the same socket");
    assert_eq!(state(&server, &name), "suspended");
    say(&server, &["resume", &name]);
    eventually("somebody is let in", PATIENCE, || gets_in(&server).then_some(()));
    await_answer(&server, "/a.txt", 200, "hello");
    assert_eq!(state(&server, &name), "in use");
    order(&server, &["drain"]).expect("who serves now can end");
}
