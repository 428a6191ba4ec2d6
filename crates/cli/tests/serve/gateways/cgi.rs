//! CGI programs, with every engine: what they are told, what they answer, what is not run, and how they end.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::recipes::recipe;
use crate::client::{Client, PATIENCE, Response};
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tree::pattern;
use crate::uploads::faults::small_disk;

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
] => [
    a_program_is_told_of_its_request_and_of_nothing_else,
    content_goes_to_the_program_and_what_it_prints_comes_back,
    a_program_says_its_status_and_where_to_go,
    a_path_that_a_program_names_is_answered_in_its_place,
    what_is_no_program_is_not_run_and_not_shown,
    a_program_that_fails_is_told_by_its_status,
    an_answer_ends_with_its_program_whatever_holds_its_output,
    a_program_ends_with_the_client_that_it_works_for,
    an_answer_is_whole_though_its_program_reads_no_content,
    no_program_is_started_for_a_client_that_has_left_while_it_waited,
    requests_beyond_the_bound_wait_for_a_program_to_end,
]);

/// What prints a page of its environment.
const TOLD: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nenv\n";

fn launch(engine: Engine, keys: &str) -> Launch {
    launch_with(engine, keys, "")
}

/// The same with further routes.
fn launch_with(engine: Engine, keys: &str, routes: &str) -> Launch {
    let launch = Launch::new(engine).argument("--h2c").file("hello.txt", "hello\n");
    let cgi = format!("match = \"/cgi-bin/*\"\ncgi = {{ {keys} }}\n");
    launch.config(&format!("[[site]]\nroot = \"site\"\n[[site.route]]\n{cgi}{routes}"))
}

fn program(launch: Launch, name: &str, text: &str) -> Launch {
    let launch = launch.file(&format!("cgi-bin/{name}"), text);
    let path = launch.site().join("cgi-bin").join(name);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    launch
}

fn get(server: &Server, path: &str) -> Response {
    server.connect().get(path).unwrap()
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.content).into_owned()
}

fn a_program_is_told_of_its_request_and_of_nothing_else(engine: Engine) {
    let launch = program(launch(engine, ""), "told.sh", TOLD).wrapped(&["env", "A_SECRET=of the server"]);
    let root = launch.site();
    let server = launch.start();
    let mut client = server.connect();
    client.send(
        b"GET /cgi-bin/told.sh/more/path?a=b&c HTTP/1.1\r\nHost: a.example\r\nProxy: http://evil\r\nX-Own: 7\r\n\r\n",
    );
    let response = client.receive(true).unwrap();
    assert_eq!((response.status, response.field("Content-Type")), (200, Some("text/plain")));
    let told = text(&response);
    let script = root.join("cgi-bin/told.sh").display().to_string();
    for line in [
        "GATEWAY_INTERFACE=CGI/1.1",
        "REQUEST_METHOD=GET",
        "QUERY_STRING=a=b&c",
        "SCRIPT_NAME=/cgi-bin/told.sh",
        "PATH_INFO=/more/path",
        "SERVER_NAME=a.example",
        "SERVER_PROTOCOL=HTTP/1.1",
        "HTTP_X_OWN=7",
        &format!("SCRIPT_FILENAME={script}"),
        &format!("PWD={}", root.join("cgi-bin").display()),
    ] {
        assert!(told.lines().any(|told| told == line), "{line} in {told}");
    }
    for absent in ["HTTP_PROXY", "LAMNA", "A_SECRET", "CONTENT_LENGTH", "HOME="] {
        assert!(!told.contains(absent), "{absent} in {told}");
    }
    server.finish();
}

