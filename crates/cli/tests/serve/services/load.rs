//! Replacements under full load: every answer is of one whole chain, and none is lost.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use super::{Application, SITE, content, expected, filters, say, service};
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
]);

const PAIRS: usize = 3_000;
const CLIENTS: usize = 4;

fn replacements(default: usize) -> usize {
    std::env::var("LAMNA_REPLACEMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn every_answer_is_of_one_whole_chain(engine: Engine) {
    replace_under_load(engine, replacements(8), &[], Ends::Never);
}

#[test]
fn every_answer_is_of_one_whole_chain_while_engines_of_one_process_change() {
    replace_under_load(AMPED, replacements(24), &names_of_one_process(), Ends::Never);
}

#[test]
fn every_answer_is_of_one_whole_chain_while_engines_of_processes_take_over_and_give_back() {
    replace_under_load(AMPED, replacements(12), &["co-amped", "proactor", "mp", "amped"], Ends::BetweenAnswers);
}

/// When connections may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Never,
    /// Those on which an application is asked stay with the process that asks it, which closes them when it ends: what has begun comes whole.
    BetweenAnswers,
}

/// Clients that check every byte, and words that are known to them.
struct Load {
    address: SocketAddr,
    ends: Ends,
    over: AtomicBool,
    answers: AtomicU64,
    faults: Mutex<Vec<String>>,
}

/// Replaces so often, and has an engine of `engines` take over after each third replacement.
fn replace_under_load(engine: Engine, replacements: usize, engines: &[&str], ends: Ends) {
    let application = Application::start(content(PAIRS));
    let route = format!(
        "[[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{}\"\nfilters = [\"words\"]\n",
        application.address
    );
    let launch = Launch::new(engine).config(&format!("{}{SITE}{route}", service("word-0")));
    let mut server = launch.file("a.txt", content(PAIRS)).start();
    let mut engines = engines.iter().cycle();
    let load = Load {
        address: server.address(),
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
        let told = TellAtEnd(&load.over);
        for number in 1..=replacements {
            let before = load.answers.load(Relaxed);
            say(&server, &["replace", "words", "--filters", &filters(&format!("word-{number}"))]);
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
        drop(told);
    });
    let (answers, faults) = (load.answers.into_inner(), load.faults.into_inner().expect("nobody panics with it"));
    assert!(faults.is_empty(), "{faults:#?}\n{}", server.said());
    eprintln!("{replacements} replacements, {answers} answers, each of one whole chain");
    let last = format!("word-{replacements}");
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
                let is_whole = response.status == 200 && word.starts_with("word-") && text == expected(word, PAIRS);
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

struct TellAtEnd<'a>(&'a AtomicBool);

impl Drop for TellAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
