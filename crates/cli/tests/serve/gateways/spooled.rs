//! How much content files may take that keep it until it is whole: of one request, of a network and of all.
//!
//! Owns: these cases, with engines whose connections are all in one process, as each process counts by itself.

use super::buffered::{begin_chunks, end_chunks, lengths_of_files_held};
use super::framed::over_stream;
use super::variables::Protocol;
use super::{Application, post};
use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, eventually};
use crate::tree::pattern;

for_engines!([
    thread_pool = THREAD_POOL,
    sped = SPED,
    amped = AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    files_of_a_network_and_of_all_have_a_bound,
    content_of_unknown_length_has_a_bound_where_no_route_says_one,
]);

fn files_of_a_network_and_of_all_have_a_bound(engine: Engine) {
    // The last 64 KiB may not be in the file yet.
    const FILE_BYTES: usize = 400_000;
    let application = Application::start();
    let to = application.address;
    let buffer = "buffer = \"4 KiB\", buffer_directory = \"kept\", body_bytes_max = 405000";
    let lines = format!(
        "limit_exempt = []\nnetwork_buffer_bytes_max = 410000\n[[site]]\nroot = \"site\"\n\
         [[site.route]]\nmatch = \"/app/*\"\nproxy = {{ to = \"http://{to}\", {buffer} }}\n"
    );
    let launch = Launch::new(engine).config(&lines).argument("--h2c");
    std::fs::create_dir(launch.directory().join("kept")).unwrap();
    let mut server = launch.start();
    let content = pattern(FILE_BYTES, 7);
    let begin = |host: u8| {
        let mut client = server.connect_from(host);
        begin_chunks(&mut client, "/app/echo", &content);
        client
    };
    let are_held = |files: usize| {
        eventually("they have arrived, but for what is gathered", PATIENCE, || {
            let lengths = lengths_of_files_held(&server);
            let have_arrived = lengths.iter().all(|bytes| *bytes >= FILE_BYTES as u64 - (64 << 10) - 1);
            (lengths.len() == files && have_arrived).then_some(())
        });
    };
    let mut first = begin(2);
    are_held(1);
    // The network has room for one, and others have theirs, to four times as much in all.
    assert_eq!(begin(2).receive(true).unwrap().status, 503);
    let others: Vec<_> = (3..6).map(begin).collect();
    are_held(4);
    assert_eq!(begin(7).receive(true).unwrap().status, 503);
    let mut http2 = Http2::connect(server.address());
    let answer = http2.ask(vec![request("POST", "/app/echo", &[]).map(|_| content.clone())]).remove(0).unwrap();
    assert_eq!(answer.status, 503, "HTTP/2");
    let counted: serde_json::Value = serde_json::from_str(&order(&server, &["stats", "--json"]).unwrap()).unwrap();
    assert_eq!(counted["connections"]["buffers_refused"], 3, "{counted}");
    // What is not kept in a file goes on, and what has begun is whole.
    assert_eq!(post(&mut server.connect_from(2), "/app/echo", &content[..3000]).status, 200);
    assert!(end_chunks(&mut first, &content).content == content);
    drop((first, others));
    eventually("there is room again", PATIENCE, || {
        (post(&mut server.connect_from(2), "/app/echo", &content).status == 200).then_some(())
    });
    server.wait_to_hear("(`network_buffer_bytes_max`)");
    drop(http2);
    server.finish();
}

fn content_of_unknown_length_has_a_bound_where_no_route_says_one(engine: Engine) {
    let [scgi, _] = Protocol::ALL.map(over_stream);
    let route = |path: &str, more: &str| {
        format!("[[site.route]]\nmatch = \"/{path}/*\"\nscgi = {{ to = \"{scgi}\", buffer_directory = \".\"{more} }}\n")
    };
    let lines = format!("[[site]]\n{}{}", route("usual", ""), route("said", ", body_bytes_max = \"18 MiB\""));
    let server = Launch::new(engine).config(&lines).start();
    let content = pattern((16 << 20) + 1, 3);
    let ask = |path: &str, bytes: usize| {
        let mut client = server.connect();
        begin_chunks(&mut client, path, &content[..bytes]);
        end_chunks(&mut client, &content[..bytes]).status
    };
    assert_eq!((ask("/usual/a", 16 << 20), ask("/usual/a", (16 << 20) + 1)), (200, 413));
    assert_eq!(ask("/said/a", (16 << 20) + 1), 200);
    // What says its length is not kept.
    assert_eq!(post(&mut server.connect(), "/usual/a", &content).status, 200);
    server.finish();
}
