//! The other end: asking a server's endpoint. Waits, with bounds.
//!
//! Owns: one request on one connection, and the words for what can go wrong on the way. Knows nothing of what is asked.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lamna_config::settings::ListenAddress;

use super::token;

/// How long the answer to a question is waited for. The endpoint answers at once, unless its process is stopped.
const GLANCE: Duration = Duration::from_secs(2);
/// How long an order may take: longer than any switch takes, and than an upgrade may.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long an order is given again that could not be taken, because another process was just taking over: longer than
/// that may take.
const RETRY_TIME_MAX: Duration = Duration::from_secs(20);
/// How long one is asked again that closes the connection without an answer, as a process does that leaves its place.
const GONE_TIME_MAX: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The status that says that an order can be given again soon.
const SOON: u16 = 503;
/// Bytes of the longest answer: thousands of threads in `/metrics`.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its status code.
    pub status: u16,
    /// Its content.
    pub content: String,
}

/// Why there is no answer. Displays a sentence or two: what, and what to do.
#[derive(Debug)]
pub enum AskError {
    /// No server listens there: the socket is stale, or never was.
    NoServer(ListenAddress, io::Error),
    /// This user may not connect.
    NoPermission(ListenAddress),
    /// It is there and does not answer.
    Silent(ListenAddress),
    /// It closes the connection without an answer.
    Gone(ListenAddress),
    /// Its answer makes no sense.
    Nonsense(ListenAddress, String),
}

impl fmt::Display for AskError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoServer(address, error) if error.kind() == ErrorKind::NotFound => {
                write!(formatter, "there is no socket {address}: no server was started with it, or it has ended")
            }
            AskError::NoServer(address, error) if error.kind() == ErrorKind::ConnectionRefused => {
                write!(formatter, "no server listens on {address}")?;
                match address {
                    ListenAddress::Unix(_) => formatter.write_str(": the socket is stale, its server has died"),
                    ListenAddress::Tcp(_) => formatter.write_str(": start the server with --admin and this address"),
                }
            }
            AskError::NoServer(address, error) => write!(formatter, "cannot connect to {address}: {error}"),
            AskError::NoPermission(address) => write!(
                formatter,
                "this user may not connect to {address}: only root and the user that runs the server may control it"
            ),
            AskError::Silent(address) => {
                write!(formatter, "{address} does not answer: the server is stopped or too busy, or is not lamna")
            }
            AskError::Gone(address) => {
                write!(
                    formatter,
                    "{address} takes the request and does not answer it: the server ends, or is not lamna"
                )
            }
            AskError::Nonsense(address, what) => write!(formatter, "{address} is not the endpoint of a lamna: {what}"),
        }
    }
}

impl std::error::Error for AskError {}

/// Sends one request, with content unless that is empty, and waits for the answer. Over TCP it carries the server's
/// token, if this user can read that. While one process takes the place of another it is sent again, until it is
/// answered by the one that serves.
///
/// # Errors
/// See [`AskError`].
pub fn ask(address: &ListenAddress, method: &str, path: &str, content: &str) -> Result<Reply, AskError> {
    let token = match address {
        ListenAddress::Tcp(address) => token::find(*address),
        ListenAddress::Unix(_) => None,
    };
    ask_with(token.as_deref(), address, method, path, content)
}

/// The same with this token, which [`read`](lamna_config::token::read) reads.
///
/// # Errors
/// See [`AskError`].
pub fn ask_with(
    token: Option<&str>,
    address: &ListenAddress,
    method: &str,
    path: &str,
    content: &str,
) -> Result<Reply, AskError> {
    let begun = Instant::now();
    let is_order = method == "POST";
    loop {
        let reply = if is_order {
            // One that is stopped is noticed at once, although orders may take their time.
            ask_once(None, address, ("GET", "/livez", ""), GLANCE)
                .and_then(|_| ask_once(token, address, (method, path, content), PATIENCE))
        } else {
            ask_once(token, address, (method, path, content), GLANCE)
        };
        let time_max = match &reply {
            Ok(reply) if is_order && reply.status == SOON => RETRY_TIME_MAX,
            // A server that carries something out says so before it goes.
            Err(AskError::Gone(_)) => GONE_TIME_MAX,
            _ => return reply,
        };
        if begun.elapsed() >= time_max {
            return reply;
        }
        thread::sleep(RETRY_PAUSE);
    }
}

fn ask_once(
    token: Option<&str>,
    address: &ListenAddress,
    (method, path, content): (&str, &str, &str),
    patience: Duration,
) -> Result<Reply, AskError> {
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{content}",
        content.len()
    );
    let connected = connect(address, patience).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => AskError::NoPermission(address.clone()),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => AskError::Silent(address.clone()),
        _ => AskError::NoServer(address.clone(), error),
    })?;
    let answer = exchange(connected, request.as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => AskError::Silent(address.clone()),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            AskError::Gone(address.clone())
        }
        _ => AskError::Nonsense(address.clone(), error.to_string()),
    })?;
    parse(&answer).map_err(|what| AskError::Nonsense(address.clone(), what))
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn connect(address: &ListenAddress, patience: Duration) -> io::Result<Box<dyn Stream>> {
    match address {
        ListenAddress::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, GLANCE)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(Box::new(stream))
        }
        ListenAddress::Unix(path) => {
            let stream = connect_unix(path)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(Box::new(stream))
        }
    }
}

/// Does not wait: a server whose queue is full of connections that it does not take is a server that does not answer.
fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn exchange(mut stream: Box<dyn Stream>, request: &[u8]) -> io::Result<Vec<u8>> {
    // Who refuses at once may have stopped reading: what it says counts.
    let sent = stream.write_all(request);
    let mut answer = Vec::new();
    match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        Ok(_) if answer.is_empty() => Err(sent.err().unwrap_or_else(|| ErrorKind::UnexpectedEof.into())),
        Err(error) if answer.is_empty() => Err(error),
        // What is there may be the whole answer.
        _ => Ok(answer),
    }
}

fn parse(answer: &[u8]) -> Result<Reply, String> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut fields);
    let what = || "it does not speak HTTP/1.1".to_owned();
    let Ok(httparse::Status::Complete(length)) = head.parse(answer) else { return Err(what()) };
    let named = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let content_length: usize =
        named.and_then(|field| str::from_utf8(field.value).ok()?.parse().ok()).ok_or_else(what)?;
    let content = answer[length..].get(..content_length).ok_or("its answer is incomplete")?;
    let content = str::from_utf8(content).map_err(|_| "its answer is not text")?.to_owned();
    Ok(Reply { status: head.code.ok_or_else(what)?, content })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_is_whole_or_none() {
        let whole = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno";
        assert_eq!(parse(whole), Ok(Reply { status: 409, content: "no".to_owned() }));
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn who_is_not_there_is_named_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let address = ListenAddress::Unix(path.clone());
        assert!(ask(&address, "GET", "/livez", "").unwrap_err().to_string().contains("there is no socket unix:"));
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(ask(&address, "GET", "/livez", "").unwrap_err().to_string().contains("stale"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
