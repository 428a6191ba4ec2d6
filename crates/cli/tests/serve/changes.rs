//! Changes of running servers: what `lamna ctl set` and reloads do to what is being served.

use std::fs;

use rustix::process::Signal;

use crate::client::{Client, PATIENCE, Response};
use crate::control::{ctl, get, hello, runtime, text};
use crate::engine::{AMPED, AMPED_WITH_HELPER_PROCESSES, CO_AMPED, Engine, THREAD_POOL, for_engines};
use crate::server::{Launch, eventually};

#[test]
fn a_pool_of_threads_is_resized_while_it_serves() {
    let server = Launch::new(THREAD_POOL).file("hello.txt", "hello\n").argument("--threads-max").argument("20").start();
    let runtime = runtime(&server);
    let set = ctl(&runtime, &["arch", "set", "--threads", "7"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(ctl(&runtime, &["arch"]).output.contains("7, at most 20"));
    let same = ctl(&runtime, &["arch", "set", "thread-pool", "--threads", "8"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    let refused = ctl(&runtime, &["arch", "set", "--threads", "21"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.error.contains("20 threads at most"), "{refused:?}");
    assert!(ctl(&runtime, &["arch", "--json"]).output.contains("\"threads\":8,"));
    assert_eq!(server.connect().get("/hello.txt").unwrap().status, 200);
    server.finish();
}

#[test]
fn slow_clients_take_no_thread_of_a_pool_so_it_needs_no_more_of_them() {
    let launch = Launch::new(THREAD_POOL).file("hello.txt", "hello\n");
    fs::File::create(launch.site().join("large.bin")).unwrap().set_len(64 << 20).unwrap();
    let server = launch.start();
    let runtime = runtime(&server);
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let mut client = server.connect();
            client.send(b"GET /large.bin HTTP/1.1\r\nHost: test\r\n\r\n");
            client
        })
        .collect();
    // There are more of them than threads.
    assert_eq!(server.connect().get("/hello.txt").unwrap().status, 200);
    let arch = ctl(&runtime, &["arch"]);
    assert!(arch.output.contains("64, at most 1024"), "{arch:?}");
    drop(slow);
    // A number that is set stays.
    let set = ctl(&runtime, &["set", "--threads", "5"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(ctl(&runtime, &["arch"]).output.contains("5, at most 1024"));
    server.finish();
}

/// What stands behind `name` at the beginning of a line.
pub(crate) fn value_of<'a>(output: &'a str, name: &str) -> &'a str {
    let words = |line: &'a str| line.split_once(char::is_whitespace);
    let found = output.lines().filter_map(words).find(|(first, _)| *first == name);
    found.map_or("nothing", |(_, value)| value.trim())
}

/// The number behind `name`.
fn number_of(text: &str, name: &str) -> u64 {
    let digits = text.split(name).nth(1).expect("it is there").bytes().take_while(u8::is_ascii_digit).count();
    text.split(name).nth(1).expect("it is there")[..digits].parse().expect("it is a number")
}

#[test]
fn the_cache_policy_and_ways_to_send_are_changed_while_serving_and_nothing_cached_is_lost() {
    for engine in [AMPED, THREAD_POOL] {
        let server = Launch::new(engine).file("hello.txt", "hello\n").start();
        let runtime = runtime(&server);
        let mut client = server.connect();
        let misses = || number_of(&text(&get(&server, "/v1/stats")), "\"misses\":");
        // What has just been written is kept from the moment on in which it could not change unseen any more.
        let before = eventually("what is asked for twice has been cached", PATIENCE, || {
            assert_eq!(client.get("/hello.txt").unwrap().status, 200);
            std::thread::sleep(std::time::Duration::from_millis(600));
            let before = misses();
            assert_eq!(client.get("/hello.txt").unwrap().status, 200);
            std::thread::sleep(std::time::Duration::from_millis(600));
            (misses() == before).then_some(before)
        });
        let policy = ["set", "--cache-policy", "sieve", "--cache-objective", "bytes", "--cache-filter", "true"];
        let set = ctl(&runtime, &policy);
        assert_eq!(set.code, Some(0), "{set:?}");
        assert!(
            set.output.contains("cache_policy: sieve instead of gdsf; cache_objective: bytes instead of requests"),
            "{set:?}"
        );
        let sending = ["arch", "set", "--send", "copy", "--stretch-copy-bytes-max", "8KiB", "--copy-bytes-max", "0"];
        let set = ctl(&runtime, &sending);
        assert_eq!(set.code, Some(0), "{set:?}");
        let arch = ctl(&runtime, &["arch"]);
        for (name, value) in [
            ("cache_policy", "sieve"),
            ("cache_objective", "bytes"),
            ("cache_filter", "true"),
            ("send", "copy"),
            ("stretch_copy_bytes_max", "8KiB"),
            ("message_copy_bytes_max", "0"),
        ] {
            assert_eq!(value_of(&arch.output, name), value, "{arch:?}");
        }
        assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
        // Counters are handed over twice a second.
        std::thread::sleep(std::time::Duration::from_millis(600));
        assert_eq!(misses(), before, "what was cached has been found again");
        let refused = ctl(&runtime, &["set", "--stretch-copy-bytes-max", "1MiB"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.error.contains("expected a size up to 256KiB"), "{refused:?}");
        server.finish();
    }
}

#[test]
fn a_reload_takes_over_the_cache_policy_and_ways_to_send() {
    let server = hello(AMPED);
    let (runtime, file) = (runtime(&server), server.directory().join("lamna.toml"));
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").unwrap().status, 200);
    let before = fs::read_to_string(&file).unwrap();
    let keys = "cache_policy = \"lfu\"\nsend = \"sendfile\"\nmessage_copy_bytes_max = \"4KiB\"\n";
    fs::write(&file, format!("{keys}{before}")).unwrap();
    let reloaded = ctl(&runtime, &["reload"]);
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    let arch = ctl(&runtime, &["arch"]);
    for (name, value) in [("cache_policy", "lfu"), ("send", "sendfile"), ("message_copy_bytes_max", "4KiB")] {
        assert_eq!(value_of(&arch.output, name), value, "{arch:?}");
    }
    assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    server.finish();
}

#[test]
fn a_reload_to_other_sites_takes_helper_processes_that_know_them() {
    let mut server = hello(AMPED_WITH_HELPER_PROCESSES);
    let (runtime, file) = (runtime(&server), server.directory().join("lamna.toml"));
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").unwrap().status, 200);
    let other = server.directory().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("new.txt"), "new\n").unwrap();
    let before = fs::read_to_string(&file).unwrap();
    let alias = format!("\n[[site.alias]]\nprefix = \"/other/\"\nroot = \"{}\"\n", other.display());
    fs::write(&file, format!("{before}{alias}")).unwrap();
    let reloaded = ctl(&runtime, &["reload"]);
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    // Only a process that has just been started can fork helpers.
    server.wait_to_hear("has taken over");
    // Until the process before has left the listen queue, it may take a connection that has just come.
    eventually("the new process answers", PATIENCE, || {
        (server.connect().get("/other/new.txt").unwrap().content == b"new\n").then_some(())
    });
    assert_eq!(server.connect().get("/hello.txt").unwrap().content, b"hello\n");
    ctl(&runtime, &["drain"]);
}

#[test]
fn a_reload_changes_the_fields_of_answers_that_no_file_is_behind() {
    for engine in [AMPED, THREAD_POOL] {
        let server = hello(engine);
        let (runtime, file) = (runtime(&server), server.directory().join("lamna.toml"));
        let mut client = server.connect();
        let mut options = || {
            client.send(b"OPTIONS /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = client.receive(true).unwrap();
            assert_eq!(answer.status, 204, "{engine:?}");
            answer.field("X-New").map(str::to_owned)
        };
        assert_eq!(options(), None, "{engine:?}");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{before}headers = {{ X-New = \"1\" }}\n")).unwrap();
        let reloaded = ctl(&runtime, &["reload"]);
        assert_eq!(reloaded.code, Some(0), "{engine:?}: {reloaded:?}");
        // Until the engine before has given the connection away, it answers.
        assert_eq!(eventually("the connection has moved", PATIENCE, &mut options), "1", "{engine:?}");
        server.finish();
    }
}

#[test]
fn a_pinned_worker_stays_on_its_processor_when_engines_change() {
    let server = Launch::new(AMPED).file("hello.txt", "hello\n").argument("--pin").start();
    let runtime = runtime(&server);
    let processor = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.pid().as_raw_nonzero())).unwrap();
        let workers = tasks.filter_map(|task| {
            let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let of = |key| status.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned());
            of("Name:").filter(|name| name == "worker-0").and(of("Cpus_allowed_list:"))
        });
        let workers: Vec<String> = workers.collect();
        // While one engine takes the place of another there are two.
        (workers.len() == 1).then(|| workers[0].clone())
    };
    let before = eventually("there is one worker", PATIENCE, processor);
    for architecture in ["pipelined", "thread-pool", "sped", "amped"] {
        let set = ctl(&runtime, &["arch", "set", architecture]);
        assert_eq!(set.code, Some(0), "{set:?}");
        assert_eq!(eventually("the engine before has gone", PATIENCE, processor), before, "{architecture}");
    }
    server.finish();
}

