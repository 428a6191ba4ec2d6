//! One request: from its connection to a program and back.
//!
//! ```text
//!  connection --STDIN--> content --> program --> output --STDOUT, STDERR--> connection
//!                          |                       |
//!        no more is read while there is some;  likewise
//! ```
//!
//! Owns: [`serve`]. Guarantees: memory is bounded by a record each way, whatever client and program do; a program ends with its request. An
//! answer that is not whole does not end as a whole one: the connection ends without END_REQUEST.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lamna_proto::gateway::fastcgi::kind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use super::Limits;
use super::program::{Program, Refused};
use super::request::{Records, variables, write};

/// The server sends the variables at once.
const VARIABLES_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes that are read at once.
const READ_BYTES: usize = 32 * 1024;
/// No more is read from a program while so much of its output waits.
const OUTPUT_BYTES: usize = 64 * 1024;
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
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken::Left
    }
}

/// Answers the request of a connection.
pub(super) fn serve(mut stream: UnixStream, limits: &Limits) {
    // A connection that fails is of no further use, and its error goes unreported.
    let _ = answer(&mut stream, limits);
}

fn answer(stream: &mut UnixStream, limits: &Limits) -> io::Result<()> {
    stream.set_read_timeout(Some(VARIABLES_TIME_MAX))?;
    let mut records = Records::default();
    let Some(variables) = variables(stream, &mut records)? else { return Ok(()) };
    let program = match Program::start(&variables, limits) {
        Ok(program) => program,
        Err(Refused { status, why }) => return tell(stream, status, &why),
    };
    let mut pump = Pump::new(stream, program, records, limits)?;
    match pump.run() {
        Ok(()) | Err(Broken::Left) => Ok(()),
        Err(Broken::Late) => pump.give_up("504 Gateway Timeout", "the program has not ended in time, and is killed"),
        Err(Broken::Fault(why)) => pump.give_up("502 Bad Gateway", &why),
    }
}

/// A whole answer in place of a program's, and a line for the error log.
fn tell(stream: &mut UnixStream, status: &str, why: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(VARIABLES_TIME_MAX))?;
    let mut output = Vec::new();
    write(kind::STDERR, why.as_bytes(), &mut output);
    let body = status.split_once(' ').map_or("", |(_, words)| words);
    let page = format!("Status: {status}\r\nContent-Type: text/plain\r\n\r\n{body}\n");
    write(kind::STDOUT, page.as_bytes(), &mut output);
    end(0, &mut output);
    stream.write_all(&output)
}

fn end(exit_code: u32, output: &mut Vec<u8>) {
    write(kind::STDOUT, b"", output);
    let [a, b, c, d] = exit_code.to_be_bytes();
    // FCGI_REQUEST_COMPLETE.
    write(kind::END_REQUEST, &[a, b, c, d, 0, 0, 0, 0], output);
}

