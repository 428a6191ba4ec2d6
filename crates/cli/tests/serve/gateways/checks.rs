//! Applications that are asked whether they are well: who is not gets no request, and who is again gets some.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use super::Application;
use super::secure::start_secure;
use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{AMPED, CO_AMPED, Engine, MP, for_engines};
use crate::server::{Launch, Server, eventually};

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
] => [who_is_not_well_is_not_asked_until_it_is_again]);

const CHECK: &str = "check = { path = \"/app/well\", interval_ms = 100, passes = 1, misses = 1 }";

fn line(server: &Server, address: SocketAddr) -> String {
    let told = order(server, &["status"]).unwrap();
    let found = told.lines().find(|line| line.contains(&format!("{address}: ")));
    found.unwrap_or_else(|| panic!("{address}: {told}")).to_owned()
}

fn asked(server: &Server, address: SocketAddr) -> u64 {
    let line = line(server, address);
    let words: Vec<&str> = line.split(' ').collect();
    let at = words.iter().position(|word| word.starts_with("request")).unwrap();
    words[at - 1].parse().unwrap()
}

/// Waits until requests go to one place, and to no other. Every request is answered.
fn expect_only(server: &Server, to: &Application, not_to: &Application) {
    expect_only_in_the_end(server, to, not_to, |status| assert_eq!(status, 200));
}

/// The same, where other statuses are looked at by `meanwhile`.
fn expect_only_in_the_end(server: &Server, to: &Application, not_to: &Application, meanwhile: impl Fn(u16)) {
    eventually("requests go where they can be answered", PATIENCE, || {
        let before = (asked(server, to.address), asked(server, not_to.address));
        for _ in 0..10 {
            let status = server.connect().get("/app/sized/3").unwrap().status;
            if status != 200 {
                meanwhile(status);
                return None;
            }
        }
        let after = (asked(server, to.address), asked(server, not_to.address));
        (after == (before.0 + 10, before.1)).then_some(())
    });
}

fn who_is_not_well_is_not_asked_until_it_is_again(engine: Engine) {
    let (first, second) = (Application::start(), Application::start());
    let (a, b) = (first.address, second.address);
    let mut server = Launch::new(engine)
        .config(&format!(
            "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\nproxy = {{ to = [\"http://{a}\", \"http://{b}\"], {CHECK} }}\n"
        ))
        .start();
    first.well.store(false, Relaxed);
    server.wait_to_hear(&format!("upstream {a} is down: check of /app/well: its answer is 503"));
    expect_only(&server, &second, &first);
    assert!(line(&server, a).contains("down by its checks"), "{}", line(&server, a));
    second.well.store(false, Relaxed);
    server.wait_to_hear(&format!("upstream {b} is down"));
    eventually("nobody is asked", PATIENCE, || {
        (server.connect().get("/app/sized/3").unwrap().status == 503).then_some(())
    });
    first.well.store(true, Relaxed);
    server.wait_to_hear(&format!("upstream {a} is well again"));
    eventually("it is asked", PATIENCE, || (server.connect().get("/app/sized/3").unwrap().status == 200).then_some(()));
    let has_processes = [MP, CO_AMPED].iter().any(|one| one.architecture == engine.architecture);
    // One process has found out, and the others hear of it a little later.
    let meanwhile = |status| assert!(has_processes && status == 503, "{status}");
    expect_only_in_the_end(&server, &first, &second, meanwhile);
    server.finish();
}

#[test]
fn a_check_is_asked_over_tls_where_requests_are() {
    let launch = Launch::new(AMPED);
    let application = start_secure(launch.directory(), &["127.0.0.1"], &[&rustls::version::TLS13]);
    let to = application.address;
    let mut server = launch
        .config(&format!(
            "[[site]]\nroot = \"site\"\nroute = [{{ match = \"/*\", proxy = {{ to = \"https://{to}\", ca = \"certificate.pem\", {CHECK} }} }}]\n"
        ))
        .start();
    application.well.store(false, Relaxed);
    server.wait_to_hear(&format!("upstream https://{to} is down: check of /app/well: its answer is 503"));
    application.well.store(true, Relaxed);
    server.wait_to_hear(&format!("upstream https://{to} is well again"));
    assert_eq!(server.connect().get("/app/sized/3").unwrap().status, 200);
    server.finish();
}

#[test]
fn what_checks_have_found_out_outlives_a_change_of_the_engine() {
    let (first, second) = (Application::start(), Application::start());
    let (a, b) = (first.address, second.address);
    let mut server = Launch::new(AMPED)
        .config(&format!(
            "[[site]]\nroot = \"site\"\nroute = [{{ match = \"/*\", proxy = {{ to = [\"http://{a}\", \"http://{b}\"], {CHECK} }} }}]\n"
        ))
        .start();
    first.well.store(false, Relaxed);
    server.wait_to_hear(&format!("upstream {a} is down"));
    for name in ["proactor", "thread-pool"] {
        order(&server, &["arch", "set", name]).unwrap();
        expect_only(&server, &second, &first);
    }
    server.finish();
}
