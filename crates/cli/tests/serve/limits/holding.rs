//! What one client network may have held for it: memory of connections that say nothing, connections to applications,
//! and descriptors.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::client::{PATIENCE, connect_from};
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [who_says_nothing_and_holds_too_much_is_closed]);

for_engines!([
    thread_pool_asking = THREAD_POOL,
    amped_asking = AMPED,
    pipelined_asking = PIPELINED,
    proactor_asking = PROACTOR,
] => [
    of_those_who_take_nothing_the_one_that_holds_most_is_closed,
    a_network_asks_applications_so_often_at_once_and_again_when_one_has_ended,
    few_connections_take_no_descriptors_that_others_need,
]);

// Engines of which a connection that waits holds no thread: the others run out of those before they run out of
// descriptors.
for_engines!([
    thread_pool_short = THREAD_POOL,
    thread_per_request_short = THREAD_PER_REQUEST,
    sped_short = SPED,
    amped_short = AMPED,
    co_amped_short = CO_AMPED,
    pipelined_short = PIPELINED,
    proactor_short = PROACTOR,
] => [
    half_heads_of_a_network_take_no_descriptors_that_others_need,
    downloads_of_a_network_that_are_not_read_take_no_descriptors_that_others_need,
    downloads_over_http2_that_are_not_read_take_no_descriptors_that_others_need,
    what_two_networks_hold_together_makes_room_for_a_third,
]);

const HEAD: &str = "limit_exempt = []\nlimits = { head_timeout_ms = 600000, send_timeout_ms = 600000 }\n";

fn who_says_nothing_and_holds_too_much_is_closed(engine: Engine) {
    let config = format!("network_bytes_max = \"8KiB\"\n{HEAD}[[site]]\nroot = \"site\"\n");
    let server = Launch::new(engine).file("a", "hello").config(&config).start();
    let mut heavy = server.connect();
    // A head whose end does not come, nor anything else.
    heavy.send(format!("GET /a HTTP/1.1\r\nHost: a\r\nX-A: {}", "x".repeat(10_000)).as_bytes());
    heavy.expect_end().unwrap();
    assert_eq!(server.connect().get("/a").map(|response| response.status), Ok(200), "others of its network go on");
    server.finish();
}

/// An application that answers `/p/wait` when its client has left, and everything else with 200 KB.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut head, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(bytes @ 1..) = stream.read(&mut piece) {
                    head.extend_from_slice(&piece[..bytes]);
                    if !head.ends_with(b"\r\n\r\n") || head.starts_with(b"GET /p/wait") {
                        continue;
                    }
                    head.clear();
                    let answer = [&b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"[..], &[b'x'; 200_000]].concat();
                    if stream.write_all(&answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn start(engine: Engine, lines: &str, launch: impl FnOnce(Launch) -> Launch) -> Server {
    let site = format!(
        "{HEAD}[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/p/*\"\nproxy = \"http://{}\"\n",
        application()
    );
    launch(Launch::new(engine).file("a", "hello").config(&format!("h2c = true\n{lines}{site}"))).start()
}

/// A connection of HTTP/2 that asks for `path` so often and lets nothing be sent.
fn ask_and_take_nothing(server: &Server, path: &str, streams: u32) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&asking_of_http2(&(0..streams).map(|_| path.to_owned()).collect::<Vec<_>>())).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    stream
}

/// What a client of HTTP/2 sends that asks for `paths` and lets nothing be sent.
fn asking_of_http2(paths: &[String]) -> Vec<u8> {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    // GET and http of the static table, path and authority in full (RFC 7541).
    for (number, path) in (0..).zip(paths) {
        let block = [&[0x82, 0x86, 0x04, path.len() as u8], path.as_bytes(), &[0x01, 1], b"a"].concat();
        bytes.extend(frame(1, 0x5, 2 * number + 1, &block));
    }
    bytes
}

