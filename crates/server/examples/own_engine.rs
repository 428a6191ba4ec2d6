//! A program with an engine of its own: the event loop, which carries every step out in line and counts the steps.
//! docs/extending.md leads through it.
//!
//!     cargo run -p lamna-server --example own_engine -- site

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_server::embed::engine::{
    Completed, Engine, Entry, Errno, Executor, FileRange, Input, OnSockets, PendingId, Program, Shared, StepResult,
    TranslationTarget, Worker, WorkerContext, run_in_line, translate_in_line,
};
use lamna_server::embed::{Builder, Running, StartError};

fn main() -> Result<(), StartError> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let steps = Arc::new(AtomicU64::new(0));
    let server = serve(&directory, ([127, 0, 0, 1], 8080), steps)?;
    println!("serving {directory} at http://{}/", server.address());
    server.wait();
    Ok(())
}

fn serve(
    directory: &str,
    address: impl Into<std::net::SocketAddr>,
    steps: Arc<AtomicU64>,
) -> Result<Running, StartError> {
    Builder::new(directory).listen(address).engine(Counting { steps }).start()
}

/// The engine: what all its workers have in common.
#[derive(Debug)]
struct Counting {
    /// Steps that might have waited for the disk.
    steps: Arc<AtomicU64>,
}

impl Engine for Counting {
    fn run(&self, shared: &Arc<Shared>, index: usize) -> Result<(), Errno> {
        Worker::new(shared, index, InLine { steps: &self.steps })?.run()
    }
}

/// What one worker has carry out its steps: itself.
struct InLine<'a> {
    steps: &'a AtomicU64,
}

/// Bytes move through sockets in the usual way.
impl OnSockets for InLine<'_> {}

impl Executor for InLine<'_> {
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        _: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        self.steps.fetch_add(1, Relaxed);
        Some(translate_in_line(context, &target))
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget) {
        self.steps.fetch_add(1, Relaxed);
        translate_in_line(context, &target);
    }

    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        self.steps.fetch_add(1, Relaxed);
        Some(Completed::of_range(shared, pending, &range))
    }

    fn run(
        &mut self,
        _: PendingId,
        program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, StepResult)> {
        self.steps.fetch_add(1, Relaxed);
        Some(run_in_line(program, input))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use lamna_server::embed::engine::Architecture;

    use super::*;

    fn get(stream: &mut TcpStream, path: &str) -> String {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).expect("it takes requests");
        let mut answer = Vec::new();
        while !answer.ends_with(b"Hello\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("it answers");
            answer.push(byte[0]);
        }
        String::from_utf8(answer).expect("it answers in text")
    }

    #[test]
    fn the_engine_answers_counts_its_steps_and_ends() {
        let site = tempfile::tempdir().expect("there is room for one");
        std::fs::write(site.path().join("a.txt"), "Hello\n").expect("it can be written");
        let steps = Arc::new(AtomicU64::new(0));
        let server = serve(&site.path().display().to_string(), ([127, 0, 0, 1], 0), steps.clone());
        let server = server.expect("it can be served");
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        assert!(get(&mut stream, "/a.txt").starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(get(&mut stream, "/a.txt").starts_with("HTTP/1.1 200 OK\r\n"), "on the same connection");
        assert!(steps.load(Relaxed) >= 1, "the file was looked for by the engine");
        server.stop();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "nobody serves the connection any more");
    }

    #[derive(Debug)]
    struct OfProcesses;

    impl Engine for OfProcesses {
        fn run(&self, _: &Arc<Shared>, _: usize) -> Result<(), Errno> {
            Err(Errno::NOSYS)
        }

        fn architecture(&self) -> Architecture {
            Architecture::Mp
        }
    }

    #[derive(Debug)]
    struct Unable;

    impl Engine for Unable {
        fn run(&self, _: &Arc<Shared>, _: usize) -> Result<(), Errno> {
            Err(Errno::NOMEM)
        }
    }

    #[test]
    fn an_engine_that_cannot_serve_is_an_error_of_the_start() {
        let wrong = Builder::new(".").engine(OfProcesses).start().expect_err("this program has threads");
        assert!(wrong.to_string().contains("mp"), "{wrong}");
        let wrong = Builder::new(".").engine(Unable).start().expect_err("its workers do not begin");
        assert!(wrong.to_string().contains("memory"), "{wrong}");
    }
}
