//! What the test suite for servers of WebDAV says, if it is installed.

use std::process::Command;

use super::launch;
use crate::engine::{Engine, for_engines};
use crate::skip::skipped;

for_engines!([
    sped = SPED,
    amped = AMPED,
    thread_pool = THREAD_POOL,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    litmus_finds_nothing_wrong,
]);

fn litmus_finds_nothing_wrong(engine: Engine) {
    if Command::new("litmus").arg("--version").output().is_err() {
        return skipped("litmus", "it is not installed");
    }
    let launch = launch(engine);
    std::fs::create_dir(launch.site().join("dav")).unwrap();
    let server = launch.start();
    let run = Command::new("litmus")
        .arg("-k")
        .arg(format!("http://{}/dav/", server.address()))
        .env("TESTS", "basic copymove props locks http")
        // It writes logs to where it is.
        .current_dir(server.directory())
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && said.contains("locks") && !said.contains("FAIL"), "{said}");
    server.finish();
}
