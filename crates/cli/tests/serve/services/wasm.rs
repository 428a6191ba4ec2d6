//! Components in a running server under load: what they do wrong is ended and told, and nothing else notices, in every
//! engine.
//!
//! Components are modules of WebAssembly in its text form ([`component`]). A server without the feature `wasm` has
//! none: these tests are skipped then, and `cargo test -p lamna --features wasm --test serve services::` runs them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use super::{Application, await_answer, content, expected, say, service};
use crate::client::{Client, ENDED, PATIENCE};
use crate::control;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!(all components_are_tried_with_every_architecture: [
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
    components_that_do_wrong_are_suspended_within_their_bounds_and_nothing_else_notices,
    a_component_is_loaded_replaced_and_removed,
]);

/// A module that puts a letter in the place of each `#`: the value of its parameter, or `#` itself. With `deed` done
/// first of a piece that begins with `!`.
fn module(deed: &str) -> String {
    format!(
        r##"(module
          (memory (export "memory") 4)
          (global $free (mut i32) (i32.const 1024))
          (global $letter (mut i32) (i32.const 35))
          (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
            (global.set $free (i32.add (local.get $at) (local.get 3)))
            (local.get $at))
          (func $give (param i32 i32 i32) (result i32)
            (i32.store (i32.const 0) (local.get 0))
            (i32.store (i32.const 4) (local.get 1))
            (i32.store (i32.const 8) (local.get 2))
            (global.set $free (i32.const 1024))
            (i32.const 0))
          (func (export "init") (param $parameters i32) (param $count i32) (result i32)
            (if (local.get $count)
              (then (global.set $letter (i32.load8_u (i32.load (i32.add (local.get $parameters) (i32.const 8)))))))
            (call $give (i32.const 0) (i32.const 0) (i32.const 0)))
          (func (export "begin") (param i32 i32) (result i32) (call $give (i32.const 1) (local.get 0) (local.get 1)))
          (func (export "take") (param $at i32) (param $count i32) (result i32) (local $end i32) (local $piece i32)
            (local.set $piece (local.get $at))
            (local.set $end (i32.add (local.get $at) (local.get $count)))
            (if (i32.and (i32.ne (local.get $count) (i32.const 0)) (i32.eq (i32.load8_u (local.get $at)) (i32.const 33)))
              (then {deed}))
            (block $done
              (loop $each
                (br_if $done (i32.eq (local.get $at) (local.get $end)))
                (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 35))
                  (then (i32.store8 (local.get $at) (global.get $letter))))
                (local.set $at (i32.add (local.get $at) (i32.const 1)))
                (br $each)))
            (call $give (i32.const 0) (local.get $piece) (local.get $count)))
          (func (export "finish") (result i32) (call $give (i32.const 0) (i32.const 0) (i32.const 0))))"##
    )
}

/// The file of a module with this `deed`; none if the server has no components, which is said.
#[cfg(feature = "wasm")]
pub(super) fn component(_: &str, directory: &Path, name: &str, deed: &str) -> Option<PathBuf> {
    let file = directory.join(format!("{name}.wasm"));
    std::fs::write(&file, wat::parse_str(module(deed)).expect("it is a module")).expect("it can be written");
    Some(file)
}

/// The same where the server has none.
#[cfg(not(feature = "wasm"))]
pub(super) fn component(test: &str, _: &Path, _: &str, deed: &str) -> Option<PathBuf> {
    assert!(module(deed).contains(deed));
    crate::skip::skipped(test, "the server is built without components (--features wasm)");
    None
}

/// A service of this file.
pub(super) fn service_of(name: &str, file: &Path, parameters: &str) -> String {
    format!(
        "[[service]]\nname = \"{name}\"\nwasm = \"{}\"\nparameters = {{ {parameters} }}\nmemory_bytes_max = \"8 MiB\"\nfuel_max = 10000000\n",
        file.display()
    )
}

