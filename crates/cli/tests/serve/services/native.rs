//! Shared objects in a running server: loaded, replaced, removed, and suspended when they fail, in processes and
//! threads alike.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{await_answer, get, say};
use crate::client::PATIENCE;
use crate::control;
use crate::engine::{AMPED, CO_AMPED, Engine, MP, for_engines};
use crate::server::{Launch, eventually};
use crate::skip::skipped;

for_engines!([amped = AMPED, sped = SPED, co_amped = CO_AMPED, thread_pool = THREAD_POOL, mp = MP] => [
    a_shared_object_is_loaded_replaced_and_removed,
    a_shared_object_beneath_a_root_is_for_no_client_once_it_is_a_service,
    one_that_fails_is_suspended_with_its_reason_and_nothing_else_notices,
]);

/// rot13 in C, with `deed` done first of each piece; none without a compiler, which is said.
fn rot13(test: &str, directory: &Path, name: &str, deed: &str) -> Option<PathBuf> {
    const BEGIN: &str = "    uint8_t turned[4096];\n";
    built(test, directory, name, BEGIN, &format!("{BEGIN}    {deed}\n"))
}

fn a_shared_object_beneath_a_root_is_for_no_client_once_it_is_a_service(engine: Engine) {
    const TEST: &str = "services::native::a_shared_object_beneath_a_root";
    let launch = Launch::new(engine).file("a.txt", "Hello\n");
    let (directory, site) = (launch.directory().to_owned(), launch.site());
    let (Some(outside), Some(one), Some(two)) =
        (rot13(TEST, &directory, "zero", ""), rot13(TEST, &site, "one", ""), rot13(TEST, &site, "two", ""))
    else {
        return;
    };
    let server = launch.config(&config(&outside, "error")).start();
    let statuses = || ["/one.so", "/two.so"].map(|path| get(&server, path).status);
    await_answer(&server, "/a.txt", 200, "Uryyb\n");
    assert_eq!(statuses(), [200, 200]);
    // A reload that changes nothing but services.
    let file = server.directory().join("lamna.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, before.replace(&outside.display().to_string(), &one.display().to_string())).unwrap();
    control::order(&server, &["reload"]).unwrap();
    eventually("the first is the server's", PATIENCE, || (statuses() == [404, 200]).then_some(()));
    await_answer(&server, "/a.txt", 200, "Uryyb\n");
    // Processes are told of services, and keep their sites.
    if ![MP, CO_AMPED].iter().any(|other| other.architecture == engine.architecture) {
        say(&server, &["replace", "rot13", "--native", &two.display().to_string()]);
        assert_eq!(statuses(), [200, 404]);
        await_answer(&server, "/a.txt", 200, "Uryyb\n");
    }
    control::order(&server, &["drain"]).expect("who serves now can end");
}

/// One that puts `letter` in the place of each `#`.
pub(super) fn mark(test: &str, directory: &Path, letter: &str) -> Option<PathBuf> {
    const TURN: &str = "static uint8_t turn(uint8_t byte)\n{\n";
    built(
        test,
        directory,
        letter,
        TURN,
        &format!("{TURN}    if (byte == '#')\n        return '{letter}';\n    return byte;\n"),
    )
}

/// The example in C with `by` in the place of `from`.
fn built(test: &str, directory: &Path, name: &str, from: &str, by: &str) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").output().is_err() {
        skipped(test, "there is no C compiler (cc)");
        return None;
    }
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server");
    let source = std::fs::read_to_string(server.join("examples/native/rot13.c")).expect("the example is there");
    assert!(source.contains(from));
    let (file, object) = (directory.join(format!("{name}.c")), directory.join(format!("{name}.so")));
    std::fs::write(&file, source.replacen(from, by, 1)).expect("it can be written");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&object).arg(file).arg("-I").arg(server).status();
    assert!(built.expect("it was there").success());
    Some(object)
}