fn content_goes_to_the_program_and_what_it_prints_comes_back(engine: Engine) {
    let echo = "#!/bin/sh\nprintf 'Content-Type: application/x-echo\\r\\nX-Length: '; printf \"$CONTENT_LENGTH\"; printf '\\r\\n\\r\\n'\ncat\n";
    let ignores = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nnot read\\n'\n";
    let server = program(program(launch(engine, ""), "echo", echo), "ignores", ignores).start();
    let content = pattern(300_000, 3);
    let mut client = server.connect();
    client.send(
        format!("POST /cgi-bin/echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()).as_bytes(),
    );
    client.send(&content);
    let sized = client.receive(true).unwrap();
    assert!(sized.content == content, "{} of {} bytes came back", sized.content.len(), content.len());
    client.send(b"POST /cgi-bin/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for part in content.chunks(70_000) {
        client.send(format!("{:x}\r\n", part.len()).as_bytes());
        client.send(part);
        client.send(b"\r\n");
    }
    client.send(b"0\r\n\r\n");
    let chunked = client.receive(true).unwrap();
    assert!(chunked.content == content && chunked.field("X-Length") == Some("300000"));
    client.send(b"POST /cgi-bin/ignores HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
    client.send(&content);
    assert_eq!(text(&client.receive(true).unwrap()), "not read\n");
    server.finish();
}

fn a_program_says_its_status_and_where_to_go(engine: Engine) {
    let said = |head: &str| format!("#!/bin/sh\nprintf '{head}\\r\\n\\r\\n'\n");
    let launch = program(launch(engine, ""), "gone", &said("Status: 410 Gone\\r\\nContent-Type: text/plain"));
    let launch = program(launch, "elsewhere", &said("Location: https://b.example/x"));
    let server = program(launch, "told", &said("Status: 303 See Other\\r\\nLocation: /hello.txt")).start();
    assert_eq!(get(&server, "/cgi-bin/gone").status, 410);
    let elsewhere = get(&server, "/cgi-bin/elsewhere");
    assert_eq!((elsewhere.status, elsewhere.field("Location")), (302, Some("https://b.example/x")));
    let told = get(&server, "/cgi-bin/told");
    assert_eq!((told.status, told.field("Location")), (303, Some("/hello.txt")));
    server.finish();
}

fn a_path_that_a_program_names_is_answered_in_its_place(engine: Engine) {
    let to = |path: &str| format!("#!/bin/sh\nprintf 'Location: {path}\\r\\n\\r\\n'\n");
    let rules = "[[site.route]]\nmatch = \"/closed/*\"\naccess = { deny = [\"0.0.0.0/0\"] }\n";
    let launch = launch_with(engine, "", rules).file("closed/x.txt", "not for all\n");
    let launch = program(launch, "here", &to("/hello.txt"));
    let launch = program(program(launch, "told.sh", TOLD), "program", &to("/cgi-bin/told.sh/more?a=b"));
    let launch = program(program(launch, "none", &to("/none.txt")), "closed", &to("/closed/x.txt"));
    let launch =
        program(launch, "round", "#!/bin/sh\necho >> ../turns\nprintf 'Location: /cgi-bin/round\\r\\n\\r\\n'\n");
    let turns = launch.site().join("turns");
    let mut server = launch.start();
    let here = get(&server, "/cgi-bin/here");
    assert_eq!((here.status, here.field("Location"), text(&here)), (200, None, "hello\n".to_owned()));
    let mut client = server.connect();
    client.send(b"HEAD /cgi-bin/here HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.receive(false).unwrap();
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("6")));
    // The content was the first program's, and the connection goes on.
    client.send(b"POST /cgi-bin/program HTTP/1.1\r\nHost: a.example\r\nX-Own: 7\r\nContent-Length: 5\r\n\r\n12345");
    let told = text(&client.receive(true).unwrap());
    for line in ["REQUEST_METHOD=GET", "QUERY_STRING=a=b", "PATH_INFO=/more", "SERVER_NAME=a.example", "HTTP_X_OWN=7"] {
        assert!(told.lines().any(|told| told == line), "{line} in {told}");
    }
    assert!(!told.contains("CONTENT_LENGTH"), "{told}");
    client.send(b"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(text(&client.receive(true).unwrap()), "hello\n");
    let over_http2 = Http2::connect(server.address()).get("/cgi-bin/here");
    assert_eq!((over_http2.status, over_http2.content), (200, b"hello\n".to_vec()));
    assert_eq!(get(&server, "/cgi-bin/none").status, 404);
    assert_eq!(get(&server, "/cgi-bin/closed").status, 403, "rules of the other path count");
    assert_eq!(get(&server, "/cgi-bin/round").status, 502);
    server.wait_to_hear("led from one path of the server to another too often");
    assert_eq!(fs::read_to_string(turns).unwrap().len(), 11, "the first, and ten more");
    server.finish();
}

fn what_is_no_program_is_not_run_and_not_shown(engine: Engine) {
    let launch = program(launch(engine, "extensions = [\"sh\"]"), "a.sh", TOLD);
    let launch = launch.file("cgi-bin/data.txt", "data\n").file("cgi-bin/plain.sh", TOLD).file("other/b.sh", TOLD);
    let outside = launch.directory().join("outside.sh");
    fs::write(&outside, TOLD).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&outside, launch.site().join("cgi-bin/link.sh")).unwrap();
    let mut server = launch.start();
    assert_eq!(get(&server, "/cgi-bin/a.sh").status, 200);
    // Not executable: neither run nor sent.
    let plain = get(&server, "/cgi-bin/plain.sh");
    assert_eq!(plain.status, 403, "{}", text(&plain));
    assert!(!text(&plain).contains("printf"));
    server.wait_to_hear("plain.sh cannot be started: Permission denied (os error 13): is it executable?");
    assert!(matches!(get(&server, "/cgi-bin/link.sh").status, 403 | 404), "it is outside of the root");
    assert_eq!(get(&server, "/cgi-bin/none.sh").status, 404);
    // Another file, and a path beyond it that looks like a program.
    assert_eq!(text(&get(&server, "/cgi-bin/data.txt")), "data\n");
    assert_eq!(get(&server, "/cgi-bin/data.txt/x.sh").status, 404);
    // Beside the route it is a file as others.
    assert_eq!(text(&get(&server, "/other/b.sh")), TOLD);
    server.finish();
}

fn a_program_that_fails_is_told_by_its_status(engine: Engine) {
    let launch = launch(engine, "time_max_ms = 1500, output_bytes_max = \"1MB\"");
    let launch = program(launch, "garbage", "#!/bin/sh\necho this is no head\n");
    let launch = program(launch, "nothing", "#!/bin/sh\necho why >&2\nexit 3\n");
    let launch = program(launch, "dies", "#!/bin/sh\nkill -9 $$\n");
    let launch = program(launch, "hangs", "#!/bin/sh\necho $$ > ../hangs.pid\nsleep 600\n");
    let endless = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nyes\n";
    let launch = program(launch, "endless", endless);
    let site = launch.site();
    let mut server = launch.start();
    for (name, status, line) in [
        ("garbage", 502, "The application broke off its answer"),
        ("nothing", 502, "the program has ended with exit status: 3"),
        ("dies", 502, "the program was killed"),
        ("hangs", 504, "the program has not ended in time, and is killed"),
    ] {
        let response = get(&server, &format!("/cgi-bin/{name}"));
        assert_eq!(response.status, status, "{name}: {}", text(&response));
        server.wait_to_hear(line);
    }
    eventually("the program that hangs is gone", PATIENCE, || (!exists(&site.join("hangs.pid"))).then_some(()));
    let mut client = server.connect();
    client.send(b"GET /cgi-bin/endless HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.receive(true).is_err(), "it is broken off, and no whole answer");
    server.wait_to_hear("the program prints more than 1000000 bytes");
    assert_eq!(text(&get(&server, "/hello.txt")), "hello\n");
    server.finish();
}

/// Whether the process that has written its number there is alive.
fn exists(file: &PathBuf) -> bool {
    let process = fs::read_to_string(file).unwrap_or_default();
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn an_answer_ends_with_its_program_whatever_holds_its_output(engine: Engine) {
    let large = "printf 'Content-Type: text/plain\\r\\n\\r\\n'\nhead -c 300000 /dev/zero\n";
    let launch = launch(engine, "programs_max = 1");
    let launch = program(launch, "leaves", &format!("#!/bin/sh\nsleep 600 & echo $! > ../left.pid\n{large}"));
    // It has its session before its parent ends, which would kill it else.
    let goes_on =
        "setsid sh -c 'echo $$ > ../going.pid; exec sleep 600' &\nuntil [ -s ../going.pid ]; do sleep 0.01; done\n";
    let launch = program(launch, "goes-on", &format!("#!/bin/sh\n{goes_on}{large}"));
    let (left, going) = (launch.site().join("left.pid"), launch.site().join("going.pid"));
    let server = launch.start();
    // One after the other: each has the only place for a program.
    for name in ["leaves", "goes-on", "leaves"] {
        let answer = get(&server, &format!("/cgi-bin/{name}"));
        assert_eq!((answer.status, answer.content.len()), (200, 300_000), "{name}");
    }
    eventually("what is of its group is gone", PATIENCE, || (!exists(&left)).then_some(()));
    assert!(exists(&going), "it has a session of its own");
    let process = fs::read_to_string(&going).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
    let _ = kill_process(process, Signal::KILL);
    server.finish();
}

fn a_program_ends_with_the_client_that_it_works_for(engine: Engine) {
    let works = "#!/bin/sh\nsleep 600 & echo $! > ../child.pid\necho $$ > ../works.pid\nprintf 'Content-Type: text/plain\\r\\n\\r\\nso far\\n'\nwait\n";
    let launch = program(launch(engine, ""), "works", works);
    let (program, child) = (launch.site().join("works.pid"), launch.site().join("child.pid"));
    let server = launch.start();
    let mut client = server.connect();
    client.send(b"GET /cgi-bin/works HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 200);
    eventually("the program works", PATIENCE, || (exists(&program) && exists(&child)).then_some(()));
    client.reset();
    eventually("it is gone, with what it has started", PATIENCE, || {
        (!exists(&program) && !exists(&child)).then_some(())
    });
    server.finish();
}

/// The program has ended long before the server has sent the content: that is not the client's end.
fn an_answer_is_whole_though_its_program_reads_no_content(engine: Engine) {
    const BYTES: usize = 2_000_000;
    let ignores = format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nhead -c {BYTES} /dev/zero\n");
    let server = program(launch(engine, ""), "ignores", &ignores).start();
    let mut client = server.connect();
    client.send(format!("POST /cgi-bin/ignores HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes());
    client.send(&pattern(BYTES, 3));
    assert_eq!(client.receive(true).map(|answer| answer.content.len()), Ok(BYTES));
    server.finish();
}

fn no_program_is_started_for_a_client_that_has_left_while_it_waited(engine: Engine) {
    const REQUEST: &[u8] = b"GET /cgi-bin/works HTTP/1.1\r\nHost: a\r\n\r\n";
    let works = "#!/bin/sh\necho $PPID > ../runner.pid\necho >> ../runs\nprintf 'Content-Type: text/plain\\r\\n\\r\\nso far\\n'\nuntil [ -e ../go ]; do sleep 0.05; done\n";
    let launch = program(launch(engine, "programs_max = 1"), "works", works);
    let site = launch.site();
    let server = launch.start();
    let mut first = server.connect();
    first.send(REQUEST);
    assert_eq!(first.receive_head().unwrap().status, 200);
    let runner = fs::read_to_string(site.join("runner.pid")).unwrap();
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", runner.trim())).unwrap().count();
    let before = descriptors();
    let waiting = [(); 2].map(|()| {
        let mut client = server.connect();
        client.send(REQUEST);
        client
    });
    eventually("they wait for a program", PATIENCE, || (descriptors() == before + 2).then_some(()));
    waiting.into_iter().for_each(Client::reset);
    eventually("they wait no more", PATIENCE, || (descriptors() == before).then_some(()));
    fs::write(site.join("go"), "").unwrap();
    assert_eq!(get(&server, "/cgi-bin/works").status, 200);
    assert_eq!(fs::read_to_string(site.join("runs")).unwrap().len(), 2, "the first, and the last");
    server.finish();
}

fn requests_beyond_the_bound_wait_for_a_program_to_end(engine: Engine) {
    // Each works alone, or says that it does not.
    let alone = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nmkdir ../busy || echo not alone\nsleep 0.1\nrmdir ../busy\necho done\n";
    let server = program(launch(engine, "programs_max = 1"), "alone", alone).start();
    let address = server.address();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let response = Client::connect(address).get("/cgi-bin/alone").unwrap();
                assert_eq!((response.status, text(&response)), (200, "done\n".to_owned()));
            });
        }
    });
    server.finish();
}

#[test]
fn an_answer_is_whole_though_the_disk_is_full() {
    const BYTES: usize = 20_000_000;
    let small_files = ["sh", "-c", "ulimit -f 8192; exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let disk = small_disk(Path::new("/var/tmp"));
    if disk.is_none() {
        skipped("an_answer_is_whole_though_the_disk_is_full", "file systems cannot be mounted here");
    }
    let large = format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nhead -c {BYTES} /dev/zero\n");
    for words in disk.into_iter().chain([small_files]) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let server = program(launch(AMPED, ""), "large", &large).wrapped(&words).start();
        for _ in 0..3 {
            let answer = server.connect().get("/cgi-bin/large");
            assert_eq!(answer.map(|answer| answer.content.len()), Ok(BYTES), "{words:?}");
        }
        server.finish();
    }
}

#[test]
fn the_listing_of_the_manual_lists() {
    let launch = Launch::new(AMPED).file("files/b.txt", "bb").file("files/a&b.txt", "a");
    let launch = program(launch, "list.sh", recipe("CGI", "sh"));
    let lines = recipe("CGI", "toml").replace("/srv/www", &launch.site().display().to_string());
    let server = launch.config(&lines).start();
    let listing = get(&server, "/cgi-bin/list.sh/files");
    assert_eq!((listing.status, listing.field("Content-Type")), (200, Some("text/html; charset=utf-8")));
    let listing = text(&listing);
    assert!(listing.contains("a&amp;b.txt") && listing.contains("b.txt"), "{listing}");
    assert_eq!(get(&server, "/cgi-bin/list.sh/none").status, 404);
    assert_ne!(get(&server, "/cgi-bin/list.sh/../..").status, 200, "no path leads out");
    server.finish();
}
