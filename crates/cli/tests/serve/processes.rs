//! Worker processes: what becomes of the server, its clients and its figures when workers or their parent die.
//!
//! Kills children of its own server only, by their process id. `LAMNA_KILL_SECONDS` makes the killing test longer; with
//! `--nocapture` it says how long the server took to be whole again (results/engines/kill.md).

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, PATIENCE};
use crate::engine::{AMPED, AMPED_WITH_HELPER_PROCESSES, CO_AMPED, Engine, MP, MP_OF_TWO, for_engines};
use crate::script::cool;
use crate::server::{Launch, Server, eventually};
use crate::tree::pattern;

for_engines!([co_amped = CO_AMPED, mp = MP] => [
    killing_workers_costs_only_the_requests_in_their_hands,
    a_dead_worker_is_replaced,
    a_dead_worker_is_replaced_when_nobody_reads_what_the_server_says,
    workers_do_not_outlive_their_parent,
    the_counters_of_all_workers_add_up,
    the_log_of_all_workers_is_reopened,
    terminated_workers_finish_what_has_begun,
    a_worker_that_is_told_to_go_finishes_and_is_replaced,
    workers_that_cannot_begin_are_an_error_with_the_reason,
]);

/// How often a worker is killed.
const KILL_INTERVAL: Duration = Duration::from_millis(200);
/// How many clients ask all the time.
const CLIENTS: u64 = 3;

fn killing_workers_costs_only_the_requests_in_their_hands(engine: Engine) {
    let seconds = std::env::var("LAMNA_KILL_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let server = hello(engine);
    let (workers, address) = (workers(&server).len(), server.address());
    let (over, asked, lost) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let recoveries = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    asked.fetch_add(1, Relaxed);
                    lost.fetch_add(u64::from(!ask(address)), Relaxed);
                }
            });
        }
        let recoveries = kill_for(&server, Duration::from_secs(seconds));
        over.store(true, Relaxed);
        recoveries
    });
    // Each client has one request at a time, so that is what one process can have in its hands.
    let (kills, asked, lost) = (recoveries.len() as u64, asked.into_inner(), lost.into_inner());
    println!("{}: {kills} kills, {lost} of {asked} requests lost, {}", engine.architecture, told(recoveries));
    assert!(lost <= kills * CLIENTS, "{lost} of {asked} requests were lost with {kills} workers");
    assert!(asked > kills, "{asked} requests were made");
    is_whole(&server, workers);
    server.finish();
}

/// Kills workers at random. Returns how long after each there were as many again that serve.
fn kill_for(server: &Server, time: Duration) -> Vec<Duration> {
    let count = workers(server).len();
    let end = Instant::now() + time;
    let mut recoveries = Vec::new();
    while Instant::now() < end {
        let workers = workers(server);
        // As random as the scheduler makes the clock.
        let chance = Instant::now().duration_since(end - time).subsec_nanos() as usize;
        let worker = *workers.get(chance % workers.len().max(1)).expect("the server is whole");
        let killed = Instant::now();
        kill(worker, Signal::KILL);
        recoveries.push(recovery(server, worker, count, killed));
        thread::sleep(KILL_INTERVAL.saturating_sub(killed.elapsed()));
    }
    recoveries
}

/// How long after `killed` the one that was killed is gone and `count` others serve.
fn recovery(server: &Server, victim: Pid, count: usize, killed: Instant) -> Duration {
    eventually("there are as many workers as before", PATIENCE, || {
        let workers = workers(server);
        let serving = workers.iter().filter(|worker| is_serving(**worker)).count();
        (!workers.contains(&victim) && serving >= count).then(|| killed.elapsed())
    })
}

/// Whether a worker has come to wait for connections: what it waits with is made last.
fn is_serving(worker: Pid) -> bool {
    let links = fs::read_dir(format!("/proc/{}/fd", worker.as_raw_nonzero())).into_iter().flatten().flatten();
    links.filter_map(|link| fs::read_link(link.path()).ok()).any(|to| to.to_string_lossy().ends_with("[eventpoll]"))
}

/// In milliseconds.
fn told(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: f64| times.get(((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1)));
    let [median, p99, most] = [0.5, 0.99, 1.0].map(|part| at(part).map_or(0.0, |time| time.as_secs_f64() * 1000.0));
    format!("whole again after {median:.1} ms (median), {p99:.1} ms (p99), {most:.1} ms (most)")
}

/// Whether a request on a connection of its own is answered. A connection that is refused fails the test: the listening
/// socket must outlive every worker.
fn ask(address: SocketAddr) -> bool {
    Client::connect(address).get("/hello.txt").is_ok_and(|response| response.content == b"hello\n")
}

