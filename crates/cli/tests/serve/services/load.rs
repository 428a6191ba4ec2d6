//! Replacements under full load: every answer is of one whole chain, and none is lost.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use super::{Application, SITE, content, expected, filters, native, say, service, wasm};
use crate::client::{Client, ENDED};
use crate::control::order;
use crate::engine::{AMPED, Engine, for_engines, names_of_one_process};
use crate::server::Launch;

for_engines!(all replacements_are_tried_with_every_architecture: [
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    every_answer_is_of_one_whole_chain,
    every_answer_is_of_one_whole_shared_object,
    every_answer_is_of_one_whole_component,
]);

const PAIRS: usize = 3_000;
const CLIENTS: usize = 4;

fn replacements(default: usize) -> usize {
    std::env::var("LAMNA_REPLACEMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn every_answer_is_of_one_whole_chain(engine: Engine) {
    replace_under_load(Launch::new(engine), &CHAIN, replacements(8), &[], Ends::Never);
}

fn every_answer_is_of_one_whole_shared_object(engine: Engine) {
    const TEST: &str = "services::load::every_answer_is_of_one_whole_shared_object";
    let launch = Launch::new(engine);
    if OBJECTS.iter().all(|letter| native::mark(TEST, launch.directory(), letter).is_some()) {
        replace_under_load(launch, &OBJECT, replacements(8), &[], Ends::Never);
    }
}

fn every_answer_is_of_one_whole_component(engine: Engine) {
    replace_components_under_load(engine, replacements(4), &[]);
}

#[test]
fn every_answer_is_of_one_whole_component_while_engines_of_one_process_change() {
    replace_components_under_load(AMPED, replacements(8), &names_of_one_process());
}

fn replace_components_under_load(engine: Engine, replacements: usize, engines: &[&str]) {
    let launch = Launch::new(engine);
    if wasm::component("services::load::every_answer_is_of_one_whole_component", launch.directory(), "mark", "")
        .is_some()
    {
        replace_under_load(launch, &COMPONENT, replacements, engines, Ends::Never);
    }
}

#[test]
fn every_answer_is_of_one_whole_chain_while_engines_of_one_process_change() {
    replace_under_load(Launch::new(AMPED), &CHAIN, replacements(24), &names_of_one_process(), Ends::Never);
}

#[test]
fn every_answer_is_of_one_whole_chain_while_engines_of_processes_take_over_and_give_back() {
    let engines = ["co-amped", "proactor", "mp", "amped"];
    replace_under_load(Launch::new(AMPED), &CHAIN, replacements(12), &engines, Ends::BetweenAnswers);
}

/// When connections may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Never,
    /// Those on which an application is asked stay with the process that asks it, which closes them when it ends: what
    /// has begun comes whole.
    BetweenAnswers,
}

/// What is replaced: a service `words` that puts a word in two places of each line.
struct Replaced {
    /// The service of the first word.
    service: fn(&Path) -> String,
    content: fn() -> String,
    /// The word of each replacement.
    word: fn(usize) -> String,
    /// What `lamna ctl service replace` is told, that it be this word.
    told: fn(&Path, &str) -> Vec<String>,
    is_word: fn(&str) -> bool,
}

/// One filter for each of both places: an answer with two words is of two chains.
const CHAIN: Replaced = Replaced {
    service: |_| service("word-0"),
    content: || content(PAIRS),
    word: |number| format!("word-{number}"),
    told: |_, word| vec!["--filters".to_owned(), filters(word)],
    is_word: |word| word.starts_with("word-"),
};

/// A component, whose answers come in several pieces: one with two letters is of two components.
const COMPONENT: Replaced = Replaced {
    service: |directory| wasm::service_of("words", &directory.join("mark.wasm"), "letter = \"a\""),
    content: || wasm::content_of(PAIRS),
    word: |number| char::from(b'a' + (number % 26) as u8).to_string(),
    told: |directory, letter| {
        let file = directory.join("mark.wasm").display().to_string();
        vec!["--wasm".to_owned(), file, "--parameter".to_owned(), format!("letter={letter}")]
    },
    is_word: |word| word.len() == 1 && word != "#",
};

/// The names of two shared objects, and what each puts in the place of `#`.
const OBJECTS: [&str; 2] = ["a", "b"];

