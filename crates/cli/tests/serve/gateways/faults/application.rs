//! An application that misbehaves as it is asked to, and can be killed and started again.
//!
//! Owns: the listener, the connections, and what each was asked ([`Asked`]); what of that must not have been
//! ([`Application::violations`]). Guarantees: its address belongs to nobody else while it is down. What is said in
//! which protocol is in `http` and `fastcgi`.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::{Manner, factor, fastcgi, http};
use crate::client::APPLICATION_PATIENCE;
use crate::storm::Random;
use crate::tree::pattern;

/// What is spoken with an application, and over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1 over TCP.
    Http,
    /// FastCGI over a Unix socket.
    FastCgi,
}

/// A request as it arrived: `/PREFIX/MANNER/NUMBER/BYTES`.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) manner: Manner,
    pub(super) number: u64,
    pub(super) bytes: usize,
    pub(super) is_head: bool,
    pub(super) is_post: bool,
    /// HTTP: bytes of content, if they were announced.
    pub(super) announced: Option<usize>,
}

/// What an application does, one after the other.
#[derive(Debug)]
pub(super) enum Act {
    Say(Vec<u8>),
    /// Reads the content of the request.
    Take,
    /// Reads some of it.
    TakeSome(usize),
    /// Lets this much time go by; what comes after it may find nobody.
    Pause(Duration),
    /// Waits until the other side has closed.
    Hang,
    /// Ends the connection.
    Close,
    /// Ends it so that what is under way is lost.
    Reset,
}

pub(super) struct Application {
    shared: Arc<Shared>,
    listening: Option<(Listener, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Shared {
    protocol: Protocol,
    address: Address,
    /// Odd while it is down, and while it goes down or comes up.
    epoch: AtomicU64,
    connections: Mutex<HashMap<u64, Socket>>,
    next_connection: AtomicU64,
    /// Numbers of requests that may have an effect.
    effects: Mutex<HashSet<u64>>,
    violations: Mutex<Vec<String>>,
}

#[derive(Clone, Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// An address of loopback that no other test and no client uses: its port stays free while nobody listens.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, count) = (std::process::id(), NEXT.fetch_add(1, SeqCst));
    let [high, low] = (process as u16).to_be_bytes();
    let address = [127, 128 | high >> 1, low, (count % 250) as u8 + 2];
    let port = 1024 + 1024 * u16::from(high & 1) + (process >> 16) as u16 % 512 + (count / 250) as u16;
    (address, port).into()
}

impl Application {
    /// One that is up.
    pub(super) fn start(protocol: Protocol, directory: &std::path::Path) -> Application {
        let address = match protocol {
            Protocol::Http => Address::Tcp(own_address()),
            Protocol::FastCgi => Address::Unix(directory.join("application.sock")),
        };
        let shared = Arc::new(Shared {
            protocol,
            address,
            epoch: AtomicU64::new(1),
            connections: Mutex::default(),
            next_connection: AtomicU64::new(0),
            effects: Mutex::default(),
            violations: Mutex::default(),
        });
        let mut application = Application { shared, listening: None };
        application.come_up();
        application
    }

