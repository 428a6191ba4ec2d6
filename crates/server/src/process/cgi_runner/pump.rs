//! One request: from its connection to a program and back.
//!
//! ```text
//!  connection --STDIN--> content --> program --> output --STDOUT, STDERR--> connection
//!                          |                       |
//!        no more is read while there is some;  likewise
//! ```
//!
//! Owns: [`serve`]. Guarantees: memory is bounded by a few records each way, whatever client and program do; a program
//! does not wait for a client that reads slowly as long as there is room for its output in a file
//! ([`output`](super::output)), and its place is free when it has ended; where there is no room, it yields to others
//! that wait ([`fair_queue`](super::fair_queue)); a program ends with its request. An answer that is not whole does not
//! end as a whole one: the connection ends without END_REQUEST.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lamna_config::gateway::BUFFER_DIRECTORY;
use lamna_proto::gateway::fastcgi::kind;
use lamna_sys::say::say;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use super::fair_queue::Permit;
use super::leftovers::Leftover;
use super::output::{Output, OutputReservation, READ_BYTES};
use super::program::{Program, Refused};
use super::request::{HasLeft, Inbound, is_later, write, write_end};
use super::{Limits, Request, Runner};

/// The server takes an answer of a few lines at once.
const TELL_TIME_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether a program that waits for its client has to yield.
const YIELD_LOOK: Duration = Duration::from_millis(250);
/// Messages of one program that are passed on; the rest is dropped.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Why an exchange ends before its answer is whole.
enum Broken {
    /// The client has left.
    Left,
    /// The program has had its time.
    Late,
    /// The program is at fault: why.
    Fault(String),
    /// The client does not take the answer: why it is not waited for.
    Untaken(&'static str),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken::Left
    }
}

impl From<HasLeft> for Broken {
    fn from(_: HasLeft) -> Broken {
        Broken::Left
    }
}

fn unkept(error: &io::Error) -> Broken {
    Broken::Fault(format!("what the program prints cannot be kept in {BUFFER_DIRECTORY}: {error}"))
}

/// Answers a request.
pub(super) fn serve(request: Request, permit: &Permit<'_, Request>, runner: &Runner<'_>) {
    // A connection that fails is of no further use, and its error goes unreported.
    let _ = answer(request, permit, runner);
}

fn answer(request: Request, permit: &Permit<'_, Request>, runner: &Runner<'_>) -> io::Result<()> {
    let Request { mut stream, records, variables } = request;
    let program = match Program::start(&variables, runner.limits) {
        Ok(program) => program,
        Err(Refused { status, why }) => return tell(&mut stream, status, &why),
    };
    let output = Output::new(runner.room.clone(), permit.network);
    let mut pump = Pump::new(stream, program, Inbound::new(records), (permit, output), runner.limits)?;
    match pump.run() {
        Ok(None) | Err(Broken::Left) => Ok(()),
        Ok(Some(kept)) => {
            let Pump { stream, inbound, output, progress, .. } = pump;
            runner.leftovers.add(Leftover { stream, inbound, output, kept, progress });
            Ok(())
        }
        Err(Broken::Late) => pump.give_up("504 Gateway Timeout", "the program has not ended in time, and is killed"),
        Err(Broken::Fault(why)) => pump.give_up("502 Bad Gateway", &why),
        Err(Broken::Untaken(why)) => {
            // The connection takes no words.
            let name = variables.iter().find(|(name, _)| name == "SCRIPT_FILENAME").map(|(_, value)| value.display());
            let name = name.map_or_else(String::new, |name| name.to_string());
            let what = match pump.has_exited {
                true => "the program has ended, and the rest of its answer is given up",
                false => "the program is killed",
            };
            say!("{name}: {what}, because {why}");
            Ok(())
        }
    }
}