struct Pump<'a> {
    stream: &'a mut UnixStream,
    program: Program,
    records: Records,
    /// Content for the program.
    content: Vec<u8>,
    content_is_over: bool,
    /// Records for the server.
    output: Vec<u8>,
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
    fn new(stream: &'a mut UnixStream, program: Program, records: Records, limits: &Limits) -> io::Result<Pump<'a>> {
        stream.set_nonblocking(true)?;
        let pipes = [
            program.stdin.as_ref().map(AsFd::as_fd),
            program.stdout.as_ref().map(AsFd::as_fd),
            program.stderr.as_ref().map(AsFd::as_fd),
        ];
        pipes.into_iter().flatten().try_for_each(|pipe| fcntl_setfl(pipe, OFlags::NONBLOCK))?;
        Ok(Pump {
            stream,
            program,
            records,
            content: Vec::new(),
            content_is_over: false,
            output: Vec::new(),
            output_bytes: 0,
            message_bytes: 0,
            output_bytes_max: limits.output_bytes_max,
            deadline: Instant::now() + limits.time_max,
        })
    }

    /// Until the answer has been sent.
    fn run(&mut self) -> Result<(), Broken> {
        loop {
            self.take_records()?;
            let ready = self.wait()?;
            self.feed(ready.stdin);
            self.read_output(ready.stdout)?;
            self.read_messages(ready.stderr);
            self.talk(ready.stream)?;
            if self.program.stdout.is_none() && !ready.end.is_empty() {
                return self.finish();
            }
        }
    }

    /// Takes records of the request that are at hand. No more than the program takes.
    fn take_records(&mut self) -> Result<(), Broken> {
        while self.content.is_empty() && !self.content_is_over {
            let Some(record) = self.records.next() else { break };
            match record.kind {
                kind::STDIN if record.content.is_empty() => self.content_is_over = true,
                kind::STDIN if self.program.stdin.is_some() => self.content = record.content,
                // A program that has closed its input wants none.
                kind::STDIN => {}
                _ => return Err(Broken::Left),
            }
        }
        if self.content.is_empty() && self.content_is_over {
            self.program.stdin = None;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Ready, Broken> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Broken::Late);
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut of_stream = PollFlags::empty();
        // Also when the content is over: ABORT_REQUEST, or the end of the connection, may come at any time.
        of_stream.set(PollFlags::IN, self.content.is_empty());
        of_stream.set(PollFlags::OUT, !self.output.is_empty());
        let has_room = self.output.len() < OUTPUT_BYTES;
        // What is not waited for is asked about without a wish: poll(2) passes an end on, but nothing else.
        let nothing = self.program.end();
        let mut waited = [
            PollFd::new(&*self.stream, of_stream),
            PollFd::new(&nothing, PollFlags::empty()),
            PollFd::new(&nothing, PollFlags::empty()),
            PollFd::new(&nothing, PollFlags::empty()),
            PollFd::new(&nothing, if self.program.stdout.is_none() { PollFlags::IN } else { PollFlags::empty() }),
        ];
        if let Some(pipe) = self.program.stdin.as_ref().filter(|_| !self.content.is_empty()) {
            waited[1] = PollFd::new(pipe, PollFlags::OUT);
        }
        if let Some(pipe) = self.program.stdout.as_ref().filter(|_| has_room) {
            waited[2] = PollFd::new(pipe, PollFlags::IN);
        }
        if let Some(pipe) = self.program.stderr.as_ref().filter(|_| has_room) {
            waited[3] = PollFd::new(pipe, PollFlags::IN);
        }
        match poll(&mut waited, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Broken::Fault(format!("the program cannot be waited for: {errno}"))),
        }
        let [stream, stdin, stdout, stderr, end] = waited.map(|one| one.revents());
        Ok(Ready { stream, stdin, stdout, stderr, end })
    }

    /// Gives the program of the content what it takes.
    fn feed(&mut self, ready: PollFlags) {
        let Some(pipe) = self.program.stdin.as_mut().filter(|_| !ready.is_empty() && !self.content.is_empty()) else {
            return;
        };
        match pipe.write(&self.content) {
            Ok(bytes) => drop(self.content.drain(..bytes)),
            Err(error) if is_later(&error) => {}
            // It reads no more: that is its own affair.
            Err(_) => {
                self.content.clear();
                self.program.stdin = None;
            }
        }
    }

    fn read_output(&mut self, ready: PollFlags) -> Result<(), Broken> {
        let Some(pipe) = self.program.stdout.as_mut().filter(|_| !ready.is_empty()) else { return Ok(()) };
        let mut buffer = [0; READ_BYTES];
        match pipe.read(&mut buffer) {
            Ok(0) => self.program.stdout = None,
            Ok(bytes) => {
                self.output_bytes += bytes as u64;
                if self.output_bytes > self.output_bytes_max {
                    let most = self.output_bytes_max;
                    return Err(Broken::Fault(format!("the program prints more than {most} bytes, and is killed")));
                }
                write(kind::STDOUT, &buffer[..bytes], &mut self.output);
            }
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
                    write(kind::STDERR, &buffer[..passed], &mut self.output);
                }
            }
            Err(error) if is_later(&error) => {}
            Err(_) => self.program.stderr = None,
        }
    }

    /// Receives from the server and sends to it.
    fn talk(&mut self, ready: PollFlags) -> Result<(), Broken> {
        if !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(bytes) => drop(self.output.drain(..bytes)),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            let mut buffer = [0; READ_BYTES];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Broken::Left),
                Ok(bytes) if self.content_is_over => {
                    self.records.push(&buffer[..bytes]);
                    // The server has nothing more to say but that the client has left.
                    if self.records.next().is_some_and(|record| record.kind == kind::ABORT_REQUEST) {
                        return Err(Broken::Left);
                    }
                }
                Ok(bytes) => self.records.push(&buffer[..bytes]),
                Err(error) if is_later(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The program has printed everything, and has ended.
    fn finish(&mut self) -> Result<(), Broken> {
        let status = self.program.status().map_err(|error| Broken::Fault(error.to_string()))?;
        // What it has written before its end is there.
        while self.program.stderr.is_some() && self.output.len() < OUTPUT_BYTES {
            let before = self.output.len();
            self.read_messages(PollFlags::IN);
            if self.output.len() == before {
                break;
            }
        }
        let Some(code) = status.code() else { return Err(Broken::Fault(format!("the program was killed: {status}"))) };
        if code != 0 {
            write(kind::STDERR, format!("the program has ended with {status}").as_bytes(), &mut self.output);
        }
        end(code.unsigned_abs(), &mut self.output);
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(self.deadline.saturating_duration_since(Instant::now()).max(LAST_TIME)))?;
        self.stream.write_all(&self.output)?;
        Ok(())
    }

    /// Says why there is no whole answer, and gives one of its own if nothing has been printed.
    fn give_up(&mut self, status: &str, why: &str) -> io::Result<()> {
        if self.output_bytes == 0 && self.output.is_empty() {
            return tell(self.stream, status, why);
        }
        let mut message = std::mem::take(&mut self.output);
        write(kind::STDERR, why.as_bytes(), &mut message);
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(LAST_TIME))?;
        self.stream.write_all(&message)
    }
}

/// The time that the rest of an answer may take in any case.
const LAST_TIME: Duration = Duration::from_secs(1);

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
