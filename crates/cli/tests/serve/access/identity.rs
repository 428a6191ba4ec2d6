//! Who has been let in is known to the log; clients are let in by their certificates; behind a proxy networks are those
//! of its clients.
//!
//! Owns: these cases, with every engine.

use std::sync::Arc;

use super::{ADA, SESAME, WRONG, ask};
use crate::engine::{Engine, for_engines};
use crate::request_id::{lines, logged};
use crate::server::Launch;
use crate::tls::{client_config, connect_as, make_clients, make_pair};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    the_log_says_who_was_let_in_and_believes_nobody,
    certificates_are_let_in_by_their_subject,
    networks_are_those_of_the_clients_of_a_trusted_proxy,
    a_request_whose_password_is_verified_counts_once,
]);

fn the_log_says_who_was_let_in_and_believes_nobody(engine: Engine) {
    let config = format!(
        "[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n[[site.route]]\nmatch = \"/secret/*\"\naccess = {{ users = [\"ada\"] }}\n"
    );
    for format in ["combined", "json"] {
        let launch = Launch::new(engine).config(&config).file("open.txt", "open\n").file("secret/a.txt", "secret\n");
        let (launch, log) = logged(launch, format);
        let server = launch.start();
        for (target, fields, status) in [
            ("/secret/a.txt", ADA, 200),
            ("/secret/a.txt", WRONG, 401),
            ("/secret/a.txt", "", 401),
            ("/open.txt", "", 200),
            ("/open.txt", WRONG, 200),
        ] {
            assert_eq!(ask(&server, "GET", target, fields, "").status, status, "{target} {fields}");
        }
        let mut named = lines(&log, 5).into_iter().filter(|line| match format {
            "combined" => line.contains(" - ada ["),
            _ => line.contains("\"user.name\":\"ada\""),
        });
        let only = named.next().expect("ada is in the log");
        assert!(only.contains("/secret/a.txt") && only.contains("200"), "{only}");
        assert_eq!(named.next(), None, "nobody else is taken for her");
        server.finish();
    }
}

fn certificates_are_let_in_by_their_subject(engine: Engine) {
    let config = format!(
        r#"[[site]]
root = "site"
hosts = ["site.test"]
certificate = "certificate.pem"
key = "key.pem"
client_ca = "ca.pem"
client_certificates = "optional"
users = {{ ada = "{SESAME}" }}
[[site.route]]
match = "/secret/*"
access = {{ certificates = ["CN=alice"] }}
[[site.route]]
match = "/either/*"
access = {{ certificates = ["*"], users = ["ada"] }}
"#
    );
    let launch = Launch::new(engine).config(&config).file("open.txt", "open\n");
    let launch = launch.file("secret/a.txt", "secret\n").file("either/a.txt", "either\n");
    make_pair(launch.directory(), &["site.test"]);
    let [alice, bob] = make_clients(launch.directory(), ["alice", "bob"]);
    let server = launch.start();
    let own = std::fs::read(server.directory().join("certificate.pem")).unwrap();
    let nobody = Arc::new(client_config(&own));
    let [alice, bob] = [alice, bob].map(|pair| Arc::new(pair.config((*nobody).clone())));
    for (config, who, [secret, either]) in
        [(&nobody, "nobody", [403, 401]), (&alice, "alice", [200, 200]), (&bob, "bob", [403, 200])]
    {
        // The second connection comes with a ticket of the first.
        for round in 0..2 {
            let mut client = connect_as(&server, config, "site.test");
            let mut ask = |target: &str, fields: &str| {
                client.send(format!("GET {target} HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n").as_bytes());
                client.receive(true).unwrap_or_else(|fault| panic!("{who} {target}: {fault}")).status
            };
            for (target, status) in [("/open.txt", 200), ("/secret/a.txt", secret), ("/either/a.txt", either)] {
                assert_eq!(ask(target, ""), status, "{who} {target} {round}");
            }
            assert_eq!(ask("/either/a.txt", ADA), 200, "a password will do for {who}");
            assert_eq!(ask("/secret/a.txt", ADA), secret, "a password is no certificate");
        }
    }
    server.finish();
}

fn networks_are_those_of_the_clients_of_a_trusted_proxy(engine: Engine) {
    let config = "trusted_proxies = [\"127.0.0.1\"]\n[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/secret/*\"\naccess = { allow = [\"192.0.2.0/24\"] }\n";
    let server = Launch::new(engine).config(config).file("secret/a.txt", "secret\n").file("open.txt", "open\n").start();
    for _ in 0..2 {
        for (forwarded, status) in
            [("192.0.2.7", 200), ("198.51.100.1", 403), ("192.0.2.7, 198.51.100.1", 403), ("", 403)]
        {
            let fields = if forwarded.is_empty() { String::new() } else { format!("X-Forwarded-For: {forwarded}\r\n") };
            assert_eq!(ask(&server, "GET", "/secret/a.txt", &fields, "").status, status, "{forwarded}");
            assert_eq!(ask(&server, "GET", "/open.txt", &fields, "").status, 200);
        }
    }
    server.finish();
}

/// It is translated once more when its password has been verified: what it stands for is asked twice, and the limit
/// once.
fn a_request_whose_password_is_verified_counts_once(engine: Engine) {
    let config = format!(
        "limit_exempt = []\n[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\naccess = {{ users = [\"ada\"] }}\n\
         [[site.limit]]\nrequests = \"1/h burst 2\"\n"
    );
    let server = Launch::new(engine).config(&config).file("a.txt", "a\n").start();
    let statuses = [(); 3].map(|()| ask(&server, "GET", "/a.txt", ADA, "").status);
    assert_eq!(statuses, [200, 200, 429]);
    server.finish();
}