/// What it gives of [`content_of`].
fn marked(letter: &str, lines: usize) -> String {
    content_of(lines).replace('#', letter)
}

/// Text with two places for a letter in each line.
pub(super) fn content_of(lines: usize) -> String {
    "# and #\n".repeat(lines)
}

/// What a component does wrong, and what is said of it.
const DEEDS: [(&str, &str, &str); 5] = [
    ("loops", "(loop $l (br $l))", "a call took more than 10000000 units of fuel"),
    (
        "grows",
        "(loop $l (i32.store (i32.shl (memory.grow (i32.const 1)) (i32.const 16)) (i32.const 1)) (br $l))",
        "it needs more than 8388608 bytes of memory",
    ),
    ("traps", "unreachable", "unreachable"),
    (
        "gives",
        "(drop (memory.grow (i32.const 80))) (return (call $give (i32.const 0) (i32.const 0) (i32.const 5000000)))",
        "a call gave 5000000 bytes, and 4194304 are its bound",
    ),
    ("reads", "(drop (i32.load (i32.const -8)))", "out of bounds"),
];

const ROUNDS: u64 = 2;
const LINES: usize = 3_000;
const CLIENTS: usize = 3;

fn components_that_do_wrong_are_suspended_within_their_bounds_and_nothing_else_notices(engine: Engine) {
    const TEST: &str = "services::wasm::components_that_do_wrong";
    let (application, bad) =
        (Application::start(content_of(LINES)), Application::start(format!("!{}", content(LINES))));
    let mut launch = Launch::new(engine);
    let Some(good) = component(TEST, launch.directory(), "good", "") else { return };
    let mut config = format!("{}{}", service_of("good", &good, "letter = \"a\""), service("word"));
    let mut routes = format!(
        "[[site]]\nroot = \"site\"\n{}{}{}",
        route("/words/*", "words", None),
        route("/good/*", "good", None),
        route("/app/*", "good", Some(application.address)),
    );
    for (name, deed, _) in DEEDS {
        let Some(file) = component(TEST, launch.directory(), name, deed) else { return };
        config.push_str(&service_of(name, &file, "letter = \"b\""));
        routes.push_str(&route(&format!("/{name}/app/*"), name, Some(bad.address)));
        routes.push_str(&route(&format!("/{name}/*"), name, None));
        launch = launch.file(&format!("{name}/fine.txt"), content_of(2)).file(&format!("{name}/bad.txt"), "!bad");
    }
    launch = launch.file("plain.txt", content(LINES)).file("words/a.txt", content(LINES));
    let launch = launch.file("good/a.txt", content_of(LINES)).config(&format!("{config}{routes}"));
    let mut server = launch.start();
    let wanted = [
        ("/plain.txt", content(LINES)),
        ("/words/a.txt", expected("word", LINES)),
        ("/good/a.txt", marked("a", LINES)),
        ("/app/x", marked("a", LINES)),
    ];
    let over = AtomicBool::new(false);
    let address = server.address();
    let answers: usize = thread::scope(|scope| {
        let ask = || ask_until_over(address, &over, &wanted);
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
        let told = super::load::TellAtEnd(&over);
        for _ in 0..ROUNDS {
            DEEDS.iter().for_each(|(name, _, why)| have_it_suspended_twice(&server, name, why));
        }
        drop(told);
        clients.into_iter().map(|client| client.join().expect("every answer is what it should be")).sum()
    });
    assert!(answers > 0);
    let metrics = control::text(&control::get(&server, "/metrics"));
    for (name, _, why) in DEEDS {
        // Once for each time that it was in use.
        let count = 2 * ROUNDS;
        assert!(
            metrics.contains(&format!("lamna_service_failures_total{{service=\"{name}\"}} {count}\n")),
            "{metrics}"
        );
        let said = server.said();
        let lines = said.lines().filter(|line| line.contains(&format!("the service `{name}` is suspended: ")));
        assert_eq!(lines.clone().count() as u64, count, "{said}");
        assert!(lines.clone().all(|line| line.contains(why)), "{said}");
    }
    assert!(metrics.contains("lamna_service_failures_total{service=\"good\"} 0\n"), "{metrics}");
}