fn config(object: &Path, on_failure: &str) -> String {
    format!(
        "native_services = true\n[[service]]\nname = \"rot13\"\nnative = \"{}\"\non_failure = \"{on_failure}\"\n[[site]]\nroot = \"site\"\n\
         [[site.route]]\nmatch = \"*.txt\"\nfilters = [\"rot13\"]\n",
        object.display()
    )
}

fn a_shared_object_is_loaded_replaced_and_removed(engine: Engine) {
    let launch = Launch::new(engine).file("a.txt", "Hello\n");
    let Some(object) = rot13("services::native::a_shared_object", launch.directory(), "one", "") else { return };
    let Some(other) = rot13(
        "services::native::a_shared_object",
        launch.directory(),
        "two",
        "output->write(output->state, (const uint8_t *)\"two \", 4);",
    ) else {
        return;
    };
    let server = launch.config(&config(&object, "error")).start();
    await_answer(&server, "/a.txt", 200, "Uryyb\n");
    say(&server, &["replace", "rot13", "--native", &other.display().to_string()]);
    await_answer(&server, "/a.txt", 200, "two Uryyb\n");
    // The file of the same path has become another one.
    std::fs::rename(&object, &other).expect("they are in one directory");
    say(&server, &["replace", "rot13"]);
    eventually("the file is loaded again", PATIENCE, || (get(&server, "/a.txt").content == b"Uryyb\n").then_some(()));
    say(&server, &["remove", "rot13"]);
    await_answer(&server, "/a.txt", 503, "not available");
}

fn one_that_fails_is_suspended_with_its_reason_and_nothing_else_notices(engine: Engine) {
    let launch = Launch::new(engine).file("a.txt", "Hello\n").file("bad.txt", "!bad\n").file("b.bin", "Hello\n");
    let fails = "if (count > 0 && piece[0] == '!') return 9;";
    let Some(object) = rot13("services::native::one_that_fails", launch.directory(), "bad", fails) else { return };
    let server = launch.config(&config(&object, "error")).start();
    await_answer(&server, "/a.txt", 200, "Uryyb\n");
    assert_eq!(get(&server, "/bad.txt").status, 503);
    // What was made before it failed is not given any more, by any process.
    await_answer(&server, "/a.txt", 503, "not available");
    assert_eq!(get(&server, "/b.bin").content, b"Hello\n");
    let info = say(&server, &["info", "rot13"]);
    assert!(info.contains("failed") && info.contains("a call returned 9"), "{info}");
    let metrics = control::text(&control::get(&server, "/metrics"));
    assert!(metrics.contains("lamna_service_failures_total{service=\"rot13\"} 1"), "{metrics}");
    assert!(metrics.contains("lamna_service_in_use{service=\"rot13\"} 0"), "{metrics}");
    say(&server, &["resume", "rot13"]);
    await_answer(&server, "/a.txt", 200, "Uryyb\n");
}

#[test]
fn a_route_that_is_to_do_without_a_failed_service_answers_with_the_content_as_it_is() {
    let launch = Launch::new(AMPED).file("a.txt", "Hello\n").file("bad.txt", "!bad\n");
    let fails = "if (count > 0 && piece[0] == '!') return 9;";
    let Some(object) = rot13("services::native::a_route_that_is_to_do", launch.directory(), "bad", fails) else {
        return;
    };
    let server = launch.config(&config(&object, "pass")).start();
    await_answer(&server, "/a.txt", 200, "Uryyb\n");
    let _ = get(&server, "/bad.txt");
    await_answer(&server, "/bad.txt", 200, "!bad\n");
    await_answer(&server, "/a.txt", 200, "Hello\n");
}

#[test]
fn shared_objects_are_not_loaded_unless_that_is_allowed() {
    let launch =
        Launch::new(AMPED).config(&config(Path::new("/nothing.so"), "error").replace("native_services = true\n", ""));
    let (_, said) = launch.fail();
    assert!(said.contains("native_services = true"), "{said}");
    let (_, said) = Launch::new(AMPED).config(&config(Path::new("/nothing.so"), "error")).fail();
    assert!(said.contains("the service `rot13` cannot be used: /nothing.so cannot be read"), "{said}");
}
