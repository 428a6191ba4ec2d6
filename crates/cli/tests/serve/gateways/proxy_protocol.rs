//! Applications that are told who the client is by the PROXY protocol.

use std::io::Read;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::Application;
use crate::client::PATIENCE;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, eventually};
use crate::tree::pattern;

for_engines!([
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
] => [each_client_is_told_of_and_no_connection_is_for_two]);

/// What is before everything on a connection.
fn take_header(stream: &mut TcpStream, is_text: bool) -> Vec<u8> {
    let mut header = Vec::new();
    let mut byte = [0];
    let is_whole = |header: &[u8]| match is_text {
        true => header.ends_with(b"\r\n"),
        false => header.len() >= 16 && header.len() == 16 + usize::from(header[15]),
    };
    while !is_whole(&header) && stream.read(&mut byte).is_ok_and(|bytes| bytes == 1) {
        header.push(byte[0]);
    }
    header
}

fn each_client_is_told_of_and_no_connection_is_for_two(engine: Engine) {
    for (version, is_text) in [("v1", true), ("v2", false)] {
        let headers: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let told = headers.clone();
        let application = Application::start_over(move |mut stream| {
            told.lock().unwrap().push(take_header(&mut stream, is_text));
            stream
        });
        let server = Launch::new(engine)
            .config(&format!(
                "trusted_proxies = [\"127.0.0.0/8\"]\n[[site]]\nroot = \"site\"\nroute = [{{ match = \"/app/*\", proxy = {{ to = \"http://{}\", \
                 send_proxy = \"{version}\" }} }}]\n",
                application.address
            ))
            .start();
        let mut client = server.connect();
        let from = client.stream.local_addr().unwrap();
        for _ in 0..2 {
            assert!(client.get("/app/sized/70000").unwrap().content == pattern(70_000, 3));
        }
        client.send(b"GET /app/sized/3 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n");
        assert_eq!(client.receive(true).unwrap().status, 200);
        let headers = eventually("three have been told of", PATIENCE, || {
            let headers = headers.lock().unwrap().clone();
            (headers.len() == 3).then_some(headers)
        });
        let to = server.address();
        let expected = |ip: [u8; 4], port: u16| match is_text {
            true => {
                let [a, b, c, d] = ip;
                format!("PROXY TCP4 {a}.{b}.{c}.{d} 127.0.0.1 {port} {}\r\n", to.port()).into_bytes()
            }
            false => [
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c",
                &ip[..],
                &[127, 0, 0, 1],
                &port.to_be_bytes(),
                &to.port().to_be_bytes(),
            ]
            .concat(),
        };
        assert_eq!(headers[0], expected([127, 0, 0, 1], from.port()));
        assert_eq!(headers[1], headers[0]);
        assert_eq!(headers[2], expected([192, 0, 2, 7], 0), "who a trusted proxy asks for");
        server.finish();
    }
}
