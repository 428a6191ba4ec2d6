//! The process that runs CGI programs (RFC 3875): a FastCGI application that starts a program for each request.
//!
//! ```text
//!  a serving thread --FastCGI--> FairQueue --environment, content--> program (a process group of its own)
//!                   <-- pump <---------- output, messages ------
//!                   <-- Leftovers <----- output behind its end --
//! ```
//!
//! Owns: [`run`], the life of that process, which the server starts as it does other applications
//! (`process::applications`). So no process that serves ever forks, and engines know nothing of CGI. Guarantees: at
//! most so many programs at once, in turn by client network (`fair_queue`), and none is kept because a client reads
//! slowly (`output`, `leftovers`); each has bounded time and output, and ends with its process group when its request
//! does: when the client leaves, and when the runner ends, whatever ends it. Does not know which files are programs:
//! the server has found them beneath its root. It trusts the server, which alone can reach its socket.

mod fair_queue;
mod leftovers;
mod output;
mod program;
mod pump;
mod request;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lamna_site::content::at_once::ClientNetwork;
use lamna_sys::contain::contain;
use lamna_sys::signals::{Signal, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use fair_queue::{FairQueue, Network, Waiting};
use leftovers::Leftovers;
use output::Room;
use request::{Opened, Opening, Records, Variables};

/// The bounds of programs, and how they are started.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Programs at once. Requests beyond that wait for one to end.
    pub programs_max: usize,
    /// How long a program may take.
    pub time_max: Duration,
    /// Bytes that a program may print.
    pub output_bytes_max: u64,
    /// By the end of a file's name, without the dot: what runs such files. Others are run by the system.
    pub interpreters: BTreeMap<String, String>,
}

/// The stack of a thread of the runner beyond the standard library's frames.
const STACK_BYTES: usize = 256 * 1024;

/// How long others wait, and a client reads nothing, before its program is killed for them.
const PATIENCE: Duration = Duration::from_secs(5);
/// The server sends the variables of a request at once.
const VARIABLES_TIME_MAX: Duration = Duration::from_secs(30);
/// Connections whose variables are on their way.
const OPENINGS_MAX: usize = 64;
/// Outputs that are kept for clients that read slowly, and their bytes in files.
const OUTPUTS_MAX: usize = 256;
const OUTPUTS_BYTES_MAX: u64 = 1 << 30;
/// How often those that wait are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A request that waits for its program.
#[derive(Debug)]
struct Request {
    stream: UnixStream,
    records: Records,
    variables: Variables,
}