/// A whole answer in place of a program's, and a line for the error log.
pub(super) fn tell(stream: &mut UnixStream, status: &str, why: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TELL_TIME_MAX))?;
    let mut output = Vec::new();
    write(kind::STDERR, why.as_bytes(), &mut output);
    let body = status.split_once(' ').map_or("", |(_, words)| words);
    let page = format!("Status: {status}\r\nContent-Type: text/plain\r\n\r\n{body}\n");
    write(kind::STDOUT, page.as_bytes(), &mut output);
    end(0, &mut output);
    stream.write_all(&output)
}

/// The end of a whole answer.
pub(super) fn end(exit_code: u32, output: &mut Vec<u8>) {
    write_end(kind::STDOUT, output);
    let [a, b, c, d] = exit_code.to_be_bytes();
    // FCGI_REQUEST_COMPLETE.
    write(kind::END_REQUEST, &[a, b, c, d, 0, 0, 0, 0], output);
}

struct Pump<'a> {
    stream: UnixStream,
    permit: &'a Permit<'a, Request>,
    program: Program,
    inbound: Inbound,
    /// Records for the server.
    output: Output,
    /// The program has ended, and its process group with it. What it has printed may still be in the pipe.
    has_exited: bool,
    /// The program has ended, and all that it has printed is in `output`.
    is_over: bool,
    /// When the server has taken something.
    progress: Instant,
    /// The program waits for that.
    is_stalled: bool,
    output_bytes: u64,
    message_bytes: usize,
    output_bytes_max: u64,
    deadline: Instant,
}

/// The ends that can go on.
struct Ready {
    stream: PollFlags,
    stdin: PollFlags,
    stdout: PollFlags,
    stderr: PollFlags,
    end: PollFlags,
}

