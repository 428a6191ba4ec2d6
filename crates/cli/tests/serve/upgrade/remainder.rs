//! Connections that an upgrade finds in the middle of something that cannot go to another process: it ends where it
//! began, and then they go on there, or have been told that they will not.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering::Relaxed;

use rustix::process::{Signal, kill_process};

use super::{Line, SMALL, content};
use crate::client::Client;
use crate::engine::Engine;
use crate::gateways::Application;

use crate::client::PATIENCE;
use crate::server::{Launch, eventually, processes_of};
use crate::tls::{connect, trusting};
use crate::tree::pattern;

crate::engine::for_engines!(all remainders_have_every_engine: [
    sped = SPED,
    amped_2 = AMPED_2,
    proactor = PROACTOR,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    co_amped = CO_AMPED,
    mp = MP,
] => [
    a_connection_goes_on_when_its_application_has_answered,
    a_tunnel_goes_on_until_it_ends,
    a_tunnel_goes_on_though_the_process_that_leaves_is_told_to_end,
    who_has_just_shaken_hands_gets_an_answer,
    who_is_kept_over_tls_gets_one_answer_more,
    those_who_stay_take_few_threads,
]);

const BYTES: usize = 200_000;
/// Says half of its answer, and the rest when there is a file.
const PROGRAM: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\nContent-Length: 10\\r\\n\\r\\nhello'\n\
    n=0\nwhile [ ! -e ../go ] && [ $n -lt 400 ]; do sleep 0.05; n=$((n + 1)); done\nprintf there\n";

fn launch(engine: Engine, application: &Application) -> Launch {
    let to = application.address;
    let lines = format!(
        "[[site]]\nroot = \"site\"\nroute = [{{ match = \"/app/*\", proxy = \"http://{to}\" }}, \
         {{ match = \"/app/gated/kept/*\", proxy = \"http://{to}\", cache = {{ fresh_s = 1000 }} }}, \
         {{ match = \"/cgi-bin/*\", cgi = true }}]\n"
    );
    let launch = Launch::new(engine).file("cgi-bin/program", PROGRAM).config(&lines);
    let program = launch.site().join("cgi-bin/program");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    launch
}

fn ask<S: Read + Write>(client: &mut Client<S>, target: &str) {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
}

/// Asks until an answer says that it is the last. The engine that leaves may answer as ever until it does.
fn ask_until_the_last<S: Read + Write>(client: &mut Client<S>) {
    eventually("an answer is the last", PATIENCE, || {
        let answer = client.get(SMALL).expect("each request is answered");
        assert_eq!(answer.content, content(SMALL));
        (answer.field("Connection") == Some("close")).then_some(())
    });
    client.expect_end().unwrap();
}

fn a_connection_goes_on_when_its_application_has_answered(engine: Engine) {
    let application = Application::start();
    application.well.store(false, Relaxed);
    let mut line = Line::start(launch(engine, &application));
    let mut clients: Vec<_> = (0..6).map(|_| line.server.connect()).collect();
    let targets = [
        format!("/app/gated/{BYTES}"),
        format!("/app/gated/{BYTES}"),
        format!("/app/gated-within/{BYTES}"),
        format!("/app/gated/kept/{BYTES}"),
        format!("/app/gated/kept/{BYTES}"),
        "/cgi-bin/program".to_owned(),
    ];
    for (client, target) in clients.iter_mut().zip(&targets) {
        ask(client, target);
    }
    // The second asks for more, before it knows.
    ask(&mut clients[1], SMALL);
    let began: Vec<_> = [2, 5].map(|at: usize| clients[at].receive_head().unwrap()).into();
    assert!(began.iter().all(|head| head.field("Connection").is_none()));
    line.upgrade();
    application.well.store(true, Relaxed);
    fs::write(line.server.site().join("go"), "").unwrap();
    for (at, client) in clients.iter_mut().enumerate() {
        let closes = match at {
            2 => {
                assert!(client.receive_exactly(BYTES).unwrap() == pattern(BYTES, 3));
                false
            }
            5 => {
                assert_eq!(client.receive_exactly(10).unwrap(), b"hellothere");
                false
            }
            _ => {
                let answer = client.receive(true).unwrap();
                assert!(answer.status == 200 && answer.content == pattern(BYTES, 3), "{at}: {}", answer.status);
                answer.field("Connection") == Some("close")
            }
        };
        assert!(!closes, "{at}: it can go on");
        if at != 1 {
            ask(client, SMALL);
        }
        assert_eq!(client.receive(true).unwrap_or_else(|fault| panic!("{at}: {fault}")).content, content(SMALL));
    }
    line.is_alone();
    for client in &mut clients {
        assert_eq!(client.get(SMALL).unwrap().content, content(SMALL));
    }
    drop(clients);
    let said = line.end();
    assert!(!said.contains("could not be"), "{said}");
}