fn a_dead_worker_is_replaced(engine: Engine) {
    let mut server = hello(engine);
    let before = workers(&server);
    let victim = *before.first().expect("there are workers");
    kill(victim, Signal::KILL);
    server.wait_to_hear(&format!("worker process {} was killed by signal 9", victim.as_raw_nonzero()));
    is_whole(&server, before.len());
    assert!(!workers(&server).contains(&victim));
    assert!(ask(server.address()));
    server.finish();
}

fn a_dead_worker_is_replaced_when_nobody_reads_what_the_server_says(engine: Engine) {
    let mut server = hello(engine);
    let count = workers(&server).len();
    server.stop_listening(|server| server.signal(Signal::HUP));
    let victim = workers(&server)[0];
    kill(victim, Signal::KILL);
    eventually("a worker that was killed has gone", PATIENCE, || is_gone(victim).then_some(()));
    is_whole(&server, count);
    ask_all(&server);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

fn workers_do_not_outlive_their_parent(engine: Engine) {
    let server = hello(engine);
    let workers = workers(&server);
    server.signal(Signal::KILL);
    for worker in workers {
        eventually("a worker ends with its parent", PATIENCE, || is_gone(worker).then_some(()));
    }
}

fn the_counters_of_all_workers_add_up(engine: Engine) {
    let server = hello(engine);
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let mut client = server.connect();
            assert!((0..5).all(|_| client.get("/hello.txt").is_ok()));
            client
        })
        .collect();
    drop(clients);
    let said = server.finish();
    assert!(said.contains("served 200 requests on 40 connections"), "{said}");
    assert_eq!(said.matches("lamna: serving").count(), 1, "{said}");
}

fn the_log_of_all_workers_is_reopened(engine: Engine) {
    let launch = Launch::new(engine).file("hello.txt", "hello\n");
    let (log, old) = (launch.directory().join("access.log"), launch.directory().join("access.log.1"));
    let server = launch.argument("--log").argument(&log.display().to_string()).start();
    ask_all(&server);
    fs::rename(&log, &old).unwrap();
    server.signal(Signal::HUP);
    eventually("the log is opened again", PATIENCE, || log.exists().then_some(()));
    // A worker that is slow to hear of it goes on in the old file for a moment; in the end all have heard.
    eventually("lines go to the new file only", PATIENCE, || {
        let (before, before_old) = (lines(&log), lines(&old));
        ask_all(&server);
        thread::sleep(Duration::from_millis(700));
        (lines(&log) >= before + 40 && lines(&old) == before_old).then_some(())
    });
    server.finish();
}

fn a_worker_that_is_told_to_go_finishes_and_is_replaced(engine: Engine) {
    let mut server = hello(engine);
    let before = workers(&server);
    let leaver = *before.first().expect("there are workers");
    kill(leaver, Signal::TERM);
    server.wait_to_hear(&format!("worker process {} has ended; replacing it", leaver.as_raw_nonzero()));
    is_whole(&server, before.len());
    server.finish();
}

fn terminated_workers_finish_what_has_begun(engine: Engine) {
    let large = pattern(20_000_000, 1);
    let mut server = Launch::new(engine).file("hello.txt", "hello\n").file("large.bin", &large).start();
    let (mut downloading, mut asking, mut idle) = (server.connect(), server.connect(), server.connect());
    for client in [&mut downloading, &mut asking, &mut idle] {
        assert!(client.get("/hello.txt").is_ok(), "a worker has the connection");
    }
    downloading.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(downloading.receive_head().unwrap().status, 200);
    asking.send(b"GET /hello.txt HTTP/1.1\r\n");
    server.signal(Signal::TERM);
    server.wait_to_hear("finishing what has begun");
    idle.expect_end().unwrap();
    asking.send(b"Host: a\r\n\r\n");
    // The order may reach its worker before or after the answer, which may or may not be the last that it says.
    assert_eq!(asking.receive(true).unwrap().content, b"hello\n");
    asking.expect_end().unwrap();
    assert!(downloading.receive_rest() == large);
    assert!(server.wait().success());
    assert!(std::net::TcpStream::connect(server.address()).is_err(), "nobody listens any more");
}

fn workers_that_cannot_begin_are_an_error_with_the_reason(engine: Engine) {
    let launch = Launch::new(engine);
    // Only who opens it finds out that a socket is no file.
    let path = launch.directory().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let path = path.display().to_string();
    let (status, said) = launch.argument("--log").argument(&path).fail();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(&path), "{said}");
    assert!(!said.contains("lamna: serving"), "{said}");
}