#[test]
fn a_reload_opens_the_log_again_and_a_bad_file_changes_nothing_and_says_why() {
    for engine in [AMPED, CO_AMPED] {
        let launch = Launch::new(engine).file("hello.txt", "hello\n");
        let (log, old) = (launch.directory().join("access.log"), launch.directory().join("access.log.1"));
        let mut server = launch.argument("--log").argument(&log.display().to_string()).start();
        let (runtime, file) = (runtime(&server), server.directory().join("lamna.toml"));

        fs::rename(&log, &old).unwrap();
        let reloaded = ctl(&runtime, &["reload"]);
        assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
        eventually("the log is opened again", PATIENCE, || log.exists().then_some(()));

        let good = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{good}rot = \"x\"\n")).unwrap();
        let refused = ctl(&runtime, &["reload"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.error.contains("lamna.toml:") && refused.error.contains("did you mean"), "{refused:?}");
        server.signal(Signal::HUP);
        server.wait_to_hear("not reloaded, going on as before");

        fs::write(&file, good).unwrap();
        server.signal(Signal::HUP);
        server.wait_to_hear("lamna: reloaded");
        assert_eq!(server.connect().get("/hello.txt").unwrap().status, 200);
        server.finish();
    }
}

for_engines!([
    mp = MP,
    co_amped = CO_AMPED,
    amped = AMPED,
    proactor = PROACTOR,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
] => [
    a_request_after_a_reload_or_an_upgrade_is_answered_by_what_holds_then,
]);

