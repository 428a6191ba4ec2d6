//! Administrators who do not know of each other give every order at once, under a load that looks at every byte. In the
//! end there is one server, with all its sockets.
//!
//! `LAMNA_ORDERS_SECONDS` is how long it lasts.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use lamna_server::config::settings::Architecture;
use rustix::process::{Pid, Signal, kill_process};

use super::load::under_load;
use super::{Line, MIDDLE, SMALL, content, ctl, from_environment, replace_by_link, restore};
use crate::client::{Client, PATIENCE};
use crate::engine::{AMPED, CO_AMPED, Engine, MP};
use crate::server::{Launch, eventually, processes_of};

const ADMINISTRATORS: u64 = 3;
/// What `arch set` takes.
fn architectures() -> Vec<&'static str> {
    Architecture::ALL.into_iter().map(Architecture::name).chain(["auto"]).collect()
}

/// A server at a port and at a Unix socket, with everything that the storm changes.
struct Place {
    address: SocketAddr,
    program: PathBuf,
    config: PathBuf,
    /// What the configuration says when it is sound.
    sound: String,
    socket: PathBuf,
    runtime: PathBuf,
}

impl Place {
    fn start(engine: Engine) -> (Line, Place) {
        let launch = Launch::new(engine).argument("--processes-max=64");
        let directory = launch.directory().to_owned();
        let socket = directory.join("socket");
        let line = Line::start(launch.argument("--listen").argument(&format!("unix:{}", socket.display())));
        let config = directory.join("lamna.toml");
        let sound = fs::read_to_string(&config).unwrap();
        let (address, program, runtime) = (line.server.address(), line.program.clone(), line.runtime());
        (line, Place { address, program, config, sound, socket, runtime })
    }

    /// Changes the configuration as an editor does, which leaves no moment without it.
    fn configure(&self, lines: &str, by: u64) {
        let new = self.config.with_extension(format!("new-{by}"));
        fs::write(&new, format!("{lines}\n{}", self.sound)).unwrap();
        fs::rename(&new, &self.config).unwrap();
    }

    fn ask_by_unix_socket(&self) -> Result<(), String> {
        let stream = UnixStream::connect(&self.socket).map_err(|error| format!("the Unix socket: {error}"))?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client::new(stream);
        for path in [SMALL, MIDDLE, SMALL] {
            if client.get(path)?.content != content(path) {
                return Err(format!("not {path}"));
            }
        }
        Ok(())
    }

    fn control_sockets(&self) -> usize {
        fs::read_dir(&self.runtime).map_or(0, |entries| entries.flatten().count())
    }

    /// The process that answers for the server.
    fn pid(&self) -> Option<Pid> {
        let (_, said) = ctl(&self.runtime, &["--json", "status"]);
        let pid = said.split_once("\"pid\":")?.1.split(',').next()?.parse().ok();
        pid.and_then(Pid::from_raw)
    }

    /// Processes of this server that are not workers of another of them.
    fn mains(&self) -> Vec<i32> {
        let all = processes_of(&self.config);
        all.iter().filter(|(_, parent)| !all.contains_key(parent)).map(|(process, _)| *process).collect()
    }

    /// The one server that there is, when everything has settled.
    fn the_only_server(&self) -> Pid {
        eventually("there is one server, which answers for itself", PATIENCE, || {
            let pid = self.pid()?;
            (self.mains() == [pid.as_raw_nonzero().get()]).then_some(pid)
        })
    }

    fn has_everything(&self) {
        self.ask_by_unix_socket().unwrap();
        assert_eq!(Client::connect(self.address).get(MIDDLE).unwrap().content, content(MIDDLE));
        assert_eq!(self.control_sockets(), 1);
    }

    /// Ends the last process, and looks for what it leaves behind.
    fn end(self, mut line: Line) {
        let last = self.the_only_server();
        kill_process(last, Signal::TERM).unwrap();
        eventually("the last server ends", PATIENCE, || processes_of(&self.config).is_empty().then_some(()));
        assert!(!self.socket.exists() && self.control_sockets() == 0, "nothing is left behind");
        let said = line.server.said();
        assert!(!said.contains("panicked") && !said.contains("could not be handed over"), "{said}");
    }
}

/// What came of an order: whether it may be answered so.
fn is_answered(done: bool, said: &str) -> bool {
    const REFUSALS: [&str; 7] = [
        "the new process has ended before it served",
        "cannot be started",
        "io_uring is refused",
        "an engine with many workers is still handing over",
        "connections at most, and",
        "unknown key",
        "another process is taking over already",
    ];
    done || REFUSALS.iter().any(|refusal| said.contains(refusal))
}

struct Storm<'a> {
    place: &'a Place,
    over: AtomicBool,
    orders: AtomicU64,
    carried_out: AtomicU64,
    failures: Mutex<Vec<String>>,
    program: Mutex<()>,
}