impl<'a> Pump<'a> {
    fn new(
        stream: UnixStream,
        program: Program,
        inbound: Inbound,
        (permit, output): (&'a Permit<'a, Request>, Output),
        limits: &Limits,
    ) -> io::Result<Pump<'a>> {
        stream.set_nonblocking(true)?;
        let pipes = [
            program.stdin.as_ref().map(AsFd::as_fd),
            program.stdout.as_ref().map(AsFd::as_fd),
            program.stderr.as_ref().map(AsFd::as_fd),
        ];
        pipes.into_iter().flatten().try_for_each(|pipe| fcntl_setfl(pipe, OFlags::NONBLOCK))?;
        Ok(Pump {
            stream,
            permit,
            program,
            inbound,
            output,
            has_exited: false,
            is_over: false,
            progress: Instant::now(),
            is_stalled: false,
            output_bytes: 0,
            message_bytes: 0,
            output_bytes_max: limits.output_bytes_max,
            deadline: Instant::now() + limits.time_max,
        })
    }

    /// Until the answer has been sent, or the rest of it can be sent without the program. Then, with what counts it if
    /// its output does not.
    fn run(&mut self) -> Result<Option<Option<OutputReservation>>, Broken> {
        loop {
            self.inbound.advance()?;
            if self.inbound.is_over() {
                self.program.stdin = None;
            }
            let ready = self.wait()?;
            if !ready.end.is_empty() && !self.has_exited {
                self.has_exited = true;
                self.program.kill_group();
            }
            self.feed(ready.stdin);
            self.read_output(ready.stdout)?;
            self.read_messages(ready.stderr);
            self.talk(ready.stream)?;
            if !self.is_over && self.program.stdout.is_none() && self.has_exited {
                self.finish()?;
                self.talk(PollFlags::empty())?;
            }
            if self.is_over && self.output.is_empty() {
                return Ok(None);
            }
            if self.is_over
                && let Some(kept) = self.output.keep()
            {
                return Ok(Some(kept));
            }
        }
    }

    fn wait(&mut self) -> Result<Ready, Broken> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(match self.has_exited {
                true => Broken::Untaken("its client has not taken it in time"),
                false => Broken::Late,
            });
        }
        let has_room = !self.is_over && self.has_room()?;
        let is_stalled = !has_room && !self.output.is_empty();
        // Nothing changes while it goes on.
        if (is_stalled || self.is_stalled) && self.permit.stall(is_stalled.then_some(self.progress)) {
            return Err(Broken::Untaken("its client reads nothing and other networks wait for a program"));
        }
        self.is_stalled = is_stalled;
        // Whether the pipe of a program that has ended is empty is seen by reading.
        let is_to_read = self.has_exited && has_room && self.program.stdout.is_some();
        let left = match (is_to_read, is_stalled) {
            (true, _) => Duration::ZERO,
            (false, true) => left.min(YIELD_LOOK),
            (false, false) => left,
        };
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut of_stream = PollFlags::empty();
        // Also when the content is over: ABORT_REQUEST, or the end of the connection, may come at any time.
        of_stream.set(PollFlags::IN, self.inbound.content().is_empty());
        of_stream.set(PollFlags::OUT, !self.output.is_empty());
        let Program { stdin, stdout, stderr, .. } = &self.program;
        let has_content = !self.inbound.content().is_empty();
        // What is not waited for is left out. A pidfd tells of an end whether that is wished or not, once its process
        // has been waited for (Linux 6.9): asked about, it would end every wait at once.
        let interests = [
            Some((self.stream.as_fd(), of_stream)),
            stdin.as_ref().filter(|_| has_content).map(|pipe| (pipe.as_fd(), PollFlags::OUT)),
            stdout.as_ref().filter(|_| has_room).map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            stderr.as_ref().filter(|_| !self.is_over).map(|pipe| (pipe.as_fd(), PollFlags::IN)),
            (!self.has_exited).then(|| (self.program.end(), PollFlags::IN)),
        ];
        let mut waited: Vec<_> =
            interests.iter().flatten().map(|(file, events)| PollFd::from_borrowed_fd(*file, *events)).collect();
        match poll(&mut waited, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Broken::Fault(format!("the program cannot be waited for: {errno}"))),
        }
        let mut found = waited.iter().map(PollFd::revents);
        let [stream, stdin, stdout, stderr, end] =
            interests.map(|interest| interest.and_then(|_| found.next()).unwrap_or(PollFlags::empty()));
        Ok(Ready { stream, stdin, stdout, stderr, end })
    }

    /// Whether the program can print more.
    fn has_room(&mut self) -> Result<bool, Broken> {
        self.output.has_room().map_err(|error| unkept(&error))
    }

    /// Gives the program of the content what it takes.
    fn feed(&mut self, ready: PollFlags) {
        let has_content = !self.inbound.content().is_empty();
        let Some(pipe) = self.program.stdin.as_mut().filter(|_| !ready.is_empty() && has_content) else { return };
        match pipe.write(self.inbound.content()) {
            Ok(bytes) => self.inbound.consume(bytes),
            Err(error) if is_later(&error) => {}
            // It reads no more: that is its own affair.
            Err(_) => {
                self.inbound.drop_content();
                self.program.stdin = None;
            }
        }
    }

    fn read_output(&mut self, ready: PollFlags) -> Result<(), Broken> {
        let is_ready = !ready.is_empty() || self.has_exited && self.has_room()?;
        let Some(pipe) = self.program.stdout.as_mut().filter(|_| is_ready) else { return Ok(()) };
        let mut buffer = [0; READ_BYTES];
        match pipe.read(&mut buffer) {
            Ok(0) => self.program.stdout = None,
            Ok(bytes) => {
                self.output_bytes += bytes as u64;
                if self.output_bytes > self.output_bytes_max {
                    let most = self.output_bytes_max;
                    return Err(Broken::Fault(format!("the program prints more than {most} bytes, and is killed")));
                }
                self.output.take(&buffer[..bytes]).map_err(|error| unkept(&error))?;
            }
            // A process that has left its group holds the pipe, and prints for nobody any more.
            Err(error) if error.kind() == ErrorKind::WouldBlock && self.has_exited => self.program.stdout = None,
            Err(error) if is_later(&error) => {}
            Err(_) => self.program.stdout = None,
        }
        Ok(())
    }

    fn read_messages(&mut self, ready: PollFlags) {
        let Some(pipe) = self.program.stderr.as_mut().filter(|_| !ready.is_empty()) else { return };
        let mut buffer = [0; READ_BYTES];
        match pipe.read(&mut buffer) {
            Ok(0) => self.program.stderr = None,
            Ok(bytes) => {
                let passed = bytes.min(MESSAGE_BYTES_MAX - self.message_bytes);
                self.message_bytes += passed;
                if passed > 0 {
                    self.output.take_message(&buffer[..passed]);
                }
            }
            Err(error) if is_later(&error) => {}
            Err(_) => self.program.stderr = None,
        }
    }

    /// Receives from the server and sends to it.
    fn talk(&mut self, ready: PollFlags) -> Result<(), Broken> {
        if !self.output.is_empty() {
            match self.output.send(&mut self.stream) {
                Ok(0) => {}
                Ok(_) => self.progress = Instant::now(),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if ready.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(Broken::Left);
        }
        if ready.contains(PollFlags::IN) {
            self.inbound.receive(&mut self.stream)?;
        }
        Ok(())
    }

    /// The program has printed everything, and has ended.
    fn finish(&mut self) -> Result<(), Broken> {
        let status = self.program.status().map_err(|error| Broken::Fault(error.to_string()))?;
        // What it has written before its end is there.
        while self.program.stderr.is_some() {
            let before = self.message_bytes;
            self.read_messages(PollFlags::IN);
            if self.message_bytes == before {
                break;
            }
        }
        let Some(code) = status.code() else { return Err(Broken::Fault(format!("the program was killed: {status}"))) };
        if code != 0 {
            self.output.take_message(format!("the program has ended with {status}").as_bytes());
        }
        let mut records = Vec::new();
        end(code.unsigned_abs(), &mut records);
        self.output.take_end(records);
        self.inbound.drop_content();
        self.deadline = self.deadline.max(Instant::now() + LAST_TIME);
        self.is_over = true;
        Ok(())
    }

    /// Says why there is no whole answer, and gives one of its own if nothing has been printed.
    fn give_up(&mut self, status: &str, why: &str) -> io::Result<()> {
        if self.output_bytes == 0 && self.output.is_empty() {
            return tell(&mut self.stream, status, why);
        }
        let mut message = self.output.give_up();
        write(kind::STDERR, why.as_bytes(), &mut message);
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(LAST_TIME))?;
        self.stream.write_all(&message)
    }
}

