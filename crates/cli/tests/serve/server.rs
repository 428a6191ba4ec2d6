//! The server under test as a child process, with directories of its own.
//!
//! Owns: the child, which is killed and waited for when the value goes; its configuration file; what it says on
//! standard error. Guarantees: no two tests share a port, a directory or a process. No process outlives its test:
//! neither a worker nor one that has taken the place of the child. One that does fails the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::{Client, PATIENCE, connect_from};
use crate::engine::Engine;

/// How a server is to be started.
#[derive(Debug)]
pub(crate) struct Launch {
    engine: Engine,
    directory: TempDir,
    config: String,
    arguments: Vec<String>,
    wrapper: Vec<String>,
    program: PathBuf,
    listen: Option<String>,
    listens_by_config: bool,
    runtime: Option<PathBuf>,
}

/// A server that has said that it serves.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    directory: TempDir,
    /// The configuration file, which every process of this server has among its arguments.
    config: PathBuf,
    errors: Receiver<String>,
    /// Reads standard error.
    reader: Option<JoinHandle<()>>,
    said: Vec<String>,
    address: Option<SocketAddr>,
}

impl Launch {
    /// A server of `engine` with an empty `site` directory and the log off.
    pub(crate) fn new(engine: Engine) -> Launch {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        std::fs::create_dir(directory.path().join("site")).expect("it is empty");
        Launch {
            engine,
            directory,
            config: String::new(),
            arguments: Vec::new(),
            wrapper: Vec::new(),
            program: env!("CARGO_BIN_EXE_lamna").into(),
            listen: None,
            listens_by_config: false,
            runtime: None,
        }
    }