impl Storm<'_> {
    fn fail(&self, failure: String) {
        self.failures.lock().unwrap().push(failure);
    }

    fn administrate(&self, number: u64) {
        let architectures = architectures();
        let mut random = number * 7919 + 12345;
        let mut below = |bound: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % bound as u64) as usize
        };
        while !self.over.load(Relaxed) {
            match below(12) {
                0..=5 => self.order(&["arch", "set", architectures[below(architectures.len())]]),
                6 => {
                    let helpers = format!("helpers_max = {}", 8 + below(8));
                    self.place.configure(&helpers, number);
                    self.order(&["reload"]);
                }
                7 => self.order(&["upgrade"]),
                8 => {
                    self.place.configure("nonsense = 1", number);
                    self.order(&["upgrade"]);
                    self.order(&["reload"]);
                    self.place.configure("", number);
                }
                9 => {
                    let signal = [Signal::USR2, Signal::HUP][below(2)];
                    // It may just have gone.
                    let _ = self.place.pid().map(|pid| kill_process(pid, signal));
                }
                10 => {
                    // One at a time: what takes the program's place is made under one name.
                    let _alone = self.program.lock().unwrap();
                    // No script: its shell would open it by its name, and read as a script what has taken its place by
                    // then.
                    replace_by_link(&self.place.program, Path::new("/bin/false"));
                    self.order(&["upgrade"]);
                    restore(&self.place.program);
                }
                _ => self.order(&["set", "--cache-policy", ["lru", "sieve"][below(2)]]),
            }
            self.orders.fetch_add(1, Relaxed);
            thread::sleep(Duration::from_millis(below(150) as u64));
        }
    }

    fn order(&self, words: &[&str]) {
        let (done, said) = ctl(&self.place.runtime, words);
        self.carried_out.fetch_add(u64::from(done), Relaxed);
        if !is_answered(done, &said) {
            self.fail(format!("{words:?}: {said}"));
        }
    }
}

#[test]
fn orders_of_several_administrators_at_once_leave_one_server_and_lose_nothing() {
    let seconds = from_environment("LAMNA_ORDERS_SECONDS", 6);
    let (line, place) = Place::start(AMPED);
    let storm = Storm {
        place: &place,
        over: AtomicBool::new(false),
        orders: AtomicU64::new(0),
        carried_out: AtomicU64::new(0),
        failures: Mutex::default(),
        program: Mutex::default(),
    };
    under_load(place.address, || {
        thread::scope(|scope| {
            for number in 1..=ADMINISTRATORS {
                let storm = &storm;
                scope.spawn(move || storm.administrate(number));
            }
            scope.spawn(|| {
                while !storm.over.load(Relaxed) {
                    place.ask_by_unix_socket().unwrap_or_else(|failure| storm.fail(failure));
                    thread::sleep(Duration::from_millis(10));
                }
            });
            let end = Instant::now() + Duration::from_secs(seconds as u64);
            while Instant::now() < end && storm.failures.lock().unwrap().is_empty() {
                thread::sleep(Duration::from_millis(20));
            }
            storm.over.store(true, Relaxed);
        });
    });
    let failures = storm.failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures, the first: {:?}", failures.len(), &failures[..failures.len().min(5)]);
    println!("{} orders, {} carried out", storm.orders.into_inner(), storm.carried_out.into_inner());
    place.the_only_server();
    place.has_everything();
    place.end(line);
}

#[test]
fn orders_at_the_same_moment_to_a_server_of_processes_leave_one_server() {
    for engine in [MP, CO_AMPED] {
        let (line, place) = Place::start(engine);
        for round in 0..4 {
            let names = [["amped", "sped"], ["mp", "co-amped"], ["co-amped", "mp"], ["mp", "co-amped"]][round];
            thread::scope(|scope| {
                for name in names {
                    let runtime = &place.runtime;
                    scope.spawn(move || {
                        let (done, said) = ctl(runtime, &["arch", "set", name]);
                        assert!(done, "{said}");
                    });
                }
            });
            place.the_only_server();
            place.has_everything();
        }
        place.end(line);
    }
}

#[test]
fn an_upgrade_that_fails_leaves_every_socket_where_it_is() {
    for engine in [AMPED, CO_AMPED, MP] {
        let (mut line, place) = Place::start(engine);
        for nonsense in ["nonsense = 1", "= syntax =", "cache_bytes = \"1\""] {
            place.configure(nonsense, 0);
            line.signal(Signal::USR2);
            let said = line.server.wait_to_hear("not upgraded, going on as before: the new process has ended");
            assert!(said.contains("(exit status: 78)"), "{said}");
            place.has_everything();
            let (done, said) = line.ctl(&["upgrade"]);
            assert!(!done && said.contains("(exit status: 78)"), "{said}");
            place.has_everything();
        }
        // A process that serves, and has not been confirmed, has no files either.
        place.configure("", 0);
        let (done, said) = line.ctl(&["upgrade"]);
        assert!(done, "{said}");
        place.the_only_server();
        place.has_everything();
        place.end(line);
    }
}