/// Shared objects in turn, each of which is unmapped when the last stream that uses it has ended.
const OBJECT: Replaced = Replaced {
    service: |directory| {
        let object = directory.join("a.so");
        format!("native_services = true\n[[service]]\nname = \"words\"\nnative = \"{}\"\n", object.display())
    },
    word: |number| OBJECTS[number % OBJECTS.len()].to_owned(),
    told: |directory, name| vec!["--native".to_owned(), directory.join(format!("{name}.so")).display().to_string()],
    ..COMPONENT
};

/// Clients that check every byte, and words that are known to them.
struct Load {
    address: SocketAddr,
    is_word: fn(&str) -> bool,
    ends: Ends,
    over: AtomicBool,
    answers: AtomicU64,
    faults: Mutex<Vec<String>>,
}

/// Replaces so often, and has an engine of `engines` take over after each third replacement.
fn replace_under_load(launch: Launch, replaced: &Replaced, replacements: usize, engines: &[&str], ends: Ends) {
    let Replaced { service, content, word, told, is_word } = replaced;
    let application = Application::start(content());
    let route = format!(
        "[[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{}\"\nfilters = [\"words\"]\n",
        application.address
    );
    let config = format!("{}{SITE}{route}", service(launch.directory()));
    let mut server = launch.file("a.txt", content()).config(&config).start();
    let mut engines = engines.iter().cycle();
    let load = Load {
        address: server.address(),
        is_word: *is_word,
        ends,
        over: AtomicBool::new(false),
        answers: AtomicU64::new(0),
        faults: Mutex::default(),
    };
    thread::scope(|scope| {
        for index in 0..CLIENTS {
            let load = &load;
            scope.spawn(move || load.ask(if index % 2 == 0 { "/a.txt" } else { "/app/x" }));
        }
        // Clients go on until they are told, also if this thread panics.
        let over = TellAtEnd(&load.over);
        for number in 1..=replacements {
            let before = load.answers.load(Relaxed);
            let told = told(server.directory(), &word(number));
            let told: Vec<&str> = told.iter().map(String::as_str).collect();
            say(&server, &[&["replace", "words"], &told[..]].concat());
            if number % 3 == 0
                && let Some(name) = engines.next()
            {
                order(&server, &["arch", "set", name]).unwrap_or_else(|said| panic!("{name}: {said}"));
            }
            // Each meets some answers.
            while load.answers.load(Relaxed) < before + CLIENTS as u64 && load.is_well() {
                thread::yield_now();
            }
        }
        drop(over);
    });
    let (answers, faults) = (load.answers.into_inner(), load.faults.into_inner().expect("nobody panics with it"));
    assert!(faults.is_empty(), "{faults:#?}\n{}", server.said());
    eprintln!("{replacements} replacements, {answers} answers, each of one whole chain");
    let last = word(replacements);
    super::await_answer(&server, "/a.txt", 200, &expected(&last, PAIRS));
    super::await_answer(&server, "/app/x", 200, &expected(&last, PAIRS));
    // The process that was started may have ended long since.
    order(&server, &["drain"]).expect("who serves now can end");
}

impl Load {
    /// Asks over one connection until it is over.
    fn ask(&self, path: &str) {
        let mut client = Client::connect(self.address);
        while !self.over.load(Relaxed) && self.is_well() {
            let answer = client.get(path).and_then(|response| {
                let text = String::from_utf8_lossy(&response.content).into_owned();
                let word = text.split(' ').next().unwrap_or_default();
                let is_whole = response.status == 200 && (self.is_word)(word) && text == expected(word, PAIRS);
                if is_whole {
                    Ok(())
                } else {
                    Err(format!("status {}, {} bytes that begin with {word:?}", response.status, text.len()))
                }
            });
            match answer {
                Ok(()) => _ = self.answers.fetch_add(1, Relaxed),
                // Nothing of the answer has come: it is asked for again.
                Err(fault) if fault == ENDED && self.ends == Ends::BetweenAnswers => {
                    client = Client::connect(self.address);
                }
                Err(fault) => {
                    return self.faults.lock().expect("nobody panics with it").push(format!("{path}: {fault}"));
                }
            }
        }
    }

    fn is_well(&self) -> bool {
        self.faults.lock().expect("nobody panics with it").is_empty()
    }
}

/// Says that it is over when it goes, also if a test fails.
pub(super) struct TellAtEnd<'a>(pub(super) &'a AtomicBool);

impl Drop for TellAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