fn route(paths: &str, service: &str, application: Option<SocketAddr>) -> String {
    let proxy = application.map(|address| format!("proxy = \"http://{address}\"\n")).unwrap_or_default();
    format!("[[site.route]]\nmatch = \"{paths}\"\nfilters = [\"{service}\"]\n{proxy}")
}

/// Once by a file, for several who ask at once, and once by what an application answers.
fn have_it_suspended_twice(server: &Server, name: &str, why: &str) {
    let fine = format!("/{name}/fine.txt");
    for bad in [format!("/{name}/bad.txt"), format!("/{name}/app/x")] {
        await_answer(server, &fine, 200, &marked("b", 2));
        // Worker processes take it up again a moment after it was ordered.
        eventually(&format!("{name} has failed at {bad}"), PATIENCE, || {
            ask_at_once(server, &bad);
            let info = say(server, &["info", name]);
            (info.contains("state       failed") && info.contains(why)).then_some(())
        });
        await_answer(server, &fine, 503, "not available");
        await_answer(server, &bad, 503, "not available");
        say(server, &["resume", name]);
    }
}

/// All are refused, or broken off where the head has been sent.
fn ask_at_once(server: &Server, path: &str) {
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    clients.iter_mut().for_each(|client| client.send(request.as_bytes()));
    for client in &mut clients {
        match client.receive(true) {
            Ok(response) => assert_eq!(response.status, 503, "{path}"),
            Err(fault) => assert!(path.contains("/app/") && fault.contains(ENDED), "{path}: {fault}"),
        }
    }
}

/// Asks for each in turn over one connection until it is over: how many answers came.
fn ask_until_over(address: SocketAddr, over: &AtomicBool, wanted: &[(&str, String)]) -> usize {
    let mut client = Client::connect(address);
    let mut answers = 0;
    while !over.load(Relaxed) {
        for (path, content) in wanted {
            let response = client.get(path).unwrap_or_else(|fault| panic!("{path}: {fault}"));
            assert_eq!(response.status, 200, "{path}");
            assert!(response.content == content.as_bytes(), "{path}: {}", String::from_utf8_lossy(&response.content));
            answers += 1;
        }
    }
    answers
}

fn a_component_is_loaded_replaced_and_removed(engine: Engine) {
    const TEST: &str = "services::wasm::a_component_is_loaded_replaced_and_removed";
    let launch = Launch::new(engine).file("a.txt", content_of(2));
    let Some(file) = component(TEST, launch.directory(), "one", "") else { return };
    let Some(other) = component(TEST, launch.directory(), "other", "unreachable") else { return };
    let server = launch
        .config(&format!("[[service]]\nname = \"mark\"\n[[site]]\nroot = \"site\"\n{}", route("*.txt", "mark", None)));
    let server = server.start();
    await_answer(&server, "/a.txt", 503, "not available");
    let (file, other) = (file.display().to_string(), other.display().to_string());
    say(&server, &["add", "mark", "--wasm", &file]);
    await_answer(&server, "/a.txt", 200, &content_of(2));
    say(&server, &["replace", "mark", "--wasm", &other, "--parameter", "letter=b"]);
    await_answer(&server, "/a.txt", 200, &marked("b", 2));
    // What cannot be used changes nothing.
    std::fs::write(&file, "no module").expect("it can be written");
    let refused = super::refused(&server, &["replace", "mark", "--wasm", &file]);
    assert!(refused.contains("one.wasm"), "{refused}");
    await_answer(&server, "/a.txt", 200, &marked("b", 2));
    say(&server, &["remove", "mark"]);
    await_answer(&server, "/a.txt", 503, "not available");
}