#[test]
fn mp_has_as_many_processes_as_connections_and_fewer_afterwards() {
    let mut server = Launch::new(MP).file("hello.txt", "hello\n").argument("--processes-max=12").start();
    let mut clients: Vec<_> = (0..12).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert!(client.get("/hello.txt").is_ok());
    }
    assert_eq!(workers(&server).len(), 12);
    let mut waiting = server.connect();
    waiting.send(b"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    drop(clients);
    assert!(waiting.receive(true).is_ok(), "who waited for a process gets one");
    drop(waiting);
    eventually("surplus processes go", PATIENCE, || (workers(&server).len() == 4).then_some(()));
    assert!(!server.said().contains("replacing"), "those that go are not missed");
    server.finish();
}

#[test]
fn connections_that_wait_for_a_process_when_the_server_is_terminated_are_answered() {
    let mut server = Launch::new(MP_OF_TWO).file("hello.txt", "hello\n").start();
    let before: Vec<_> = workers(&server).into_iter().map(|worker| (worker, sockets(worker))).collect();
    let mut busy: Vec<_> = (0..2).map(|_| server.connect()).collect();
    busy.iter_mut().for_each(|client| client.send(b"GET /hello.txt HTTP/1.1\r\n"));
    eventually("both processes have a connection", PATIENCE, || {
        before.iter().all(|(worker, idle)| sockets(*worker) > *idle).then_some(())
    });
    let mut waiting: Vec<_> = (0..6).map(|_| server.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send(b"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"));
    server.signal(Signal::TERM);
    server.wait_to_hear("finishing what has begun");
    for client in &mut busy {
        client.send(b"Host: a\r\n\r\n");
    }
    for client in busy.iter_mut().chain(&mut waiting) {
        assert_eq!(client.receive(true).unwrap().content, b"hello\n");
    }
    assert!(server.wait().success());
}

#[test]
fn connections_are_spread_evenly_over_workers() {
    let engine = Engine { arguments: &["--workers", "4"], ..CO_AMPED };
    let server = hello(engine);
    let before: Vec<_> = workers(&server).into_iter().map(|worker| (worker, sockets(worker))).collect();
    let mut clients: Vec<_> = (0..400).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|client| client.get("/hello.txt").is_ok()));
    let spread: Vec<_> = before.iter().map(|(worker, before)| sockets(*worker) - before).collect();
    assert!(spread.iter().all(|connections| (80..=120).contains(connections)), "{spread:?}");
    server.finish();
}

#[test]
fn a_stalled_worker_strands_nobody() {
    let server = hello(CO_AMPED);
    let stalled = *workers(&server).first().expect("there are workers");
    stop(stalled);
    let mut clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let answered = clients.iter_mut().filter_map(|client| client.receive(true).ok()).count();
    kill(stalled, Signal::CONT);
    assert_eq!(answered, 100);
    server.finish();
}

#[test]
fn helper_processes_are_asked_and_end_with_the_server() {
    let large = pattern(5_000_000, 1);
    let server = Launch::new(AMPED_WITH_HELPER_PROCESSES).file("large.bin", &large).argument("--account").start();
    cool(&server.site().join("large.bin"));
    assert!(server.connect().get("/large.bin").unwrap().content == large);
    let nursery = *workers(&server).first().expect("the nursery");
    let helpers = children(nursery);
    let said = server.finish();
    assert!(!said.contains("helper jobs: 0"), "{said}");
    for process in helpers.into_iter().chain([nursery]) {
        eventually("helpers end with the server", PATIENCE, || is_gone(process).then_some(()));
    }
}

#[test]
fn a_helper_that_is_killed_costs_nothing() {
    let large = pattern(5_000_000, 1);
    let server = Launch::new(AMPED_WITH_HELPER_PROCESSES).file("large.bin", &large).start();
    let nursery = *workers(&server).first().expect("the nursery");
    for _ in 0..5 {
        cool(&server.site().join("large.bin"));
        let mut client = server.connect();
        client.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        children(nursery).into_iter().for_each(|helper| kill(helper, Signal::KILL));
        assert!(client.receive(true).unwrap().content == large);
    }
    kill(nursery, Signal::KILL);
    cool(&server.site().join("large.bin"));
    assert!(server.connect().get("/large.bin").unwrap().content == large);
    server.finish();
}

#[test]
fn helpers_that_are_stopped_are_replaced_and_keep_nobody_else_waiting() {
    let large = pattern(5_000_000, 1);
    let server =
        Launch::new(AMPED_WITH_HELPER_PROCESSES).file("large.bin", &large).file("hello.txt", "hello\n").start();
    let nursery = *workers(&server).first().expect("the nursery");
    assert!(server.connect().get("/hello.txt").is_ok());
    cool(&server.site().join("large.bin"));
    assert!(server.connect().get("/large.bin").unwrap().content == large);
    let stopped = children(nursery);
    assert!(!stopped.is_empty(), "a helper has read the file");
    stopped.iter().for_each(|helper| stop(*helper));
    cool(&server.site().join("large.bin"));
    let mut client = server.connect();
    client.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(server.connect().get("/hello.txt").unwrap().content, b"hello\n");
    assert!(client.receive(true).unwrap().content == large);
    for helper in stopped {
        let stat = format!("/proc/{}/stat", helper.as_raw_nonzero());
        // Its parent may not have asked for its status yet.
        let has_ended = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
        eventually("it is killed", PATIENCE, || has_ended().then_some(()));
    }
    server.finish();
}