    /// A file in the site, with its directories.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Launch {
        let path = self.site().join(name);
        std::fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("directories can be made");
        std::fs::write(path, content).expect("a file can be written");
        self
    }

    /// The directory that holds the site, the configuration and whatever else a test needs.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The directory that is served.
    pub(crate) fn site(&self) -> PathBuf {
        self.directory.path().join("site")
    }

    /// Further lines of the configuration file, relative to [`Launch::directory`]. Without a `[[site]]` among them,
    /// `site` is served.
    pub(crate) fn config(mut self, lines: &str) -> Launch {
        self.config = lines.to_owned();
        self
    }

    /// A further argument.
    pub(crate) fn argument(mut self, argument: &str) -> Launch {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Another address than a free port of loopback.
    pub(crate) fn listen(mut self, address: String) -> Launch {
        self.listen = Some(address);
        self
    }

    /// The configuration says where: its lines have a `listen`.
    pub(crate) fn listen_by_config(self) -> Launch {
        Launch { listens_by_config: true, ..self }
    }

    /// The command that runs the server; the server's own words follow it.
    pub(crate) fn wrapped(mut self, command: &[&str]) -> Launch {
        self.wrapper = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Where its control socket goes, if not to a directory of its own.
    pub(crate) fn runtime(self, directory: &Path) -> Launch {
        Launch { runtime: Some(directory.to_owned()), ..self }
    }

    /// In the directory of another, with what it has left there.
    pub(crate) fn from(self, directory: TempDir) -> Launch {
        Launch { directory, ..self }
    }

    /// Another copy of the program.
    pub(crate) fn program(self, path: &Path) -> Launch {
        Launch { program: path.to_owned(), ..self }
    }

    /// Starts it, and waits until it serves.
    pub(crate) fn start(self) -> Server {
        let mut server = self.spawn();
        // Where an application is that answers everything is not where the server is.
        let line = server.wait_to_hear("lamna: serving ").replace("serving the application at https://", "");
        server.address = line.split_once("://").and_then(|(_, rest)| rest.split([' ', ',']).next()?.parse().ok());
        server
    }

    /// Starts one that cannot serve: how it ended, and what it said.
    pub(crate) fn fail(self) -> (ExitStatus, String) {
        let mut server = self.spawn();
        let status = server.wait();
        server.said.extend(server.errors.iter());
        (status, server.said.join("\n"))
    }

    /// Starts it, and waits for nothing.
    pub(crate) fn spawn(self) -> Server {
        let mut config = self.config;
        if !config.contains("[[site]]") {
            config.push_str("\n[[site]]\nroot = \"site\"\n");
        }
        let file = self.directory.path().join("lamna.toml");
        std::fs::write(&file, config).expect("a file can be written");

        let mut words = self.wrapper;
        words.push(self.program.display().to_string());
        let listen = self.listen.unwrap_or_else(|| "127.0.0.1:0".to_owned());
        words.push("serve".to_owned());
        if !self.listens_by_config {
            words.extend(["--listen".to_owned(), listen]);
        }
        words.extend(["--arch", self.engine.architecture, "--config"].map(str::to_owned));
        words.push(file.display().to_string());
        if !self.arguments.iter().any(|argument| argument == "--log") {
            words.extend(["--log".to_owned(), "off".to_owned()]);
        }
        if let Some(without) = self.engine.without {
            words.extend(["--without".to_owned(), without.to_owned()]);
        }
        words.extend(self.engine.arguments.iter().map(|argument| (*argument).to_owned()));
        words.extend(self.arguments);

        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env("XDG_STATE_HOME", self.directory.path().join("state"))
            .env_remove("STATE_DIRECTORY")
            .env("LAMNA_RUNTIME_DIR", self.runtime.as_deref().unwrap_or(&self.directory.path().join("control")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server can be started");
        let (errors, reader) = lines_of(child.stderr.take().expect("it is a pipe"));
        let (directory, reader) = (self.directory, Some(reader));
        Server { child, directory, config: file, errors, reader, said: Vec::new(), address: None }
    }
}

impl Server {
    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("it listens on a TCP port")
    }

    /// All TCP addresses that the last line about serving names, in their order.
    pub(crate) fn addresses(&mut self) -> Vec<SocketAddr> {
        let said = self.said();
        let line = said.lines().rev().find(|line| line.contains("lamna: serving ")).unwrap_or_default();
        let named = line.split("://").skip(1);
        named.filter_map(|rest| rest.split([' ', ',']).next()?.parse().ok()).collect()
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Client<TcpStream> {
        Client::connect(self.address())
    }

    /// The same from another client network: see [`connect_from`].
    pub(crate) fn connect_from(&self, host: u8) -> Client<TcpStream> {
        Client::new(connect_from(host, self.address()))
    }

    /// The directory that holds the site.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The directory that is served.
    pub(crate) fn site(&self) -> PathBuf {
        self.directory.path().join("site")
    }

    /// The process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the child has not been waited for");
    }

    /// Waits until a line with `text` has been said on standard error, and returns it.
    pub(crate) fn wait_to_hear(&mut self, text: &str) -> String {
        self.wait_to_hear_any(&[text])
    }

    /// The same for a line with one of `texts`.
    pub(crate) fn wait_to_hear_any(&mut self, texts: &[&str]) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.errors.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if texts.iter().any(|text| line.contains(text)) {
                        return line;
                    }
                }
                Err(_) => panic!("the server did not say any of {texts:?}, but:\n{}", self.said.join("\n")),
            }
        }
    }

    /// Everything said on standard error so far.
    pub(crate) fn said(&mut self) -> String {
        self.said.extend(self.errors.try_iter());
        self.said.join("\n")
    }

    /// The last lines of it: few, so that they do not hide what the test says itself where only the end is shown.
    fn last_said(&mut self) -> String {
        const LINES: usize = 12;
        self.said.extend(self.errors.try_iter());
        self.said[self.said.len().saturating_sub(LINES)..].join("\n")
    }

    /// Reads standard error no more: what is said next is the last that is read, and after that nobody does.
    pub(crate) fn stop_listening(&mut self, say_something: impl FnOnce(&Server)) {
        self.errors = channel().1;
        say_something(self);
        let reader = self.reader.take().expect("nobody has stopped it");
        reader.join().expect("it does not panic");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the server ends", PATIENCE, || self.child.try_wait().expect("it is our child"))
    }

    /// Stops it and returns all that it said.
    pub(crate) fn finish(mut self) -> String {
        self.end()
    }

    /// Stops it and leaves its directory.
    pub(crate) fn into_directory(mut self) -> TempDir {
        self.end();
        std::mem::replace(&mut self.directory, tempfile::tempdir().expect("a temporary directory can be made"))
    }

    fn end(&mut self) -> String {
        self.signal(Signal::TERM);
        let status = self.wait();
        // The thread that reads ends with the pipe.
        self.said.extend(self.errors.iter());
        let said = self.said.join("\n");
        assert!(status.success() && !said.contains("panicked"), "the server ended with {status}:\n{said}");
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended if these fail.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the server said at last:\n{}", self.last_said());
            kill_all(&self.config);
            return;
        }
        // Workers follow the process that was killed, and one that was told to end may still be doing so.
        let end = Instant::now() + PATIENCE;
        while is_anybody_left(&self.config) {
            if end < Instant::now() {
                let left = processes_of(&self.config);
                kill_all(&self.config);
                panic!("processes {left:?} (with their parents) have outlived their test; they said:\n{}", self.said());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether there is a process of the server with this configuration. A process that is just becoming another program
/// has no arguments, so one look is not enough.
fn is_anybody_left(config: &Path) -> bool {
    !(processes_of(config).is_empty() && processes_of(config).is_empty())
}

fn kill_all(config: &Path) {
    for process in processes_of(config).into_keys().filter_map(Pid::from_raw) {
        // It has ended if this fails.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// Processes that serve with this configuration, and their parents.
pub(crate) fn processes_of(config: &Path) -> BTreeMap<i32, i32> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").expect("there is a /proc").flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if !line.split(|byte| *byte == 0).any(|word| word == config.as_os_str().as_encoded_bytes()) {
            continue;
        }
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        found.extend(parent.map(|parent| (process, parent)));
    }
    found
}

/// Asks again and again until there is an answer. Only a broken server makes it take as long as `bound`.
pub(crate) fn eventually<T>(what: &str, bound: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + bound;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "within {bound:?} it was not seen that {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn lines_of(pipe: impl std::io::Read + Send + 'static) -> (Receiver<String>, JoinHandle<()>) {
    let (sender, receiver) = channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (receiver, reader)
}
