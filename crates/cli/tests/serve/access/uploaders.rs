//! Ordinary clients that upload over HTTP/2 see why they are refused, however much they have to send: curl, Go and
//! Node.
//!
//! Owns: these cases. A client that is not installed is skipped, by name.

use std::fs::File;
use std::net::TcpListener;
use std::process::{Command, Output};

use super::SESAME;
use crate::engine::{Engine, for_engines};
use crate::liveness;
use crate::server::{Launch, Server};
use crate::skip::skipped;

for_engines!([
    thread_pool = THREAD_POOL,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    curl_sees_the_answer,
    go_sees_the_answer_and_asks_on,
    node_sees_the_answer_and_asks_on,
]);

const MIB: u64 = 1024 * 1024;
/// Less than is discarded where a length is announced, and more.
const SIZES: [u64; 4] = [MIB, 2 * MIB, 10 * MIB, 50 * MIB];
const REFUSALS: [(&str, u16); 4] = [("/users/new", 401), ("/far/new", 403), ("/file.txt", 405), ("/small/new", 413)];

/// With an application that takes connections and says nothing.
fn start(engine: Engine) -> (Server, TcpListener) {
    let silent = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let to = silent.local_addr().expect("it is bound");
    let config = format!(
        "[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n\
         [[site.route]]\nmatch = \"/users/*\"\naccess = {{ users = [\"ada\"] }}\n\
         [[site.route]]\nmatch = \"/far/*\"\naccess = {{ allow = [\"192.0.2.0/24\"] }}\n\
         [[site.route]]\nmatch = \"/small/*\"\nproxy = {{ to = \"http://{to}\", body_bytes_max = 10 }}\n"
    );
    (Launch::new(engine).argument("--tls").file("file.txt", "file\n").config(&config).start(), silent)
}

/// Every size meets a refusal, and every refusal a size.
fn cases() -> impl Iterator<Item = (&'static str, u16, u64)> {
    let all = REFUSALS.iter().flat_map(|(path, status)| SIZES.map(|bytes| (*path, *status, bytes)));
    all.filter(|(_, status, bytes)| *bytes <= 2 * MIB || *status == 401)
}

fn said(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

fn curl_sees_the_answer(engine: Engine) {
    let version = Command::new("curl").arg("--version").output();
    if !version.is_ok_and(|ran| said(&ran).contains("HTTP2")) {
        return skipped("curl_sees_the_answer", "there is no curl that speaks HTTP/2");
    }
    let (server, _silent) = start(engine);
    let upload = server.directory().join("upload");
    for (path, status, bytes) in cases() {
        File::create(&upload).and_then(|file| file.set_len(bytes)).expect("there is room for a hole");
        for unsized_too in [&[][..], &["-H", "Content-Length:"]] {
            let mut curl = Command::new("curl");
            curl.args(["-sSk", "--http2", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code} %{http_version}"]);
            curl.args(unsized_too).arg("-T").arg(&upload).arg(format!("https://{}{path}", server.address()));
            let ran = curl.output().expect("it has just been found");
            let case = format!("{path}, {bytes} bytes {unsized_too:?}: {}", said(&ran));
            assert!(ran.status.success() && ran.stdout == format!("{status} 2").as_bytes(), "{case}");
        }
    }
    server.finish();
}

fn go_sees_the_answer_and_asks_on(engine: Engine) {
    let (server, _silent) = start(engine);
    let address = server.address().to_string();
    for (path, status, bytes) in cases() {
        let arguments = ["refused", &address, path, &status.to_string(), &bytes.to_string(), liveness::PATIENCE_MS];
        if !liveness::run("go_sees_the_answer_and_asks_on", &arguments) {
            return;
        }
    }
    server.finish();
}

fn node_sees_the_answer_and_asks_on(engine: Engine) {
    if !Command::new("node").arg("--version").output().is_ok_and(|ran| ran.status.success()) {
        return skipped("node_sees_the_answer_and_asks_on", "there is no Node");
    }
    let (server, _silent) = start(engine);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve/access/uploaders/client.js");
    for (path, status, bytes) in cases() {
        let mut node = Command::new("node");
        node.arg(program).arg(format!("https://{}", server.address())).arg(path).arg(status.to_string());
        let ran = node.arg(bytes.to_string()).arg(liveness::PATIENCE_MS).output().expect("it has just been found");
        assert!(ran.status.success(), "{path}, {bytes} bytes: {}", said(&ran));
    }
    server.finish();
}