/// Whether the server has closed it.
fn is_closed(stream: &mut TcpStream) -> bool {
    loop {
        match stream.read(&mut [0; 65_536]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

fn of_those_who_take_nothing_the_one_that_holds_most_is_closed(engine: Engine) {
    let server = start(engine, "network_bytes_max = \"1MiB\"\napplication_limit = 0\n", |launch| launch);
    let mut light = ask_and_take_nothing(&server, "/p/x", 4);
    let mut heavy = ask_and_take_nothing(&server, "/p/x", 40);
    eventually("it is closed", PATIENCE, || is_closed(&mut heavy).then_some(()));
    assert!(!is_closed(&mut light), "what it holds is within the bound");
    assert_eq!(server.connect().get("/p/x").map(|response| response.content.len()), Ok(200_000));
    assert!(!is_closed(&mut light));
    drop(light);
    server.finish();
}

fn a_network_asks_applications_so_often_at_once_and_again_when_one_has_ended(engine: Engine) {
    let server = start(engine, "application_limit = 4\n", |launch| launch);
    let ask = || {
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(b"GET /p/wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        // It leaves with a reset: one that only ends its half waits for its answer.
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        client.set_nonblocking(true).unwrap();
        client
    };
    let mut waiting: Vec<_> = (0..4).map(|_| ask()).collect();
    let refused = eventually("all of them are asked", PATIENCE, || {
        // One that came while the request below was under way was refused in its place.
        waiting.iter_mut().filter(|client| client.peek(&mut [0]).is_ok()).for_each(|client| *client = ask());
        Some(server.connect().get("/p/x").unwrap()).filter(|response| response.status != 200)
    });
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
    assert_eq!(server.connect().get("/a").unwrap().status, 200, "files ask nobody");
    drop(waiting);
    eventually("there is room again", PATIENCE, || (server.connect().get("/p/x").unwrap().status == 200).then_some(()));
    server.finish();
}

fn few_connections_take_no_descriptors_that_others_need(engine: Engine) {
    let command = ["sh", "-c", "ulimit -n 256; exec \"$0\" \"$@\""];
    let server = start(engine, "request_limit = \"off\"\n", |launch| launch.wrapped(&command));
    let mut greedy: Vec<_> = (0..4).map(|_| ask_and_take_nothing(&server, "/p/x", 100)).collect();
    for _ in 0..10 {
        assert_eq!(server.connect().get("/a").map(|response| response.status), Ok(200));
        thread::sleep(Duration::from_millis(50));
    }
    assert!(greedy.iter_mut().all(|stream| !is_closed(stream)), "they are told to come again, stream by stream");
    drop(greedy);
    server.finish();
}

/// Descriptors of the server. No client of a test needs so many that reads what it asks for.
const DESCRIPTORS: usize = 256;

/// A server with few descriptors, an application at `/p/` and as many large files as it has descriptors.
fn with_few_descriptors(engine: Engine) -> Server {
    let command = ["sh", "-c", &format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"")];
    start(engine, "request_limit = \"off\"\n", |launch| {
        for number in 0..2 * DESCRIPTORS {
            // Without blocks on a disk.
            let file = std::fs::File::create(launch.site().join(number.to_string())).unwrap();
            file.set_len(64 << 20).unwrap();
        }
        launch.wrapped(&command)
    })
}

/// Connections from `host` that send what `asking` gives for each and read nothing: as many as there could be at all.
fn greedy(server: &Server, host: u8, asking: impl Fn(usize) -> Vec<u8>) -> Vec<TcpStream> {
    let begin = |number| {
        let mut stream = connect_from(host, server.address());
        // Those beyond the limit are refused.
        let _ = stream.write_all(&asking(number));
        stream
    };
    (0..DESCRIPTORS).map(begin).collect()
}

/// Others are served: on new connections and on a kept one, files and from the application. As long as the server is
/// busy with closing what is too much they may be told to come again, and one that is idle may be closed, as at any
/// time.
fn others_are_served(server: &Server, host: u8) {
    let mut kept = server.connect_from(host);
    for _ in 0..3 {
        others_come_in(server, host);
        for path in ["/a", "/p/x"] {
            eventually("others are answered on a kept connection", PATIENCE, || {
                let is_served = kept.get(path).is_ok_and(|response| response.status == 200);
                if !is_served {
                    kept = server.connect_from(host);
                }
                is_served.then_some(())
            });
        }
    }
}

/// Others get an answer, if they come again when they are told to.
fn others_come_in(server: &Server, host: u8) {
    for path in ["/a", "/p/x"] {
        let ask = || server.connect_from(host).get(path).is_ok_and(|response| response.status == 200);
        eventually("others are answered", PATIENCE, || ask().then_some(()));
    }
}

fn download(number: usize) -> Vec<u8> {
    format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

fn half_heads_of_a_network_take_no_descriptors_that_others_need(engine: Engine) {
    let server = with_few_descriptors(engine);
    let greedy = greedy(&server, 77, |_| b"GET /a HTTP/1.1\r\nHost: ".to_vec());
    others_are_served(&server, 78);
    drop(greedy);
    server.finish();
}

fn downloads_of_a_network_that_are_not_read_take_no_descriptors_that_others_need(engine: Engine) {
    let server = with_few_descriptors(engine);
    let greedy = greedy(&server, 77, download);
    others_are_served(&server, 78);
    drop(greedy);
    server.finish();
}

fn downloads_over_http2_that_are_not_read_take_no_descriptors_that_others_need(engine: Engine) {
    let server = with_few_descriptors(engine);
    let greedy = greedy(&server, 77, |number| {
        let paths = (0..7).map(|stream| format!("/{}", (7 * number + stream) % (2 * DESCRIPTORS)));
        asking_of_http2(&paths.collect::<Vec<_>>())
    });
    others_are_served(&server, 78);
    drop(greedy);
    server.finish();
}

fn what_two_networks_hold_together_makes_room_for_a_third(engine: Engine) {
    let server = with_few_descriptors(engine);
    let heads = greedy(&server, 77, |_| b"GET /a HTTP/1.1\r\nHost: ".to_vec());
    let downloads = greedy(&server, 79, |number| download(DESCRIPTORS + number));
    for _ in 0..3 {
        others_come_in(&server, 78);
    }
    drop((heads, downloads));
    server.finish();
}
