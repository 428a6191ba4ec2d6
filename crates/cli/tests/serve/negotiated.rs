//! What was agreed on with a client is told: in the access log, by `lamna ctl status`, and in the metrics.

use std::fs;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use serde_json::Value;

use crate::client::PATIENCE;
use crate::control::{get, order};
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, eventually};
use crate::tls::{CERTIFIED, config_for, connect_as, make_client, make_pair};

for_engines!([
    mp = MP,
    amped_2 = AMPED_2,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
] => [what_a_client_has_agreed_on_is_told]);

fn what_a_client_has_agreed_on_is_told(engine: Engine) {
    let launch = Launch::new(engine).config(CERTIFIED).file("a.txt", "a").file("b.txt", "b").file("c.txt", "c");
    make_pair(launch.directory(), &["site.test"]);
    let log = launch.directory().join("access.log");
    let log_to = log.display().to_string();
    let launch = launch.argument("--log").argument(&log_to).argument("--log-format").argument("json");
    let server = launch.start();
    let trusted = server.directory().join("certificate.pem");
    let config = |version| Arc::new(config_for(&[&trusted], &[version]));
    let (old, new) = (config(&TLS12), config(&TLS13));
    // The second connection of the same client comes with a ticket.
    for _ in 0..2 {
        let mut client = connect_as(&server, &old, "site.test");
        assert_eq!(client.get("/a.txt").unwrap().content, b"a");
        client.end_sending();
        client.expect_end().unwrap();
    }
    let name = ServerName::try_from("site.test").unwrap();
    assert_eq!(Http2::connect_secured(server.address(), &new, name).get("/b.txt").content, b"b");
    let mut failing = server.connect();
    failing.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(failing.receive(true).unwrap().status, 400);

    let lines = eventually("all is in the log", PATIENCE, || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        (lines.len() == 3).then_some(lines)
    });
    let mut seen: Vec<_> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or("none").to_owned();
            let http = text("network.protocol.version");
            let tls = (text("tls.protocol.version"), text("tls.next_protocol"), line["tls.resumed"].as_bool());
            (text("url.path"), http, tls, text("tls.cipher"), text("tls.curve"), text("tls.client.subject"))
        })
        .collect();
    // Workers write their lines in any order.
    seen.sort();
    let expected = |path: &str, http: &str, tls: (&str, &str, bool), cipher: &str, group: &str| {
        let words = |word: &str| word.to_owned();
        let tls = (words(tls.0), words(tls.1), Some(tls.2));
        (words(path), words(http), tls, words(cipher), words(group), words("none"))
    };
    let old_cipher = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    assert_eq!(
        seen,
        [
            expected("/a.txt", "1.1", ("1.2", "http/1.1", false), old_cipher, "x25519"),
            expected("/a.txt", "1.1", ("1.2", "http/1.1", true), old_cipher, "none"),
            expected("/b.txt", "2.0", ("1.3", "h2", false), "TLS_AES_128_GCM_SHA256", "x25519"),
        ]
    );

    let status = eventually("all responses are counted", PATIENCE, || {
        let status: Value = serde_json::from_slice(&get(&server, "/v1/status").content).expect("it is JSON");
        (status["protocols"] == serde_json::json!({"http1": 2, "http2": 1})).then_some(status)
    });
    let tls = &status["tls"];
    let ciphers = serde_json::json!({ old_cipher: 2, "TLS_AES_128_GCM_SHA256": 1 });
    assert_eq!((&tls["ciphers"], &tls["groups"]), (&ciphers, &serde_json::json!({ "x25519": 2 })));
    assert_eq!(tls["failed"], 1);
    let told = order(&server, &["status"]).unwrap();
    let expected = [
        "HTTP/1 2, HTTP/2 1 responses",
        "3 handshakes, 1 resumed, 1 for HTTP/2; 1 failed",
        "TLS 1.3 1, TLS 1.2 2",
        "x25519 2",
    ];
    for words in expected {
        assert!(told.contains(words), "{words} in {told}");
    }
    let metrics = String::from_utf8(get(&server, "/metrics").content).unwrap();
    for line in [
        "lamna_protocol_responses_total{protocol=\"http/1\"} 2",
        "lamna_protocol_responses_total{protocol=\"h2\"} 1",
        "lamna_tls_handshakes_total{version=\"1.2\",protocol=\"http/1.1\",resumed=\"true\"} 1",
        "lamna_tls_handshakes_total{version=\"1.3\",protocol=\"h2\",resumed=\"false\"} 1",
        "lamna_tls_handshakes_failed_total 1",
        "lamna_tls_ciphers_total{cipher=\"TLS_AES_128_GCM_SHA256\"} 1",
        "lamna_tls_groups_total{group=\"x25519\"} 2",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line} in {metrics}");
    }
    server.finish();
}

#[test]
fn the_log_names_the_client_of_a_certificate() {
    let launch = Launch::new(AMPED).config(&format!("{CERTIFIED}client_ca = \"ca.pem\"\n")).file("a.txt", "a");
    make_pair(launch.directory(), &["site.test"]);
    let client = make_client(launch.directory(), "alice");
    let log = launch.directory().join("access.log");
    let log_to = log.display().to_string();
    let server = launch.argument("--log").argument(&log_to).argument("--log-format").argument("json").start();
    let config = config_for(&[&server.directory().join("certificate.pem")], &[&TLS13]);
    let known = Arc::new(client.config(config));
    assert_eq!(connect_as(&server, &known, "site.test").get("/a.txt").unwrap().content, b"a");
    let line = eventually("it is in the log", PATIENCE, || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().next().map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"))
    });
    assert_eq!(line["tls.client.subject"], "CN=alice");
    server.finish();
}

#[test]
fn a_server_without_tls_says_nothing_of_it() {
    let server = Launch::new(AMPED).file("a.txt", "a").start();
    assert_eq!(server.connect().get("/a.txt").unwrap().content, b"a");
    let status: Value = serde_json::from_slice(&get(&server, "/v1/status").content).expect("it is JSON");
    assert_eq!(status["tls"], Value::Null);
    let metrics = String::from_utf8(get(&server, "/metrics").content).unwrap();
    assert!(!metrics.contains("lamna_tls_") && !order(&server, &["status"]).unwrap().contains("TLS"));
    server.finish();
}