fn a_tunnel_goes_on_until_it_ends(engine: Engine) {
    tunnel(engine, |line| _ = line.upgrade());
}

fn a_tunnel_goes_on_though_the_process_that_leaves_is_told_to_end(engine: Engine) {
    tunnel(engine, |line| {
        let leaving = line.current();
        line.upgrade();
        kill_process(leaving, Signal::TERM).expect("the tunnel keeps it");
        line.server.wait_to_hear("finishing what has begun");
    });
}

/// A tunnel that goes on whatever `happens`.
fn tunnel(engine: Engine, happens: impl FnOnce(&mut Line)) {
    let application = Application::start();
    let mut line = Line::start(launch(engine, &application));
    let mut client = line.server.connect();
    client.send(
        b"GET /app/web-socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    assert_eq!(client.receive_head().unwrap().status, 101);
    happens(&mut line);
    for bytes in [1, 100, 900] {
        client.send(&pattern(bytes, 9));
        assert!(client.receive_exactly(bytes).unwrap() == pattern(bytes, 9));
    }
    client.end_sending();
    client.expect_end().unwrap();
    line.is_alone();
    line.end();
}

fn who_has_just_shaken_hands_gets_an_answer(engine: Engine) {
    let application = Application::start();
    let mut line = Line::start(launch(engine, &application).argument("--tls"));
    let trusted = trusting(&line.server);
    let mut clients: Vec<_> = (0..3).map(|_| connect(&line.server, &trusted)).collect();
    for client in &mut clients {
        client.stream.conn.complete_io(&mut client.stream.sock).unwrap();
    }
    line.upgrade();
    for client in &mut clients {
        ask_until_the_last(client);
    }
    line.is_alone();
    line.end();
}

fn who_is_kept_over_tls_gets_one_answer_more(engine: Engine) {
    let application = Application::start();
    application.well.store(false, Relaxed);
    let mut line = Line::start(launch(engine, &application).argument("--tls"));
    let trusted = trusting(&line.server);
    let (mut kept, mut busy) = (connect(&line.server, &trusted), connect(&line.server, &trusted));
    assert_eq!(kept.get(SMALL).unwrap().content, content(SMALL));
    ask(&mut busy, &format!("/app/gated-within/{BYTES}"));
    assert_eq!(busy.receive_head().unwrap().field("Connection"), None);
    line.upgrade();
    application.well.store(true, Relaxed);
    assert!(busy.receive_exactly(BYTES).unwrap() == pattern(BYTES, 3));
    for client in [&mut kept, &mut busy] {
        ask_until_the_last(client);
    }
    line.is_alone();
    line.end();
}

fn those_who_stay_take_few_threads(engine: Engine) {
    // More than one connection takes a process for each there.
    let count = if engine.architecture == "mp" { 3 } else { 60 };
    let application = Application::start();
    application.well.store(false, Relaxed);
    let mut line = Line::start(launch(engine, &application).argument("--tls"));
    let trusted = trusting(&line.server);
    let mut clients: Vec<_> = (0..count).map(|_| connect(&line.server, &trusted)).collect();
    for client in &mut clients {
        ask(client, "/app/gated-within/100000");
        assert_eq!(client.receive_head().unwrap().status, 200);
    }
    let old: Vec<i32> = processes_of(&line.server.directory().join("lamna.toml")).into_keys().collect();
    line.upgrade();
    let threads_of = |process: &i32| fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    // Engines of threads let theirs go as they leave.
    eventually("there are few threads", PATIENCE, || old.iter().all(|process| threads_of(process) < 25).then_some(()));
    application.well.store(true, Relaxed);
    for client in &mut clients {
        assert!(client.receive_exactly(100_000).unwrap() == pattern(100_000, 3));
    }
    drop(clients);
    line.is_alone();
    line.end();
}