impl Waiting for Request {
    /// The other end has been closed: content that has not been read is no matter.
    fn has_left(&self) -> bool {
        let mut ends = [PollFd::new(&self.stream, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ends, Some(&now)).is_ok() && ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

/// The state that its threads share.
struct Runner<'a> {
    limits: &'a Limits,
    queue: FairQueue<Request>,
    room: Arc<Room>,
    leftovers: Leftovers,
}

/// Runs programs for connections to the listening socket that is standard input, until SIGTERM: then what has begun is
/// finished.
///
/// # Errors
/// Standard input is no socket, or there are no threads.
pub fn run(limits: &Limits) -> io::Result<()> {
    let signals = Signals::take(&[Signal::TERM])?;
    // Never received, and thereby ignored: a file that may not grow is one without room.
    let _ignored = Signals::take(&[Signal::XFSZ])?;
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.local_addr()?;
    // Another process may take a connection first.
    listener.set_nonblocking(true)?;
    let runner = Runner {
        limits,
        queue: FairQueue::new(limits.programs_max.max(1), PATIENCE),
        room: Room::new(OUTPUTS_MAX, OUTPUTS_BYTES_MAX),
        leftovers: Leftovers::new()?,
    };
    runner.serve(|| runner.receive(&listener, &signals))
}

impl Runner<'_> {
    /// Runs programs for the requests that `receive` brings, until it returns and they are answered.
    fn serve(&self, receive: impl FnOnce()) -> io::Result<()> {
        let thread = |name: String| thread::Builder::new().name(name).stack_size(STACK_BYTES);
        thread::scope(|all| {
            let sender = || self.leftovers.send_all(self.limits.time_max);
            thread("slow-clients".to_owned()).spawn_scoped(all, sender)?;
            let result = thread::scope(|programs| {
                for number in 0..self.limits.programs_max.max(1) {
                    let begun = thread(format!("program-{number}")).spawn_scoped(programs, || self.run_programs());
                    if let Err(error) = begun {
                        self.queue.end();
                        return Err(error);
                    }
                }
                receive();
                self.queue.end();
                Ok(())
            });
            self.leftovers.end();
            result
        })
    }

    /// One program after the other.
    fn run_programs(&self) {
        while let Some((permit, request)) = self.queue.next() {
            let serve = || pump::serve(request, &permit, self);
            contain("The request that a program was to answer ends; the others go on.", serve);
        }
    }

    /// Takes connections, and has their requests wait for their turn, until it is time to end.
    fn receive(&self, listener: &UnixListener, signals: &Signals) {
        let mut openings: Vec<(Instant, UnixStream, Opening)> = Vec::new();
        let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        let mut looked = Instant::now();
        loop {
            let mut waited = vec![PollFd::new(signals, PollFlags::IN)];
            waited.extend(openings.iter().map(|(_, stream, _)| PollFd::new(stream, PollFlags::IN)));
            if openings.len() < OPENINGS_MAX {
                waited.push(PollFd::new(listener, PollFlags::IN));
            }
            let is_waited_for = !openings.is_empty() || self.queue.has_waiting();
            match poll(&mut waited, is_waited_for.then_some(&look)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            // The signal stays pending.
            if !waited[0].revents().is_empty() {
                return;
            }
            if openings.len() < OPENINGS_MAX {
                match listener.accept() {
                    Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                        openings.push((Instant::now(), stream, Opening::default()));
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // There is no descriptor at the moment.
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
            let before = std::mem::take(&mut openings);
            openings = before.into_iter().filter_map(|opening| self.open(opening)).collect();
            let now = Instant::now();
            if now.saturating_duration_since(looked) >= LOOK {
                self.queue.look(now);
                looked = now;
            }
        }
    }

    /// Has a request wait for its turn as soon as its variables are there. Gives it back if they are not.
    fn open(
        &self,
        (since, mut stream, mut opening): (Instant, UnixStream, Opening),
    ) -> Option<(Instant, UnixStream, Opening)> {
        match opening.read(&mut stream) {
            Ok(Opened::NotYet) => (since.elapsed() < VARIABLES_TIME_MAX).then_some((since, stream, opening)),
            Ok(Opened::Request(variables)) => {
                let network = network_of(&variables);
                let request = Request { stream, records: opening.records, variables };
                if let Some(mut request) = self.queue.push(network, request, Instant::now()) {
                    let why = "too many requests of one network wait for a program";
                    // A connection that fails is of no further use.
                    let _ = pump::tell(&mut request.stream, "503 Service Unavailable", why);
                }
                None
            }
            Ok(Opened::Nothing) | Err(_) => None,
        }
    }
}

/// The client network of a request.
fn network_of(variables: &Variables) -> Network {
    let address = variables.iter().find(|(name, _)| name == "REMOTE_ADDR")?.1.to_str()?;
    address.parse().ok().map(ClientNetwork::of)
}

/// After a connection that could not be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::gateway::fastcgi::kind;
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::path::Path;

    fn program(directory: &Path, name: &str, text: &str) -> std::path::PathBuf {
        let path = directory.join(name);
        fs::write(&path, format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Has a request of a client of this network wait. Returns the client's end.
    fn ask(runner: &Runner<'_>, network: u8, program: &Path) -> UnixStream {
        let mut client = ask_with_content(runner, network, program);
        let mut end = Vec::new();
        request::write_end(kind::STDIN, &mut end);
        client.write_all(&end).unwrap();
        client
    }

    /// The same, with content that is still to come.
    fn ask_with_content(runner: &Runner<'_>, network: u8, program: &Path) -> UnixStream {
        let (client, stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let records = Records::default();
        let variables = vec![("SCRIPT_FILENAME".into(), program.into())];
        let network = Some(ClientNetwork::of([192, 0, 2, network].into()));
        assert!(runner.queue.push(network, Request { stream, records, variables }, Instant::now()).is_none());
        client
    }

    /// Bytes of content of an answer, and whether it is whole.
    fn read(mut client: UnixStream) -> (usize, bool) {
        let (mut records, mut answer) = (Records::default(), Vec::new());
        // What breaks off ends as well.
        let _ = client.read_to_end(&mut answer);
        records.push(&answer);
        let (mut bytes, mut is_whole) = (0, false);
        while let Some(record) = records.next() {
            bytes += if record.kind == kind::STDOUT { record.content.len() } else { 0 };
            is_whole |= record.kind == kind::END_REQUEST;
        }
        (bytes, is_whole)
    }

    fn with_runner(programs_max: usize, spool_bytes_max: u64, check: impl FnOnce(&Runner<'_>, &Path)) {
        let directory = tempfile::tempdir().unwrap();
        let (time_max, output_bytes_max) = (Duration::from_secs(60), 1 << 30);
        let limits = Limits { programs_max, time_max, output_bytes_max, interpreters: BTreeMap::new() };
        let runner = Runner {
            limits: &limits,
            queue: FairQueue::new(programs_max, Duration::from_millis(200)),
            room: Room::new(OUTPUTS_MAX, spool_bytes_max),
            leftovers: Leftovers::new().unwrap(),
        };
        // Its threads end whatever comes of it.
        let mut checked = Ok(());
        let check = || checked = catch_unwind(AssertUnwindSafe(|| check(&runner, directory.path())));
        runner.serve(check).unwrap();
        checked.unwrap_or_else(|panic| resume_unwind(panic));
    }

    const HEAD_BYTES: usize = "Content-Type: text/plain\r\n\r\n".len();

    #[test]
    fn a_client_that_reads_slowly_keeps_no_program_and_gets_all_of_its_answer() {
        with_runner(1, 64 << 20, |runner, directory| {
            let large = program(directory, "large", "head -c 8000000 /dev/zero");
            let small = program(directory, "small", "echo done");
            let slow = [ask(runner, 1, &large), ask(runner, 1, &large)];
            assert_eq!(read(ask(runner, 1, &small)), (HEAD_BYTES + 5, true));
            assert_eq!(slow.map(read), [(HEAD_BYTES + 8_000_000, true); 2]);
        });
    }

    #[test]
    fn a_client_that_waits_has_left_when_its_connection_has_ended_whatever_of_it_is_unread() {
        for content in [&b""[..], b"content"] {
            let (mut client, stream) = UnixStream::pair().unwrap();
            client.write_all(content).unwrap();
            let request = Request { stream, records: Records::default(), variables: Variables::new() };
            assert!(!request.has_left());
            drop(client);
            assert!(request.has_left());
        }
    }

    /// The server sends it as it likes, also behind the end of a program that reads nothing.
    #[test]
    fn content_that_no_program_reads_is_not_the_end_of_its_client() {
        with_runner(1, 64 << 20, |runner, directory| {
            let large = program(directory, "large", "head -c 8000000 /dev/zero");
            let small = program(directory, "small", "echo done");
            let mut slow = ask_with_content(runner, 1, &large);
            assert_eq!(read(ask(runner, 1, &small)), (HEAD_BYTES + 5, true));
            let mut content = Vec::new();
            request::write(kind::STDIN, &[7; 100_000], &mut content);
            slow.write_all(&content).unwrap();
            // It is looked at meanwhile.
            thread::sleep(Duration::from_millis(100));
            assert_eq!(read(slow), (HEAD_BYTES + 8_000_000, true));
        });
    }

    #[test]
    fn where_nothing_can_be_kept_a_client_that_reads_nothing_yields_to_another_network() {
        with_runner(1, 0, |runner, directory| {
            let large = program(directory, "large", "head -c 8000000 /dev/zero");
            let small = program(directory, "small", "echo done");
            let slow = ask(runner, 1, &large);
            let mut waiting = ask(runner, 2, &small);
            waiting.set_nonblocking(true).unwrap();
            let mut byte = [0];
            while waiting.read(&mut byte).is_err() {
                runner.queue.look(Instant::now());
                thread::sleep(Duration::from_millis(20));
            }
            assert!(!read(slow).1, "it is broken off");
        });
    }

    #[test]
    fn where_nothing_can_be_kept_and_nobody_waits_a_slow_client_gets_all_of_its_answer() {
        with_runner(1, 0, |runner, directory| {
            let large = program(directory, "large", "head -c 8000000 /dev/zero");
            let slow = ask(runner, 1, &large);
            for _ in 0..20 {
                runner.queue.look(Instant::now());
                thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(read(slow), (HEAD_BYTES + 8_000_000, true));
        });
    }
}