/// Also where the processes that served go on with what they have begun.
fn a_request_after_a_reload_or_an_upgrade_is_answered_by_what_holds_then(engine: Engine) {
    const ROUNDS: usize = 6;
    let config = |round: usize| {
        format!("[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\nrespond = {{ text = \"{round}\" }}\n")
    };
    let server = Launch::new(engine).config(&config(0)).start();
    let (runtime, address) = (runtime(&server), server.address());
    let file = server.directory().join("lamna.toml");
    let listening = fs::read_to_string(&file).unwrap().replace(&config(0), "");
    for round in 1..=ROUNDS {
        let mut before: Vec<_> = (0..4).map(|_| Client::connect(address)).collect();
        for client in &mut before {
            assert_eq!(*client.get("/").unwrap().content, *(round - 1).to_string().as_bytes());
        }
        fs::write(&file, format!("{listening}{}", config(round))).unwrap();
        let order = if round % 3 == 0 { "upgrade" } else { "reload" };
        let done = ctl(&runtime, &[order]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let said: Vec<_> = (0..32).map(|_| text(&Client::connect(address).get("/").unwrap())).collect();
        assert_eq!(said, vec![round.to_string(); 32], "after {order}");
        let said: Vec<_> = before.iter_mut().map(|client| text(&client.get("/").unwrap())).collect();
        assert_eq!(said, vec![round.to_string(); 4], "on connections from before {order}");
    }
    ctl(&runtime, &["drain"]);
}

/// The column `reload` of a key in the manual.
fn manual(key: &str) -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = fs::read_to_string(file).unwrap();
    let row = text.lines().rev().find(|line| line.starts_with(&format!("| `{key}` |"))).expect(key);
    row.trim_end_matches(" |").rsplit("| ").next().unwrap().to_owned()
}