#[test]
fn a_file_that_no_helper_looks_up_in_time_is_answered_503() {
    let server = Launch::new(AMPED_WITH_HELPER_PROCESSES).file("cold.txt", "cold\n").start();
    let nursery = *workers(&server).first().expect("the nursery");
    stop(nursery);
    cool(&server.site().join("cold.txt"));
    let status = server.connect().get("/cold.txt").unwrap().status;
    kill(nursery, Signal::CONT);
    assert_eq!(status, 503);
    assert_eq!(server.connect().get("/cold.txt").unwrap().content, b"cold\n");
    server.finish();
}

#[test]
fn amped_with_threads_has_no_children() {
    let server = hello(AMPED);
    assert!(workers(&server).is_empty());
    server.finish();
}

fn hello(engine: Engine) -> Server {
    Launch::new(engine).file("hello.txt", "hello\n").start()
}

/// So many requests that every worker answers some, on connections of their own.
fn ask_all(server: &Server) {
    let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|client| client.get("/hello.txt").is_ok()));
}

/// Waits until there are so many workers.
fn is_whole(server: &Server, count: usize) {
    eventually("there are as many workers as before", PATIENCE, || (workers(server).len() >= count).then_some(()));
}

fn workers(server: &Server) -> Vec<Pid> {
    children(server.pid())
}

/// The children of a process that have not ended (proc_pid_task_children(5) needs a kernel option; this does not).
fn children(parent: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").expect("there is a /proc").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(Pid::from_raw).filter(|process| parent_of(*process) == Some(parent)).collect()
}

/// The parent of a process that has not ended.
fn parent_of(process: Pid) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = status.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then(|| Pid::from_raw(parent))?
}

pub(crate) fn is_gone(process: Pid) -> bool {
    parent_of(process).is_none()
}

fn sockets(process: Pid) -> usize {
    let links = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).expect("our own child").flatten();
    links
        .filter_map(|link| fs::read_link(link.path()).ok())
        .filter(|to| to.to_string_lossy().starts_with("socket"))
        .count()
}

fn lines(log: &std::path::Path) -> usize {
    fs::read_to_string(log).map_or(0, |text| text.lines().count())
}

/// Stops a process. The signal alone does not: a thread that it has not reached yet may still take a connection.
pub(crate) fn stop(process: Pid) {
    kill(process, Signal::STOP);
    let is_stopped = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    };
    eventually("all threads of a process stop", PATIENCE, || {
        let mut tasks = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).expect("our own child");
        tasks.all(|task| task.is_ok_and(is_stopped)).then_some(())
    });
}

/// A process that ended just now is no failure.
fn kill(process: Pid, signal: Signal) {
    let _ = kill_process(process, signal);
}

/// The supervisor has a descriptor for each worker.
#[test]
fn mp_begins_with_as_many_processes_as_there_can_be_and_turns_away_whom_they_cannot_hold() {
    let launch = Launch::new(Engine { arguments: &["--processes", "64", "--processes-max", "128"], ..MP });
    let launch = launch.file("hello.txt", "hello\n").wrapped(&["sh", "-c", "ulimit -n 48; exec \"$@\"", "sh"]);
    let mut server = launch.spawn();
    let serving = server.wait_to_hear("lamna: serving ");
    let fewer = server.wait_to_hear("no more can be started");
    assert!(fewer.contains("ulimit -n"), "{fewer}");
    let address = serving.split_once("http://").and_then(|(_, rest)| rest.split([' ', ',']).next()?.parse().ok());
    let address: SocketAddr = address.expect("it says where");
    let mut held = Vec::new();
    loop {
        let mut client = Client::connect(address);
        let answer = client.get("/hello.txt").expect("everybody gets an answer");
        if answer.status == 503 {
            assert_eq!(answer.field("Retry-After"), Some("1"));
            break;
        }
        assert_eq!(answer.status, 200);
        held.push(client);
        assert!(held.len() < 64, "there are no more processes than descriptors");
    }
    drop(held);
    eventually("who comes later is served", PATIENCE, || {
        Client::connect(address).get("/hello.txt").is_ok_and(|answer| answer.status == 200).then_some(())
    });
}
