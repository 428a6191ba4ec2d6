//! Users who come with the hashes of another server are let in with their passwords, and nobody else is.
//!
//! Owns: these cases: each kind of hash, over both versions, through a reload. With worker processes a reload is a succession.

use rustix::process::Signal;

use super::ask;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::Launch;

for_engines!([
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    amped = AMPED,
    proactor = PROACTOR,
] => [
    hashes_of_other_servers_let_their_users_in,
]);

/// Names and hashes as `htpasswd`, `mkpasswd` and Caddy write them. Every password is `myPassword`.
const USERS: &str = "# of another server\n\
    apache:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/\n\
    unix:$1$saltsalt$2vnaRpHa6Jxjz5n83ok8Z0\n\
    plain:{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=\n\
    caddy:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n";
const NAMES: [&str; 4] = ["apache", "unix", "plain", "caddy"];

fn hashes_of_other_servers_let_their_users_in(engine: Engine) {
    let configuration = "[[site]]\nroot = \"site\"\nusers_file = \"users\"\naccess = { users = [\"*\"] }\n";
    let launch = Launch::new(engine).file("a.txt", "a\n").argument("--h2c").config(configuration);
    let users = launch.directory().join("users");
    std::fs::write(&users, USERS).unwrap();
    let mut server = launch.start();
    let authorization = |name: &str, password: &str| {
        format!("Basic {}", lamna_proto::base64::encode(format!("{name}:{password}").as_bytes()))
    };
    for name in NAMES {
        let fields = |password| format!("Authorization: {}\r\n", authorization(name, password));
        assert_eq!(ask(&server, "GET", "/a.txt", &fields("mypassword"), "").status, 401, "{name}");
        assert_eq!(ask(&server, "GET", "/a.txt", &fields("myPassword"), "").status, 200, "{name}");
    }
    let mut http2 = Http2::connect(server.address());
    let requests = NAMES.map(|name| {
        [("myPassword", 200), ("nobody's", 401)].map(|(password, status)| (authorization(name, password), status))
    });
    for (authorization, status) in requests.as_flattened() {
        let answers = http2.ask(vec![request("GET", "/a.txt", &[("authorization", authorization)])]);
        assert_eq!(answers.into_iter().map(|answer| answer.unwrap().status).collect::<Vec<_>>(), [*status]);
    }
    // Another user comes, and one of before goes.
    let others = USERS.replace("apache:", "eve:");
    std::fs::write(&users, others).unwrap();
    server.signal(Signal::HUP);
    server.wait_to_hear("lamna: reloaded");
    let status = |name| {
        let fields = format!("Authorization: {}\r\n", authorization(name, "myPassword"));
        ask(&server, "GET", "/a.txt", &fields, "").status
    };
    assert_eq!(["eve", "apache", "caddy"].map(status), [200, 401, 200]);
    let said = server.finish();
    assert!(said.contains("weaker"), "{said}");
}