/// The time that the rest of an answer may take in any case.
const LAST_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::fair_queue::FairQueue;
    use super::super::output::Room;
    use super::super::request::{Records, Variables};
    use super::*;
    use rustix::time::{ClockId, clock_gettime};
    use std::collections::BTreeMap;

    /// Also once its status has been taken: its client is waited for, and nothing else.
    #[test]
    fn a_program_that_has_ended_is_not_late_and_wakes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sh");
        // More than the connection takes, and less than is kept in memory beside it.
        std::fs::write(&path, "head -c 60000 /dev/zero\n").unwrap();
        let (time_max, interpreters) = (LAST_TIME, BTreeMap::from([("sh".to_owned(), "/bin/sh".to_owned())]));
        let limits = Limits { programs_max: 1, time_max, output_bytes_max: 1 << 20, interpreters };
        let (_client, stream) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, 1).unwrap();
        let variables: Variables = vec![("SCRIPT_FILENAME".into(), path.into())];
        let queue = FairQueue::new(1, LAST_TIME);
        let request = Request { stream, records: Records::default(), variables };
        assert!(queue.push(None, request, Instant::now()).is_none());
        let (permit, Request { stream, variables, .. }) = queue.next().unwrap();
        let program = Program::start(&variables, &limits).ok().unwrap();
        // Nothing can be kept without its program.
        let output = Output::new(Room::new(0, 0), None);
        let mut pump = Pump::new(stream, program, Inbound::default(), (&permit, output), &limits).unwrap();
        let cpu_time = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        let before = cpu_time();
        assert!(matches!(pump.run(), Err(Broken::Untaken(_))) && pump.is_over);
        assert!(cpu_time() - before < LAST_TIME / 4, "it does not wait");
    }
}