    /// As a route names it.
    pub(super) fn name(&self) -> String {
        match &self.shared.address {
            Address::Tcp(address) if self.shared.protocol == Protocol::Http => format!("http://{address}"),
            Address::Tcp(address) => address.to_string(),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// A function that says how often it has gone down or come up, twice each. Odd: it is not there.
    pub(super) fn epoch(&self) -> impl Fn() -> u64 + Sync + use<> {
        let shared = self.shared.clone();
        move || shared.epoch.load(SeqCst)
    }

    pub(super) fn come_up(&mut self) {
        let listener = self.shared.address.listen();
        let (shared, ours) = (self.shared.clone(), listener.clone());
        // It is up before it accepts: what is accepted while it is down is not answered.
        self.shared.epoch.fetch_add(1, SeqCst);
        let accepting = thread::spawn(move || {
            while let Ok(socket) = listener.accept() {
                let shared = shared.clone();
                // Its end is that of the connection: nothing that it says is of interest.
                thread::spawn(move || shared.converse(socket));
            }
        });
        self.listening = Some((ours, accepting));
    }

    /// As if it were killed: nobody listens, and every connection ends where it is.
    pub(super) fn go_down(&mut self) {
        let Some((listener, accepting)) = self.listening.take() else { return };
        self.shared.epoch.fetch_add(1, SeqCst);
        // Whoever waits for connections is told.
        rustix::net::shutdown(listener.as_fd(), rustix::net::Shutdown::Both).expect("it listens");
        accepting.join().expect("it does not panic");
        drop(listener);
        if let Address::Unix(path) = &self.shared.address {
            // At the end of a test its directory may be gone.
            let _ = std::fs::remove_file(path);
        }
        lock(&self.shared.connections).drain().for_each(|(_, socket)| socket.end());
    }

    /// What happened that must not.
    pub(super) fn violations(&self) -> Vec<String> {
        lock(&self.shared.violations).clone()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.go_down();
    }
}

impl Address {
    fn listen(&self) -> Listener {
        match self {
            Address::Tcp(address) => Listener::Tcp(TcpListener::bind(address).expect("the address is ours")),
            Address::Unix(path) => Listener::Unix(UnixListener::bind(path).expect("the directory is ours")),
        }
    }
}

impl Listener {
    fn clone(&self) -> Listener {
        match self {
            Listener::Tcp(listener) => Listener::Tcp(listener.try_clone().expect("there are descriptors")),
            Listener::Unix(listener) => Listener::Unix(listener.try_clone().expect("there are descriptors")),
        }
    }

    fn accept(&self) -> std::io::Result<Socket> {
        Ok(match self {
            Listener::Tcp(listener) => Socket::Tcp(listener.accept()?.0),
            Listener::Unix(listener) => Socket::Unix(listener.accept()?.0),
        })
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

impl Socket {
    fn clone(&self) -> Socket {
        match self {
            Socket::Tcp(socket) => Socket::Tcp(socket.try_clone().expect("there are descriptors")),
            Socket::Unix(socket) => Socket::Unix(socket.try_clone().expect("there are descriptors")),
        }
    }

    /// Ends it for all that have it. One that has ended needs no end.
    fn end(&self) {
        let _ = match self {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Both),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Both),
        };
    }

    fn set_patience(&self) {
        match self {
            Socket::Tcp(socket) => socket.set_read_timeout(Some(APPLICATION_PATIENCE)),
            Socket::Unix(socket) => socket.set_read_timeout(Some(APPLICATION_PATIENCE)),
        }
        .expect("a fresh socket takes options");
    }

    /// When it is closed, what has not arrived never will. (A Unix socket has no such end: its peer is told if
    /// something was not read.)
    fn reset_at_end(&self) {
        if let Socket::Tcp(socket) = self {
            set_socket_linger(socket, Some(Duration::ZERO)).expect("it is a socket");
        }
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(bytes),
            Socket::Unix(socket) => socket.read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn violate(&self, what: String) {
        lock(&self.violations).push(what);
    }

    fn converse(&self, socket: Socket) {
        socket.set_patience();
        let (id, epoch) = (self.next_connection.fetch_add(1, SeqCst), self.epoch.load(SeqCst));
        lock(&self.connections).insert(id, socket.clone());
        // It may have gone down before the connection was accepted, or before it was known.
        if epoch.is_multiple_of(2) && self.epoch.load(SeqCst) == epoch {
            let _ = self.answer_all(&socket);
        }
        lock(&self.connections).remove(&id);
    }

    /// Answers one request after the other, until something ends the connection.
    fn answer_all(&self, socket: &Socket) -> Option<()> {
        let mut reader = BufReader::new(socket.clone());
        loop {
            let asked = match self.protocol {
                Protocol::Http => http::read_request(&mut reader)?,
                Protocol::FastCgi => fastcgi::read_request(&mut reader)?,
            };
            if asked.is_post && !lock(&self.effects).insert(asked.number) {
                self.violate(format!("{asked:?} was asked twice"));
            }
            let mut random = Random::seeded(asked.number + 1);
            let acts = match self.protocol {
                Protocol::Http => http::acts(&asked, &mut random),
                Protocol::FastCgi => fastcgi::acts(&asked, &mut random),
            };
            for act in acts {
                self.act(act, &asked, &mut reader, socket)?;
            }
        }
    }

    /// Nothing if the connection ends.
    fn act(&self, act: Act, asked: &Asked, reader: &mut BufReader<Socket>, socket: &Socket) -> Option<()> {
        match act {
            Act::Say(bytes) => socket.clone().write_all(&bytes).ok(),
            Act::Take => {
                let content = match self.protocol {
                    Protocol::Http => http::read_content(asked, reader)?,
                    Protocol::FastCgi => fastcgi::read_content(reader)?,
                };
                if asked.manner == Manner::CutUpload {
                    self.violate(format!("{asked:?}: content that was cut seemed whole, {} bytes", content.len()));
                } else if asked.is_post && content != pattern(asked.bytes, factor(asked.number)) {
                    self.violate(format!("{asked:?}: the content is not what was sent: {} bytes", content.len()));
                }
                Some(())
            }
            Act::TakeSome(bytes) => reader.read_exact(&mut vec![0; bytes]).ok(),
            Act::Pause(time) => {
                thread::sleep(time);
                Some(())
            }
            Act::Hang => {
                while reader.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
                    // Content that nobody has asked for stays where it is.
                    if asked.is_post {
                        self.wait_for_end(socket);
                        return None;
                    }
                    let held = reader.buffer().len();
                    reader.consume(held);
                }
                None
            }
            Act::Close => None,
            Act::Reset => {
                socket.reset_at_end();
                None
            }
        }
    }

    /// Waits until the other side has ended the connection, without reading what it has sent.
    fn wait_for_end(&self, socket: &Socket) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let fd = match socket {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        };
        let patience = Timespec { tv_sec: APPLICATION_PATIENCE.as_secs() as i64, tv_nsec: 0 };
        // Whoever waits longer finds that the server has not given up: its client says so.
        let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)], Some(&patience));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