/// A key, lines that change it at the top and in the site, a request, and what only the new value has in its answer.
type Change = (&'static str, &'static str, &'static str, &'static str, fn(&Response) -> bool);

const CHANGES: [Change; 7] = [
    ("request_id", "request_id = true", "", "/hello.txt", |answer| answer.field("X-Request-Id").is_some()),
    ("target_bytes_max", "limits.target_bytes_max = 64", "", LONG, |answer| answer.status == 414),
    ("fields_max", "limits.fields_max = 8", "", MANY, |answer| answer.status == 431),
    ("headers", "", "headers = { X-New = \"1\" }", "/hello.txt", |answer| answer.field("X-New").is_some()),
    ("browse", "", "browse = true", "/folder/", |answer| answer.status == 200),
    ("access", "", "access = { deny = [\"127.0.0.0/8\"] }", "/hello.txt", |answer| answer.status == 403),
    ("rule_files", "", "rule_files = true", "/old", |answer| answer.status == 301),
];
const LONG: &str = "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// With more fields than that.
const MANY: &str = "/hello.txt HTTP/1.1\r\nA: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\nG: 1\r\nH: 1\r\nI: 1\r\nX: ";

#[test]
fn a_new_value_is_in_force_when_the_manual_says() {
    for engine in [AMPED, THREAD_POOL] {
        for (key, top, of_site, target, is_new) in CHANGES {
            assert_eq!(manual(key), "next request");
            let launch = Launch::new(engine).file("hello.txt", "hello\n").file("folder/a.txt", "a");
            let server = launch.file("_redirects", "/old /hello.txt 301\n").start();
            let (runtime, file) = (runtime(&server), server.directory().join("lamna.toml"));
            let mut client = server.connect();
            let before = client.get(target).unwrap();
            assert!(!is_new(&before), "{engine:?}: {key}: {before:?}");
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, format!("{top}\n{text}{of_site}\n")).unwrap();
            let reloaded = ctl(&runtime, &["reload"]);
            assert_eq!(reloaded.code, Some(0), "{engine:?}: {key}: {reloaded:?}");
            // Until the engine before has given the connection away, it answers.
            eventually(key, PATIENCE, || client.get(target).is_ok_and(|answer| is_new(&answer)).then_some(()));
            server.finish();
        }
    }
}

#[test]
fn a_reload_that_the_manual_says_is_refused_is_refused_and_changes_nothing() {
    for (key, line) in [("admin_hosts", "admin_hosts = [\"a.example\"]"), ("admin", "admin = \"off\"")] {
        assert_eq!(manual(key), "refused: takes a restart");
        let server = hello(AMPED);
        let (runtime, file) = (runtime(&server), server.directory().join("lamna.toml"));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{line}\n{text}headers = {{ X-New = \"1\" }}\n")).unwrap();
        let refused = ctl(&runtime, &["reload"]);
        assert_eq!(refused.code, Some(1), "{key}: {refused:?}");
        let words = "the configuration names another way to control the server, which takes a restart";
        assert!(refused.error.contains(words), "{key}: {refused:?}");
        assert_eq!(server.connect().get("/hello.txt").unwrap().field("X-New"), None);
        server.finish();
    }
}

#[test]
fn a_reload_has_new_connections_speak_http2_in_clear_text() {
    assert_eq!(manual("h2c"), "next connection");
    let server = hello(AMPED);
    let (runtime, file) = (runtime(&server), server.directory().join("lamna.toml"));
    let speaks = || {
        let mut client = server.connect();
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        // A frame of settings begins with its length and its type.
        client.receive_exactly(9).is_ok_and(|frame| frame[0] == 0 && frame[3] == 4)
    };
    assert!(!speaks());
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("h2c = true\n{text}")).unwrap();
    let reloaded = ctl(&runtime, &["reload"]);
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    // Until the engine before has left the listen queue, it may take a connection.
    eventually("new connections may speak HTTP/2", PATIENCE, || speaks().then_some(()));
    server.finish();
}
