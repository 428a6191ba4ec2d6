//! Services: filters that are added, replaced, suspended and removed while the server serves, in every engine and under
//! load.
//!
//! Owns: an application whose answers take their time ([`Application`]), and shared objects and components built for
//! these tests. `LAMNA_REPLACEMENTS` is how many replacements each test of load makes:
//! `LAMNA_REPLACEMENTS=500 cargo test -p lamna --features wasm --test serve services:: -- --nocapture`.

mod load;
mod native;
mod others;
mod wasm;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::client::{PATIENCE, Response};
use crate::control::{ctl, order, runtime};
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!(all services_are_tried_with_every_architecture: [
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    a_service_is_replaced_suspended_resumed_removed_and_added,
    a_reload_replaces_and_removes,
]);

const SITE: &str = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*.txt\"\nfilters = [\"words\"]\n";

/// A service that puts `word` in the place of both texts of [`content`].
fn service(word: &str) -> String {
    format!(
        "[[service]]\nname = \"words\"\nfilters = {}\n",
        filters(word).replace("\": ", "\" = ").replace("\"name\"", "name")
    )
    .replace("\"from\"", "from")
    .replace("\"to\"", "to")
}

/// The same as `lamna ctl service replace --filters` takes it. One filter for each text: an answer with two words is of
/// two chains.
fn filters(word: &str) -> String {
    format!(
        "[{{\"name\": \"substitute\", \"from\": \"{{one}}\", \"to\": \"{word}\"}}, {{\"name\": \"substitute\", \"from\": \"{{two}}\", \"to\": \"{word}\"}}]"
    )
}

fn content(pairs: usize) -> String {
    "{one} and {two}\n".repeat(pairs)
}

fn expected(word: &str, pairs: usize) -> String {
    format!("{word} and {word}\n").repeat(pairs)
}

fn get(server: &Server, path: &str) -> Response {
    server.connect().get(path).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

/// Worker processes learn of an order a moment after it was carried out.
fn await_answer(server: &Server, path: &str, status: u16, text: &str) {
    eventually(&format!("{path} is {status} with {text:?}"), PATIENCE, || {
        let response = get(server, path);
        (response.status == status && String::from_utf8_lossy(&response.content).contains(text)).then_some(())
    });
}

fn say(server: &Server, arguments: &[&str]) -> String {
    let words = [&["service"], arguments].concat();
    order(server, &words).unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
}

fn refused(server: &Server, arguments: &[&str]) -> String {
    let words = [&["service"], arguments].concat();
    order(server, &words).expect_err("it makes no sense")
}

fn a_service_is_replaced_suspended_resumed_removed_and_added(engine: Engine) {
    let application = Application::start(content(3));
    let route = format!(
        "[[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{}\"\nfilters = [\"words\"]\n",
        application.address
    );
    let launch = Launch::new(engine).config(&format!("{}{SITE}{route}", service("first")));
    let server = launch.file("a.txt", content(2)).file("b.bin", content(1)).start();
    let is_everywhere = |word: &str| {
        await_answer(&server, "/a.txt", 200, &expected(word, 2));
        await_answer(&server, "/app/x", 200, &expected(word, 3));
    };
    let is_nowhere = || {
        await_answer(&server, "/a.txt", 503, "not available");
        await_answer(&server, "/app/x", 503, "not available");
        assert_eq!(get(&server, "/b.bin").content, content(1).as_bytes());
    };
    is_everywhere("first");
    let told = say(&server, &["replace", "words", "--filters", &filters("second")]);
    assert!(told.contains("`words` is in use") && told.contains("generation 2"), "{told}");
    is_everywhere("second");
    say(&server, &["suspend", "words"]);
    is_nowhere();
    let info = say(&server, &["info", "words"]);
    assert!(info.contains("suspended") && info.contains("be resumed, replaced and removed"), "{info}");
    assert!(refused(&server, &["suspend", "words"]).contains("is suspended already"));
    say(&server, &["resume", "words"]);
    is_everywhere("second");
    say(&server, &["remove", "words"]);
    is_nowhere();
    assert!(say(&server, &["info", "words"]).contains("absent"));
    assert!(refused(&server, &["replace", "words"]).contains("nothing has been added"));
    say(&server, &["add", "words", "--filters", &filters("third"), "--on-failure", "pass"]);
    is_everywhere("third");
    say(&server, &["suspend", "words"]);
    await_answer(&server, "/a.txt", 200, &content(2));
    await_answer(&server, "/app/x", 200, &content(3));
    let list = say(&server, &["list"]);
    for part in ["words", "filter", "gateway", "cache-policy", "listener", "suspended"] {
        assert!(list.contains(part), "{part} in {list}");
    }
    assert!(refused(&server, &["suspend", "cache"]).contains("lamna ctl set --cache-policy"));
    assert!(refused(&server, &["info", "nothing"]).contains("there is no service `nothing`"));
    assert!(refused(&server, &["replace", "words", "--native", "/nothing.so"]).contains("native_services = true"));
}

fn a_reload_replaces_and_removes(engine: Engine) {
    let launch = Launch::new(engine).config(&format!("{}{SITE}", service("first")));
    let server = launch.file("a.txt", content(2)).start();
    await_answer(&server, "/a.txt", 200, &expected("first", 2));
    let config = server.directory().join("lamna.toml");
    let before = std::fs::read_to_string(&config).expect("the server was started with it");
    let write = |text: &str| {
        std::fs::write(&config, text).expect("it can be written");
        let told = ctl(&runtime(&server), &["reload"]);
        assert_eq!(told.code, Some(0), "{told:?}");
    };
    write(&before.replace(&service("first"), &service("second")));
    await_answer(&server, "/a.txt", 200, &expected("second", 2));
    write(&before.replace(&service("first"), "").replace("filters = [\"words\"]\n", ""));
    await_answer(&server, "/a.txt", 200, &content(2));
    eventually("the service is no more", PATIENCE, || (!say(&server, &["list"]).contains("words")).then_some(()));
    write(&before);
    await_answer(&server, "/a.txt", 200, &expected("first", 2));
    // The process that was started may have ended long since.
    order(&server, &["drain"]).expect("who serves now can end");
}

/// An application that answers every request with the same text, in parts with pauses between them.
struct Application {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Application {
    fn start(content: String) -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it has an address");
        let over = Arc::new(AtomicBool::new(false));
        let (is_over, content): (_, Arc<str>) = (over.clone(), content.into());
        thread::spawn(move || {
            for stream in listener.incoming().flatten().take_while(|_| !is_over.load(Relaxed)) {
                let content = content.clone();
                // Its end is that of the connection: nothing that it says is of interest.
                thread::spawn(move || drop(converse(stream, &content)));
            }
        });
        Application { address, over }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        // Wakes who waits for a connection.
        drop(TcpStream::connect(self.address));
    }
}

fn converse(stream: TcpStream, content: &str) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line != "\r\n" {
            continue;
        }
        let stream = lines.get_mut();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", content.len());
        stream.write_all(head.as_bytes())?;
        for part in content.as_bytes().chunks(content.len().div_ceil(8).max(1)) {
            stream.write_all(part)?;
            thread::yield_now();
        }
    }
}
